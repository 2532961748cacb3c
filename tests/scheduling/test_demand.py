"""Layers of demand, by hand: who is in which, as jobs come and go."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.demand import Demand, pattern_of
from tests.scheduling.clusters import gang, running

# On link 0: slots 2 to 5 of 12, and 7 and 0 of 8.
HEAVY = running("heavy", "n0 n1", (0, 4, 60), offset=2, weight=2)
LIGHT = running("light", "n0 n1", (0, 2, 30), offset=7, period=8)
OF_HEAVY = [60 if slot % 12 in (2, 3, 4, 5) else 0 for slot in range(24)]
OF_LIGHT = [30 if slot % 8 in (7, 0) else 0 for slot in range(24)]
OF_BOTH = [a + b for a, b in zip(OF_HEAVY, OF_LIGHT, strict=True)]


def test_a_pattern_is_rotated_and_ends_with_its_idle_slots() -> None:
    asked = gang(2, (0, 2, 30), (3, 1, 50), period=5, max_stretch=1)
    claim = Claim(gang=asked, nodes=("n0", "n1"), offset=4, stretch=1)
    assert pattern_of(claim).tolist() == [0, 50, 0, 0, 30, 30]


def test_each_weight_has_a_layer_of_those_who_weigh_as_much() -> None:
    demand = Demand(2, 24)
    assert demand.layers.shape == (2, 1, 24)
    demand.put(HEAVY, {0: 1}, 1)
    assert (demand.weights, demand.layers.shape) == ([2], (2, 1, 24))
    demand.put(LIGHT, {0: 1}, 1)
    assert demand.weights == [1, 2]
    assert demand.layers[0].tolist() == [OF_BOTH, OF_HEAVY]
    assert not demand.layers[1].any()
    assert (demand.highest.tolist(), demand.peaks.tolist()) == ([90, 0], [90, 0])


def test_a_layer_goes_with_the_last_of_its_weight() -> None:
    demand = Demand(1, 24)
    other = running("other", "n0 n1", (0, 1, 5), period=24, weight=2)
    for claim in (LIGHT, HEAVY, other):
        demand.put(claim, {0: 2}, 1)
    demand.put(HEAVY, {0: 2}, -1)
    assert demand.weights == [1, 2]
    demand.put(other, {0: 2}, -1)
    assert demand.weights == [1]
    assert demand.layers.tolist() == [[[2 * rate for rate in OF_LIGHT]]]
    demand.put(LIGHT, {0: 2}, -1)
    assert (demand.weights, dict(demand.users)) == ([], {})
    assert demand.layers.shape == (1, 1, 24)
    assert not demand.layers.any()
    assert (demand.highest.tolist(), demand.peaks.tolist()) == ([0], [0])


def test_a_weight_between_others_takes_over_what_is_above_it() -> None:
    demand = Demand(1, 24)
    for claim in (LIGHT, running("top", "n0 n1", (0, 4, 60), offset=2, weight=4)):
        demand.put(claim, {0: 1}, 1)
    demand.put(running("middle", "n0 n1", (0, 1, 7), period=24, weight=2), {0: 1}, 1)
    assert demand.weights == [1, 2, 4]
    with_middle = [7 + OF_HEAVY[0], *OF_HEAVY[1:]]
    assert demand.layers[0, 1].tolist() == with_middle
    assert demand.layers[0, 2].tolist() == OF_HEAVY


def test_a_job_without_flows_has_a_weight_all_the_same() -> None:
    demand = Demand(1, 24)
    demand.put(HEAVY, {}, 1)
    assert demand.weights == [2]
    assert not demand.layers.any()
    demand.put(HEAVY, {}, -1)
    assert demand.weights == []


def test_contention_weighs_what_is_late_by_who_is_late() -> None:
    demand = Demand(1, 24)
    demand.put(HEAVY, {0: 1}, 1)
    demand.put(LIGHT, {0: 1}, 1)
    # They meet in slots 15 and 16.
    assert demand.contention(np.array([90])) == 0
    assert demand.contention(np.array([80])) == Fraction(2 * 10, 24)
    # Of 50, heavy lacks 10 in each of its 8 slots, light all that it sends while heavy does.
    assert demand.contention(np.array([50])) == Fraction(2 * 8 * 10 + 2 * 30, 24)


@pytest.mark.parametrize(
    ("weight", "layers", "prices"),
    [
        (0, [0], [0]),
        (1, [0], [1]),
        (2, [0, 1], [1, 1]),
        (3, [0, 1], [1, 2]),
        (4, [0, 1], [1, 3]),
        (6, [0, 1, -1], [1, 3, 2]),
    ],
)
def test_a_newcomer_competes_with_whoever_weighs_no_more(
    weight: int, layers: list[int], prices: list[int]
) -> None:
    demand = Demand(1, 24)
    demand.put(LIGHT, {0: 1}, 1)
    demand.put(running("top", "n0 n1", weight=4), {0: 1}, 1)
    assert demand.below(weight) == (layers, prices)


def test_nobody_to_compete_with() -> None:
    assert Demand(1, 24).below(3) == ([-1], [3])
