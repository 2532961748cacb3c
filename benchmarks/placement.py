"""The time that placing a gang takes in a large cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.clusters import large_gang, large_state
from benchmarks.measure import best_time
from benchmarks.registry import Figure, benchmark
from metronome_opt.cluster.placing import Place, place_job


@benchmark("How long does placing take in a cluster of 5,000 nodes with 10,000 jobs?")
def placement_speed(small: bool) -> Iterator[Figure]:
    """Place a gang of 16 tasks."""
    nodes, claims, repeats = (100, 200, 1) if small else (5000, 10_000, 5)
    start = time.perf_counter()
    state = large_state(nodes, claims)
    yield Figure(f"{claims} claims brought into force", time.perf_counter() - start, "s")
    layers = state.demand.layers
    yield Figure("demand of all links in memory", layers.nbytes / 1e6, "MB")
    yield Figure("one pass over it", 1e3 * best_time(layers.sum, repeats), "ms")
    for rate, duty in ((25_000, 0.3), (100_000, 0.8)):
        asked = large_gang("new", 16, rate=rate, duty=duty, weight=2)
        seconds = best_time(partial(place_job, state, asked), repeats)
        name = f"gang of 16 at {rate // 1000} Gbit/s"
        yield Figure(name, 1e3 * seconds, "ms", "<= 1000")
        result = place_job(state, asked)
        if isinstance(result, Place):
            yield Figure(f"{name}: iteration", result.expected_ms, "ms")
            yield Figure(f"{name}: racks", result.placement.racks, "")
