"""From Nodes, their capacities and the network's topology to a cluster as scenarios have it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.crd import CAPACITY
from metronome_opt.kubernetes.diktyo import NETWORK_TOPOLOGY, REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.reading.objects import Field, Found, Objects
from metronome_opt.kubernetes.reading.workloads import has_of
from metronome_opt.scenario.machines import Resources

_PRODUCT = "nvidia.com/gpu.product"  # a label of NVIDIA's device plugin
_MOST_TFLOPS = 10**6
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_SAME_ZONE = 1  # the network cost between nodes of one zone, as Diktyo counts it

Ways = Mapping[tuple[str, str], int]  # by origin and destination


@dataclass(frozen=True)
class Machine:
    """A node whose interface is known.

    Attributes
    ----------
    node
        The Node; None if none says what it has.
    has
        What pods may take; None without a Node.
    interface, uplink
        The link that is its own, and the one that it shares if there is one: name and Mbit/s.
    zone, region
        Where it stands; None where unknown.
    """

    node: Found | None
    has: Resources | None
    interface: tuple[str, int]
    uplink: tuple[str, int] | None = None
    zone: str | None = None
    region: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether new pods may come."""
        if self.node is None or (self.node / "spec" / "unschedulable").flag():
            return False
        return all(
            (condition / "status").value == "True"
            for condition in (self.node / "status" / "conditions").items()
            if (condition / "type").value == "Ready"
        )

    @property
    def is_tainted(self) -> bool:
        """Whether it keeps off pods that do not tolerate it."""
        taints = [] if self.node is None else (self.node / "spec" / "taints").items()
        effects = {(taint / "effect").text() for taint in taints}
        return bool(effects & {"NoSchedule", "NoExecute"})


def read_machines(
    objects: Objects, gpu_resources: Sequence[str], nic_mbps: int | None, notes: list[str]
) -> dict[str, Machine]:
    """Return the nodes that have GPUs and whose interfaces are known, by name.

    Without any Node the capacities say which machines there are.

    Parameters
    ----------
    objects
        Everything that was read.
    gpu_resources
        What GPUs are called.
    nic_mbps
        The interface of nodes that have no capacity; None to leave these nodes out.
    notes
        What is left out is told here.

    Raises
    ------
    InputError
        If an object cannot be read, or capacities contradict each other.
    """
    nodes: dict[str, tuple[Found | None, Resources | None]] = {}
    for node in objects.of("Node"):
        has = has_of(node / "status", gpu_resources)
        if has.gpus:
            nodes[node.name] = node, has
    capacities = {each.name: each for each in objects.of(CAPACITY, objects.group)}
    links = _read_links(capacities.values())
    if not nodes:
        nodes = dict.fromkeys(capacities, (None, None))
    machines = {}
    for name, (found, room) in sorted(nodes.items()):
        if name not in links and nic_mbps is None:
            continue
        interface, uplink = links.get(name, ((name, nic_mbps or 0), None))
        said = [each.labels for each in (found, capacities.get(name)) if each is not None]
        zone, region = (
            next((labels[key] for labels in said if labels.get(key)), None)
            for key in (ZONE_KEY, REGION_KEY)
        )
        machines[name] = Machine(found, room, interface, uplink, zone, region)
    without = sorted(set(nodes) - set(machines))
    if without:
        notes.append(
            f"{_counted(without, 'node', 'nodes')} left out, without an STBandwidthCapacity; "
            "--nic-gbps gives them an interface"
        )
    unknown = sorted(set(links) - set(nodes))
    if unknown:
        notes.append(
            f"{_counted(unknown, 'capacity', 'capacities')} passed over: there is no such node "
            "with GPUs"
        )
    return machines


def _counted(names: Sequence[str], one: str, several: str) -> str:
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {one if len(names) == 1 else several} ({shown})"


def _read_links(
    capacities: Iterable[Found],
) -> dict[str, tuple[tuple[str, int], tuple[str, int] | None]]:
    """Return interface and shared link of each node.

    An interface belongs to one node, and a shared link carries the same for all.
    """
    links = {}
    owner: dict[str, str] = {}
    carries: dict[str, tuple[int, str]] = {}
    for each in capacities:
        own: list[tuple[str, int]] = []
        shared: list[tuple[str, int]] = []
        listed = each / "spec" / "links"
        for link in listed.items():
            name, capacity = (link / "name").text(), _megabits(link / "capacity")
            scope = link / "scope"
            if scope.text() == "Node":
                if owner.setdefault(name, each.name) != each.name:
                    (link / "name").fail(f"is the interface of {owner[name]} too; share it")
                own.append((name, capacity))
            elif scope.value == "Shared":
                known, first = carries.setdefault(name, (capacity, each.name))
                if known != capacity:
                    (link / "capacity").fail(f"is not the {known} Mbit/s that {first} states")
                shared.append((name, capacity))
            else:
                scope.fail("must be Node or Shared")
        if len(own) != 1:
            listed.fail(f"must have one link of scope Node, has {len(own)}; add several up to one")
        if len(shared) > 1:
            listed.fail(
                f"must have at most one link of scope Shared, has {len(shared)}; keep the narrowest"
            )
        links[each.name] = own[0], next(iter(shared), None)
    return links


def _megabits(capacity: Field) -> int:
    """Return a bandwidth in whole Mbit/s, rounded down."""
    whole = int(capacity.quantity() // 10**6)
    if not whole:
        capacity.fail("must be at least 1 Mbit/s (1M)")
    return whole


def read_gpu(
    machines: Mapping[str, Machine], tflops: Fraction | None, group: str
) -> dict[str, Any] | None:
    """Return the kind of GPU as a scenario has it; None if nobody says how fast it is.

    Parameters
    ----------
    machines
        All of them have GPUs of one kind.
    tflops
        What is said beside the nodes, and counts more than what they say.
    group
        The prefix of annotations.

    Raises
    ------
    InputError
        If nodes say different things.
    """
    first: Found | None = None
    speed: Fraction | None = None
    for node in (machine.node for machine in machines.values()):
        stated = None if node is None else node.annotations.get(f"{group}/sustained-tflops")
        if node is None or stated is None:
            continue
        if _NUMBER.fullmatch(stated) is None or not 0 < Fraction(stated) <= _MOST_TFLOPS:
            Field(stated, f"{node.where}: annotation {group}/sustained-tflops").fail(
                f"must be a number above 0 and up to {_MOST_TFLOPS}"
            )
        if first is not None and speed != Fraction(stated) and tflops is None:
            raise InputError(
                f"{node.where}: its GPUs sustain {stated} TFLOP/s, those of {first.name} another "
                "number; a scenario has one kind of GPU, say which: --gpu-tflops"
            )
        first, speed = first or node, speed or Fraction(stated)
    source = "the nodes' annotation" if tflops is None else "stated when the cluster was read"
    speed = tflops or speed
    if speed is None:
        return None
    name = None if first is None else first.labels.get(_PRODUCT)
    value = int(speed) if speed.denominator == 1 else float(speed)
    return {"name": name or "GPU", "sustained_tflops": {"value": value, "assumed": source}}


# ------------------------------------------------------------------ the network between zones


@dataclass(frozen=True)
class Topology:
    """Costs between zones and between regions, and what the ways between zones carry, Mbit/s."""

    zones: Ways = field(default_factory=dict)
    regions: Ways = field(default_factory=dict)
    carries: Ways = field(default_factory=dict)


def read_topology(objects: Objects) -> Topology:
    """Return what the NetworkTopology says; costs that a user defined come before measured ones.

    Raises
    ------
    InputError
        If there are several, or it cannot be read.
    """
    found = objects.of_key(NETWORK_TOPOLOGY)
    if len(found) > 1:
        raise InputError(
            f"{found[1].where}: {found[0].namespace}/{found[0].name} is there as well; a cluster "
            "has one NetworkTopology, leave the other out"
        )
    weights = (found[0] / "spec" / "weights").items() if found else []
    defined = [weight for weight in weights if (weight / "name").text() == "UserDefined"]
    costs: dict[str, dict[tuple[str, str], int]] = {ZONE_KEY: {}, REGION_KEY: {}}
    carries: dict[tuple[str, str], int] = {}
    for topology in ((defined or weights)[0] / "topologyList").items() if weights else ():
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
    return Topology(costs[ZONE_KEY], costs[REGION_KEY], carries)


def cluster_document(
    machines: Mapping[str, Machine],
    has: Mapping[str, Resources],
    topology: Topology,
    notes: list[str],
) -> dict[str, Any]:
    """Return a cluster of topology ``listed``.

    Parameters
    ----------
    machines
        By name.
    has
        What each has for the jobs.
    topology
        Costs and bandwidths between zones.
    notes
        What is assumed is told here.

    Raises
    ------
    InputError
        If two zones share an uplink.
    """
    racks = _racks(machines)
    uplinks = _uplinks(machines, racks, topology, notes)
    zone_of = {rack: machines[name].zone for name, rack in racks.items()}
    regions = {machine.region for machine in machines.values()}
    links = dict(machine.interface for machine in machines.values())
    for uplink, capacity in uplinks.values():
        if uplink in links:
            raise InputError(
                f"link {uplink}: is the way of two nodes or zones to the others; give each its own"
            )
        links[uplink] = capacity
    document: dict[str, Any] = {
        "topology": "listed",
        "nodes": [
            {
                "name": name,
                "has": {kind: amount for kind, amount in has[name].model_dump().items() if amount},
                "interface": machine.interface[0],
                **({"rack": racks[name]} if name in racks else {}),
                **({"region": machine.region} if machine.region else {}),
            }
            for name, machine in machines.items()
        ],
        "links": [{"name": link, "capacity": capacity} for link, capacity in links.items()],
        "racks": [
            {"name": rack, **({"uplink": uplinks[rack][0]} if rack in uplinks else {})}
            for rack in zone_of
        ],
        "zone_costs": _zone_costs(zone_of, topology.zones),
        "region_costs": [
            _cost(ends, cost) for ends, cost in topology.regions.items() if set(ends) <= regions
        ],
    }
    return {name: value for name, value in document.items() if value}


def _racks(machines: Mapping[str, Machine]) -> dict[str, str]:
    """Return the rack of each node that has one: a zone, or what in a zone shares an uplink."""
    uplinks: dict[str | None, set[str | None]] = defaultdict(set)
    for machine in machines.values():
        uplinks[machine.zone].add(machine.uplink and machine.uplink[0])
    racks = {}
    for name, machine in machines.items():
        zone, uplink = machine.zone, machine.uplink and machine.uplink[0]
        if zone is not None and uplink is not None and len(uplinks[zone]) > 1:
            racks[name] = f"{zone}/{uplink}"
        elif zone is not None or uplink is not None:
            racks[name] = zone or uplink or ""
    return racks


def _uplinks(
    machines: Mapping[str, Machine],
    racks: Mapping[str, str],
    topology: Topology,
    notes: list[str],
) -> dict[str, tuple[str, int]]:
    """Return name and capacity of the uplink of each rack that has one."""
    uplinks: dict[str, tuple[str, int]] = {}
    for name, rack in racks.items():
        machine = machines[name]
        carried = {
            carries for (origin, _), carries in topology.carries.items() if origin == machine.zone
        }
        if machine.uplink is not None:
            uplinks[rack] = machine.uplink
        elif carried and rack not in uplinks:
            uplinks[rack] = f"{rack}-uplink", min(carried)
            if len(carried) > 1:
                notes.append(
                    f"zone {machine.zone}: its ways carry from {min(carried)} to {max(carried)} "
                    "Mbit/s; the uplink is taken to carry the least"
                )
    return uplinks


def _zone_costs(zone_of: Mapping[str, str | None], costs: Ways) -> list[dict[str, Any]]:
    """Return the costs between racks: those between their zones."""
    between = []
    for here, one in zone_of.items():
        for there, other in zone_of.items():
            if costs and here != there and one is not None and other is not None:
                cost = _SAME_ZONE if one == other else costs.get((one, other))
                if cost is not None:
                    between.append(_cost((here, there), cost))
    return between


def _cost(ends: tuple[str, str], cost: int) -> dict[str, Any]:
    return {"origin": ends[0], "destination": ends[1], "cost": cost}
