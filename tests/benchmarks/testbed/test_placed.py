"""Clusters that are placed in three ways: what is stored, and the mean over their jobs."""

from __future__ import annotations

import pytest

from benchmarks.testbed.cases import Case, read_cases
from benchmarks.testbed.placed import FILE, draw_jobs, summary
from tests.benchmarks.testbed.bed import bed_run, begins

STORED = read_cases(FILE)


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)
def test_stored_jobs_are_drawn_ones(case: Case) -> None:
    drawn = [job.bursts for _, job in draw_jobs(int(case.name.split("-")[1])).values()]
    assert len(case.jobs) <= len(drawn) in (4, 5, 6)
    assert all(job.bursts in drawn for job in case.jobs)


def test_jobs_inside_a_rack_count_as_fast_as_alone() -> None:
    case = STORED[0]
    # Of each job four iterations, the first of which does not count.
    times = {
        name: begins(9, *[1.3 * job.period] * 3)
        for name, job in zip(case.job_names, case.jobs, strict=True)
    }
    table = summary([bed_run(case.name, "free", times)])
    share = len(case.jobs) / len(draw_jobs(0))
    assert table.loc[("spread", "free"), "cluster-0"] == pytest.approx(1 + 0.3 * share)
