"""One scenario from all that was read: machines and links, room for jobs, the jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import HYPERPERIOD_LIMIT
from metronome_opt.kubernetes.files import dump_objects
from metronome_opt.kubernetes.manifests import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.quantities import parse_positive
from metronome_opt.kubernetes.reading.jobs import Choices, Job, read_jobs
from metronome_opt.kubernetes.reading.objects import Field, Found, Objects
from metronome_opt.kubernetes.reading.resources import has_of
from metronome_opt.kubernetes.reading.workloads import LeftOut, Pods
from metronome_opt.kubernetes.schemas import CAPACITY
from metronome_opt.scenario.build import Problem, build_scenario
from metronome_opt.scenario.bursts import common_hyperperiod
from metronome_opt.scenario.cluster import find_room
from metronome_opt.scenario.model import SCENARIO_FORMAT, Scenario
from metronome_opt.scenario.network import Resources

_PRODUCT = "nvidia.com/gpu.product"  # a label of NVIDIA's device plugin
_SAME_ZONE = 1  # the network cost between nodes of one zone, as Diktyo counts it

_Link = tuple[str, int]  # name and Mbit/s
_Ways = dict[tuple[str, str], int]  # by origin and destination
_Amounts = dict[str, Any]  # by node: GPUs, thousandths of a core and MiB, int64 of shape (3,)


@dataclass(frozen=True)
class _Machine:
    """A node whose interface is known."""

    found: Found  # the Node, or the capacity if there is none
    has: Resources | None  # what pods may take; None without a Node
    interfaces: tuple[_Link, ...]  # its own
    uplink: _Link | None  # the one that it shares, if there is one
    zone: str | None
    region: str | None

    @property
    def is_open(self) -> bool:
        """Whether new pods may come."""
        conditions = (self.found / "status" / "conditions").items()
        ready = [each / "status" for each in conditions if (each / "type").value == "Ready"]
        closed = (self.found / "spec" / "unschedulable").flag()
        return not closed and all(status.value == "True" for status in ready)

    @property
    def is_tainted(self) -> bool:
        """Whether it keeps off pods that do not tolerate it."""
        taints = (self.found / "spec" / "taints").items()
        return bool({(each / "effect").text() for each in taints} & {"NoSchedule", "NoExecute"})


def _read_machines(objects: Objects, choices: Choices, notes: list[str]) -> dict[str, _Machine]:
    """Return the nodes that have GPUs and whose interfaces are known, by name.

    Without any Node the capacities say which machines there are. What is left out is told in
    `notes`.
    """
    nodes: dict[str, tuple[Found, Resources | None]] = {}
    for node in objects.of("Node"):
        has = has_of(node, choices.gpu_resources)
        if has.gpus:
            nodes[node.name] = node, has
    capacities = {each.name: each for each in objects.of(CAPACITY)}
    links = _read_links(capacities.values())
    nodes = nodes or {name: (capacity, None) for name, capacity in capacities.items()}
    machines = {}
    for name, (found, room) in nodes.items():
        if name not in links and choices.nic_mbps is not None:
            links[name] = ((name, choices.nic_mbps),), None
        if name in links:
            said = [found.labels, capacities.get(name, found).labels]
            zone, region = (
                next((labels[key] for labels in said if labels.get(key)), None)
                for key in (ZONE_KEY, REGION_KEY)
            )
            machines[name] = _Machine(found, room, *links[name], zone, region)
    without = sorted(set(nodes) - set(machines))
    if without:
        several = "node" if len(without) == 1 else "nodes"
        notes.append(
            f"{len(without)} {several} ({_first_few(without)}) left out, without an "
            "STBandwidthCapacity; --nic-gbps gives them an interface"
        )
    unknown = sorted(set(links) - set(nodes))
    if unknown:
        several = "capacity" if len(unknown) == 1 else "capacities"
        notes.append(
            f"{len(unknown)} {several} ({_first_few(unknown)}) passed over: there is no such node "
            "with GPUs"
        )
    return machines


def _read_links(
    capacities: Iterable[Found],
) -> dict[str, tuple[tuple[_Link, ...], _Link | None]]:
    """Return interfaces and shared link of each node.

    An interface belongs to one node, and a shared link carries the same for all.
    """
    links = {}
    first: dict[str, tuple[str, int]] = {}
    for each in capacities:
        scopes: dict[str, list[_Link]] = {"Node": [], "Shared": []}
        for link in (each / "spec" / "links").items():
            name, capacity = (link / "name").text(), _megabits(link / "capacity")
            scope = link / "scope"
            if scope.text() not in scopes:
                scope.fail("must be Node or Shared")
            other, known = first.setdefault(name, (each.name, capacity))
            if scope.value == "Node" and other != each.name:
                (link / "name").fail(f"is the interface of {other} too; share it")
            if known != capacity:
                (link / "capacity").fail(f"is not the {known} Mbit/s that {other} states")
            scopes[scope.value].append((name, capacity))
        own, shared = scopes.values()
        if not own or len(shared) > 1:
            (each / "spec" / "links").fail(
                f"must have links of scope Node, has {len(own)}, and at most one of scope Shared, "
                f"has {len(shared)}; keep the narrowest of these"
            )
        links[each.name] = tuple(own), next(iter(shared), None)
    return links


def _megabits(capacity: Field) -> int:
    """Return a bandwidth in whole Mbit/s, rounded down."""
    whole = int(capacity.quantity() // 10**6)
    if not whole:
        capacity.fail("must be at least 1 Mbit/s (1M)")
    return whole


def _read_gpu(
    machines: Mapping[str, _Machine], tflops: Fraction | None, group: str
) -> dict[str, Any] | None:
    """Return the kind of GPU as a scenario has it; None if nobody says how fast it is.

    All nodes have GPUs of one kind. What is said beside them counts more than what they say.
    """
    annotation = f"{group}/sustained-tflops"
    stated: dict[Fraction, Found] = {}
    for found in (machine.found for machine in machines.values()):
        text = found.annotations.get(annotation)
        if text is not None:
            speed = parse_positive(f"{found.where}: annotation {annotation}", text)
            stated.setdefault(speed, found)
    if len(stated) > 1 and tflops is None:
        (one, first), (other, found), *_ = stated.items()
        raise InputError(
            f"{found.where}: its GPUs sustain {float(other):g} TFLOP/s, those of {first.name} "
            f"{float(one):g}; a scenario has one kind of GPU, say which: --gpu-tflops"
        )
    source = "the nodes' annotation" if tflops is None else "stated when the cluster was read"
    if tflops is None and not stated:
        return None
    speed = tflops or next(iter(stated))
    name = next((found.labels.get(_PRODUCT) for found in stated.values()), None)
    value = int(speed) if speed.denominator == 1 else float(speed)
    return {"name": name or "GPU", "sustained_tflops": {"value": value, "assumed": source}}


# ------------------------------------------------------------------ the network between zones


def _read_topology(found: Sequence[Found]) -> tuple[_Ways, _Ways, _Ways]:
    """Return costs between zones and regions, and what the ways between zones carry, Mbit/s.

    Costs that a user defined come before measured ones.
    """
    if len(found) > 1:
        raise InputError(
            f"{found[1].where}: {found[0].namespace}/{found[0].name} is there as well; a cluster "
            "has one NetworkTopology, leave the other out"
        )
    weights = (found[0] / "spec" / "weights").items() if found else []
    weights.sort(key=lambda weight: (weight / "name").text() != "UserDefined")
    costs: dict[str, _Ways] = {ZONE_KEY: {}, REGION_KEY: {}}
    carries: _Ways = {}
    for topology in (weights[0] / "topologyList").items() if weights else ():
        key = topology / "topologyKey"
        if key.text() not in costs:
            key.fail(f"must be {ZONE_KEY} or {REGION_KEY}")
        for origin in (topology / "originList").items():
            here = (origin / "origin").text()
            for way in (origin / "costList").items():
                ends = here, (way / "destination").text()
                if ends in costs[key.value]:
                    (way / "destination").fail(f"is there twice from {here}")
                costs[key.value][ends] = (way / "networkCost").integer(0)
                if key.value == ZONE_KEY and way / "bandwidthCapacity":
                    carries[ends] = _megabits(way / "bandwidthCapacity")
    return costs[ZONE_KEY], costs[REGION_KEY], carries


def _cluster_document(
    objects: Objects,
    machines: Mapping[str, _Machine],
    has: Mapping[str, Resources],
    choices: Choices,
    notes: list[str],
) -> dict[str, Any]:
    """Return a cluster of topology ``listed``; what is assumed is told in `notes`."""
    zone_costs, region_costs, carries = _read_topology(objects.of("NetworkTopology"))
    racks = _racks(machines)
    zone_of = {rack: machines[name].zone for name, rack in racks.items()}
    uplinks = {racks[name]: each.uplink for name, each in machines.items() if each.uplink}
    for rack, zone in zone_of.items():
        carried = {amount for (origin, _), amount in carries.items() if origin == zone}
        if carried and rack not in uplinks:
            uplinks[rack] = f"{rack}-uplink", min(carried)
            if len(carried) > 1:
                notes.append(
                    f"zone {zone}: its ways carry from {min(carried)} to {max(carried)} "
                    "Mbit/s; the uplink is taken to carry the least"
                )
    _choose_uplinks(uplinks, machines, racks, choices, notes)
    links = dict(link for machine in machines.values() for link in machine.interfaces)
    for uplink, capacity in (uplinks[rack] for rack in zone_of if rack in uplinks):
        if uplink in links:
            raise InputError(
                f"link {uplink}: is the way of two nodes or zones to the others; give each its own"
            )
        links[uplink] = capacity
    nodes = []
    for name, machine in machines.items():
        amounts = {kind: amount for kind, amount in has[name].model_dump().items() if amount}
        place = {"rack": racks.get(name), "region": machine.region}
        place = {key: value for key, value in place.items() if value}
        own = [link for link, _ in machine.interfaces]
        ways = {"interfaces": own} if len(own) > 1 else {"interface": own[0]}
        nodes.append({"name": name, "has": amounts, **ways, **place})
    regions = {machine.region for machine in machines.values()}
    costs = {
        (here, there): _SAME_ZONE if zone == other else zone_costs.get((zone or "", other or ""))
        for (here, zone), (there, other) in permutations(zone_of.items(), 2)
        if zone_costs and zone and other
    }
    document = {
        "topology": "listed",
        "nodes": nodes,
        "links": [{"name": link, "capacity": capacity} for link, capacity in links.items()],
        "racks": [
            {"name": rack, **({"uplink": uplinks[rack][0]} if rack in uplinks else {})}
            for rack in zone_of
        ],
        "zone_costs": [_cost(ends, cost) for ends, cost in costs.items() if cost is not None],
        "region_costs": [
            _cost(ends, cost) for ends, cost in region_costs.items() if set(ends) <= regions
        ],
        "gpu": _read_gpu(machines, choices.gpu_tflops, objects.group),
    }
    return {name: value for name, value in document.items() if value}


def _choose_uplinks(
    uplinks: dict[str, _Link],
    machines: Mapping[str, _Machine],
    racks: Mapping[str, str],
    choices: Choices,
    notes: list[str],
) -> None:
    """Give the racks whose uplink nobody states the one that was chosen, if one was."""
    if choices.uplink_mbps is None and choices.oversubscription is None:
        return
    if not racks:
        raise InputError(f"no node says in which zone it is, by the label {ZONE_KEY}; add it")
    chosen = [rack for rack in dict.fromkeys(racks.values()) if rack not in uplinks]
    for rack in chosen:
        carried = choices.uplink_mbps
        if carried is None:
            mine = (machines[name].interfaces for name in racks if racks[name] == rack)
            together = sum(capacity for links in mine for _, capacity in links)
            carried = int(together / (choices.oversubscription or 1))  # rounded down
        uplinks[rack] = f"{rack}-uplink", carried
    if chosen:
        carry = sorted({uplinks[rack][1] for rack in chosen})
        upto = f"from {carry[0]} to {carry[-1]}" if len(carry) > 1 else str(carry[0])
        notes.append(f"{len(chosen)} uplinks are taken to carry {upto} Mbit/s, as was chosen")


def _racks(machines: Mapping[str, _Machine]) -> dict[str, str]:
    """Return the rack of each node that has one: a zone, or what in a zone shares an uplink."""
    uplinks = defaultdict(set)
    for machine in machines.values():
        uplinks[machine.zone].add(machine.uplink)
    racks = {}
    for name, machine in machines.items():
        zone, uplink = machine.zone, machine.uplink and machine.uplink[0]
        if zone and uplink and len(uplinks[zone]) > 1:
            racks[name] = f"{zone}/{uplink}"
        elif zone or uplink:
            racks[name] = zone or uplink or ""
    return racks


def _cost(ends: tuple[str, str], cost: int) -> dict[str, Any]:
    return {"origin": ends[0], "destination": ends[1], "cost": cost}


@dataclass(frozen=True)
class Imported:
    """A scenario that was made of a cluster's objects."""

    document: Mapping[str, Any]  # the scenario as it is written
    problem: Problem
    notes: tuple[str, ...]  # what was passed over, left out or assumed, a line each

    def text(self) -> str:
        """Return the scenario as a file, its notes as comments before it."""
        header = "\n".join(["Read from a cluster.", *(f"- {note}" for note in self.notes)])
        return dump_objects([self.document], header, compact=True)


def make_scenario(objects: Objects, choices: Choices) -> Imported:
    """Make a scenario of a cluster's objects.

    Raises
    ------
    InputError
        If an object cannot be read, or nothing is left to schedule.
    """
    notes: list[str] = []
    left_out: LeftOut = defaultdict(list)
    pods = Pods(objects.of("Pod"), choices.gpu_resources)
    jobs = read_jobs(objects, pods, choices, left_out)
    machines = _read_machines(objects, choices, notes)
    if not machines:
        raise InputError(
            "no nodes: nothing that was read says which nodes have GPUs and what their interfaces "
            f"carry; read Nodes with their STBandwidthCapacity, or give --nic-gbps{_told(notes)}"
        )
    held = _held(machines, jobs)
    has = _has(machines, held, jobs, pods, notes)
    fitting = _fitting(has, held, jobs, left_out)
    cluster = _cluster_document(objects, machines, has, choices, notes)
    for why, titles in sorted(left_out.items()):
        notes.append(f"{len(titles)} left out, {why}: {_first_few(titles)}")
    passed = ", ".join(f"{count} {kind}" for kind, count in sorted(objects.passed.items()))
    if passed:
        notes.append(f"passed over, of kinds that say nothing here: {passed}")
    if not fitting:
        raise InputError(
            "no jobs: nothing is left to schedule; annotate workloads with "
            f"{objects.group}/traffic, /model or /claim-template{_told(notes)}"
        )
    for job in fitting:
        if "model" in job.entry and "gpu" not in cluster:
            raise InputError(
                f"{job.found.where}: model: nobody says how fast GPUs are; annotate a Node with "
                f"{objects.group}/sustained-tflops, or give --gpu-tflops"
            )
    return _finish(cluster, fitting, choices, notes)


def _told(notes: Sequence[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


# ------------------------------------------------------------------ room


def _amounts() -> _Amounts:
    return defaultdict(lambda: np.zeros(3, dtype=np.int64))


def _held(machines: Mapping[str, _Machine], jobs: Sequence[Job]) -> _Amounts:
    """Return what the jobs that run hold of each node."""
    held = _amounts()
    for job in jobs:
        for pod, node in zip(job.entry["pods"], job.entry.get("nodes", ()), strict=False):
            if node not in machines:
                raise InputError(
                    f"{job.found.where}: pod {pod} runs on node {quote(node)}, of which neither "
                    "GPUs nor an interface were read; read its Node and STBandwidthCapacity, or "
                    "give --nic-gbps"
                )
            held[node] += job.each.vector
    return held


def _has(
    machines: Mapping[str, _Machine],
    held: _Amounts,
    jobs: Sequence[Job],
    pods: Pods,
    notes: list[str],
) -> Mapping[str, Resources]:
    """Return what each node has for the jobs.

    That is what it can give to pods, less what pods of other jobs hold. One that takes no new pods,
    or that no Node speaks of, has what the jobs hold there.
    """
    mine = {(job.found.namespace, pod) for job in jobs for pod in job.entry["pods"]}
    others = _amounts()
    for pod in pods.all:
        if pod.node is not None and pod.node in machines and pod.found.key not in mine:
            others[pod.node] += pod.needs.vector
    has = {}
    for name, machine in machines.items():
        amounts = held[name]
        if machine.has is not None and machine.is_open:
            amounts = np.maximum(machine.has.vector - others[name], amounts)
        gpus, cores, memory = amounts.tolist()
        has[name] = Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)
    unknown = sum(machine.has is None for machine in machines.values())
    if unknown:
        notes.append(f"{unknown} nodes without a Node: their GPUs are taken to be those in use")
    closed = [name for name, each in machines.items() if each.has and not each.is_open]
    if closed:
        notes.append(f"{len(closed)} nodes take no new pods: {_first_few(closed)}")
    tainted = sum(machine.is_tainted for machine in machines.values())
    if tainted:
        notes.append(f"{tainted} nodes are tainted, which is not looked at")
    taken = sum(int(amounts[0]) for amounts in others.values())
    if taken:
        notes.append(f"{taken} GPUs are held by pods of no job here")
    return has


def _fitting(
    has: Mapping[str, Resources], held: _Amounts, jobs: Sequence[Job], left_out: LeftOut
) -> list[Job]:
    """Leave out jobs that wait and find no room, as a scenario will look for it."""
    free = {name: has[name].gpus - int(held[name][0]) for name in has}
    waiting = [job for job in jobs if "nodes" not in job.entry]
    places = iter(find_room(free, [(job.entry["workers"], job.each.gpus) for job in waiting]))
    fitting = []
    for job in jobs:
        if "nodes" in job.entry or next(places) is not None:
            fitting.append(job)
        else:
            left_out["waiting without room"].append(job.found.title)
    return fitting


# ------------------------------------------------------------------ the scenario


def _finish(
    cluster: Mapping[str, Any], jobs: Sequence[Job], choices: Choices, notes: list[str]
) -> Imported:
    """Build what was read: only with their periods known do offsets find their place."""
    slot_us = 1000 * choices.slot_ms
    # 1 for the lowest class, then twice that of the one below: the order, not how much more.
    values = sorted({job.value for job in jobs if job.value is not None})
    weights = {value: 2**rank for rank, value in enumerate(values)}
    for job in jobs:
        if job.value is not None:
            job.entry["priority"] = weights[job.value]

    def build(hyperperiod_ms: int | None) -> tuple[dict[str, Any], Problem]:
        document = {
            "format": SCENARIO_FORMAT,
            "name": choices.name,
            "slot_ms": choices.slot_ms,
            **({} if hyperperiod_ms is None else {"hyperperiod_ms": hyperperiod_ms}),
            "cluster": cluster,
            "jobs": [job.entry for job in jobs],
        }
        return document, _build(document, jobs)

    hyperperiod_ms = choices.hyperperiod_ms
    if hyperperiod_ms is None:
        traffic = build(None)[1].traffic
        slots = common_hyperperiod({entry.rounded.busy for entry in traffic}, HYPERPERIOD_LIMIT)
        hyperperiod_ms = None if slots is None else slots * choices.slot_ms
    document, problem = build(hyperperiod_ms)
    _note_rounding(problem, choices.slot_ms, notes)
    notes += problem.notes
    periods = [entry.rounded.period for entry in problem.traffic]
    moved = []
    for job, period in zip(jobs, periods, strict=True):
        if job.claim is not None:
            longest = period + job.entry.get("max_stretch_ms", 0) // choices.slot_ms
            if job.claim.offset_us >= slot_us * longest:
                moved.append(job.entry["name"])
            else:
                slots = (2 * job.claim.offset_us + slot_us) // (2 * slot_us)
                job.entry["current_offset_ms"] = slots % longest * choices.slot_ms
    if moved:
        notes.append(f"offset in force beyond the period, left out: {', '.join(moved)}")
    if any("current_offset_ms" in job.entry for job in jobs):
        document, problem = build(hyperperiod_ms)
    return Imported(document, problem, tuple(notes))


def _build(document: Mapping[str, Any], jobs: Sequence[Job]) -> Problem:
    """Build a scenario; what is wrong with a job is said of the object that it came from."""
    try:
        return build_scenario(Scenario.from_dict(document))
    except InputError as error:
        match = re.match(r"jobs\[([0-9]+)\]\.", str(error))
        if match is None:
            raise
        where = jobs[int(match[1])].found.where
        raise InputError(f"{where}: {str(error)[match.end() :]}") from None


def _note_rounding(problem: Problem, slot_ms: int, notes: list[str]) -> None:
    errors = {
        entry.job: entry.rounded.period_error
        for entry in problem.traffic
        if entry.traffic == "stated" and entry.rounded.period_error
    }
    if errors:
        worst = max(errors, key=lambda job: abs(errors[job]))
        notes.append(
            f"rounded to slots of {slot_ms} ms and to the hyperperiod: {len(errors)} jobs, the "
            f"iteration of {worst} by {float(100 * errors[worst]):+.2g} %"
        )


def _first_few(names: Sequence[str]) -> str:
    """Return names as notes have them: three of them."""
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
