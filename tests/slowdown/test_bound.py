"""Lower bound of slowdown: by hand, against the convex problem, and never above simulations."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import Bounds, LinearConstraint, minimize

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.slowdown.bound import slowdown_bound
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Player, plays
from tests.builders import job, network
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
    assert slowdown_bound(instance) == (bound, prices)


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
    assert found.success
    return float(found.fun)


@given(instances(max_jobs=5, max_links=3).filter(lambda instance: bool(instance.links)))
@examples(200)
def test_bound_is_the_convex_minimum(instance: Instance) -> None:
    assert float(slowdown_bound(instance).value) == pytest.approx(
        convex_minimum(instance), rel=1e-5
    )


@given(instances(max_jobs=4, weights=(0, 1, 4)))
@examples(50, deadline=None)
def test_no_simulated_slowdown_is_below_the_bound(instance: Instance) -> None:
    bound = slowdown_bound(instance).value
    assert bound >= 1
    player = Player(instance, plays(0, 1), periods=400, jitter=0.0)
    simulated = player.value(player.slowdowns(Plan(instance.unshifted)))
    assert simulated > 0.99 * bound  # of a play, the first and the last iteration are cut
