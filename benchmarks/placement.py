"""Quality of placements of gangs by several searches, and the time they take.

Contention is often 0 at best, so that a share of it says nothing. A gap is what a place costs more
than the best one, divided by the best and 1 % of the weighted traffic that the gang itself sends
on the links that it crosses at least once, one for each task. Gaps are those of places by
contention first; with conflicts before it there is no one number to be off by.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean, median, quantiles, stdev

from benchmarks.clusters import LARGE_HYPERPERIOD, large_gang, large_state, small_case
from benchmarks.families import paper
from benchmarks.measure import best_time
from benchmarks.registry import Figure, benchmark
from metronome_opt import solve
from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.views import instance_of
from metronome_opt.scenario import UniformCluster, data_folder, read_scenario
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scheduling.cpsat import place_exactly
from metronome_opt.scheduling.cycle import Cycle, First, Partial, PlaceDecision, decide
from metronome_opt.scheduling.nodes import filter_nodes
from metronome_opt.scheduling.place import place_by_beam, place_greedily, rank_nodes
from metronome_opt.scheduling.tree import place_on_tree
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import Player, plays

Search = Callable[[Cycle], PlaceDecision | None]
_TIME_LIMIT = 20.0
_SOLVING_S = 10.0


def place_spread(cycle: Cycle) -> PlaceDecision | None:
    """Place each task on the node with the most free GPUs of those that pass, in the best rotation.

    A scheduler that prefers nodes with few allocations, without knowledge of links.
    """
    placed = Partial()
    for _ in range(cycle.gang.tasks):
        passing = filter_nodes(cycle, placed)
        if not len(passing):
            return None
        left = cycle.state.free[passing, 0]
        left -= [cycle.gang.each.gpus * placed.nodes.get(node, 0) for node in passing.tolist()]
        placed = cycle.add(placed, int(passing[left.argmax()]))
    return decide(cycle, placed)


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
            result = search(case)
            if result is None:
                raise RuntimeError(f"{name} finds no place where there is one")
            gaps.append(_gap(case, result.cost, best.cost))
            alike += result.price[:3] == best.price[:3]
        yield from _distribution(name, gaps, "<= 3" if name in ("tree", "beam") else "")
        yield Figure(f"{name}: racks and fragments equal too", 100 * alike / len(gaps), "%")


def _judged_cases() -> Iterator[tuple[Cycle, PlaceDecision | None]]:
    """Yield cases with the best option, None where it is not proved to be."""
    for drawn in map(small_case, itertools.count()):
        case = Cycle(drawn.state, drawn.gang, first="contention")
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
            result = _place(search, state, asked)
            if result is not None:
                yield Figure(f"{name}: contention", result.cost / LARGE_HYPERPERIOD, "Mbit/s")
                yield Figure(f"{name}: racks", result.racks, "")


def _rank(state: ClusterState, gang: Gang) -> list[int]:
    return rank_nodes(Cycle(state, gang), Partial())


def _place(search: str, state: ClusterState, gang: Gang) -> PlaceDecision | None:
    return _SEARCHES[search](Cycle(state, gang))


_PLACES: Mapping[str, tuple[Search, First]] = {
    "spread": (place_spread, "contention"),
    "contention first": (place_on_tree, "contention"),
    "compatibility first": (place_on_tree, "compatibility"),
}


@benchmark("How much are the jobs of the paper slowed down where places are chosen by what?")
def placement_free(small: bool) -> Iterator[Figure]:
    """Let the jobs of the family `paper` come to its cluster, with two GPUs a node.

    In one round all 13 find room; in the second a random one leaves whenever there is none.
    Slowdown is the weighted mean of those that are there in the end, 1 being ideal. Whom a search
    finds no place for is left out for all of them.
    """
    for rounds in (1,) if small else (1, 2):
        result: dict[str, list[float]] = {}
        for seed in range(1 if small else 8):
            for name, state in _filled(seed, rounds).items():
                for what, value in _brought(state).items():
                    result.setdefault(f"{rounds} x 13 jobs, {name}: {what}", []).append(value)
        for name, values in result.items():
            yield Figure(name, mean(values), "")
        first, other = (
            result[f"{rounds} x 13 jobs, {name}: slowdown"]
            for name in ("compatibility first", "contention first")
        )
        more = [a - b for a, b in zip(first, other, strict=True)]
        yield Figure(f"{rounds} x 13 jobs: slowdown added by compatibility first", mean(more), "")
        error = stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0.0
        yield Figure(f"{rounds} x 13 jobs: standard error of that", error, "")


def _brought(state: ClusterState) -> dict[str, float]:
    instance = instance_of(state)
    player = Player(instance, plays(0, 2))
    unshifted = player.slowdowns(Plan({job.name: 0 for job in instance.jobs}))
    schedule = solve(instance, time_limit=_SOLVING_S, objective="slowdown").schedule
    return {
        "overloaded links": float((state.demand.highest > state.capacity).sum()),
        "slowdown unshifted": player.value(unshifted),
        "slowdown": float(schedule.objectives["slowdown"] or 0),
        "jobs in slots": float(sum((schedule.gated or {}).values())),
    }


def _filled(seed: int, rounds: int) -> dict[str, ClusterState]:
    """Return the cluster with all jobs placed by each of `_PLACES`; all have the same jobs."""
    example = read_scenario(data_folder() / "scenarios" / "paper-24.yaml")
    cluster = UniformCluster.model_validate({**dict(example.cluster), "gpus": 2})
    spec = ClusterSpec.of_cluster("free", cluster, example.slot_ms, example.hyperperiod_ms or 0)
    gangs = [gang for index in range(rounds) for gang in _paper_gangs(rounds * seed + index)]
    while True:
        states = {name: ClusterState(spec) for name in _PLACES}
        refused = set()
        for name, (search, first) in _PLACES.items():
            refused |= _let_come(states[name], gangs, search, first, random.Random(seed))
        if not refused:
            return states
        gangs = [gang for gang in gangs if gang.name not in refused]


def _paper_gangs(seed: int) -> list[Gang]:
    """Return the jobs of an instance of the family, as if they had no nodes, in random order."""
    instance = paper.generate("free", seed, gpus=2, racks=1, oversubscription=2, periods="harmonic")
    gangs = [
        Gang(
            name=f"{job.name}-{seed}",
            tasks=sum(count for link, count in job.links.items() if link.startswith("node")),
            period=job.period,
            phases=job.phases,
            weight=job.weight,
        )
        for job in instance.jobs
    ]
    return random.Random(seed).sample(gangs, len(gangs))


def _let_come(
    state: ClusterState, gangs: Sequence[Gang], search: Search, first: First, draw: random.Random
) -> set[str]:
    """Place jobs one after the other; return those without a place."""
    refused = set()
    for gang in gangs:
        while state.free[:, 0].sum() < gang.tasks:
            state.unreserve(draw.choice(sorted(state.claims)))
        cycle = Cycle(state, gang, first=first)
        option = search(cycle)
        if option is None:
            refused.add(gang.name)
        else:
            state.reserve(option.claim)
    return refused
