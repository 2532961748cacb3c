"""Small fabrics of several spines, and all paths of the flows of their jobs, tried one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from metronome_opt.allocation.placement_search import PlacementSearch, Places, Spot
from metronome_opt.allocation.scenario_search import allocate
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions
from metronome_opt.scenario.build import build_scenario
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget

_FLOWS = 8  # whose paths are all tried
_TRIED = 8  # of the best by few candidates, those that are searched for windows as `allocate` does


def draw_fabric(seed: int) -> Scenario:
    """Return two to four rings of two or three nodes in two or three racks, at given nodes."""
    draw = random.Random(seed)
    racks, spines = draw.choice(((2, 2), (2, 3), (3, 2)))
    each = draw.choice((3, 4))
    free = [[f"node-{rack * each + at:02}" for at in range(each)] for rack in range(racks)]
    period, jobs = draw.choice((200, 300, 400)), list[dict[str, object]]()
    flows = 0
    for number in range(draw.randint(2, 4)):
        held = [rack for rack in free if rack]
        if len(held) < 2:
            break
        chosen = draw.sample(held, draw.choice((2, 2, len(held))))
        if flows + len(chosen) > _FLOWS:
            break
        flows += len(chosen)
        length = round(period * draw.uniform(0.2, 0.5) / 10) * 10
        phase = {"start_ms": period - length, "length_ms": length, "rate_gbps": 100}
        jobs.append(
            {
                "name": f"job-{number}",
                "workers": len(chosen),
                "nodes": [rack.pop() for rack in chosen],
                "traffic": {"period_ms": period, "phases": [phase]},
                "allreduce": "ring",
                "priority": draw.choice((1, 1, 2, 4)),
            }
        )
        period = draw.choice((period, period, 350, 450))
    return Scenario.model_validate(
        {
            "format": "metronome-scenario/1",
            "name": f"fabric-{seed}",
            "slot_ms": 10,
            "cluster": {
                "topology": "leaf-spine",
                "nodes": racks * each,
                "gpus": 1,
                "nic_gbps": 100,
                "racks": racks,
                "spines": spines,
                "oversubscription": each / spines,  # each of their links carries one flow
                "routing": "chosen",
            },
            "jobs": jobs,
        }
    )


def all_paths(scenario: Scenario) -> Iterator[Places]:
    """Yield all paths of all flows; those by which the same jobs share links once."""
    spines = range(scenario.cluster.spines)
    hashed = build_scenario(scenario).paths
    flows = [(name, task) for name, its in hashed.items() for task, one in enumerate(its) if one]
    seen = set()
    for choice in product(spines, repeat=len(flows)):
        taken = dict(zip(flows, choice, strict=True))
        paths = {
            job.name: tuple(
                (taken[job.name, task],) if (job.name, task) in taken else ()
                for task in range(job.workers)
            )
            for job in scenario.jobs
        }
        nodes = {job.name: job.nodes or () for job in scenario.jobs}
        users: dict[str, list[tuple[str, int]]] = {}
        for job in build_scenario(scenario.at(nodes, paths)).instance.jobs:
            for link, count in job.links.items():
                users.setdefault(link, []).append((job.name, count))
        kind = tuple(sorted(set(map(tuple, users.values()))))
        if kind not in seen:
            seen.add(kind)
            yield {name: Spot(nodes[name], its) for name, its in paths.items()}


def compare(scenario: Scenario) -> tuple[float, float]:
    """Return the slowdown at the paths of `allocate`, and the least of all paths, with windows."""
    search, options = PlacementSearch(scenario), SlotSearchOptions()
    problem, _ = allocate(scenario, Budget(60))
    found = {job.name: Spot(job.nodes or (), problem.paths[job.name]) for job in scenario.jobs}
    reached = search._values_with_slots(found, options, Budget())[0]
    if reached <= 1:
        return reached, reached
    few = SlotSearchOptions(max_events=1)
    ranked = sorted(
        all_paths(scenario), key=lambda paths: search._values_with_slots(paths, few, Budget())[0]
    )
    least = min(search._values_with_slots(each, options, Budget())[0] for each in ranked[:_TRIED])
    return reached, min(reached, least)
