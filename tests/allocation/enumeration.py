"""Small clusters with few jobs, and all placements of their tasks, tried one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.perturbation import search_placements
from metronome_opt.allocation.placement_search import PlacementSearch, Places, Spot
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.scenario_search import allocate
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions
from metronome_opt.problem.objectives import simulated_levels
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget

Counts = tuple[int, ...]  # tasks of a job on each node
Value = tuple[int, float]  # worth of the jobs without room, and the price of the others


def draw_scenario(seed: int) -> Scenario:
    """Return two to four jobs on two to four nodes, with a GPU for each task."""
    draw = random.Random(seed)
    nodes, gpus = draw.randint(2, 4), draw.randint(2, 4)
    racks = draw.choice((1, 2)) if nodes != 3 else 1
    period = draw.choice((200, 300, 400))
    patterns = {}
    for name in "ab":
        length = round(period * draw.uniform(0.2, 0.5) / 10) * 10
        phase = {"start_ms": period - length, "length_ms": length}
        rate = draw.choice((40, 60, 80, 100))
        patterns[name] = {"period_ms": period, "phases": [{**phase, "rate_gbps": rate}]}
        period = draw.choice((period, 350, 450))
    jobs: list[dict[str, Any]] = []
    free = nodes * gpus
    for left in reversed(range(draw.randint(2, min(4, free // 2)))):
        workers = draw.randint(2, min(6, free - 2 * left))
        free -= workers
        jobs.append(
            {
                "name": f"job-{left}",
                "workers": workers,
                "traffic": draw.choice("ab"),
                "allreduce": draw.choice(("tasks", "ring")),
                "priority": draw.choice((1, 1, 2, 4)),
            }
        )
    cluster = {"topology": "leaf-spine", "nodes": nodes, "gpus": gpus, "nic_gbps": 100}
    return Scenario.model_validate(
        {
            "format": "metronome-scenario/1",
            "name": f"small-{seed}",
            "slot_ms": 10,
            "cluster": {**cluster, "racks": racks, "oversubscription": draw.choice((1, 2))},
            "patterns": patterns,
            "jobs": jobs,
        }
    )


def spreads(tasks: int, room: Sequence[int]) -> Iterator[Counts]:
    """Yield all ways to put tasks on nodes with room for so many."""
    if not room:
        if not tasks:
            yield ()
        return
    for here in range(min(tasks, room[0]) + 1):
        for others in spreads(tasks - here, room[1:]):
            yield (here, *others)


def cheapest(jobs: Sequence[JobRequest], occupancy: Occupancy) -> Value:
    """Return the least price of all placements of some jobs."""
    names = [node.name for node in occupancy.resources.cluster.nodes]
    best = (sum(job.cost_weight for job in jobs) + 1, 0.0)

    def place(rest: Sequence[JobRequest], lost: int, cost: float) -> None:
        nonlocal best
        if (lost, cost) >= best:
            return
        if not rest:
            best = lost, cost
            return
        job, *others = rest
        for counts in spreads(
            job.tasks, occupancy.resources.task_counts(job.task_resources).tolist()
        ):
            at = occupancy.resources.placement(nodes_of(counts, names), job)
            price = occupancy.start(job, at).cost
            occupancy.add(PlacedJob(job, at))
            place(others, lost, cost + price)
            occupancy.remove(job.name)
        place(others, lost + job.cost_weight, cost)

    place(jobs, 0, 0.0)
    return best


def nodes_of(counts: Counts, names: Sequence[str]) -> tuple[str, ...]:
    """Return the node of each task."""
    return tuple(name for name, count in zip(names, counts, strict=True) for _ in range(count))


def all_places(scenario: Scenario) -> Iterator[Places]:
    """Yield all placements of all jobs; of those that alike nodes make equal, one."""
    cluster = scenario.cluster
    names = [node.name for node in cluster.nodes]
    racks = [[i for i, n in enumerate(cluster.nodes) if n.rack == r.name] for r in cluster.racks]
    seen = set()

    def place(index: int, free: Counts, chosen: tuple[Counts, ...]) -> Iterator[Places]:
        if index == len(scenario.jobs):
            key = tuple(
                sorted(
                    tuple(sorted(zip(*([c[i] for i in rack] for c in chosen), strict=True)))
                    for rack in racks
                )
            )
            if key not in seen:
                seen.add(key)
                pairs = zip(scenario.jobs, chosen, strict=True)
                yield {job.name: Spot(nodes_of(counts, names)) for job, counts in pairs}
            return
        for counts in spreads(scenario.jobs[index].workers, free):
            left = tuple(have - taken for have, taken in zip(free, counts, strict=True))
            yield from place(index + 1, left, (*chosen, counts))

    yield from place(0, tuple(cluster.gpus_of.values()), ())


def spots_of(problem: PlacedInstance) -> Places:
    """Return where the jobs of a problem are whose placements were chosen."""
    nodes = problem.places or {}
    return {name: Spot(tuple(its), problem.paths.get(name, ())) for name, its in nodes.items()}


def price(occupancy: Occupancy) -> float:
    """Return the cost of all placed jobs, one after the other."""
    others, total = occupancy.copy(), 0.0
    for name, each in occupancy.placed.items():
        others.remove(name)
        total += others.start(each.job, each.placement).cost
    return total


def compare_prices(scenario: Scenario) -> tuple[Value, Value]:
    """Return what `search_placements` reaches, and the least of all placements, at equal prices."""
    search = PlacementSearch(scenario)
    jobs = search.unplaced
    found, left = search_placements(jobs, search.occupancy(), Budget(60))
    lost = sum(job.cost_weight for job in left)
    return (lost, price(found)), cheapest(jobs, search.occupancy())


def compare_slowdowns(scenario: Scenario, name: str = "slowdown") -> tuple[float, float] | None:
    """Return the slowdown of `allocate`, and the least possible; of the heaviest jobs if strict.

    Both with windows, by few candidates. None if not all jobs have room.
    """
    levels = simulated_levels([name], {job.name: job.priority for job in scenario.jobs})
    problem, _ = allocate(scenario, Budget(60), options=SlotSearchOptions(mean_weights=levels))
    if problem.waiting or problem.places is None:
        return None
    search = PlacementSearch(scenario, levels)
    terms = SlotSearchOptions(mean_weights=levels, max_events=1)
    here = search._values_with_slots(spots_of(problem), terms, Budget())[0]
    least = here
    for places in all_places(scenario):
        if least <= 1:  # nothing is less
            break
        least = min(least, search._values_with_slots(places, terms, Budget())[0])
    return here, least
