"""Whatever is killed or interrupted, nothing is left of a network, and records can be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from benchmarks.testbed.agreement import times_of, usable
from benchmarks.testbed.run import BedRun, run_case
from metronome_opt.files.journal import Journal, read_journal
from tests.benchmarks.testbed.bed import bed_case, bed_job, slots
from tests.benchmarks.testbed.family import (
    all_namespaces,
    family,
    is_there,
    namespaces_of,
    ranks,
)
from tests.running import wait_until

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.usefixtures("namespaces")]

ROOT = Path(__file__).parents[3]
SOON_S = 5.0


@contextmanager
def running(cases: Path, output: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a case of two jobs again and again in a group of its own."""
    words = [sys.executable, "-m", "benchmarks.testbed", "run", "pair", "--modes", "free"]
    files = ["--cases", str(cases), "--output", str(output)]
    with subprocess.Popen(
        [*words, *files, *options],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


# ------------------------------------------------------------------ whoever runs a bed


@pytest.mark.parametrize("count", [1, 8], ids=["as it starts", "in the middle"])
def test_nothing_is_left_of_a_bed_that_was_killed(count: int, cases: Path, tmp_path: Path) -> None:
    """Two networks of two racks with two nodes each: 7 holders and 4 ranks for each."""
    cases.write_text(cases.read_text().replace("seconds: 1\n", "seconds: 30\n"))
    with running(cases, tmp_path / "runs.jsonl", "--side-by-side", "2") as process:
        wait_until(lambda: len(ranks(process.pid)) >= count)
        if count > 1:
            time.sleep(3.0)  # all of them send by now
        members = family(process.pid)
        theirs = namespaces_of(members) - namespaces_of([psutil.Process()])
        assert len(members) >= (22 if count > 1 else 7)
        assert len(theirs) >= (14 if count > 1 else 7)
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_there, members)), SOON_S)
    assert theirs.isdisjoint(all_namespaces())


@pytest.mark.parametrize("everybody", [True, False], ids=["the group", "the command alone"])
def test_ctrl_c_leaves_records_that_can_be_read_and_gone_on_with(
    everybody: bool, cases: Path, tmp_path: Path
) -> None:
    records = tmp_path / "runs.jsonl"
    with running(cases, records, "--repeats", "50") as process:
        wait_until(lambda: records.exists() and records.read_bytes().count(b"\n") >= 2)
        wait_until(lambda: len(ranks(process.pid)) == 4)
        members = family(process.pid)
        theirs = namespaces_of(members) - namespaces_of([psutil.Process()])
        assert len(theirs) == 7
        if everybody:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=40)
        assert process.returncode == 130
        assert "Traceback" not in said
        wait_until(lambda: not any(map(is_there, members)), SOON_S)
    assert theirs.isdisjoint(all_namespaces())
    found = read_journal([records], BedRun)
    assert 2 <= len(found) < 50
    assert [run.repeat for run in found] == list(range(len(found)))
    assert Journal(records, BedRun, resume=True).records == tuple(found)


# ------------------------------------------------------------------ a rank

PAIR = bed_case(bed_job(200, (0, 80)), bed_job(200, (0, 90)), name="pair", seconds=5)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("gated", [False, True], ids=["free", "gated"])
def test_a_job_that_loses_a_rank_ends_and_the_other_goes_on(rank: int, gated: bool) -> None:
    with ThreadPoolExecutor(1) as pool:
        if gated:
            future = pool.submit(run_case, PAIR, "gated", 0, slots(PAIR, {"a": 0, "b": 95}))
        else:
            future = pool.submit(run_case, PAIR, "free", 0, None)
        wait_until(lambda: len(ranks(os.getpid())) == 4)
        mine = ranks(os.getpid())
        time.sleep(3.0)
        mine[rank].send_signal(signal.SIGKILL)
        wait_until(lambda: not any(map(is_there, mine[:2])), SOON_S)
        assert all(map(is_there, mine[2:]))
        run = future.result()
    lost, other = run.jobs["a"], run.jobs["b"]
    assert lost.ended == f"rank {rank}: gave no result: it said nothing (status -9)"
    assert len(lost.begins_ms) >= 3
    assert 500 < lost.begins_ms[-1] < 4500
    assert other.ended is None
    assert other.begins_ms[-2] < 5000 <= other.begins_ms[-1]
    if not run.busy:
        after = times_of(other)[-4:]  # alone now
        assert list(after) == pytest.approx([200] * 4, rel=0.1)
    assert usable([run.model_copy(update={"busy": False})]) == []
    assert ranks(os.getpid()) == []
