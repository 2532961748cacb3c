"""The simulator comes to what was worked out by hand."""

from __future__ import annotations

import itertools

import pytest

from tests.simulate.cases import CASES, Case
from tests.simulate.exact import exact_ends
from tests.simulate.played import FreeRun, free_run
from tests.simulate.systems import system

ROUNDING = 1e-12


def run_of(case: Case) -> FreeRun:
    return free_run(case.instance, case.offsets, case.iterations, case.sharing)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_iterations_end_when_they_should(case: Case) -> None:
    run = run_of(case)
    for name, ends in case.ends.items():
        begin = case.offsets[name] * case.instance.slot_ms
        times = [float(end - start) for start, end in itertools.pairwise((begin, *ends))]
        assert list(run.times[name]) == pytest.approx(times, rel=ROUNDING)
        assert run.ends[name] == pytest.approx(float(ends[-1]), rel=ROUNDING)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_who_is_done_leaves_the_links_to_the_others(case: Case) -> None:
    for iterations in range(1, case.iterations):
        run = free_run(case.instance, case.offsets, iterations, case.sharing)
        exact = exact_ends(system(case.instance, case.offsets, iterations, case.sharing))
        last = {name: float(ends[-1]) for name, ends in exact.items()}
        assert run.ends == pytest.approx(last, rel=ROUNDING)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_links_carry_all_that_is_sent(case: Case) -> None:
    run = run_of(case)
    for link in case.instance.links:
        sent = sum(
            job.volume * case.instance.slot_ms * job.links.get(link.name, 0) * case.iterations
            for job in case.instance.jobs
        )
        assert run.carried[link.name] == pytest.approx(sent, rel=ROUNDING)
