"""Switches above nodes: collected one by one, and as racks of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.cluster import MAX_NODES, MAX_TIERS

UplinkPath = tuple[str, ...]
"""The switches above a node, from the lowest up."""

Uplink = tuple[str, int]
"""Name and Mbit/s."""

DOUBLE = "link {}: connects two nodes or zones to the others; give them two links"


class Wiring:
    """Nodes and switches, with at most one switch right above them."""

    def __init__(self) -> None:
        self._above: dict[str, dict[str, str]] = {"node": {}, "switch": {}}

    def add(self, where: str, above: str, kind: str, names: Iterable[str]) -> None:
        """Put a node or switch of each name right below a switch, as is stated at a location."""
        known = self._above[kind]
        for name in names:
            other = known.setdefault(name, above)
            if other != above:
                both = f"{quote(other)} and below {quote(above)}"
                raise InputError(f"{where}: {kind} {quote(name)} is below {both}; remove one")
        if len(known) > MAX_NODES:
            raise InputError(f"{where}: more than {MAX_NODES} {kind}s; divide the fabric")

    def uplink_paths(self) -> dict[str, UplinkPath]:
        """Return the path up from each node; raise an `InputError` if a path has no end."""
        uplink_paths = {
            node: self._uplink_path(switch) for node, switch in self._above["node"].items()
        }
        for switch in self._above["switch"]:  # also those above no node
            self._uplink_path(switch)
        return uplink_paths

    def _uplink_path(self, switch: str) -> UplinkPath:
        uplink_path, above = [switch], self._above["switch"]
        while uplink_path[-1] in above:
            uplink_path.append(above[uplink_path[-1]])
            if uplink_path[-1] in uplink_path[:-1]:
                names = ", ".join(
                    quote(name) for name in uplink_path[uplink_path.index(uplink_path[-1]) :]
                )
                raise InputError(f"switches above themselves: {names}; take one of these links out")
            if len(uplink_path) > MAX_TIERS:
                raise InputError(
                    f"more than {MAX_TIERS - 1} switches above {quote(switch)}; drop levels"
                )
        return tuple(uplink_path)


def make_tree(
    uplink_paths: Mapping[str, UplinkPath],
    tiers: Sequence[int],
    stated: Mapping[str, Sequence[Uplink]],
) -> tuple[dict[str, str], dict[str, dict[str, Any]], dict[str, int], Mapping[int, bool]]:
    """Return racks of nodes, documents of racks, Mbit/s of uplinks, and tiers of stated uplinks.

    The last says of each tier with uplinks that no node states whether `tiers` does.

    Switches are told apart by their whole path up: a number may come back below another switch. A
    rack has the name of its switch, after as many switches above it as make the name unique. A
    switch above all nodes has no uplink. Uplinks are those that nodes state, in the order of their
    paths, else of the Mbit/s of their tier, the lowest first; others limit nothing.
    """
    heights: dict[UplinkPath, int] = {}
    for uplink_path in uplink_paths.values():
        for tier in range(len(uplink_path)):
            heights[uplink_path[tier:]] = max(tier, heights.get(uplink_path[tier:], 0))
    own, names = _own_uplinks(uplink_paths, stated), _names(heights)
    has_several_tops = len({uplink_path[-1:] for uplink_path in uplink_paths.values()}) > 1
    racks: dict[str, dict[str, Any]] = {}
    uplinks: dict[str, int] = {}
    is_stated: dict[int, bool] = {}
    for path, tier in sorted(heights.items(), key=itemgetter(1)):
        racks[names[path]] = rack = {"name": names[path]}
        uplink = own.get(path)
        if uplink is None and (has_several_tops or len(path) > 1):
            is_stated[tier] = tier < len(tiers)
            if is_stated[tier]:
                uplink = f"{names[path]}-uplink", tiers[tier]
        if uplink is not None:
            if uplink[0] in uplinks:
                raise InputError(DOUBLE.format(quote(uplink[0])))
            rack["uplink"], uplinks[uplink[0]] = uplink
        if len(path) > 1:
            rack["within"] = names[path[1:]]
    rack_of = {
        node: names[uplink_path] for node, uplink_path in uplink_paths.items() if uplink_path
    }
    return rack_of, racks, uplinks, is_stated


def _own_uplinks(
    uplink_paths: Mapping[str, UplinkPath], stated: Mapping[str, Sequence[Uplink]]
) -> dict[UplinkPath, Uplink]:
    """Return the uplinks that nodes state, by the path up from their switch."""
    own: dict[UplinkPath, Uplink] = {}
    for node, uplinks in stated.items():
        for tier, uplink in enumerate(uplinks):
            other = own.setdefault(uplink_paths[node][tier:], uplink)
            if other != uplink:
                both, switch = f"{quote(other[0])} and {quote(uplink[0])}", uplink_paths[node][tier]
                raise InputError(f"switch {quote(switch)}: uplinks {both}; a switch has one")
    return own


def _names(paths: Collection[UplinkPath]) -> dict[UplinkPath, str]:
    """Return a unique name of each switch by its path up: its own, and names of switches above."""
    counts = Counter(path[: end + 1] for path in paths for end in range(len(path)))
    names = {}
    for path in paths:
        end = next((end for end in range(1, len(path)) if counts[path[:end]] == 1), len(path))
        names[path] = "/".join(reversed(path[:end]))
    return names
