"""A campaign or a proof on a Dask cluster: records, workers that are killed, no process left."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from metronome_opt import pools, solve
from metronome_opt.__main__ import main
from metronome_opt.bench.campaign import dask_pool
from metronome_opt.bench.process import Limits
from metronome_opt.bench.solver_runs import read_records
from metronome_opt.errors import InputError, MissingBackendError
from metronome_opt.problem.schedule import Status
from tests.bench.examples import solver_cases, write_suite
from tests.bench.test_campaign import processes
from tests.builders import hard_instance, two_jobs
from tests.running import wait_until

pytest.importorskip("distributed", reason="the extra `dask` is not installed")


@pytest.fixture(scope="module")
def cluster(scratch: Path) -> Iterator[str]:
    """Start a scheduler and a worker of two threads that end with the tests; yield the address."""
    with scheduler(scratch) as address, worker(address, scratch):
        yield address


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    options = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    with dask("scheduler", *options, "--port", "0", "--no-show"):
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        yield json.loads(file.read_text())["address"]


@contextmanager
def worker(address: str, folder: Path) -> Iterator[None]:
    options = ["--no-dashboard", "--no-nanny", "--nthreads", "2", "--local-directory", str(folder)]
    distributed: Any = import_module("distributed")
    with dask("worker", address, *options):
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        yield


@contextmanager
def dask(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Dask command in the background, in silence."""
    with subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.slow
def test_leaving_a_cluster_kills_its_tasks(cluster: str, suite: Path, scratch: Path) -> None:
    (trial,) = solver_cases(suite, "hang", limits=Limits(time_s=600))
    with dask_pool(cluster) as pool:
        assert pool.width == 2
        future = pool.submit(trial)
        wait_until(lambda: bool(processes(scratch)))
    wait_until(future.done)
    assert processes(scratch) == []


@pytest.mark.slow
def test_the_command_runs_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "pair", [(two_jobs(), "test")])
    output = tmp_path / "records.jsonl"
    arguments = ["--suite", str(suite), "--solvers", "greedy,random", "--output", str(output)]
    assert main(["bench", "run", *arguments, "--dask", cluster]) == 0
    records = read_records([output])
    assert sorted((record.solver, record.kind, record.workers) for record in records) == [
        ("greedy", "schedule", 1),
        ("random", "schedule", 1),
    ]


@pytest.mark.slow
def test_subtrees_of_proofs_are_searched_on_the_cluster(scratch: Path) -> None:
    """One of two workers is killed; its subtrees are searched by the other."""
    distributed: Any = import_module("distributed")
    instance = hard_instance(8, 4)
    alone = solve(instance, threads=1, time_limit=None)
    folder = scratch / "proofs"
    folder.mkdir()
    with scheduler(folder) as address, worker(address, folder):
        assert solve(instance, "elimination", executor=address).bound == alone.value
        with (
            distributed.Client(address, set_as_default=False) as client,
            dask("worker", address, "--no-dashboard", "--no-nanny", "--nthreads", "1") as other,
        ):
            client.wait_for_workers(2, timeout=60)
            threading.Timer(3, other.kill).start()
            result = solve(instance, "elimination", executor=client, time_limit=None)
            assert client.status == "running"
    assert result.status is Status.OPTIMAL
    assert result.value == result.bound == alone.value


@pytest.mark.parametrize("wrong", ["tcp://127.0.0.1:9", "no address"])
def test_no_scheduler_is_one_line(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_CONNECT_S", 1)
    with pytest.raises(InputError, match="no Dask scheduler answers"), dask_pool(wrong):
        pass
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        solve(two_jobs(), executor=wrong)


def test_missing_distributed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingBackendError, match=r"metronome-opt\[dask\]"),
        dask_pool("tcp://127.0.0.1:9"),
    ):
        pass
