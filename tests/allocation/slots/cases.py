"""Instances of few jobs in slots of 5 ms, and properties of every result.

Where jobs state a jitter it is small: slots of 5 ms are coarse beside what 2 % of it costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from metronome_opt import allocate
from metronome_opt.allocation.slots.evaluator import PlanEvaluator
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.problem.instance import Instance, Job, Phase
from metronome_opt.problem.result import Result
from metronome_opt.verify import verify_schedule
from tests.builders import job, network

ALTERNATING = network(*(job(name, 40, (0, 7, 100), (20, 7, 100), jitter=0.01) for name in "ab"))
"""Two bursts each, between which those of the other fit."""

NESTED = network(
    job("a", 40, (0, 6, 100), weight=4, jitter=0.01), job("b", 20, (0, 6, 100), jitter=0.01)
)
TIGHT = network(*(job(name, 20, (0, 6, 100)) for name in "abc"))
"""They fit, but not with a cushion, for which they need a slot more."""

UNEVEN = network(job("a", 20, (0, 9, 100)), job("b", 21, (0, 9, 100)))
"""Free they meet for ever; they fit at one period."""

ENDLESS = network(*(job(name, 20, (0, 20, 100)) for name in "ab"))
"""A job that bursts all the time gains nothing by waiting."""

APART = network(job("a", 20, (0, 6, 100)), job("b", 20, (0, 6, 100), links={"other": 1}), other=100)
ROOMY = network(*(job(name, 20, (0, 6, 40)) for name in "ab"))

MOST_HARM = 1.02  # 1 % is allowed, the rest is chance
_FRESH = range(1000, 1008)  # seeds that nothing is judged by


def evaluator_of(
    instance: Instance, first_seed: int = 0, *, periods: int = 40, **options: Any
) -> PlanEvaluator:
    """Return an evaluator of plans by replications of some length."""
    simulator_of = partial(PlanSimulator, instance, periods=periods)
    return PlanEvaluator(simulator_of, first_seed, **options)


@cache
def minimum(instance: Instance, **options: Any) -> Result:
    """Return the result that is the same on every machine."""
    return allocate(instance, time_limit=None, threads=1, **options)


def gated_jobs(result: Result) -> str:
    return " ".join(Plan.of(result.instance, result.schedule).periods)


def expected_of(result: Result) -> Mapping[str, Fraction]:
    """Return the iteration times that are expected under the schedule."""
    assert result.schedule.expected_ms is not None
    return result.schedule.expected_ms


def unshifted_of(result: Result) -> Mapping[str, Fraction]:
    """Return the iteration times with no job gated."""
    assert result.unshifted_ms is not None
    return result.unshifted_ms


def value_of(result: Result) -> Fraction:
    assert result.value is not None
    return Fraction(result.value)


def assert_sound(result: Result, gated: str | None = None, *, within_loss: bool = False) -> None:
    """Assert what holds of every result, and which jobs are gated.

    If it is asked for, no job is slower than unshifted, as stated and as simulated here.
    """
    instance, schedule = result.instance, result.schedule
    assert verify_schedule(instance, schedule) == ()
    assert schedule.primary_objective == "slowdown"
    assert schedule.lower_bound is not None
    assert 1 <= schedule.lower_bound <= value_of(result)
    assert result.value == result.levels[0].value
    assert result.levels[0].proved is (schedule.status == "optimal")
    assert unshifted_of(result).keys() == expected_of(result).keys()
    assert gated in (None, gated_jobs(result))
    if within_loss:
        for name, expected in expected_of(result).items():
            assert float(expected) <= MOST_HARM * unshifted_of(result)[name]
        simulator, plan = PlanSimulator(instance, _FRESH, network=schedule.network), Plan.of
        unshifted = simulator.slowdowns(Plan(instance.unshifted))
        assert np.all(simulator.slowdowns(plan(instance, schedule)) <= MOST_HARM * unshifted)


def twice(instance: Instance) -> Instance:
    """Return jobs "a" and "b" on "link" and the same again, "c" and "d", on "other"."""
    moved = instance.to_dict()["jobs"]
    for document, name in zip(moved, "cd", strict=True):
        document |= {"name": name, "links": {"other": 1}}
    again = (
        Job.model_validate(
            document | {"phases": list(map(Phase.model_validate, document["phases"]))}
        )
        for document in moved
    )
    return network(*instance.jobs, *again, other=100)
