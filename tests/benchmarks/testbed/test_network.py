"""Jobs on real networks: gated ones keep their periods, free ones meet, and all is recorded."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from benchmarks.testbed.agreement import times_of
from benchmarks.testbed.cases import Case
from benchmarks.testbed.modes import Mode
from benchmarks.testbed.run import BedRun, run_case
from metronome_opt.files.journal import dump_line
from tests.benchmarks.testbed.bed import bed_case, bed_job, quiet_run, slots

pytestmark = [pytest.mark.netns, pytest.mark.slow, pytest.mark.usefixtures("namespaces")]

TORCH_PYTHON = os.environ.get("TORCH_PYTHON", "/usr/bin/python3")
PAIR = bed_case(bed_job(200, (0, 80)), bed_job(200, (0, 90)), name="pair", seconds=3)
SLOTS = {"a": 0, "b": 95}


def assert_complete(run: BedRun, case: Case, mode: Mode) -> None:
    """Check that a record has all that happened, in order."""
    assert (run.case, run.mode, run.repeat, run.congestion) == (case.name, mode, 7, case.congestion)
    assert run.kernel == os.uname().release
    assert 0 <= run.idle <= 1
    assert 0 <= run.late_p95_ms <= run.late_max_ms
    assert sorted(run.jobs) == case.job_names
    for name, stated in zip(case.job_names, case.jobs, strict=True):
        job = run.jobs[name]
        assert job.ended is None
        assert stated.begin <= job.begins_ms[0] < stated.begin + 20
        assert job.begins_ms[-2] < 1000 * case.seconds <= job.begins_ms[-1]
        assert len(job.bursts_ms) == (len(job.begins_ms) - 1) * len(stated.bursts)
        assert min(times_of(job)) > 0.95 * stated.period
        moments = [moment for burst in job.bursts_ms for moment in burst]
        assert moments == sorted(moments)
    assert BedRun.model_validate_json(dump_line(run)) == run


# ------------------------------------------------------------------ free and gated


def test_gated_jobs_that_fit_keep_their_periods_and_their_slots() -> None:
    run = quiet_run(PAIR, "gated", 7, slots(PAIR, SLOTS))
    assert_complete(run, PAIR, "gated")
    assert (run.offsets, run.periods) == (SLOTS, {"a": 200, "b": 200})
    for name, offset in SLOTS.items():
        job = run.jobs[name]
        assert median(times_of(job)[1:]) == pytest.approx(200, rel=0.03)
        begins = [begin for _, begin, _ in job.bursts_ms]
        assert median((begin - offset + 100) % 200 - 100 for begin in begins) < 10
        # Only the first burst waits for long: computing and sending take a period without it.
        assert max(begin - ready for ready, begin, _ in job.bursts_ms[1:]) < 100
    assert times_of(run.jobs["b"])[0] == pytest.approx(295, abs=20)


def test_free_jobs_that_begin_together_hold_each_other_up() -> None:
    run = quiet_run(PAIR, "free", 7)
    assert_complete(run, PAIR, "free")
    assert run.offsets is None
    first = [times_of(job)[0] for job in run.jobs.values()]
    assert max(first) > 240  # if links are shared alike, 270 and 280
    assert sum(first) == pytest.approx(550, abs=120)
    for job in run.jobs.values():
        assert all(begin - ready < 5 for ready, begin, _ in job.bursts_ms)


@pytest.mark.parametrize("congestion", ["cubic", "reno", "bbr"])
def test_a_free_job_alone_takes_a_period_for_every_iteration(congestion: str) -> None:
    case = bed_case(bed_job(200, (0, 60), (100, 40)), seconds=2, congestion=congestion)
    run = quiet_run(case, "free", 7)
    assert_complete(run, case, "free")
    assert median(times_of(run.jobs["a"])[1:]) == pytest.approx(200, rel=0.03)
    lengths = [end - begin for _, begin, end in run.jobs["a"].bursts_ms]
    assert median(lengths[::2]) == pytest.approx(60, abs=6)
    assert median(lengths[1::2]) == pytest.approx(40, abs=6)


def test_jobs_have_ranks_in_all_their_racks_and_come_and_go() -> None:
    """One in three racks, and one that meets it in one of them from 500 to 1000 ms."""
    case = bed_case(
        bed_job(200, (0, 80), racks=(3, 1, 0)),
        bed_job(100, (20, 30), begin=500, end=1000, racks=(2, 1)),
        network="four-racks",
        interface_mbps=150,
        seconds=2,
    )
    run = quiet_run(case, "free", 7)
    job = run.jobs["b"]
    assert job.ended is None
    assert 500 <= job.begins_ms[0] < 520
    assert job.begins_ms[-2] < 1000 <= job.begins_ms[-1] < 1200
    assert run.jobs["a"].begins_ms[-1] >= 2000
    assert median(times_of(run.jobs["a"])) == pytest.approx(200, rel=0.05)


# ------------------------------------------------------------------ a real training


def has_torch() -> bool:
    asked = [TORCH_PYTHON, "-c", "import sys, torch; assert sys.version_info >= (3, 11)"]
    return Path(TORCH_PYTHON).exists() and not subprocess.run(asked, capture_output=True).returncode


@pytest.mark.skipif("not has_torch()", reason="torch is not installed (Debian: python3-torch)")
def test_gates_change_times_of_gradients_and_no_losses() -> None:
    case = bed_case(bed_job(250, (150, 40), iterations=6), program="ddp", seconds=4)
    free = run_case(case, "free", 0, None).jobs["a"]
    gated = run_case(case, "gated", 0, slots(case, {"a": 100})).jobs["a"]
    assert free.losses is not None
    assert len(free.losses) == 6
    assert len(set(free.losses)) == 6
    assert gated.losses == free.losses
    for job in (free, gated):
        assert job.ended is None
        assert len(job.begins_ms) == 7
        assert all(begin < end for begin, end in pairwise(job.begins_ms))
