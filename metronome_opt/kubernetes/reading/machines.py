"""From Nodes, their capacities and the network's topology to a cluster as scenarios have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.manifests import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.quantities import parse_positive
from metronome_opt.kubernetes.reading.jobs import Choices
from metronome_opt.kubernetes.reading.objects import Field, Found, Objects, first_few
from metronome_opt.kubernetes.reading.workloads import has_of
from metronome_opt.kubernetes.schemas import CAPACITY
from metronome_opt.scenario.machines import Resources

_PRODUCT = "nvidia.com/gpu.product"  # a label of NVIDIA's device plugin
_SAME_ZONE = 1  # the network cost between nodes of one zone, as Diktyo counts it

_Link = tuple[str, int]  # name and Mbit/s
_Ways = dict[tuple[str, str], int]  # by origin and destination


@dataclass(frozen=True)
class Machine:
    """A node whose interface is known.

    Attributes
    ----------
    found
        The Node, or the capacity if there is none.
    has
        What pods may take; None without a Node.
    interface, uplink
        The link that is its own, and the one that it shares if there is one.
    zone, region
        Where it stands; None where unknown.
    """

    found: Found
    has: Resources | None
    interface: _Link
    uplink: _Link | None
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


def read_machines(objects: Objects, choices: Choices, notes: list[str]) -> dict[str, Machine]:
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
            links[name] = (name, choices.nic_mbps), None
        if name in links:
            said = [found.labels, capacities.get(name, found).labels]
            zone, region = (
                next((labels[key] for labels in said if labels.get(key)), None)
                for key in (ZONE_KEY, REGION_KEY)
            )
            machines[name] = Machine(found, room, *links[name], zone, region)
    without = sorted(set(nodes) - set(machines))
    if without:
        several = "node" if len(without) == 1 else "nodes"
        notes.append(
            f"{len(without)} {several} ({first_few(without)}) left out, without an "
            "STBandwidthCapacity; --nic-gbps gives them an interface"
        )
    unknown = sorted(set(links) - set(nodes))
    if unknown:
        several = "capacity" if len(unknown) == 1 else "capacities"
        notes.append(
            f"{len(unknown)} {several} ({first_few(unknown)}) passed over: there is no such node "
            "with GPUs"
        )
    return machines


def _read_links(capacities: Iterable[Found]) -> dict[str, tuple[_Link, _Link | None]]:
    """Return interface and shared link of each node.

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
        if len(own) != 1 or len(shared) > 1:
            (each / "spec" / "links").fail(
                f"must have one link of scope Node, has {len(own)}, and at most one of scope "
                f"Shared, has {len(shared)}; add up what is the node's, keep the narrowest else"
            )
        links[each.name] = own[0], next(iter(shared), None)
    return links


def _megabits(capacity: Field) -> int:
    """Return a bandwidth in whole Mbit/s, rounded down."""
    whole = int(capacity.quantity() // 10**6)
    if not whole:
        capacity.fail("must be at least 1 Mbit/s (1M)")
    return whole


def _read_gpu(
    machines: Mapping[str, Machine], tflops: Fraction | None, group: str
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


def cluster_document(
    objects: Objects,
    machines: Mapping[str, Machine],
    has: Mapping[str, Resources],
    tflops: Fraction | None,
    notes: list[str],
) -> dict[str, Any]:
    """Return a cluster of topology ``listed``.

    Parameters
    ----------
    objects
        Everything that was read.
    machines, has
        The machines by name, and what each has for the jobs.
    tflops
        What a GPU sustains; None for what the nodes say.
    notes
        What is assumed is told here.

    Raises
    ------
    InputError
        If two zones share an uplink, or what was read contradicts itself.
    """
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
    links = dict(machine.interface for machine in machines.values())
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
        nodes.append({"name": name, "has": amounts, "interface": machine.interface[0], **place})
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
        "gpu": _read_gpu(machines, tflops, objects.group),
    }
    return {name: value for name, value in document.items() if value}


def _racks(machines: Mapping[str, Machine]) -> dict[str, str]:
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
