"""What has to hold between the nodes, racks, links and distances of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from metronome_opt.errors import show
from metronome_opt.records import refuse

if TYPE_CHECKING:
    from metronome_opt.scenario.machines import Distance, Fabric


def check_ways(fabric: Fabric) -> None:
    """Refuse interfaces and uplinks that are not links, and links that are not one of them each."""
    ways = [(f"nodes[{i}].interface", node.interface) for i, node in enumerate(fabric.nodes)]
    ways += [
        (f"racks[{i}].uplink", rack.uplink)
        for i, rack in enumerate(fabric.racks)
        if rack.uplink is not None
    ]
    known = {link.name for link in fabric.links}
    user: dict[str, str] = {}
    for where, link in ways:
        if link not in known:
            refuse(where, f"there is no link {show(link)}")
        if link in user:
            refuse(where, f"{show(link)} is also {user[link]}; each link has one place")
        user[link] = where
    for index, each in enumerate(fabric.links):
        if each.name not in user:
            refuse(
                f"links[{index}].name",
                f"{show(each.name)} is no node's interface and no rack's uplink; leave it out",
            )


def check_racks(fabric: Fabric) -> None:
    """Refuse racks that are not there, hold no node, or stand in two regions."""
    first: dict[str, int] = {}
    known = {rack.name for rack in fabric.racks}
    used = {node.rack for node in fabric.nodes}
    for index, node in enumerate(fabric.nodes):
        if node.rack is None:
            continue
        if node.rack not in known:
            refuse(f"nodes[{index}].rack", f"there is no rack {show(node.rack)}")
        if node.region is None:
            continue
        other = first.setdefault(node.rack, index)
        if fabric.nodes[other].region != node.region:
            refuse(
                f"nodes[{index}].region",
                f"{show(node.region)}: rack {show(node.rack)} is in "
                f"{show(fabric.nodes[other].region)} by nodes[{other}]; a rack has one region",
            )
    for index, rack in enumerate(fabric.racks):
        if rack.name not in used:
            refuse(f"racks[{index}].name", f"{show(rack.name)} holds no node; leave it out")


def check_costs(field: str, kind: str, costs: Sequence[Distance], known: set[str]) -> None:
    """Refuse costs of places that are not there, of one place to itself, and those given twice."""
    first: dict[tuple[str, str], int] = {}
    for index, way in enumerate(costs):
        for end, name in (("origin", way.origin), ("destination", way.destination)):
            if name not in known:
                refuse(f"{field}[{index}].{end}", f"there is no {kind} {show(name)}")
        if way.origin == way.destination:
            refuse(f"{field}[{index}]", f"{show(way.origin)} is both of its ends; leave it out")
        pair = way.origin, way.destination
        if pair in first:
            refuse(
                f"{field}[{index}]",
                f"{show(way.origin)} to {show(way.destination)} is also {field}[{first[pair]}]",
            )
        first[pair] = index
