"""Verification of the places that a schedule states for the jobs of a scenario.

The scenario is a document with the cluster in full. No code is shared with readers or placement.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from metronome_opt.errors import pluralise, quote
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify.evaluation import Violation
from metronome_opt.verify.flows import Document

Placements = Mapping[str, Sequence[str]]
RESOURCES = {"gpus": "GPUs", "cpu_millicores": "millicores", "memory_mib": "MiB of memory"}


def check_places(scenario: Document, schedule: Schedule) -> tuple[Violation, ...]:
    """Return every false statement of a schedule about the nodes of jobs.

    Every job runs or waits, and has a node for each task; the nodes exist and have the resources
    for their tasks; nodes that the scenario states are kept; and without stated nodes the network
    cost from a task to the next one is tolerated by the job.
    """
    places = schedule.places
    if places is None:
        truth = "jobs wait only if `places` states the others"
        return tuple(Violation("waiting", quote(name), truth) for name in schedule.waiting)
    return (
        *_waiting_violations(scenario, schedule.waiting, places),
        *_node_violations(scenario, schedule.waiting, places),
        *_resource_violations(scenario, places),
        *_cost_violations(scenario, places),
    )


def _waiting_violations(
    scenario: Document, waiting: Sequence[str], places: Placements
) -> Iterator[Violation]:
    """Yield jobs that cannot wait: unknown, named twice, placed, or with stated nodes."""
    stated = {job["name"]: job["nodes"] for job in scenario["jobs"]}
    for name, count in Counter(waiting).items():
        if name not in stated:
            yield Violation("waiting", quote(name), "no such job")
        elif count > 1:
            yield Violation("waiting", quote(name), f"it is named {count} times")
        elif name in places:
            yield Violation("waiting", quote(name), "it is also placed")
        elif stated[name] is not None:
            yield Violation("waiting", quote(name), "the scenario states its nodes")


def _node_violations(
    scenario: Document, waiting: Sequence[str], places: Placements
) -> Iterator[Violation]:
    """Yield jobs without places, unknown nodes, and other nodes than the stated ones."""
    jobs = {job["name"]: job for job in scenario["jobs"]}
    for name in (*sorted(places.keys() - jobs.keys()), *jobs):
        if name not in jobs:
            node_count = pluralise(len(places[name]), "node")
            yield Violation(f"places.{quote(name)}", node_count, "no such job")
        elif name not in places and name not in waiting:
            yield Violation(f"places.{name}", "no placement", "it must be placed or waiting")
    nodes = {node["name"] for node in scenario["cluster"]["nodes"]}
    for name, nodes_of_job in places.items():
        workers, stated = (jobs.get(name, {}).get(field) for field in ("workers", "nodes"))
        if workers not in (None, len(nodes_of_job)):
            truth = f"it has {pluralise(workers, 'task')}"
            yield Violation(f"places.{name}", pluralise(len(nodes_of_job), "node"), truth)
        for task, (node, stated_node) in enumerate(
            zip(nodes_of_job, stated or nodes_of_job, strict=False)
        ):
            if node not in nodes:
                yield Violation(f"places.{name}[{task}]", quote(node), "no such node")
            elif node != stated_node:
                truth = f"the scenario states {quote(stated_node)}"
                yield Violation(f"places.{name}[{task}]", quote(node), truth)


def _resource_violations(scenario: Document, places: Placements) -> Iterator[Violation]:
    """Yield nodes with fewer resources than their tasks need."""
    needed: dict[str, Counter[str]] = {kind: Counter() for kind in RESOURCES}
    for job in scenario["jobs"]:
        for node in places.get(job["name"], ()):
            for kind in RESOURCES:
                needed[kind][node] += job["each"][kind]
    for node in scenario["cluster"]["nodes"]:
        for kind, unit in RESOURCES.items():
            needed_here, has = needed[kind][node["name"]], node["has"][kind]
            if needed_here > has:
                stated = f"tasks on {node['name']} that need {needed_here:,} {unit}"
                yield Violation("places", stated, f"it has {has:,}")


def _cost_violations(scenario: Document, places: Placements) -> Iterator[Violation]:
    """Yield jobs whose tasks the filter of Diktyo's plugin NetworkOverhead would reject."""
    costs = {(e["origin"], e["destination"]): e["cost"] for e in scenario["cluster"]["zone_costs"]}
    nodes_by_name = {node["name"]: node for node in scenario["cluster"]["nodes"]}
    region_of = {node["rack"]: node["region"] for node in nodes_by_name.values() if node["region"]}
    regions: dict[tuple[str | None, str | None], int] = {}  # the largest cost between racks of them
    for (origin, destination), cost in costs.items():
        ends = region_of.get(origin), region_of.get(destination)
        regions[ends] = max(cost, regions.get(ends, 0))
    for job in scenario["jobs"]:
        max_cost, nodes = job.get("max_network_cost"), places.get(job["name"], ())
        if (
            not costs
            or max_cost is None
            or job["nodes"] is not None
            or not nodes_by_name.keys() >= {*nodes}
        ):
            continue
        for node, next_node in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True):
            cost = _cost(nodes_by_name[node], nodes_by_name[next_node], costs, regions)
            if node != next_node and cost is not None and cost > max_cost:
                stated = f"{node} and {next_node}, at a network cost of {cost:,}"
                yield Violation(f"places.{job['name']}", stated, f"it tolerates {max_cost:,}")


def _cost(
    origin: Document,
    destination: Document,
    racks: Mapping[tuple[str | None, str | None], int],
    regions: Mapping[tuple[str | None, str | None], int],
) -> float | None:
    """Return the cost between two nodes; None if unknown, which is tolerated."""
    if destination["region"] is None and destination["rack"] is None:
        return math.inf
    if (origin["region"], origin["rack"]) == (destination["region"], destination["rack"]):
        return 0
    if origin["region"] == destination["region"]:
        return racks.get((origin["rack"], destination["rack"]))
    ends = origin["region"], destination["region"]
    return None if None in ends else regions.get(ends)
