"""All solvers of feasibility agree with trying everything, on tiny random problems."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.slots.feasibility import FeasibilityTest, shrink_conflict
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityDecision,
    FeasibilityProblem,
    FeasibilityResult,
)
from metronome_opt.allocation.slots.job_selection import FEASIBILITY_SOLVERS, check_feasibility
from metronome_opt.problem.instance import Instance
from tests.allocation.slots.feasibility_cases import (
    check_decision,
    check_offsets,
    fits,
    lightest,
    tiny_instance,
    tiny_periods,
)
from tests.builders import tangle
from tests.tiers import examples


def check_dropped(instance: Instance, found: FeasibilityResult, cushion: int) -> None:
    """Check that jobs fit and cost what is stated, and the bound if it is known."""
    assert found.offsets is not None
    periods = {job.name: job.period for job in instance.jobs if job.name in found.offsets}
    check_offsets(instance, periods, found.offsets, cushion)
    assert found.cost == sum(job.weight for job in instance.jobs if job.name not in periods)


@given(st.randoms(use_true_random=False))
@examples(80)
def test_deciding_at_any_periods(draw: Random) -> None:
    instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1, 2))
    periods = tiny_periods(draw, instance)
    deciding = FeasibilityTest(FeasibilityProblem(instance, cushion))
    found = deciding.decide(periods)
    if found.refutation is not None:
        found = FeasibilityDecision(refutation=shrink_conflict(found.refutation, deciding.decide))
    check_decision(instance, periods, found, cushion)
    assert (found.offsets is not None) == fits(instance, periods, cushion)


@given(st.randoms(use_true_random=False))
@examples(80)
def test_all_jobs_or_the_heaviest(draw: Random) -> None:
    instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1, 2))
    periods = {job.name: job.period for job in instance.jobs}
    fitting, least = fits(instance, periods, cushion), lightest(instance, cushion)
    for solver in ("auto", "milp", "greedy"):
        found = check_feasibility(instance, cushion_slots=cushion, solver=solver, threads=1, seed=1)
        decision = FeasibilityDecision(found.offsets, *found.refutations)
        check_decision(instance, periods, decision, cushion)
        assert found.offsets is None or fitting
        dropped = check_feasibility(
            instance, drop=True, cushion_slots=cushion, solver=solver, threads=1
        )
        check_dropped(instance, dropped, cushion)
        if FEASIBILITY_SOLVERS[solver].exact:
            assert (found.offsets is None) == bool(found.refutations) == (not fitting)
            assert dropped.cost == dropped.bound == least
        assert dropped.bound is not None
        assert dropped.bound <= least


@pytest.mark.parametrize("seed", [0, 3, 4, 5])
def test_exact_solvers_agree_where_not_everything_can_be_tried(seed: int) -> None:
    instance = tangle(8, 3, seed, periods=(12, 16, 18, 24), lengths=(2, 5))
    costs = set()
    for solver in ("auto", "cpsat", "milp"):
        found = check_feasibility(instance, drop=True, solver=solver, threads=1, time_limit=None)
        check_dropped(instance, found, 0)
        assert found.proved
        costs.add(found.cost)
    assert len(costs) == 1


def test_seeds_repeat() -> None:
    instance = tangle(12, 4, 1, periods=(12, 18, 24, 36), lengths=(2, 8))
    for solver in ("auto", "milp"):
        first, second = (
            check_feasibility(
                instance, drop=True, solver=solver, seed=3, time_limit=None, threads=1
            )
            for _ in range(2)
        )
        assert first == second
