"""Layers of demand, by hand: who is in which, as jobs come and go."""

from __future__ import annotations

import pytest

from metronome_opt.scheduling.state import Demand
from tests.scheduling.clusters import running

# On link 0: slots 2 to 5 of 12, and 7 and 0 of 8.
HEAVY = running("heavy", "n0 n1", (0, 4, 60), offset=2, weight=2)
LIGHT = running("light", "n0 n1", (0, 2, 30), offset=7, period=8)
OF_HEAVY = [60 if slot % 12 in (2, 3, 4, 5) else 0 for slot in range(24)]
OF_LIGHT = [30 if slot % 8 in (7, 0) else 0 for slot in range(24)]
OF_BOTH = [a + b for a, b in zip(OF_HEAVY, OF_LIGHT, strict=True)]


def test_each_weight_has_a_layer_of_those_who_weigh_as_much() -> None:
    demand = Demand(2, 24)
    assert demand.below(3) == ([-1], [3])
    demand.put(HEAVY, {0: 1}, 1)
    demand.put(LIGHT, {0: 1}, 1)
    assert demand.weights == [1, 2]
    assert demand.layers[0].tolist() == [OF_BOTH, OF_HEAVY]
    assert not demand.layers[1].any()
    assert (demand.highest.tolist(), demand.peaks.tolist()) == ([90, 0], [90, 0])
    demand.put(HEAVY, {0: 1}, -1)
    assert demand.layers.tolist() == [[OF_LIGHT], [[0] * 24]]
    demand.put(LIGHT, {0: 1}, -1)
    assert (demand.weights, dict(demand.users), demand.layers.shape) == ([], {}, (2, 1, 24))
    assert not demand.layers.any()


def test_a_job_without_flows_has_a_weight_all_the_same() -> None:
    demand = Demand(1, 24)
    demand.put(HEAVY, {}, 1)
    assert demand.weights == [2]
    assert not demand.layers.any()


@pytest.mark.parametrize(
    ("weight", "layers", "prices"),
    [
        (0, [0], [0]),
        (1, [0], [1]),
        (2, [0, 1], [1, 1]),
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
