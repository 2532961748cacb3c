"""Completion is the mean time until jobs leave: jobs that burst first leave first."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from metronome_opt import allocate
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions, search_plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.errors import InputError
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget
from tests.allocation.slots.cases import value_of
from tests.builders import job, network
from tests.scenario.examples import scenario

FULL = network(*(job(name, 20, (0, 18, 100), jitter=0.01) for name in "ab"))
"""Two jobs that send nearly all the time: beside each other both take 1.8 times as long."""


def test_a_job_that_leaves_makes_way() -> None:
    # Half as long as "b", "a" is never isolated; "b" is for the second half of its iterations.
    lives = {"a": 40 * 100.0, "b": 80 * 100.0}
    simulator = PlanSimulator(FULL, range(8), periods=80, lives_ms=lives)
    shared = PlanSimulator(FULL, range(8)).slowdowns(Plan(FULL.unshifted)).mean()
    first, second = simulator.slowdowns(Plan(FULL.unshifted))
    assert first == pytest.approx(shared, rel=0.02)
    assert second == pytest.approx((shared + 1) / 2, rel=0.02)
    # Until "b" leaves 120 iterations are simulated, of two events each.
    assert simulator.events == 8 * 2 * 120


def test_long_lives_are_shortened_in_proportion() -> None:
    short, long = (
        PlanSimulator(FULL, range(16), periods=80, lives_ms={"a": 40.0 * n, "b": 80.0 * n})
        for n in (100, 1_000_000)
    )
    plan = Plan(FULL.unshifted)
    assert np.allclose(short.slowdowns(plan), long.slowdowns(plan), rtol=0.02)
    assert long.events == short.events


def test_the_shorter_job_goes_first() -> None:
    """Of two equal jobs one gains what the other loses, as long as none leaves."""
    served = FULL.replace(traffic_classes=2)
    options = SlotSearchOptions(network="fair", classes=2, max_loss=None)
    lives = {"a": 40 * 100.0, "b": 80 * 100.0}
    plan = search_plan(
        served,
        SlotSearchOptions(network="fair", classes=2, max_loss=None, lives_ms=lives),
        Budget(),
    ).plan
    assert plan.classes == {"a": 1}
    free = search_plan(served, options, Budget())
    assert sum(free.slowdowns.values()) == pytest.approx(sum(free.unshifted.values()), rel=0.05)


def document(iterations: int | None) -> dict[str, Any]:
    made = scenario()
    for each in made["jobs"]:
        each |= {} if iterations is None else {"iterations": iterations}
    return made


def test_completion_of_a_scenario() -> None:
    made = Scenario.from_dict(document(50))
    for result in (
        allocate(made, objective="completion", time_limit=5, threads=1),
        allocate(made, objective="completion", time_limit=5, threads=1),
    ):
        assert result.bound is not None
        assert Fraction(1) <= result.bound <= value_of(result)
        assert any("until each job leaves" in note for note in result.notes)


def test_completion_needs_numbers_of_iterations() -> None:
    with pytest.raises(InputError, match="its number of iterations is not known"):
        allocate(FULL, objective="completion")
    with pytest.raises(InputError, match="completion stands alone"):
        allocate(Scenario.from_dict(document(50)), objective=("completion", "delay"))
