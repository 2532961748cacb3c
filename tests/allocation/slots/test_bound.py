"""The lower bound of slowdown is that of the convex problem, and never above simulated values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

from metronome_opt.allocation.slots.bound import slowdown_bound
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.simulator import PlanSimulator
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import PairPrices, Status
from metronome_opt.verify import verify_schedule
from tests.builders import job, network, schedule
from tests.strategies import instances
from tests.tiers import examples

F = Fraction
LOAD = (0, 16, 100)  # of a period of 20, on a link of 100: 4/5


def pair(first: int, second: int) -> Instance:
    """Return jobs of some weights that load a link by 4/5 each: rates add up to at most 5/4."""
    return network(job("a", 20, LOAD, weight=first), job("b", 20, LOAD, weight=second))


@pytest.mark.parametrize(
    ("instance", "bound", "prices"),
    [
        (pair(1, 1), F(8, 5), {"link": F(16, 5)}),
        (pair(0, 0), F(8, 5), {"link": F(16, 5)}),  # the plain mean
        # Rates are as the roots of weights: 5/6 and 5/12.
        (pair(4, 1), (4 * F(6, 5) + F(12, 5)) / 5, {"link": F(36, 5)}),
        # Nobody is faster than its period: 1 and 1/4.
        (pair(24, 1), F(24 + 4, 25), {"link": F(20)}),
        (pair(1, 0), F(1), {}),  # who has no weight may wait for ever
        # a at 5/6 meets b on one link and c on the other, both at 5/12.
        (
            network(
                job("a", 20, LOAD, weight=8, links={"link": 1, "other": 1}),
                job("b", 20, LOAD),
                job("c", 20, LOAD, links={"other": 1}),
                other=100,
            ),
            (8 * F(6, 5) + 2 * F(12, 5)) / 10,
            {"link": F(36, 5), "other": F(36, 5)},
        ),
        # By itself: 9 of 60 slots take 10.8, and 20 of 20 slots 24.
        (network(job("a", 60, (2, 9, 60), links={"link": 2})), F(103, 100), {}),
        (network(job("a", 20, (0, 20, 60), links={"link": 2})), F(6, 5), {}),
    ],
)
def test_bound_by_hand(instance: Instance, bound: Fraction, prices: dict[str, Fraction]) -> None:
    assert slowdown_bound(instance) == (bound, prices, ())


def test_each_uses_what_the_other_leaves() -> None:
    # 12 of 20 slots at 80 of 100: while the other computes for 8 slots a job leaves 20 unused. So
    # 9.6 + 8 / 5 of 20 slots, and 28/25 of their periods if both are alike.
    alike = network(*(job(name, 20, (0, 12, 80)) for name in "ab"))
    pair = PairPrices(link="link", jobs=("a", "b"), prices=(F(56, 25), F(0), F(0)))
    assert slowdown_bound(alike) == (F(28, 25), {}, (pair,))
    # Alone for 8 slots, 6.4 slots at half the link each, while the other is alone for 8: reached.
    fair = slowdowns(alike, ahead={"b": 12}, share=lambda asked: asked / max(1, sum(asked) / 100))
    assert fair == pytest.approx([1.12, 1.12], rel=0.01)


def test_long_burst_outlasts_short_gaps() -> None:
    # A burst of 60 slots and gaps of 15: whoever waits, both are in bursts for 45 slots in 205 of
    # a, during which only one of them goes on. So 250/205 y + z <= 2 for inverse slowdowns y and z.
    # If a never waits that leaves 160/205 to b, which gets it: 145 slots for bursts and 3 gaps.
    instance = network(job("a", 205, (0, 60, 100), weight=24), job("b", 40, (10, 25, 100)))
    pair = PairPrices(link="link", jobs=("a", "b"), prices=(F(0), F(1681, 512), F(0)))
    bound = slowdown_bound(instance)
    assert bound.pairs == (pair,)
    assert float(bound.value) == pytest.approx((24 + 41 / 32) / 25, abs=2e-6)
    first = slowdowns(
        instance, ahead={"b": 35}, share=lambda asked: [asked[0], min(asked[1], 100 - asked[0])]
    )
    assert first == pytest.approx([1, 41 / 32], rel=0.01)


def convex_minimum(instance: Instance) -> float:
    """Return the least weighted mean slowdown at which links carry all loads, numerically."""
    jobs = [each for each in instance.jobs if each.weight]
    loads = np.array(
        [
            [
                each.links.get(link.name, 0) * each.volume / each.period / link.capacity
                for each in jobs
            ]
            for link in instance.links
        ]
    )
    capacities = {link.name: link.capacity for link in instance.links}
    fastest = []
    for each in jobs:
        flow = min([each.peak, *(capacities[name] / n for name, n in each.links.items())])
        extra = sum(b.length * max(0, b.rate / flow - 1) for b in each.phases)
        fastest.append(each.period / (each.period + extra))
    weights = np.array([each.weight for each in jobs])

    def mean(rates: Floats) -> float:
        return float((weights / rates).sum() / weights.sum())

    found = minimize(
        mean,
        np.array(fastest) / (1 + loads.sum()),
        method="SLSQP",
        bounds=Bounds(1e-3, np.array(fastest)),
        constraints=LinearConstraint(loads, -np.inf, 1),
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    assume(found.success)  # its line search gives up now and then
    return float(found.fun)


@given(instances(max_jobs=5, max_links=3).filter(lambda instance: bool(instance.links)))
@examples(200)
def test_bound_of_loads_is_the_convex_minimum(instance: Instance) -> None:
    bound, least = slowdown_bound(instance), convex_minimum(instance)
    assert float(bound.value) > least * (1 - 1e-5)
    if not bound.pairs:
        assert float(bound.value) == pytest.approx(least, rel=1e-5)


@given(instances(max_jobs=4, weights=(0, 1, 4)))
@examples(50, deadline=None)
def test_no_simulated_slowdown_is_below_the_bound(instance: Instance) -> None:
    bound = slowdown_bound(instance).value
    assert bound >= 1
    simulator = PlanSimulator(instance, (0,), periods=400, jitter_factor=0.0)
    simulated = simulator.value(simulator.slowdowns(Plan(instance.unshifted)))
    assert simulated > 0.99 * bound  # of a play, the first and the last iteration are cut


class Running:
    """A job that runs: its legs, each computing and a burst, and where it stands."""

    def __init__(self, job: Job, ahead: float) -> None:
        self.job = job
        phases = sorted(job.phases, key=lambda each: each.start)
        ends = [phases[-1].end - job.period, *(each.end for each in phases)]
        self.legs = [
            (each.start - end, each.length * each.rate, each.rate)
            for each, end in zip(phases, ends, strict=False)
        ]
        self.finished, self.leg = 0, 0
        self.computing, self.volume, self.rate = map(float, self.legs[0])
        self.go(0.0)
        while ahead > 1e-9:  # as if it were alone
            step = min(ahead, self.computing or self.volume / self.rate)
            self.go(step, self.rate)
            ahead -= step
        self.finished = 0

    @property
    def bursting(self) -> bool:
        return self.computing == 0

    def go(self, time: float, rate: float = 0.0) -> None:
        """Go on for a time within a leg's computing or burst."""
        if not self.bursting:
            self.computing = max(0.0, self.computing - time)
            self.computing *= self.computing > 1e-9
            return
        self.volume -= rate * time
        if self.volume < 1e-6:
            self.leg += 1
            self.finished += self.leg % len(self.legs) == 0
            self.computing, self.volume, self.rate = map(
                float, self.legs[self.leg % len(self.legs)]
            )


def slowdowns(
    instance: Instance,
    *,
    ahead: Mapping[str, float],
    share: Callable[[Floats], Sequence[float] | Floats],
    soon: Callable[[], float] = lambda: math.inf,
    periods: int = 400,
) -> list[float]:
    """Return the slowdowns of jobs that share links in any way, from definitions alone.

    Parameters
    ----------
    ahead
        Slots by which jobs are further than the beginning of an iteration; 0 if not said.
    share
        Rates of flows by job, given those that they ask for, 0 while they compute.
    soon
        Slots after which `share` is asked again at the latest.
    """
    jobs = [Running(each, ahead.get(each.name, 0)) for each in instance.jobs]
    end = periods * max(each.period for each in instance.jobs)
    now = 0.0
    while now < end:
        rates = share(np.array([each.rate * each.bursting for each in jobs]))
        times = [
            (each.volume / rate if rate > 1e-9 else math.inf) if each.bursting else each.computing
            for each, rate in zip(jobs, rates, strict=True)
        ]
        step = min(*times, soon(), end - now)
        now += step
        for each, rate in zip(jobs, rates, strict=True):
            each.go(step, rate)
    return [end / (each.job.period * max(1, each.finished)) for each in jobs]


class Whim:
    """A way of sharing links that obeys nothing but capacities.

    Jobs are served one after the other, in an order that is kept for some time; some of them get
    less than they could.
    """

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance = instance
        self.random = random.Random(seed)
        self.change, self.spare = self.random.choice((0, 0.1, 1)), self.random.choice((0, 0.2))
        self.order = list(range(len(instance.jobs)))
        self.random.shuffle(self.order)

    def soon(self) -> float:
        return self.random.uniform(1, 9) if self.spare else math.inf

    def share(self, asked: Floats) -> list[float]:
        if self.random.random() < self.change:
            self.random.shuffle(self.order)
        left = {link.name: float(link.capacity) for link in self.instance.links}
        rates = [0.0] * len(asked)
        for index in self.order:
            flows = self.instance.jobs[index].links
            rate = min([asked[index], *(left[link] / n for link, n in flows.items())])
            if self.random.random() < self.spare:
                rate *= self.random.choice((0, 0.5))
            rates[index] = rate
            for link, n in flows.items():
                left[link] -= n * rate
        return rates


@pytest.mark.slow
@given(instances(max_jobs=3, max_flows=2, max_period=30, weights=(1, 4)), st.integers(0, 99))
@examples(150, deadline=None)
def test_no_way_of_sharing_is_below_the_bound(instance: Instance, seed: int) -> None:
    whim = Whim(instance, seed)
    ahead = {each.name: whim.random.uniform(0, each.period) for each in instance.jobs}
    reached = slowdowns(instance, ahead=ahead, share=whim.share, soon=whim.soon, periods=200)
    weights = [each.weight for each in instance.jobs]
    mean = np.average(reached, weights=weights)
    assert mean > 0.99 * slowdown_bound(instance).value  # the first and last iterations are cut


@given(instances(max_jobs=4, max_period=30))
@examples(150)
def test_bound_is_proved_to_its_last_digit(instance: Instance) -> None:
    bound = slowdown_bound(instance)
    stated: dict[str, Any] = {"bound_prices": bound.prices, "bound_pairs": bound.pairs}
    for more, expected in ((0, []), (F(2, 10**6), ["lower_bound"])):
        claim = schedule(
            instance.name,
            {},
            status=Status.UNKNOWN,
            lower_bound=bound.value + more,
            objectives={"slowdown": None},
            **stated,
        )
        places = [fault.location for fault in verify_schedule(instance, claim)]
        assert [place for place in places if place != "objectives"] == expected
