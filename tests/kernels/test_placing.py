"""The inner loops of placement: rows of costs, the best offset of every candidate, knapsacks."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.kernels.placing import Burden, best_of_each, cost_rows, merge
from metronome_opt.kernels.tables import Ints
from metronome_opt.verify import evaluate
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


def score(
    demand: Ints, capacity: Ints, job: Job, prices: list[int], flows: int, dtype: type
) -> tuple[Ints, Ints, Ints]:
    """Return the best offset, cost and cushion on each link by itself."""
    links = np.arange(len(demand))
    rows: Ints = np.empty((len(demand), job.period), dtype=dtype)
    what = burden(job, prices, demand.shape[2])
    highest = demand[:, 0].max(axis=1).astype(np.int64)
    cost_rows(demand, capacity, highest, what, links, flows, rows)
    nothing: Ints = np.zeros((1, job.period), dtype=dtype)
    return best_of_each(rows, links, np.zeros_like(links), nothing, what.ready)


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
    demand: Ints = steps[:, ::-1].cumsum(axis=1)[:, ::-1].astype(np.int32)  # lower hold more
    capacity = generator.integers(40, 120, nodes)
    prices = [b - a for a, b in pairwise([0, *weights])]
    offset, cost, cushion = score(demand, capacity, job, prices, flows, dtype)
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
        demand: Ints = np.zeros((1, 1, slots), dtype=np.int32)
        demand[0, 0, (begin + np.arange(4)) % slots] = 60
        offset, cost, cushion = score(demand, np.array([100]), job, [1], 1, np.int64)
        report = evaluate(instance, {"old": begin, "new": int(offset[0])})
        assert cost[0] == 0 == report.contention
        assert cushion[0] == report.objectives["cushion"]
        best = max(
            (evaluate(instance, {"old": begin, "new": o}).objectives["cushion"] or 0)
            for o in range(12)
        )
        assert cushion[0] == best


def test_what_is_paid_elsewhere_decides_together_with_the_link() -> None:
    job = Job(name="new", period=4, phases=(Phase(start=0, length=1, rate=60),), links={})
    demand: Ints = np.zeros((1, 1, 4), dtype=np.int32)
    demand[0, 0] = [80, 80, 80, 0]  # by itself the link wants offset 3
    rows = np.empty((1, 4), dtype=np.int64)
    cost_rows(demand, np.array([100]), np.array([80]), burden(job, [1], 4), np.array([0]), 1, rows)
    assert rows.tolist() == [[40, 40, 40, 0]]
    elsewhere = np.array([[0, 30, 90, 50], [0, 0, 0, 0]])
    offset, cost, cushion = best_of_each(
        rows, np.array([0, -1, -1]), np.array([0, 0, 1]), elsewhere, 1
    )
    assert (offset[0], cost[0], cushion[0]) == (0, 40, 0)  # 40, 70, 130, 50 in all
    assert (offset[1], cost[1]) == (0, 0)
    assert (offset[2], cost[2], cushion[2]) == (1, 0, 4)  # nothing limits it: it begins when ready


@given(
    tables=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=3),
    tasks=st.integers(1, 4),
)
def test_merging_places_one_by_one_is_a_knapsack(tables: list[list[int]], tasks: int) -> None:
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
