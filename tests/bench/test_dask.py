"""Cases on a real Dask cluster, a scheduler and a worker on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.bench import campaign as campaigns
from metronome_opt.bench.campaign import dask_pool
from metronome_opt.bench.process import Limits
from metronome_opt.bench.trials import Record, read_records
from metronome_opt.errors import InputError, MissingBackendError
from tests.bench.examples import campaign, trials, write_suite
from tests.bench.test_campaign import processes, wait_until
from tests.builders import two_jobs

pytest.importorskip("distributed", reason="the extra `dask` is not installed")


@pytest.fixture(scope="module")
def cluster(scratch: Path) -> Iterator[str]:
    """Start a scheduler and a worker of two threads that end with the tests; yield the address."""
    distributed: Any = import_module("distributed")
    told = scratch / "scheduler.json"
    common = ["--scheduler-file", str(told), "--host", "127.0.0.1", "--no-dashboard"]
    with (
        dask("scheduler", *common, "--port", "0", "--no-show"),
        dask("worker", *common, "--nthreads", "2", "--local-directory", str(scratch)),
    ):
        wait_until(lambda: told.exists() and told.read_text().endswith("}"))
        address = json.loads(told.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        yield address


@contextmanager
def dask(*arguments: str) -> Iterator[None]:
    """Run a Dask command in the background, in silence."""
    with subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.mark.slow
def test_cases_run_on_a_cluster(cluster: str, suite: Path, tmp_path: Path) -> None:
    names = ("well", "abort", "eat", "hang_after_schedule", "overlap_denied")
    with dask_pool(cluster) as pool:
        assert pool.width == 2
        watcher = campaign(trials(suite, *names), tmp_path / "r", pool, kind=Record)
    assert {record.solver: record.kind for record in watcher.records} == {
        "well": "schedule",
        "abort": "crash",
        "eat": "out_of_memory",
        "hang_after_schedule": "schedule",
        "overlap_denied": "invalid",
    }


def test_leaving_a_cluster_kills_what_runs_there(cluster: str, suite: Path, scratch: Path) -> None:
    (trial,) = trials(suite, "hang", limits=Limits(time_s=600))
    with dask_pool(cluster) as pool:
        future = pool.submit(trial.task())
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


@pytest.mark.parametrize("wrong", ["tcp://127.0.0.1:9", "no address", "ftp://127.0.0.1:9"])
def test_no_scheduler_is_one_line(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "_CONNECT_S", 1)
    with pytest.raises(InputError, match="--dask: no scheduler answers"), dask_pool(wrong):
        pass


def test_no_distributed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingBackendError, match=r"metronome-opt\[dask\]"),
        dask_pool("tcp://127.0.0.1:9"),
    ):
        pass
