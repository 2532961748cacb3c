"""Simulated mean iteration times are those worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from tests.allocation.slots.cases import ALTERNATING, NESTED
from tests.builders import job, network

ONE = (0,)
TWINS = network(*(job(name, 20, (0, 8, 100)) for name in "ab"))


def exactly(simulator: PlanSimulator, plan: Plan) -> list[float]:
    return [round(value, 9) for value in simulator.slowdowns(plan)]


@pytest.mark.parametrize("periods", [{}, {"a": 20}])
def test_single_job_is_not_slowed_down(periods: dict[str, int]) -> None:
    alone = network(job("a", 20, (3, 8, 100)))
    simulator = PlanSimulator(alone, ONE, network="tcp", jitter_factor=0.0)
    assert exactly(simulator, Plan({"a": 5}, periods)) == [1]


@pytest.mark.parametrize(("rate", "slowdown"), [(100, 1.4), (60, 1.08), (50, 1)])
def test_bursts_that_always_meet_share_link(rate: int, slowdown: float) -> None:
    # 8 slots at 50 instead of 100 take 16, beside 12 of computing; at 50 instead of 60 they take
    # 9.6.
    twins = network(*(job(name, 20, (0, 8, rate)) for name in "ab"))
    simulator = PlanSimulator(twins, ONE, jitter_factor=0.0)
    assert exactly(simulator, Plan(twins.unshifted)) == [slowdown] * 2


def test_gated_jobs_may_be_served_first() -> None:
    # "b" gets what "a" leaves, 12 slots of 20. Of its bursts of 16 slots, which begin 4 after the
    # last one has ended, one ends at 32, the next at 60, and all after them 60 slots later again.
    pair = network(job("a", 20, (0, 8, 100)), job("b", 20, (0, 16, 100)))
    plan = Plan(pair.unshifted, {"a": 20})
    first = PlanSimulator(pair, ONE, network="gated", jitter_factor=0.0).slowdowns(plan)
    assert first == pytest.approx([1, 1.5], abs=0.01)
    assert PlanSimulator(pair, ONE, jitter_factor=0.0).slowdowns(plan)[0] > 1.1
    free = PlanSimulator(pair, ONE, network="gated", jitter_factor=0.0).slowdowns(
        Plan(pair.unshifted)
    )
    assert np.array_equal(
        free, PlanSimulator(pair, ONE, jitter_factor=0.0).slowdowns(Plan(pair.unshifted))
    )


def test_warm_up_does_not_count() -> None:
    # "b" comes 4 slots after "a", and each is slower by 4. Free they stay so for ever; if "a" is
    # gated, and served first, "b" ends when it would have ended beside a burst less: it is slower
    # once, and they meet no more.
    plan = Plan({"a": 0, "b": 4})
    assert exactly(PlanSimulator(TWINS, ONE, jitter_factor=0.0), plan) == [1.2, 1.2]
    served = PlanSimulator(TWINS, ONE, network="gated", jitter_factor=0.0)
    assert exactly(served, Plan(plan.offsets, {"a": 20})) == [1, 1]


@pytest.mark.parametrize(("weights", "mean"), [((1, 3), 2.5), ((0, 2), 3), ((0, 0), 2)])
def test_slowdown_is_weighted_mean(weights: tuple[int, int], mean: float) -> None:
    jobs = (job(n, 20, (0, 1, 9), weight=w) for n, w in zip("ab", weights, strict=True))
    assert PlanSimulator(network(*jobs), ONE).value(np.array([1.0, 3.0])) == mean


def test_slowdown_does_not_depend_on_threads() -> None:
    together = (3, 4, 5)
    plan = Plan({"a": 0, "b": 3}, {"b": 20})
    one, three = (
        PlanSimulator(NESTED, together, network="tcp", threads=n).slowdowns(plan) for n in (1, 3)
    )
    assert np.array_equal(one, three)
    each = [PlanSimulator(NESTED, [seed], network="tcp").slowdowns(plan) for seed in together]
    assert np.allclose(one, np.mean(each, axis=0))
    assert len({tuple(row) for row in each}) == len(together)


def test_events_are_bursts_begun_and_ended() -> None:
    # 50 periods of two jobs with two bursts each, which begin and end.
    assert PlanSimulator(ALTERNATING, ONE).events == 50 * 2 * 2 * 2


def test_job_slower_than_its_simulation_is_simulated_to_its_end() -> None:
    stuck = network(job("a", 20, (0, 1, 10_000)), capacity=1)
    # 10,000 slots of sending and 19 of computing, over a period of 20
    assert exactly(PlanSimulator(stuck, ONE, jitter_factor=0.0), Plan({"a": 0})) == [500.95]
