"""The tree of interfaces and uplinks that machines, capacities and ways between zones make up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.diktyo import REGION_KEY, ZONE_KEY
from metronome_opt.kubernetes.reading.machines import Links, Machine, Ways
from metronome_opt.kubernetes.reading.objects import Found
from metronome_opt.scenario.machines import Resources

_SAME_ZONE = 1  # the network cost between nodes of one zone, as Diktyo counts it


@dataclass(frozen=True)
class Wired:
    """A machine with its links."""

    machine: Machine
    links: Links


def wire(
    machines: Mapping[str, Machine],
    capacities: Mapping[str, Links],
    objects: Iterable[Found],
    nic_mbps: int | None,
    notes: list[str],
) -> dict[str, Wired]:
    """Return the machines whose interfaces are known, by name.

    Without any Node the capacities say which machines there are.

    Parameters
    ----------
    machines, capacities
        By node.
    objects
        The capacities as objects, for their labels.
    nic_mbps
        The interface of nodes that have no capacity; None to leave these nodes out.
    notes
        What is left out is told here.
    """
    found = {each.name: each for each in objects}
    if not machines:
        machines = {
            name: Machine(
                name,
                found[name].where,
                None,
                zone=found[name].labels.get(ZONE_KEY),
                region=found[name].labels.get(REGION_KEY),
            )
            for name in sorted(capacities)
        }
    wired = {}
    for name, machine in sorted(machines.items()):
        links = capacities.get(name)
        if links is None and nic_mbps is not None:
            links = Links(name, nic_mbps)
        if links is not None:
            wired[name] = Wired(_placed(machine, found.get(name)), links)
    without = sorted(set(machines) - set(wired))
    if without:
        notes.append(
            f"{_counted(without, 'node')} left out, without an STBandwidthCapacity; "
            "--nic-gbps gives them an interface"
        )
    unknown = sorted(set(capacities) - set(machines))
    if unknown:
        notes.append(
            f"{_counted(unknown, 'capacity')} passed over: there is no such node with GPUs"
        )
    return wired


def _placed(machine: Machine, capacity: Found | None) -> Machine:
    """Return a machine with zone and region of its capacity's labels where it has none."""
    if capacity is None:
        return machine
    zone = machine.zone or capacity.labels.get(ZONE_KEY)
    return replace(machine, zone=zone, region=machine.region or capacity.labels.get(REGION_KEY))


def cluster_document(
    wired: Mapping[str, Wired], has: Mapping[str, Resources], ways: Ways, notes: list[str]
) -> dict[str, Any]:
    """Return a cluster of topology ``listed``.

    Parameters
    ----------
    wired
        The machines.
    has
        What each has for the jobs.
    ways
        Costs and bandwidths between zones.
    notes
        What is assumed is told here.

    Raises
    ------
    InputError
        If two zones share an uplink.
    """
    racks = _racks(wired)
    uplinks = _uplinks(wired, racks, ways, notes)
    nodes, links = [], {}
    for name, each in wired.items():
        links[each.links.interface] = each.links.capacity
        nodes.append(
            {
                "name": name,
                "has": {field: value for field, value in has[name].model_dump().items() if value},
                "interface": each.links.interface,
                **({"rack": racks[name]} if name in racks else {}),
                **({"region": each.machine.region} if each.machine.region else {}),
            }
        )
    for uplink, capacity in uplinks.values():
        if uplink in links:
            raise InputError(
                f"link {uplink}: is the way of two nodes or zones to the others; give each its own"
            )
        links[uplink] = capacity
    zone_of = {rack: wired[name].machine.zone for name, rack in racks.items()}
    regions = {each.machine.region for each in wired.values()}
    document: dict[str, Any] = {
        "topology": "listed",
        "nodes": nodes,
        "links": [{"name": link, "capacity": capacity} for link, capacity in links.items()],
    }
    if zone_of:
        document["racks"] = [
            {"name": rack, **({"uplink": uplinks[rack][0]} if rack in uplinks else {})}
            for rack in zone_of
        ]
    costs = {
        "zone_costs": _zone_costs(zone_of, ways),
        "region_costs": [
            _cost(ends, cost) for ends, cost in ways.regions.items() if set(ends) <= regions
        ],
    }
    return document | {field: listed for field, listed in costs.items() if listed}


def _racks(wired: Mapping[str, Wired]) -> dict[str, str]:
    """Return the rack of each node that has one: a zone, or what in a zone shares an uplink."""
    groups: dict[str | None, set[str | None]] = defaultdict(set)
    for each in wired.values():
        groups[each.machine.zone].add(each.links.uplink)
    racks = {}
    for name, each in wired.items():
        zone, uplink = each.machine.zone, each.links.uplink
        if zone is not None:
            several = len(groups[zone]) > 1 and uplink is not None
            racks[name] = f"{zone}/{uplink}" if several else zone
        elif uplink is not None:
            racks[name] = uplink
    return racks


def _uplinks(
    wired: Mapping[str, Wired], racks: Mapping[str, str], ways: Ways, notes: list[str]
) -> dict[str, tuple[str, int]]:
    """Return name and capacity of the uplink of each rack that has one."""
    uplinks: dict[str, tuple[str, int]] = {}
    for name, rack in racks.items():
        links, zone = wired[name].links, wired[name].machine.zone
        if links.uplink is not None:
            uplinks[rack] = links.uplink, links.uplink_capacity
            continue
        carried = {way for (origin, _), way in ways.carries.items() if origin == zone}
        if carried and rack not in uplinks:
            uplinks[rack] = f"{rack}-uplink", min(carried)
            if len(carried) > 1:
                notes.append(
                    f"zone {zone}: its ways carry from {min(carried)} to {max(carried)} Mbit/s; "
                    "the uplink is taken to carry the least"
                )
    return uplinks


def _zone_costs(zone_of: Mapping[str, str | None], ways: Ways) -> list[dict[str, Any]]:
    """Return the costs between racks: those between their zones."""
    if not ways.zones:
        return []
    costs = []
    for here, one in zone_of.items():
        for there, other in zone_of.items():
            if here == there or one is None or other is None:
                continue
            cost = _SAME_ZONE if one == other else ways.zones.get((one, other))
            if cost is not None:
                costs.append(_cost((here, there), cost))
    return costs


def _cost(ends: tuple[str, str], cost: int) -> dict[str, Any]:
    return {"origin": ends[0], "destination": ends[1], "cost": cost}


def _counted(names: list[str], what: str) -> str:
    plural = {"capacity": "capacities"}.get(what, f"{what}s")
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} {what if len(names) == 1 else plural} ({shown})"
