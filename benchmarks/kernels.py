"""How fast the inner loops are, as ratios within one run where a ratio makes sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.families.crowded import NIC, crowded
from benchmarks.measure import best_time
from benchmarks.registry import Figure, benchmark
from metronome_opt.kernels.jobs import descend, state_of
from metronome_opt.kernels.placing import Burden, best_of_each, cost_rows
from metronome_opt.kernels.tables import compile_instance

SLOTS = 720
PERIODS = (60, 240, 720)
RATE = 40_000


@benchmark("What does scoring one job on 5,000 nodes cost, next to adding the same numbers up?")
def score_nodes_ratio(small: bool) -> Iterator[Figure]:
    """Compare one weight class with `numpy.sum` of the array, then more classes with the first."""
    nodes, repeats = (50, 1) if small else (5000, 30)
    for dtype in (np.int32, np.int64):
        demand = _running_jobs(nodes, dtype)
        total = best_time(demand.sum, repeats)
        times = [_score_time(demand, period, repeats) for period in PERIODS]
        for period, seconds in zip(PERIODS, times, strict=True):
            yield Figure(f"{dtype.__name__}, period {period}", seconds * 1e3, "ms")
        yield Figure(f"{dtype.__name__}, numpy.sum", total * 1e3, "ms")
        ratio = sum(times) / len(times) / total
        bar = "<= 4" if dtype is np.int32 else ""
        yield Figure(f"{dtype.__name__}, mean / numpy.sum", ratio, "times", bar)
    demand = _running_jobs(nodes, np.int32)
    means = []
    for classes in (1, 2, 3, 4):
        layered = np.ascontiguousarray(np.stack([demand] * classes, axis=1))
        times = [_score_time(layered, period, repeats) for period in PERIODS]
        means.append(sum(times) / len(times))
    yield Figure("first weight class", means[0] * 1e3, "ms")
    for classes in (2, 3, 4):
        added = (means[classes - 1] - means[classes - 2]) / means[0]
        yield Figure(f"weight class {classes}, added / first", added, "times", "<= 1")


def _score_time(demand: NDArray[Any], period: int, repeats: int) -> float:
    """Return the seconds of scoring a job on all nodes; prices are 1, 2, ... by layer."""
    layered = demand if demand.ndim == 3 else demand[:, np.newaxis]
    nodes, layers, slots = layered.shape
    capacity, highest = np.full(nodes, NIC), layered[:, 0].max(axis=1).astype(np.int64)
    burden = Burden(
        period,
        0,
        np.array([(0, period // 4, RATE)]),
        np.arange(layers),
        np.arange(1, layers + 1),
        np.zeros(slots, dtype=demand.dtype),
    )
    links, group = np.arange(nodes), np.zeros(nodes, dtype=np.int64)
    rows: NDArray[Any] = np.empty((nodes, period), dtype=demand.dtype)
    nothing: NDArray[Any] = np.zeros((1, period), dtype=demand.dtype)

    def score() -> None:
        cost_rows(layered, capacity, highest, burden, links, 1, rows)
        best_of_each(rows, links, group, nothing, 0)

    return best_time(score, repeats)


def _running_jobs(nodes: int, dtype: type[np.int32] | type[np.int64]) -> NDArray[Any]:
    """Return the demand of one to three jobs of 40 Gbit/s on each node, shape (nodes, 720)."""
    draw = np.random.default_rng(0)
    demand = np.zeros((nodes, SLOTS), dtype=dtype)
    for node in range(nodes):
        for _ in range(draw.integers(1, 4)):
            period = int(draw.choice(PERIODS))
            length = int(period * draw.uniform(0.1, 0.4))
            pattern = np.zeros(period, dtype=dtype)
            pattern[(draw.integers(period) + np.arange(length)) % period] = RATE
            demand[node] += np.tile(pattern, SLOTS // period)
    return demand


@benchmark("How many jobs a second are scored at all their offsets, on 16 racks of 16 nodes?")
def job_evaluations(small: bool) -> Iterator[Figure]:
    """Run coordinate descent, which takes a job away, scores it everywhere and puts it back."""
    compiled = compile_instance(crowded(4, 4, 20) if small else crowded(16, 16, 120))
    jobs = len(compiled.instance.jobs)
    sweeps = 1 if small else 200
    offsets = np.zeros(jobs, dtype=np.int64)
    order = np.tile(np.arange(jobs, dtype=np.int64), sweeps)
    state = state_of(compiled, offsets)
    seconds = best_time(lambda: descend(state, offsets, order), 1 if small else 5)
    uses = len(compiled.tables.uses)
    yield Figure("links that can be overloaded, per job", uses / jobs, "")
    yield Figure("hyperperiod, mean", float(compiled.tables.links["hyperperiod"].mean()), "slots")
    yield Figure("evaluations", len(order) / seconds, "a second", ">= 300000")
