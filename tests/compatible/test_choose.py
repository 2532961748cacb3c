"""The cheapest choices at which jobs fit, worked out by hand, and what is asked wrongly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.compatible.choices import Choices, largest_set, least_stretch
from metronome_opt.compatible.solvers import SOLVERS, solve_choices
from metronome_opt.instance import Instance
from tests.builders import job, network, tangle

EXACT = sorted(name for name, solver in SOLVERS.items() if solver.exact)
ALL = sorted(SOLVERS)


@pytest.mark.parametrize("solver", EXACT)
def test_the_least_stretch_that_makes_room(solver: str) -> None:
    """Two bursts of 5 slots need a common divisor of 10: 9 becomes 10, or 20 at a higher price."""
    jobs = [job("a", 9, (0, 5, 60), weight=4, max_stretch=11), job("b", 10, (0, 5, 60), weight=1)]
    instance = network(*jobs)
    found = solve_choices(instance, least_stretch(instance), solver=solver)
    assert found.kept is not None
    assert found.kept.periods == {"a": 10, "b": 10}
    assert (found.cost, found.bound) == (Fraction(4, 9), Fraction(4, 9))
    held = instance.replace(jobs=tuple(j.model_copy(update={"max_stretch": 0}) for j in jobs))
    assert (
        solve_choices(held, least_stretch(held, Fraction(1, 9)), solver=solver).cost == found.cost
    )
    for limit in (None, Fraction(0), Fraction(1, 10)):
        nothing = solve_choices(held, least_stretch(held, limit), solver=solver)
        assert (nothing.kept, nothing.cost, nothing.bound) == (None, None, None)
        assert nothing.proved


# ------------------------------------------------------------------ ends


def hard() -> tuple[Instance, Choices]:
    instance = tangle(80, 8, 3, periods=(60, 72, 80, 90, 96, 100), lengths=(4, 18), each=3)
    return instance, least_stretch(instance, Fraction(1, 4))


@pytest.mark.parametrize("solver", ALL)
def test_without_time_there_is_a_bound_at_least(solver: str) -> None:
    found = solve_choices(*hard(), solver=solver, time_limit=0)
    assert found.kept is None
    assert found.bound == 0


def test_seeds_repeat() -> None:
    instance = tangle(12, 4, 1, periods=(12, 18, 24, 36), lengths=(2, 8))
    for solver in ("auto", "milp"):
        first, second = (
            solve_choices(
                instance, largest_set(instance), solver=solver, seed=3, time_limit=None, workers=1
            )
            for _ in range(2)
        )
        assert first == second
