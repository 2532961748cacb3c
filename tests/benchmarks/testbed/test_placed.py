"""Clusters that are placed in three ways: what is stored, and the mean over their jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.testbed.cases import Case, read_cases
from benchmarks.testbed.placed import FILE, draw_jobs, summary
from benchmarks.testbed.run import BedRun, JobRun

STORED = read_cases(FILE)


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)
def test_stored_jobs_are_drawn_ones(case: Case) -> None:
    drawn = [job.bursts for _, job in draw_jobs(int(case.name.split("-")[1])).values()]
    assert len(case.jobs) <= len(drawn) in (4, 5, 6)
    assert all(job.bursts in drawn for job in case.jobs)


def test_jobs_inside_a_rack_count_as_fast_as_alone() -> None:
    case = STORED[0]
    times = [1.3 * job.period for job in case.jobs]
    table = summary([_run(case, times)])
    share = len(case.jobs) / len(draw_jobs(0))
    assert table.loc[("spread", "free"), "cluster-0"] == pytest.approx(1 + 0.3 * share)


def _run(case: Case, times_ms: Sequence[float]) -> BedRun:
    """Return a run whose iterations are as long as said, but for the first."""
    jobs = {
        name: JobRun(begins_ms=(0, *(9 + time * n for n in range(4))), bursts_ms=())
        for name, time in zip(case.job_names, times_ms, strict=True)
    }
    return BedRun(
        case=case.name,
        mode="free",
        repeat=0,
        congestion="cubic",
        offsets=None,
        kernel="",
        busy=False,
        late_p95_ms=0,
        late_max_ms=0,
        idle=1,
        steal=0,
        real_time=True,
        jobs=jobs,
    )
