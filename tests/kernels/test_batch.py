"""Scoring one job against many nodes: best offset, cost and cushion of every node."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.batch import score_nodes
from metronome_opt.kernels.tables import Ints
from metronome_opt.verify import evaluate
from tests.strategies import jobs


def brute_cost(
    demand: Ints, capacity: int, prices: list[int], job: Job, flows: int, offset: int
) -> int:
    """Add the job slot by slot and count what the layers' overload grows by."""
    total = 0
    for layer, price in zip(demand, prices, strict=True):
        for slot, before in enumerate(int(value) for value in layer):
            within = (slot - offset) % job.period
            rate = sum(p.rate for p in job.phases if p.start <= within < p.end)
            grown = max(0, before + flows * rate - capacity) - max(0, before - capacity)
            total += price * grown
    return total


@given(
    job=jobs("new", [], max_period=6, max_phases=2),
    repeats=st.integers(1, 3),
    flows=st.integers(1, 2),
    weights=st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(sorted),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from([np.int32, np.int64]),
)
def test_every_node_against_slot_by_slot_counting(
    job: Job, repeats: int, flows: int, weights: list[int], seed: int, dtype: type
) -> None:
    generator = np.random.default_rng(seed)
    nodes, layers, slots = 4, len(weights), repeats * job.period
    steps = generator.integers(0, 60, (nodes, layers, slots))
    demand: Ints = steps[:, ::-1].cumsum(axis=1)[:, ::-1].astype(dtype)  # lower layers hold more
    capacity = generator.integers(40, 120, nodes)
    prices = [b - a for a, b in pairwise([0, *weights])]
    offset, cost, cushion = score_nodes(demand, capacity, job, prices=np.array(prices), flows=flows)
    for node in range(nodes):
        costs = [
            brute_cost(demand[node], int(capacity[node]), prices, job, flows, o)
            for o in range(job.period)
        ]
        assert cost[node] == min(costs)
        assert costs[offset[node]] == min(costs)
        if cost[node] > 0:
            assert cushion[node] == 0
            waits = [(o - job.ready) % job.period for o in range(job.period)]
            best = min(w for w, c in zip(waits, costs, strict=True) if c == min(costs))
            assert waits[offset[node]] == best


def test_the_cushion_of_a_node_is_that_of_the_judge() -> None:
    slots = 24
    job = Job(name="new", period=12, phases=(Phase(start=2, length=3, rate=60),), links={"n": 1})
    for begin in range(0, slots, 5):
        other = Job(
            name="old", period=slots, phases=(Phase(start=0, length=4, rate=60),), links={"n": 1}
        )
        instance = Instance(
            name="i", slot_ms=1, links=(Link(name="n", capacity=100),), jobs=(other, job)
        )
        demand: Ints = np.zeros((1, slots), dtype=np.int64)
        demand[0, (begin + np.arange(4)) % slots] = 60
        offset, cost, cushion = score_nodes(demand, np.array([100]), job)
        report = evaluate(instance, {"old": begin, "new": int(offset[0])})
        assert cost[0] == 0 == report.contention
        assert cushion[0] == report.objectives["cushion"]
        best = max(
            (evaluate(instance, {"old": begin, "new": o}).objectives["cushion"] or 0)
            for o in range(12)
        )
        assert cushion[0] == best


def test_an_idle_node_limits_nothing() -> None:
    job = Job(name="new", period=10, ready=3, phases=(Phase(start=0, length=4, rate=60),), links={})
    offset, cost, cushion = score_nodes(np.zeros((1, 20), np.int64), np.array([100]), job)
    assert (offset[0], cost[0], cushion[0]) == (3, 0, 10)


@pytest.mark.parametrize(
    ("demand", "capacity", "message"),
    [
        (np.zeros((2, 15), np.int64), np.array([1, 1]), "demand: shape"),
        (np.zeros(20, np.int64), np.array([1]), "demand: shape"),
        (np.zeros((2, 20), np.int64), np.array([1]), "capacity, prices: shapes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(demand: Ints, capacity: Ints, message: str) -> None:
    job = Job(name="new", period=10, phases=(Phase(start=0, length=4, rate=60),), links={})
    with pytest.raises(InputError, match=message):
        score_nodes(demand, capacity, job)


def test_costs_that_leave_64_bits_are_refused() -> None:
    job = Job(name="new", period=10, phases=(Phase(start=0, length=4, rate=2**60),), links={})
    with pytest.raises(InputError, match="64-bit"):
        score_nodes(np.zeros((1, 10), np.int64), np.array([1]), job)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"capacity": np.array([2**63 - 1])}, "64-bit"),
        ({"prices": np.array([2**62, 2**62]), "demand": np.zeros((1, 2, 10), np.int64)}, "64-bit"),
        ({"capacity": np.array([3.7])}, "capacity: must be integers"),
        ({"demand": np.zeros((1, 10))}, "demand: must be integers"),
        ({"flows": 0}, "must be positive"),
        ({"prices": np.array([-1])}, "must be positive"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    job = Job(name="new", period=10, phases=(Phase(start=0, length=4, rate=60),), links={})
    fields = {"demand": np.zeros((1, 10), np.int64), "capacity": np.array([100]), **changes}
    with pytest.raises(InputError, match=message):
        score_nodes(fields.pop("demand"), fields.pop("capacity"), job, **fields)


def test_any_demand_that_64_bits_hold_is_counted_right() -> None:
    # Overloaded before, by however much: every slot of the burst adds its whole rate.
    job = Job(name="new", period=4, phases=(Phase(start=0, length=2, rate=5),), links={})
    _, cost, _ = score_nodes(np.full((1, 8), 2**63 - 1), np.array([3]), job)
    assert cost[0] == 2 * 2 * 5
