"""How good the places are that searches find for gangs, and how long they take to find them.

Contention is often 0 at best, so that a share of it says nothing. A gap is what a place costs more
than the best one, divided by the best and 1 % of the weighted traffic that the gang itself sends
on the links that it crosses at least once, one for each task.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean, median, quantiles

from benchmarks.clusters import LARGE_HYPERPERIOD, large_gang, large_state, small_case
from benchmarks.measure import best_time
from benchmarks.registry import Figure, benchmark
from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.filtering import filter_nodes
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.gangs.beam import place_by_beam
from metronome_opt.scheduling.gangs.cpsat import place_exactly
from metronome_opt.scheduling.gangs.greedy import place_greedily, rank_nodes
from metronome_opt.scheduling.gangs.tree import place_on_tree
from metronome_opt.scheduling.option import Option, make_option
from metronome_opt.scheduling.state import ClusterState

Search = Callable[[Cycle], Option | None]
_TIME_LIMIT = 20.0


def place_spread(cycle: Cycle) -> Option | None:
    """Place each task on the node with the most free GPUs of those that pass, in the best rotation.

    What a scheduler of pods does that prefers the least allocated node and does not know of links.
    """
    placed = Partial()
    for _ in range(cycle.gang.tasks):
        passing = filter_nodes(cycle, placed).nodes
        if not len(passing):
            return None
        left = cycle.state.free[passing, 0]
        left -= [cycle.gang.each.gpus * placed.nodes.get(node, 0) for node in passing.tolist()]
        placed = cycle.add(placed, int(passing[left.argmax()]))
    return make_option(cycle, placed)


_SEARCHES: Mapping[str, Search] = {
    "tree": place_on_tree,
    "beam": place_by_beam,
    "greedy": place_greedily,
    "spread": place_spread,
}


@benchmark(
    "How far are the places that searches find for gangs from the best ones, in small clusters?"
)
def placement_gaps(small: bool) -> Iterator[Figure]:
    """Draw clusters of 4 to 10 nodes and gangs of 2 to 6 tasks; CP-SAT is the judge.

    Cases are left out in which it proves that the gang finds no place at all.
    """
    cases = list(itertools.islice(_judged_cases(), 5 if small else 200))
    solved = [(case, best) for case, best in cases if best is not None]
    yield Figure("solved exactly", 100 * len(solved) / len(cases), "%", ">= 100")
    contended = sum(best.cost > 0 for _, best in solved)
    yield Figure("of these with contention at best", 100 * contended / len(solved), "%")
    for name, search in _SEARCHES.items():
        gaps, alike = [], 0
        for case, best in solved:
            found = search(case)
            if found is None:
                raise RuntimeError(f"{name} finds no place where there is one")
            gaps.append(_gap(case, found.cost, best.cost))
            alike += found.price[:3] == best.price[:3]
        yield from _distribution(name, gaps, "<= 3" if name in ("tree", "beam") else "")
        yield Figure(f"{name}: racks and fragments equal too", 100 * alike / len(gaps), "%")


def _judged_cases() -> Iterator[tuple[Cycle, Option | None]]:
    """Yield cases with the best option, None where it is not proved to be."""
    for case in map(small_case, itertools.count()):
        best, proved = place_exactly(case, time_limit=_TIME_LIMIT)
        if best is not None or not proved:
            yield case, best if proved else None


def _gap(cycle: Cycle, cost: int, best: int) -> float:
    gang = cycle.gang
    repeats = cycle.state.cluster.hyperperiod // cycle.period
    own = gang.weight * gang.volume * repeats * gang.tasks
    return 100 * (cost - best) / (best + 0.01 * own)


def _distribution(name: str, gaps: Sequence[float], bar: str) -> Iterator[Figure]:
    yield Figure(f"{name}: gap, mean", mean(gaps), "%", bar)
    yield Figure(f"{name}: gap, median", median(gaps), "%")
    yield Figure(f"{name}: gap, 90th percentile", quantiles(gaps, n=10, method="inclusive")[8], "%")
    yield Figure(f"{name}: gap, worst", max(gaps), "%")
    equal = sum(gap == 0 for gap in gaps)
    yield Figure(f"{name}: contention as at best", 100 * equal / len(gaps), "%")


@benchmark("How long does placing take in a cluster of 5,000 nodes with 10,000 jobs?")
def placement_speed(small: bool) -> Iterator[Figure]:
    """Filter, score and rank all nodes for a task; then place a gang of 16 tasks."""
    nodes, claims, repeats = (100, 200, 1) if small else (5000, 10_000, 5)
    start = time.perf_counter()
    state = large_state(nodes, claims)
    yield Figure(f"{claims} claims brought into force", time.perf_counter() - start, "s")
    layers = state.demand.layers
    yield Figure("demand of all links in memory", layers.nbytes / 1e6, "MB")
    one_pass = best_time(layers.sum, repeats)
    yield Figure("one pass over it", 1e3 * one_pass, "ms")
    for period in (40, 100, LARGE_HYPERPERIOD):
        asked = large_gang("new", 8, period=period, weight=4)
        seconds = best_time(partial(_rank, state, asked), repeats)
        name = f"filter, score and rank {nodes} nodes, period of {period} slots"
        yield Figure(name, 1e3 * seconds, "ms", "<= 50")
        yield Figure(f"{name}: over one pass", seconds / one_pass, "times")
    for rate, duty in ((25_000, 0.3), (100_000, 0.8)):
        asked = large_gang("new", 16, rate=rate, duty=duty, weight=2)
        for search in _SEARCHES:
            seconds = best_time(partial(_place, search, state, asked), repeats)
            name = f"gang of 16 at {rate // 1000} Gbit/s, {search}"
            yield Figure(name, 1e3 * seconds, "ms", "<= 1000")
            found = _place(search, state, asked)
            if found is not None:
                yield Figure(f"{name}: contention", found.cost / LARGE_HYPERPERIOD, "Mbit/s")
                yield Figure(f"{name}: racks", found.racks, "")


def _rank(state: ClusterState, gang: Gang) -> list[int]:
    return rank_nodes(Cycle(state, gang), Partial())


def _place(search: str, state: ClusterState, gang: Gang) -> Option | None:
    return _SEARCHES[search](Cycle(state, gang))
