"""Nodes and links of a cluster as the cluster of a scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import InputError, first_few, pluralise, quote
from metronome_opt.kubernetes.claims.manifests import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.claims.names import CAPACITY, DEFAULT_GROUP
from metronome_opt.kubernetes.claims.quantities import parse_positive
from metronome_opt.kubernetes.reading.fields import KubernetesObject
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.resources import count_claimable, count_offered, has_of
from metronome_opt.kubernetes.reading.topology import switches_of
from metronome_opt.kubernetes.reading.tree import DOUBLE, Uplink, UplinkPath, make_tree
from metronome_opt.scenario.nodes import Resources

_PRODUCT = "nvidia.com/gpu.product"  # a label of NVIDIA's device plugin
_SPEED = f"{DEFAULT_GROUP}/sustained-tflops"
_BACKGROUND = f"{DEFAULT_GROUP}/background"  # traffic of others on the interfaces of a node


@dataclass(frozen=True)
class ImportOptions:
    """Settings that the objects of a cluster do not state."""

    name: str = "cluster"  # of the scenario
    slot_ms: int = 5
    nic_mbps: int | None = None  # of nodes without a capacity; None to drop them
    tier_mbps: tuple[int, ...] = ()  # of uplinks without a stated capacity, from the lowest tier up
    gpus: int | None = None  # of a node, where no node states its own
    link_mbps: int | None = None  # of a GPU to the others of its node; None if that is not stated


_Links = Mapping[str, Sequence[Uplink]]
"""Links of a node by scope: interfaces, shared ones from the lowest tier up, to and from spines."""


@dataclass(frozen=True)
class Machine:
    """A node whose interface is known."""

    source: KubernetesObject  # the Node, or the capacity if there is none
    has: Resources | None  # for pods; None without a Node
    links: _Links
    zone: str | None = None
    region: str | None = None
    switches: UplinkPath = ()  # above it, as far as they are named

    @property
    def is_open(self) -> bool:
        """Return True if it takes new pods."""
        conditions = self.source.at("status.conditions").items()
        ready = [one for one in conditions if (one / "type").value == "Ready"]
        is_ready = all((one / "status").value == "True" for one in ready)
        return is_ready and not self.source.at("spec.unschedulable").flag()


def links_of(interfaces: Sequence[Uplink]) -> dict[str, list[Uplink]]:
    """Return the links of a node that has only interfaces."""
    return {"Node": [*interfaces], "Shared": [], "Uplink": [], "Downlink": []}


def read_machines(
    objects: Objects, options: ImportOptions, notes: list[str], accelerators: Iterable[str] = ()
) -> dict[str, Machine]:
    """Return the nodes that have GPUs and whose interfaces are known, by name.

    GPUs are the `accelerators` that jobs ask for, or the only ones of the nodes. Without any Node
    the capacities are the machines. Dropped nodes are appended to `notes`.
    """
    capacities = {capacity.name: capacity for capacity in objects.of(CAPACITY)}
    links = _read_links(capacities.values())
    has = _read_resources(objects, sorted(accelerators), notes)
    if options.gpus is not None and any(amounts.gpus for amounts in has.values()):
        notes.append("--gpus has no effect: nodes state their own")
    elif options.gpus is not None:
        stated = {"gpus": options.gpus}
        has = {name: amounts.model_copy(update=stated) for name, amounts in has.items()}
    nodes = {node.name: node for node in objects.of("Node") if has[node.name].gpus} or capacities
    machines = {}
    switches = switches_of(objects, nodes, notes)
    for name, source in nodes.items():
        if name not in links and options.nic_mbps is not None:
            links[name] = links_of([(name, options.nic_mbps)])
        if name in links:
            labels = {**capacities.get(name, source).labels, **source.labels}
            zone, region = (labels.get(key) or None for key in (ZONE_KEY, REGION_KEY))
            above = switches.get(name, ())
            machines[name] = Machine(source, has.get(name), links[name], zone, region, above)
    if options.nic_mbps is not None and nodes and nodes.keys() <= capacities.keys():
        notes.append("--nic-gbps has no effect: each node has an STBandwidthCapacity")
    without = sorted(set(nodes) - set(machines))
    if without:
        dropped = f"{pluralise(len(without), 'node')} ({first_few(without)}) dropped"
        notes.append(f"{dropped}, without an STBandwidthCapacity; --nic-gbps gives an interface")
    return machines


def _read_resources(
    objects: Objects, accelerators: Sequence[str], notes: list[str]
) -> dict[str, Resources]:
    """Return the resources of each node; refuse several kinds of GPUs, which are not told apart."""
    claimable = count_claimable(objects.of("ResourceSlice"))
    nodes = {
        node.name: (node, count_offered(node, claimable.get(node.name)))
        for node in objects.of("Node")
    }
    kinds = accelerators or sorted({kind for _, devices in nodes.values() for kind in devices})
    if len(kinds) > 1:
        those = "jobs ask for" if accelerators else "nodes have"
        remedy = f"--gpu-resource {kinds[0]} reads only these"
        raise InputError(f"{those} accelerators of several kinds, {' and '.join(kinds)}; {remedy}")
    others = {kind: name for name, (_, devices) in nodes.items() for kind in devices}
    notes += [
        f"{kind} of node {others[kind]} and others dropped: no job asks for it"
        for kind in sorted(others.keys() - set(kinds))
    ]
    return {
        name: has_of(node, {kind: count for kind, count in devices.items() if kind in kinds})
        for name, (node, devices) in nodes.items()
    }


def _read_links(capacities: Iterable[KubernetesObject]) -> dict[str, dict[str, list[Uplink]]]:
    """Return the links of each node.

    An interface belongs to one node, and nodes state equal capacities of a shared link.
    """
    links = {}
    first: dict[str, tuple[str, int]] = {}
    for source in capacities:
        scopes = links[source.name] = links_of([])
        for link in source.at("spec.links").items():
            name, scope = (link / "name").text(), link / "scope"
            capacity = int((link / "capacity").quantity() // 10**6)
            if not capacity:
                (link / "capacity").fail("must be at least 1 Mbit/s (1M)")
            if scope.text() not in scopes:
                scope.fail("must be Node, Shared, Uplink or Downlink")
            other, known = first.setdefault(name, (source.name, capacity))
            if scope.value == "Node" and other != source.name:
                (link / "name").fail(f"is the interface of {other} too; share it")
            if known != capacity:
                (link / "capacity").fail(f"is not the {known} Mbit/s that {other} states")
            scopes[scope.value].append((name, capacity))
        if not scopes["Node"]:
            source.at("spec.links").fail("must have links of scope Node, has 0")
    return links


def _read_gpu(machines: Mapping[str, Machine], link_mbps: int | None) -> dict[str, Any] | None:
    """Return the slowest kind of GPU, which others wait for; None if nothing is known of any."""
    sources = [machine.source for machine in machines.values()]
    stated = {
        source.name: parse_positive(f"{source.where}: annotation {_SPEED}", text)
        for source in sources
        if (text := source.annotations.get(_SPEED)) is not None
    }
    product = next(filter(None, (source.labels.get(_PRODUCT) for source in sources)), None)
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
    options: ImportOptions,
    notes: list[str],
    *,
    has_core: bool = True,
) -> dict[str, Any]:
    """Return a cluster of topology ``listed``."""
    stated = {name: machine.links["Shared"] for name, machine in machines.items()}
    uplink_paths = _uplink_paths(machines)
    rack_of, racks, uplinks, is_stated = make_tree(uplink_paths, options.tier_mbps, stated)
    named = {
        name: uplink_path for name, uplink_path in uplink_paths.items() if machines[name].switches
    }
    notes += _notes_on_tree(
        uplink_paths, named, is_stated, len(options.tier_mbps), has_core=has_core
    )
    links = dict(link for machine in machines.values() for link in machine.links["Node"])
    for uplink in uplinks:
        if uplink in links:
            raise InputError(DOUBLE.format(quote(uplink)))
    links |= uplinks
    nodes, background = [], dict[str, str]()
    for name, machine in machines.items():
        ups, downs = (dict(machine.links[scope]) for scope in ("Uplink", "Downlink"))
        if ups or downs:
            rack = racks.get(rack_of.get(name, ""), {})
            if rack.setdefault("uplinks", [*ups]) != [*ups] or not rack.get("name"):
                fault = "its links of scope Uplink are not those of its zone; state equal ones"
                raise InputError(f"node {quote(name)}: {fault}")
            rack |= {"downlinks": [*downs]} if downs else {}
            links |= {**ups, **downs}
        amounts = {kind: amount for kind, amount in has[name].model_dump().items() if amount}
        own = [*dict(machine.links["Node"])]
        interfaces = {"interfaces": own} if len(own) > 1 else {"interface": own[0]}
        position = {"rack": rack_of.get(name), "region": machine.region}
        known = {key: value for key, value in position.items() if value}
        nodes.append({"name": name, "has": amounts, **interfaces, **known})
        if (others := machine.source.annotations.get(_BACKGROUND)) is not None:
            background |= dict.fromkeys(own, others.strip())
    document = {
        "topology": "listed",
        "nodes": nodes,
        "links": [{"name": link, "capacity": capacity} for link, capacity in links.items()],
        "racks": list(racks.values()),
        "gpu": _read_gpu(machines, options.link_mbps),
        "background": background,
        **({} if has_core else {"has_core": False}),
    }
    return {name: value for name, value in document.items() if value or value is False}


def _notes_on_tree(
    uplink_paths: Mapping[str, UplinkPath],
    named: Mapping[str, UplinkPath],
    is_stated: Mapping[int, bool],
    tiers: int,
    *,
    has_core: bool,
) -> Iterator[str]:
    """Yield what is assumed of switches: `named` are paths of switches that are no zones."""
    unlimited = [tier for tier in sorted(is_stated) if named and not is_stated[tier]]
    idle = [tier for tier in range(tiers) if tier not in is_stated]
    below_none = [name for name, uplink_path in uplink_paths.items() if not uplink_path]
    tops = sorted({uplink_path[-1] for uplink_path in named.values()})
    if unlimited:
        numbers = " and ".join(map(str, unlimited))
        yield f"uplinks of tier {numbers} limit nothing; --tier-gbps states their capacity"
    if idle:
        numbers = " and ".join(map(str, idle))
        yield f"--tier-gbps has no effect for tier {numbers}: no uplink without a capacity"
    if has_core and len(tops) > 1:
        few = f"{len(tops)} switches at the top ({first_few(tops)})"
        yield f"{few} are taken to be connected, by links that limit nothing"
    if len(below_none) < len(uplink_paths) and below_none:
        few = f"{pluralise(len(below_none), 'node')} ({first_few(below_none)})"
        yield f"{few} below no switch: only their interfaces limit their traffic"


def _uplink_paths(machines: Mapping[str, Machine]) -> dict[str, UplinkPath]:
    """Return the switches above each node: the named ones, else its zone, then further uplinks.

    Nodes of a zone that share an uplink are one of several racks of it.
    """
    shared = {name: [*dict(machine.links["Shared"])] for name, machine in machines.items()}
    lowest = defaultdict(set)
    for name, machine in machines.items():
        lowest[machine.zone].add(tuple(shared[name][:1]))
    uplink_paths = {}
    for name, machine in machines.items():
        zone, uplinks, uplink_path = machine.zone, shared[name], machine.switches
        if not uplink_path and zone:
            several = uplinks and len(lowest[zone]) > 1
            uplink_path = (f"{zone}/{uplinks[0]}" if several else zone,)
        uplink_paths[name] = uplink_path + tuple(uplinks[len(uplink_path) :])
    return uplink_paths
