"""Servers and runs that are killed in the middle: the next run completes, nothing is doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.cluster import Connection, connect
from metronome_opt.kubernetes.cluster.objects import Desired, claims_of, read_desired
from metronome_opt.kubernetes.cluster.plan import Outcome, Plan, carry_out, plan_apply, try_out
from tests.kubernetes.cluster.exports import GROUP, claim, write
from tests.kubernetes.cluster.server import ApiServer, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

CLAIMS = claims_of(GROUP)
TASKS = 3


def export(folder: Path, namespace: str, jobs: int, offset: int = 0) -> Path:
    write(
        folder,
        *(
            claim(f"job{job:03d}", task, namespace, offset)
            for job in range(jobs)
            for task in range(TASKS)
        ),
    )
    return folder


def prepare(connection: Connection, desired: Desired) -> Plan:
    return try_out(connection, plan_apply(connection, desired))


def tasks_of(cluster: Connection) -> Counter[str]:
    return Counter(item["spec"]["job"] for item in cluster.list(CLAIMS))


class Killing(httpx2.BaseTransport):
    """Kills the server at a change: before it arrives, or after it is made and not answered."""

    def __init__(self, server: ApiServer, at: int, *, before: bool) -> None:
        self.inner = httpx2.HTTPTransport(verify=httpx2.create_ssl_context(verify=False))
        self.server = server
        self.left = at
        self.before = before

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        changing = request.method != "GET" and "dryRun" not in request.url.params
        self.left -= changing
        last = changing and self.left == 0
        if last and self.before:
            self.server.kill()
        response = self.inner.handle_request(request)
        if last and not self.before:
            response.read()
            self.server.kill()
            raise httpx2.ReadError("Connection reset by peer")
        return response

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def restarted(api_server: ApiServer) -> Iterator[ApiServer]:
    yield api_server
    api_server.start()


@pytest.mark.parametrize(("at", "before"), [(2, True), (5, False)])
def test_a_server_killed_between_two_applies(
    at: int, before: bool, restarted: ApiServer, namespace: str, tmp_path: Path
) -> None:
    folder = export(tmp_path / "out", namespace, 4)
    desired = read_desired([folder])
    outcome = Outcome()
    transport = Killing(restarted, at, before=before)
    with connect(restarted.kubeconfig(), timeout_s=1, transport=transport) as connection:
        outcome = carry_out(connection, prepare(connection, desired))
    for _, line in outcome.failed:
        assert line.count("\n") == 0
        assert f"{restarted.url}: cannot be reached" in line
    assert len(outcome.done) + len(outcome.failed) + len(outcome.untried) == 4
    assert outcome.failed
    restarted.start()
    arguments = ["claims", "apply", str(folder), "--kubeconfig", str(restarted.kubeconfig())]
    assert main(arguments) == 0
    with connect(restarted.kubeconfig(), namespace=namespace) as connection:
        assert tasks_of(connection) == {f"job{job:03d}": TASKS for job in range(4)}
        assert prepare(connection, desired).parts == ()


def start(folder: Path, server: ApiServer) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "metronome_opt", "claims", "apply", str(folder)]
    return subprocess.Popen(
        [*command, "--kubeconfig", str(server.kubeconfig())],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_run_that_is_killed_is_completed_by_the_next(
    api_server: ApiServer, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    folder = export(tmp_path / "out", namespace, 100)
    with start(folder, api_server) as process:
        wait_for(lambda: bool(tasks_of(cluster)))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert 0 < tasks_of(cluster).total() < 100 * TASKS
    assert main(["claims", "apply", str(folder), "--kubeconfig", str(api_server.kubeconfig())]) == 0
    assert tasks_of(cluster) == {f"job{job:03d}": TASKS for job in range(100)}


def test_ctrl_c_leaves_whole_jobs_and_says_how_far_it_got(
    api_server: ApiServer, cluster: Connection, namespace: str, tmp_path: Path
) -> None:
    folder = export(tmp_path / "out", namespace, 100)
    with start(folder, api_server) as process:
        wait_for(lambda: bool(tasks_of(cluster)))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    there = tasks_of(cluster)
    assert process.returncode == 130
    assert set(there.values()) == {TASKS}
    assert err == (
        f"metronome: error: interrupted: {len(there)} of 100 parts are done, "
        f"{100 - len(there)} were not begun; the next run completes them\n"
    )
    assert out.endswith(f"in all {len(there) * TASKS} created\n")
