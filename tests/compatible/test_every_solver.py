"""One suite over all solvers: they agree with trying everything, on tiny random problems."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.compatible import decider, local
from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    FitTask,
    largest_set,
    least_stretch,
)
from metronome_opt.compatible.solvers import SOLVERS, decide, solve_choices
from metronome_opt.instance import Instance
from tests.builders import tangle
from tests.compatible.cases import (
    cheapest,
    check_decision,
    check_offsets,
    fits,
    tiny_choices,
    tiny_instance,
    tiny_periods,
)
from tests.tiers import examples


def check_all_decide(draw: Random, solvers: Iterable[str]) -> None:
    instance = tiny_instance(draw)
    cushion = draw.choice((0, 0, 1, 2))
    periods = tiny_periods(draw, instance)
    fitting = fits(instance, periods, cushion)
    for solver in solvers:
        found = decide(
            instance, periods=periods, cushion_slots=cushion, solver=solver, workers=1, seed=1
        )
        check_decision(instance, periods, found, cushion)
        assert found.offsets is None or fitting, solver
        if SOLVERS[solver].exact:
            assert (found.offsets is not None) == fitting, solver
            assert (found.refutation is None) == fitting, solver


def check_all_choose(draw: Random, solvers: Iterable[str]) -> None:
    instance = tiny_instance(draw)
    cushion = draw.choice((0, 0, 1, 2))
    choices = tiny_choices(draw, instance)
    least = cheapest(instance, choices, cushion)
    for solver in solvers:
        found = solve_choices(instance, choices, cushion_slots=cushion, solver=solver, workers=1)
        check_chosen(instance, choices, found, cushion)
        if SOLVERS[solver].exact:
            assert (found.cost, found.bound) == (least, least), solver
        check_bound(found, least)


def check_chosen(instance: Instance, choices: Choices, found: Chosen, cushion: int) -> None:
    """Check that jobs fit and cost what is stated."""
    if found.kept is None:
        assert found.cost is None
        return
    kept = found.kept
    check_offsets(instance, kept.periods, kept.offsets, cushion)
    assert found.cost == sum(
        min(choice.cost for choice in each if choice.period == kept.periods.get(name))
        for name, each in choices.items()
    )


def check_bound(found: Chosen, least: Fraction | None) -> None:
    if least is None:
        assert found.cost is None
    else:
        assert found.bound is not None
        assert found.bound <= least
        assert found.cost is None or found.cost >= least


@given(st.randoms(use_true_random=False))
@examples(80)
def test_deciding(draw: Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decider, "_PLACEMENTS", draw.choice((1, 20_000)))
        check_all_decide(draw, ["auto", "greedy"])


@given(st.randoms(use_true_random=False))
@examples(80)
def test_choosing(draw: Random) -> None:
    check_all_choose(draw, ["auto", "milp", "greedy"])


@pytest.mark.parametrize("seed", range(60))
def test_local_search(seed: int) -> None:
    draw = Random(seed)
    instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1, 2))
    choices = tiny_choices(draw, instance)
    found = local.improve(FitTask(instance, cushion, seed=seed), choices, rounds=60)
    check_chosen(instance, choices, found, cushion)
    check_bound(found, cheapest(instance, choices, cushion))


@pytest.mark.parametrize("seed", [0, 3, 4, 5])
def test_exact_solvers_agree_where_not_everything_can_be_tried(seed: int) -> None:
    instance = tangle(8, 3, seed, periods=(12, 16, 18, 24), lengths=(2, 5))
    for choices in (largest_set(instance), least_stretch(instance, Fraction(1, 2))):
        costs = set()
        for solver in ("auto", "cpsat", "milp"):
            found = solve_choices(instance, choices, solver=solver, workers=1, time_limit=None)
            check_chosen(instance, choices, found, 0)
            assert found.proved
            costs.add(found.cost)
        assert len(costs) == 1
