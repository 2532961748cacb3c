"""Verification of the placements that a schedule states for the jobs of a scenario, and of paths.

The scenario is a document with the cluster in full. No code is shared with readers or placement.

A flow is the traffic of a task by one interface to a task on another node. The hash of a flow is
given by the first 8 bytes of SHA-256 of ``SEED/JOB/TASK/TASK/INTERFACE``, the smaller of its two
tasks first, modulo the number of spines; tasks and interfaces count from 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256

from metronome_opt.errors import pluralise, quote
from metronome_opt.problem.schedule import Schedule
from metronome_opt.verify.evaluation import Violation
from metronome_opt.verify.flows import Document, Tree

_Documents = Mapping[str, Document]
_Places = Mapping[str, Sequence[str]]
_Paths = Mapping[str, Sequence[Sequence[int]]]
_Costs = dict[tuple[str, str | None, str | None], float]
RESOURCES = {"gpus": "GPUs", "cpu_millicores": "millicores", "memory_mib": "MiB of memory"}


def check_places(scenario: Document, schedule: Schedule) -> Iterator[Violation]:
    """Yield every false statement of a schedule about the nodes of jobs.

    Every job runs or waits, and has a node for each task; the nodes exist and have the resources
    for their tasks; nodes that the scenario states are kept; and without stated nodes the job is
    within its limits on racks, switches, nodes, and network costs from a task to the next one.
    """
    places, waiting = schedule.places, schedule.waiting
    if places is None:
        for name in waiting:
            truth = "jobs wait only if `places` states the others"
            yield Violation("waiting", quote(name), truth)
        return
    jobs = {job["name"]: job for job in scenario["jobs"]}
    nodes = {node["name"]: node for node in scenario["cluster"]["nodes"]}
    yield from _waiting_violations(jobs, waiting, places)
    yield from _node_violations(jobs, nodes, waiting, places)
    yield from _resource_violations(jobs, nodes, places)
    cluster = scenario["cluster"]
    costs, switches = _network_costs(cluster), None
    connected = None if cluster.get("has_core", True) else math.inf
    for name, job in jobs.items():
        if job["nodes"] is None and nodes.keys() >= {*places.get(name, ())}:
            its = [nodes[node] for node in places.get(name, ())]
            yield from _cost_violations(job, its, costs)
            highest = job.get("within", connected)
            if highest is not None or job.keys() & {"most_racks", "allowed_nodes"}:
                switches = switches or _switches_above(cluster)
                yield from _limit_violations(job, its, highest, switches)


def _waiting_violations(
    jobs: _Documents, waiting: Sequence[str], places: _Places
) -> Iterator[Violation]:
    """Yield jobs that cannot wait: unknown, named twice, placed, or with stated nodes."""
    for name, count in Counter(waiting).items():
        if name not in jobs:
            yield Violation("waiting", quote(name), "no such job")
        elif count > 1:
            yield Violation("waiting", quote(name), f"it is named {count} times")
        elif name in places:
            yield Violation("waiting", quote(name), "it is also placed")
        elif jobs[name]["nodes"] is not None:
            yield Violation("waiting", quote(name), "the scenario states its nodes")


def _node_violations(
    jobs: _Documents, nodes: _Documents, waiting: Sequence[str], places: _Places
) -> Iterator[Violation]:
    """Yield jobs without placements, unknown nodes, and other nodes than the stated ones."""
    for name in sorted(places.keys() - jobs.keys()):
        yield Violation(
            f"places.{quote(name)}", pluralise(len(places[name]), "node"), "no such job"
        )
    for name in (name for name in jobs if name not in places and name not in waiting):
        yield Violation(f"places.{name}", "no placement", "it must be placed or waiting")
    for name, its in places.items():
        job = jobs.get(name, {"workers": len(its), "nodes": None})
        if job["workers"] != len(its):
            truth = f"it has {pluralise(job['workers'], 'task')}"
            yield Violation(f"places.{name}", pluralise(len(its), "node"), truth)
        for task, (node, stated) in enumerate(zip(its, job["nodes"] or its, strict=False)):
            if node not in nodes:
                yield Violation(f"places.{name}[{task}]", quote(node), "no such node")
            elif node != stated:
                truth = f"the scenario states {quote(stated)}"
                yield Violation(f"places.{name}[{task}]", quote(node), truth)


def _resource_violations(
    jobs: _Documents, nodes: _Documents, places: _Places
) -> Iterator[Violation]:
    """Yield nodes with fewer resources than their tasks need."""
    needed: Counter[tuple[str, str]] = Counter()
    for name, job in jobs.items():
        for node in places.get(name, ()):
            needed.update({(node, kind): job["each"][kind] for kind in RESOURCES})
    for name, machine in nodes.items():
        for kind, unit in RESOURCES.items():
            if needed[name, kind] > machine["has"][kind]:
                stated = f"tasks on {name} that need {needed[name, kind]:,} {unit}"
                yield Violation("places", stated, f"it has {machine['has'][kind]:,}")


def _network_costs(cluster: Document) -> _Costs:
    """Return costs between racks, and the largest ones between racks of two regions."""
    costs: _Costs = {
        ("rack", e["origin"], e["destination"]): e["cost"] for e in cluster["zone_costs"]
    }
    region_of = {node["rack"]: node["region"] for node in cluster["nodes"] if node["region"]}
    for (_, origin, destination), cost in list(costs.items()):
        ends = "region", region_of.get(origin), region_of.get(destination)
        costs[ends] = max(cost, costs.get(ends, 0))
    return costs


def _cost_violations(
    job: Document, nodes: Sequence[Document], costs: _Costs
) -> Iterator[Violation]:
    """Yield tasks that the filter of Diktyo's plugin NetworkOverhead would reject.

    A cost that is not known is tolerated, but none of a node without rack and region.
    """
    most = job.get("max_network_cost", math.inf) if costs else math.inf
    for node, following in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True):
        regions, racks = ((node[tier], following[tier]) for tier in ("region", "rack"))
        if regions[1] is None and racks[1] is None:
            cost = math.inf
        elif regions[0] != regions[1]:
            cost = 0 if None in regions else costs.get(("region", *regions), 0)
        else:
            cost = 0 if racks[0] == racks[1] else costs.get(("rack", *racks), 0)
        if node["name"] != following["name"] and cost > most:
            stated = f"{node['name']} and {following['name']}, at a network cost of {cost:,}"
            yield Violation(f"places.{job['name']}", stated, f"it tolerates {most:,}")


def _switches_above(cluster: Document) -> tuple[Mapping[str, Sequence[str]], Mapping[str, int]]:
    """Return the racks above each node, the lowest first, and their tiers.

    A node is of tier 0, and a rack of one more than the highest of the nodes and racks in it.
    """
    racks, above = {rack["name"]: rack for rack in cluster["racks"]}, dict[str, list[str]]()
    tiers = Counter[str]()
    for node in cluster["nodes"]:
        way, rack = above.setdefault(node["name"], []), node["rack"]
        while rack is not None:
            way.append(rack)
            tiers[rack] = max(tiers[rack], len(way))
            rack = racks[rack].get("within")
    return above, tiers


def _limit_violations(
    job: Document,
    nodes: Sequence[Document],
    highest: float | None,
    switches: tuple[Mapping[str, Sequence[str]], Mapping[str, int]],
) -> Iterator[Violation]:
    """Yield what a job has no leave for: more racks, other nodes, no common switch.

    The common switch is up to tier `highest`, unless this is None.
    """
    where, (above, tiers) = f"places.{job['name']}", switches
    racks, most = len({node["rack"] for node in nodes}), job.get("most_racks", math.inf)
    if racks > most:
        yield Violation(where, pluralise(racks, "rack"), f"it may span {most}")
    names = dict.fromkeys(node["name"] for node in nodes)
    if highest is not None and len(names) > 1:
        common = set.intersection(*({*above[name]} for name in names))
        if all(tiers[rack] > highest for rack in common):
            tier = f" up to tier {highest}" if "within" in job else ""
            yield Violation(where, "its nodes", f"they are below no common switch{tier}")
    allowed = job.get("allowed_nodes")
    for name in names:
        if allowed is not None and {name, *above[name]}.isdisjoint(allowed):
            yield Violation(where, name, "it is none of its allowed_nodes")


def check_paths(
    scenario: Document,
    places: _Places,
    paths: _Paths,
    chosen: Collection[str] | None = None,
) -> Iterator[Violation]:
    """Yield every false statement about the spines of the flows of jobs.

    A flow between racks with several uplinks, and no other one, has a spine that exists: the spine
    of the scenario, or of the hash, or any one if it may be chosen. A sprayed flow has none.

    Parameters
    ----------
    scenario
        Its document, with ``link_mbps`` of the cluster, and the ``algorithm`` of every job.
    places, paths
        Nodes of tasks, true by `check_places`, and the stated spines.
    chosen
        Jobs whose spines were chosen; None for all jobs with stated spines.
    """
    chosen = paths if chosen is None else chosen
    cluster, used = scenario["cluster"], Counter[str]()
    tree, routing = Tree(cluster), cluster.get("routing", "ecmp")
    pairs = cluster.get("queue_pairs", 1) if routing == "ecmp" else 1
    for name in sorted(paths.keys() - places.keys()):
        yield Violation(f"paths.{quote(name)}", "its spines", "no such job runs")
    for job in scenario["jobs"]:
        name = job["name"]
        flows = list(_flows(tree, job, places[name], used, pairs)) if name in places else []
        stated, given = paths.get(name), job.get("paths")
        if stated is None or name not in places:
            continue
        if routing == "spray":
            yield Violation(f"paths.{name}", "its spines", "its flows are sprayed over all")
        elif given is not None and [*map(list, stated)] != given:
            yield Violation(f"paths.{name}", "its spines", "the scenario states others")
        elif sorted((task, n) for task, n, _ in flows) != [
            (task, n) for task, its in enumerate(stated) for n in range(len(its))
        ] or len(stated) != len(places[name]):
            spines, sent = sum(map(len, stated)), pluralise(len(flows), "flow")
            text = f"{pluralise(spines, 'spine')} of {pluralise(len(stated), 'task')}"
            tasks = pluralise(len(places[name]), "task")
            truth = f"it has {tasks} with {sent} over spines, each with a spine"
            yield Violation(f"paths.{name}", text, truth)
        else:
            is_free = routing == "chosen" and (name in chosen or given is not None)
            for task, number, ends in flows:
                spine, where = stated[task][number], f"paths.{name}[{task}]"
                key = f"{cluster.get('hash_seed', 0)}/{name}/{ends}/{number}"
                own = int(sha256(key.encode()).hexdigest()[:16], 16) % tree.spines
                if not 0 <= spine < tree.spines:
                    yield Violation(where, f"spine {spine}", f"there are 0 to {tree.spines - 1}")
                elif spine != own and not is_free:
                    yield Violation(where, f"spine {spine}", f"it is {own}")


def _flows(
    tree: Tree, job: Document, nodes: Sequence[str], used: Counter[str], pairs: int
) -> Iterator[tuple[int, int, str]]:
    """Yield task, number, and both tasks as text, of the flows that cross spines.

    An interface sends as many of them as there are `pairs`.
    """
    rails = tree.rails_of(nodes, job["each"]["gpus"], used)
    if len(set(nodes)) > 1 and job["algorithm"] != "all-to-all":
        for sender in tree.senders(nodes, rails, job["algorithm"]):
            ends = f"{min(sender.task, sender.to)}/{max(sender.task, sender.to)}"
            for number in range(pairs * len(sender.rails) if tree.is_by_spine(sender) else 0):
                yield sender.task, number, ends
