"""The inner loops of placement: rows of costs, and knapsacks."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Job, Phase
from metronome_opt.kernels.placing import Burden, cost_rows, merge
from metronome_opt.kernels.tables import Ints
from tests.strategies import jobs

NEVER = 2**61


def burden(job: Job, prices: list[int], slots: int) -> Burden:
    return Burden(
        job.period,
        job.ready % job.period,
        np.array([(phase.start, phase.length, phase.rate) for phase in job.phases]),
        np.arange(len(prices)),
        np.array(prices),
        np.zeros(slots, dtype=np.int32),
    )


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
def test_costs_match_count_per_slot(
    job: Job, repeats: int, flows: int, weights: list[int], seed: int, dtype: type
) -> None:
    generator = np.random.default_rng(seed)
    nodes, slots = 4, repeats * job.period
    steps = generator.integers(0, 60, (nodes, len(weights), slots))
    demand: Ints = steps[:, ::-1].cumsum(axis=1)[:, ::-1].astype(np.int32)  # lower hold more
    capacity = generator.integers(40, 120, nodes)
    prices = [b - a for a, b in pairwise([0, *weights])]
    rows: Ints = np.empty((nodes, job.period), dtype=dtype)
    highest = demand[:, 0].max(axis=1).astype(np.int64)
    cost_rows(demand, capacity, highest, burden(job, prices, slots), np.arange(nodes), flows, rows)
    assert rows.tolist() == [
        [brute_cost(layers, carries, prices, job, flows, o) for o in range(job.period)]
        for layers, carries in zip(demand, capacity.tolist(), strict=True)
    ]


def test_conflict_counts_where_cost_is_positive() -> None:
    job = Job(name="new", period=4, phases=(Phase(start=0, length=1, rate=60),), links={})
    demand: Ints = np.array([[[80, 40, 41, 0]], [[0, 0, 0, 0]]], dtype=np.int32)
    rows = np.empty((2, 4), dtype=np.int64)
    what = burden(job, [1], 4)._replace(conflict=1000)
    cost_rows(demand, np.array([100, 100]), np.array([80, 0]), what, np.array([0, 1]), 1, rows)
    assert rows.tolist() == [[1040, 0, 1001, 0], [0, 0, 0, 0]]


@given(
    tables=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=3),
    tasks=st.integers(1, 4),
)
def test_merging_tables_solves_knapsack(tables: list[list[int]], tasks: int) -> None:
    cost = np.full((tasks + 1, 1), NEVER)
    cost[0] = 0
    second = np.zeros_like(cost)
    for table in tables:
        item = np.array([0, *table])[:, np.newaxis]
        merge(cost, second, cost, second, item, -item)
    counts = [
        each for each in product(*(range(len(table) + 1) for table in tables)) if sum(each) == tasks
    ]
    prices = [
        sum(([0, *table])[count] for table, count in zip(tables, each, strict=True))
        for each in counts
    ]
    assert cost[tasks, 0] == min(prices, default=NEVER)
    if prices:
        assert second[tasks, 0] == -min(prices)
