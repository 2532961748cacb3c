"""Check of the places that a schedule states for the jobs of a scenario, and of the flows there.

The scenario is its document, with the cluster in full: no code is shared with what reads it, places
jobs, or computes what they put on links.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from metronome_opt.errors import counted, quote
from metronome_opt.instance import Instance
from metronome_opt.schedule import Schedule
from metronome_opt.verify.evaluation import Violation

Document = Mapping[str, Any]
_RESOURCES = {"gpus": "GPUs", "cpu_millicores": "millicores", "memory_mib": "MiB of memory"}


def check_places(scenario: Document, schedule: Schedule) -> tuple[Violation, ...]:
    """Return every false statement of a schedule about where the jobs of a scenario run.

    Each job runs or waits, and has a node for each task; the nodes exist and have the resources
    that their tasks need; nodes that the scenario states are kept; and from each task of the others
    to the next one the network costs no more than the job tolerates.
    """
    if schedule.places is None:
        return tuple(_unplaced_faults(schedule))
    return (
        *_waiting_faults(scenario, schedule),
        *_node_faults(scenario, schedule),
        *_resource_faults(scenario, schedule.places),
        *_cost_faults(scenario, schedule.places),
    )


def check_flows(
    scenario: Document, places: Mapping[str, Sequence[str]], instance: Instance
) -> tuple[Violation, ...]:
    """Return where an instance does not have the links of a scenario and the flows of its jobs.

    Parameters
    ----------
    places
        True by `check_places`; other jobs are not in the instance.
    """
    return tuple(_flow_faults(scenario, places, instance))


def _unplaced_faults(schedule: Schedule) -> Iterator[Violation]:
    for name in schedule.waiting:
        yield Violation("waiting", quote(name), "jobs wait only where the others have places")


def _waiting_faults(scenario: Document, schedule: Schedule) -> Iterator[Violation]:
    """Yield jobs that cannot wait: unknown, named twice, placed, or with nodes of their own."""
    stated = {job["name"]: job["nodes"] for job in scenario["jobs"]}
    for name, count in Counter(schedule.waiting).items():
        if name not in stated:
            yield Violation("waiting", quote(name), "no such job")
        elif count > 1:
            yield Violation("waiting", quote(name), f"it is named {count} times")
        elif name in (schedule.places or ()):
            yield Violation("waiting", quote(name), "it has a place, too")
        elif stated[name] is not None:
            yield Violation("waiting", quote(name), "the scenario states its nodes")


def _node_faults(scenario: Document, schedule: Schedule) -> Iterator[Violation]:
    """Yield jobs without a place, and nodes that are not there or not theirs."""
    places = schedule.places or {}
    jobs = {job["name"]: job for job in scenario["jobs"]}
    for name in (*sorted(places.keys() - jobs.keys()), *jobs):
        if name not in jobs:
            nodes_of = counted(len(places[name]), "node")
            yield Violation(f"places.{quote(name)}", nodes_of, "no such job")
        elif name not in places and name not in schedule.waiting:
            yield Violation(f"places.{name}", "nothing", "every job runs or waits")
    nodes = {node["name"] for node in scenario["cluster"]["nodes"]}
    for name, its in places.items():
        workers, stated = (jobs.get(name, {}).get(field) for field in ("workers", "nodes"))
        if workers not in (None, len(its)):
            wanted = f"it has {counted(workers, 'task')}"
            yield Violation(f"places.{name}", counted(len(its), "node"), wanted)
        for task, (node, own) in enumerate(zip(its, stated or its, strict=False)):
            if node not in nodes:
                yield Violation(f"places.{name}[{task}]", quote(node), "no such node")
            elif node != own:
                truth = f"the scenario states {quote(own)}"
                yield Violation(f"places.{name}[{task}]", quote(node), truth)


def _resource_faults(
    scenario: Document, places: Mapping[str, Sequence[str]]
) -> Iterator[Violation]:
    """Yield nodes on which tasks need more than there is."""
    needed: dict[str, Counter[str]] = {kind: Counter() for kind in _RESOURCES}
    for job in scenario["jobs"]:
        for node in places.get(job["name"], ()):
            for kind in _RESOURCES:
                needed[kind][node] += job["each"][kind]
    for node in scenario["cluster"]["nodes"]:
        for kind, unit in _RESOURCES.items():
            wanted, has = needed[kind][node["name"]], node["has"][kind]
            if wanted > has:
                stated = f"tasks on {node['name']} that need {wanted:,} {unit}"
                yield Violation("places", stated, f"it has {has:,}")


def _cost_faults(scenario: Document, places: Mapping[str, Sequence[str]]) -> Iterator[Violation]:
    """Yield jobs whose tasks the filter of Diktyo's plugin NetworkOverhead would reject."""
    costs = {(e["origin"], e["destination"]): e["cost"] for e in scenario["cluster"]["zone_costs"]}
    hosts = {node["name"]: node for node in scenario["cluster"]["nodes"]}
    region_of = {node["rack"]: node["region"] for node in hosts.values() if node["region"]}
    regions: dict[tuple[str | None, str | None], int] = {}  # the most expensive way between them
    for (origin, destination), cost in costs.items():
        ends = region_of.get(origin), region_of.get(destination)
        regions[ends] = max(cost, regions.get(ends, 0))
    for job in scenario["jobs"]:
        most, nodes = job.get("max_network_cost"), places.get(job["name"], ())
        if not costs or most is None or job["nodes"] is not None or not hosts.keys() >= {*nodes}:
            continue
        for node, following in zip(nodes, [*nodes[1:], *nodes[:1]], strict=True):
            cost = _cost(hosts[node], hosts[following], costs, regions)
            if node != following and cost is not None and cost > most:
                stated = f"{node} and {following}, at a network cost of {cost:,}"
                yield Violation(f"places.{job['name']}", stated, f"it tolerates {most:,}")


def _cost(
    here: Document,
    there: Document,
    racks: Mapping[tuple[str | None, str | None], int],
    regions: Mapping[tuple[str | None, str | None], int],
) -> float | None:
    """Return the cost from a node to another one; None where unknown, which is tolerated."""
    if there["region"] is None and there["rack"] is None:
        return math.inf
    if (here["region"], here["rack"]) == (there["region"], there["rack"]):
        return 0
    if here["region"] == there["region"]:
        return racks.get((here["rack"], there["rack"]))
    ends = here["region"], there["region"]
    return None if None in ends else regions.get(ends)


def _flow_faults(
    scenario: Document, places: Mapping[str, Sequence[str]], instance: Instance
) -> Iterator[Violation]:
    cluster = scenario["cluster"]
    taken = cluster.get("background", {})
    capacities = {
        link["name"]: _left(link["capacity"], taken.get(link["name"], "0%"))
        for link in cluster["links"]
    }
    stated = {link.name: link.capacity for link in instance.links}
    for name in sorted({*capacities, *stated}):
        if capacities.get(name) != stated.get(name):
            texts = [_text(each.get(name), "Mbit/s") for each in (stated, capacities)]
            yield Violation(f"links.{name}", *texts)
    given = {job.name: job.links for job in instance.jobs}
    for name in sorted(given.keys() - places.keys()):
        yield Violation(f"jobs.{name}", "a job of the instance", "it has no place")
    used: Counter[str] = Counter()  # GPUs that earlier tasks have, of each node
    for job in scenario["jobs"]:
        name = job["name"]
        if name not in places:
            continue
        if name not in given:
            yield Violation(f"places.{name}", "its nodes", "the instance has no such job")
            continue
        flows = _flows(job, places[name], cluster, used)
        for link in sorted({*flows, *given[name]}):
            if flows[link] != given[name].get(link, 0):
                numbers = (given[name].get(link, 0), flows[link])
                yield Violation(f"places.{name}: {link}", *(counted(n, "flow") for n in numbers))


def _left(capacity: int, taken: str) -> int:
    """Return the whole Mbit/s of a link that a share or a rate of other traffic leaves."""
    number, unit = re.findall(r"[0-9.]+|\S+$", taken.replace(" ", ""))
    units = {"%": Fraction(capacity, 100), "M": Fraction(1), "G": Fraction(10**3)}
    return math.floor(capacity - Fraction(number) * units.get(unit[0], Fraction(10**6)))


def _flows(
    job: Document, nodes: Sequence[str], cluster: Document, used: Counter[str]
) -> Counter[str]:
    """Return the number of flows of a job on each link, by the definitions in models/README.md.

    Tasks get the next GPUs of their nodes, and send equally on the interfaces beside these.
    """
    hosts = {node["name"]: node for node in cluster["nodes"]}
    racks = {rack["name"]: rack for rack in cluster["racks"]}
    rails = []
    for node in nodes:
        rails.append(_rails(hosts[node], used[node], job["each"]["gpus"]))
        used[node] += job["each"]["gpus"]
    flows: Counter[str] = Counter()
    ring = list(dict.fromkeys(nodes))
    if len(ring) == 1:
        return flows
    is_ring = isinstance(job["traffic"], str)  # measured, or published; computed is null
    # The rack of each that sends, its interfaces, and the racks of those that it sends to.
    senders: list[tuple[str | None, Sequence[str], set[str | None]]] = []
    if (job["allreduce"] or ("ring" if is_ring else "tasks")) == "tasks":
        everywhere = {hosts[node]["rack"] for node in ring}
        for node, its in zip(nodes, rails, strict=True):
            senders.append((hosts[node]["rack"], its, everywhere))
    else:  # a ring: each node sends once, to the next one
        rails_of: dict[str, set[str]] = {node: set() for node in ring}
        for node, its in zip(nodes, rails, strict=True):
            rails_of[node].update(its)
        for node, following in zip(ring, ring[1:] + ring[:1], strict=True):
            there = {hosts[following]["rack"]}
            senders.append((hosts[node]["rack"], sorted(rails_of[node]), there))
    parts = math.lcm(*(len(its) for _, its, _ in senders))
    for rack, its, partners in senders:
        for rail in its:
            flows[rail] += parts // len(its)
        for uplink in _uplinks(rack, partners, racks):
            flows[uplink] += parts
    return flows


def _uplinks(
    rack: str | None, partners: set[str | None], racks: Mapping[str, Document]
) -> Iterator[str]:
    """Yield the uplinks on the way up to the first switch below which all partners are."""
    while rack is not None and not all(_is_below(each, rack, racks) for each in partners):
        if racks[rack]["uplink"] is not None:
            yield racks[rack]["uplink"]
        rack = racks[rack].get("within")


def _is_below(rack: str | None, switch: str, racks: Mapping[str, Document]) -> bool:
    """Return True if a rack is a switch, or stands in it."""
    while rack is not None and rack != switch:
        rack = racks[rack].get("within")
    return rack is not None


def _rails(host: Document, first: int, gpus: int) -> Sequence[str]:
    """Return the interfaces of a node beside some GPUs, where each is next to an equal share.

    Tasks without GPUs are beside all of them.
    """
    rails: Sequence[str] = host["interfaces"] or [host["interface"]]
    total = max(1, host["has"]["gpus"])
    if not gpus:
        return rails
    return [
        rail
        for index, rail in enumerate(rails)
        if (index + 1) * total > first * len(rails) and index * total < (first + gpus) * len(rails)
    ]


def _text(amount: int | None, unit: str) -> str:
    return "nothing" if amount is None else f"{amount:,} {unit}"
