"""Nodes and links of a cluster as the cluster of a scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import InputError, first_few, pluralise, quote
from metronome_opt.kubernetes.claims.manifests import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.claims.quantities import parse_positive
from metronome_opt.kubernetes.claims.schemas import CAPACITY
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.resources import has_of
from metronome_opt.kubernetes.reading.topology import switches_of
from metronome_opt.kubernetes.reading.tree import DOUBLE, Uplink, Way, make_tree
from metronome_opt.scenario.nodes import Resources

_SCOPES = ("Node", "Shared", "Uplink", "Downlink")
_PRODUCT = "nvidia.com/gpu.product"  # a label of NVIDIA's device plugin
_SPEED = f"{DEFAULT_GROUP}/sustained-tflops"
_BACKGROUND = f"{DEFAULT_GROUP}/background"  # traffic of others on the interfaces of a node


@dataclass(frozen=True)
class ImportOptions:
    """Settings that the objects of a cluster do not state."""

    name: str = "cluster"  # of the scenario
    slot_ms: int = 5
    nic_mbps: int | None = None  # of nodes without a capacity; None to leave these out
    tier_mbps: tuple[int, ...] = ()  # of uplinks that none states, from the lowest tier up
    gpus: int | None = None  # of each node, where none states its own
    link_mbps: int | None = None  # of a GPU to the others of its node; None for what is known


Spines = tuple[tuple[Uplink, ...], tuple[Uplink, ...]]
"""Links to several spines, and from them."""


@dataclass(frozen=True)
class Machine:
    """A node whose interface is known."""

    source: KubernetesObject  # the Node, or the capacity if there is none
    has: Resources | None  # what pods may take; None without a Node
    interfaces: tuple[Uplink, ...]  # its own
    uplinks: tuple[Uplink, ...]  # those that it shares, from the lowest tier up
    zone: str | None
    region: str | None
    switches: Way = ()  # above it, as far as anything names them
    spines: Spines = ((), ())  # links of its rack to several spines, and from them

    @property
    def is_open(self) -> bool:
        """Return True if new pods may come."""
        conditions = self.source.at("status.conditions").items()
        ready = [each / "status" for each in conditions if (each / "type").value == "Ready"]
        closed = self.source.at("spec.unschedulable").flag()
        return not closed and all(status.value == "True" for status in ready)


def read_machines(objects: Objects, choices: ImportOptions, notes: list[str]) -> dict[str, Machine]:
    """Return the nodes that have GPUs and whose interfaces are known, by name.

    Without any Node the capacities say which machines there are. What is left out is appended to
    `notes`.
    """
    capacities = {each.name: each for each in objects.of(CAPACITY)}
    links = _read_links(capacities.values())
    has = {node.name: has_of(node) for node in objects.of("Node")}
    if choices.gpus is not None and not any(each.gpus for each in has.values()):
        has = {name: each.model_copy(update={"gpus": choices.gpus}) for name, each in has.items()}
    nodes = {node.name: node for node in objects.of("Node") if has[node.name].gpus} or capacities
    machines = {}
    switches = switches_of(objects, nodes, notes)
    for name, source in nodes.items():
        if name not in links and choices.nic_mbps is not None:
            links[name] = ((name, choices.nic_mbps),), (), ((), ())
        if name in links:
            labels = [each.at("metadata.labels") for each in (source, capacities.get(name, source))]
            zone, region = (
                next(
                    (label.text() for label in (each / key for each in labels) if label.value), None
                )
                for key in (ZONE_KEY, REGION_KEY)
            )
            above = switches.get(name, ())
            own, shared, spines = links[name]
            machines[name] = Machine(
                source, has.get(name), own, shared, zone, region, above, spines
            )
    without = sorted(set(nodes) - set(machines))
    if without:
        notes.append(
            f"{pluralise(len(without), 'node')} ({first_few(without)}) left out, without an "
            "STBandwidthCapacity; --nic-gbps gives them an interface"
        )
    return machines


def _read_links(
    capacities: Iterable[KubernetesObject],
) -> dict[str, tuple[tuple[Uplink, ...], tuple[Uplink, ...], Spines]]:
    """Return interfaces, shared links and links to several spines of each node.

    An interface belongs to one node, and a shared link carries the same for all.
    """
    links = {}
    first: dict[str, tuple[str, int]] = {}
    for each in capacities:
        scopes: dict[str, list[Uplink]] = {scope: [] for scope in _SCOPES}
        for link in each.at("spec.links").items():
            name, capacity = (link / "name").text(), _megabits(link / "capacity")
            scope = link / "scope"
            if scope.text() not in scopes:
                scope.fail("must be Node, Shared, Uplink or Downlink")
            other, known = first.setdefault(name, (each.name, capacity))
            if scope.value == "Node" and other != each.name:
                (link / "name").fail(f"is the interface of {other} too; share it")
            if known != capacity:
                (link / "capacity").fail(f"is not the {known} Mbit/s that {other} states")
            scopes[scope.value].append((name, capacity))
        own, shared, ups, downs = map(tuple, scopes.values())
        if not own:
            each.at("spec.links").fail("must have links of scope Node, has 0")
        links[each.name] = own, shared, (ups, downs)
    return links


def _megabits(capacity: Field) -> int:
    """Return a bandwidth in whole Mbit/s, rounded down."""
    whole = int(capacity.quantity() // 10**6)
    if not whole:
        capacity.fail("must be at least 1 Mbit/s (1M)")
    return whole


def _read_gpu(machines: Mapping[str, Machine], link_mbps: int | None) -> dict[str, Any] | None:
    """Return the kind of GPU as a scenario has it; None if nothing is known of it.

    A scenario has one kind: of several the slowest is taken, which the others wait for.
    """
    sources = [machine.source for machine in machines.values()]
    stated = {
        source.name: parse_positive(f"{source.where}: annotation {_SPEED}", text)
        for source in sources
        if (text := source.annotations.get(_SPEED)) is not None
    }
    product = next((each.labels[_PRODUCT] for each in sources if _PRODUCT in each.labels), None)
    gpu: dict[str, Any] = {"name": product or "GPU"}
    if stated:
        speed = min(stated.values())
        value = int(speed) if speed.denominator == 1 else float(speed)
        gpu["sustained_tflops"] = {"value": value, "assumed": "the nodes' annotation"}
    if link_mbps is not None:
        gpu["link_gbps"] = {"value": link_mbps / 1000, "assumed": "stated when it was imported"}
    return gpu if product or len(gpu) > 1 else None


# ------------------------------------------------------------------ the cluster


def cluster_document(
    machines: Mapping[str, Machine],
    has: Mapping[str, Resources],
    choices: ImportOptions,
    notes: list[str],
) -> dict[str, Any]:
    """Return a cluster of topology ``listed``."""
    stated = {name: machine.uplinks for name, machine in machines.items()}
    tree = make_tree(_ways(machines), choices.tier_mbps, stated)
    if tree.unlimited and any(machine.switches for machine in machines.values()):
        lacking = " and ".join(map(str, sorted(tree.unlimited)))
        notes.append(
            f"uplinks of tier {lacking} limit nothing, since none states what they carry; "
            "--tier-gbps gives it, from the lowest tier up"
        )
    above_none = [name for name in machines if name not in tree.rack_of]
    if tree.racks and above_none:
        notes.append(
            f"{pluralise(len(above_none), 'node')} ({first_few(above_none)}) below no switch: "
            "nothing limits what they send but their interfaces"
        )
    links = dict(link for machine in machines.values() for link in machine.interfaces)
    for uplink in tree.uplinks:
        if uplink in links:
            raise InputError(DOUBLE.format(quote(uplink)))
    links |= tree.uplinks
    racks: dict[str, dict[str, Any]] = {rack["name"]: dict(rack) for rack in tree.racks}
    for name, (ups, downs) in ((name, each.spines) for name, each in machines.items()):
        if ups or downs:
            rack = racks.get(tree.rack_of.get(name, ""), {})
            its = [up for up, _ in ups]
            if rack.setdefault("uplinks", its) != its or not rack.get("name"):
                raise InputError(
                    f"node {quote(name)}: its links of scope Uplink are not those of a rack; label "
                    "its zone, and let all nodes there name the same ones"
                )
            rack |= {"downlinks": [down for down, _ in downs]} if downs else {}
            links |= {**dict(ups), **dict(downs)}
    nodes = []
    for name, machine in machines.items():
        amounts = {kind: amount for kind, amount in has[name].model_dump().items() if amount}
        position = {"rack": tree.rack_of.get(name), "region": machine.region}
        own = [link for link, _ in machine.interfaces]
        interfaces = {"interfaces": own} if len(own) > 1 else {"interface": own[0]}
        known = {key: value for key, value in position.items() if value}
        nodes.append({"name": name, "has": amounts, **interfaces, **known})
    document = {
        "topology": "listed",
        "nodes": nodes,
        "links": [{"name": link, "capacity": capacity} for link, capacity in links.items()],
        "racks": list(racks.values()),
        "gpu": _read_gpu(machines, choices.link_mbps),
        "background": {
            link: machine.source.annotations[_BACKGROUND].strip()
            for machine in machines.values()
            for link, _ in machine.interfaces
            if _BACKGROUND in machine.source.annotations
        },
    }
    return {name: value for name, value in document.items() if value}


def _ways(machines: Mapping[str, Machine]) -> dict[str, Way]:
    """Return the switches above each node: those that are named, else its zone.

    What in a zone shares an uplink is one of several racks of it; further uplinks are switches.
    """
    uplinks = defaultdict(set)
    for machine in machines.values():
        uplinks[machine.zone].add(machine.uplinks[:1])
    ways = {}
    for name, machine in machines.items():
        zone, shared = machine.zone, [uplink for uplink, _ in machine.uplinks]
        way = machine.switches
        if not way and zone:
            several = shared and len(uplinks[zone]) > 1
            way = (f"{zone}/{shared[0]}" if several else zone,)
        ways[name] = way + tuple(shared[len(way) :])
    return ways
