"""The time that placing a gang takes in a large cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from timeit import repeat

from benchmarks.clusters import large_gang, large_state
from benchmarks.registry import Figure, benchmark
from metronome_opt.kubernetes.state.placement import PlacementDecision, place_job


@benchmark("How long does placing take in a cluster of 1,024 nodes with 500 jobs?")
def placement_speed(small: bool) -> Iterator[Figure]:
    """Place gangs of 16 to 256 tasks; what pairs of jobs cost each other is known."""
    nodes, reservations, repeats = (100, 200, 1) if small else (1024, 500, 5)
    state = large_state(nodes, reservations)
    gangs = (16, 25_000, 0.3), (16, 90_000, 0.8), (64, 25_000, 0.3), (256, 25_000, 0.3)
    for tasks, rate, duty in gangs:
        asked = large_gang("new", tasks, rate=rate, duty=duty, weight=2)
        place = partial(place_job, state, asked, now_s=1000.0)
        result = place()
        seconds = min(repeat(place, number=1, repeat=repeats))
        name = f"gang of {tasks} at {rate // 1000} Gbit/s"
        yield Figure(name, 1e3 * seconds, "ms", "<= 300")
        if isinstance(result, PlacementDecision):
            yield Figure(f"{name}: iteration", result.expected_ms, "ms")
            yield Figure(f"{name}: racks", result.placement.racks, "")
