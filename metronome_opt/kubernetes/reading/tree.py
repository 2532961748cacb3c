"""Switches above nodes: collected one by one, and as racks of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.cluster import MAX_NODES, MAX_TIERS

Way = tuple[str, ...]
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

    def ways(self) -> dict[str, Way]:
        """Return the way up from each node; raise an `InputError` if a way has no end."""
        ways = {node: self._way(switch) for node, switch in self._above["node"].items()}
        for switch in self._above["switch"]:  # also those above no node
            self._way(switch)
        return ways

    def _way(self, switch: str) -> Way:
        way, above = [switch], self._above["switch"]
        while way[-1] in above:
            way.append(above[way[-1]])
            if way[-1] in way[:-1]:
                names = ", ".join(quote(name) for name in way[way.index(way[-1]) :])
                raise InputError(f"switches above themselves: {names}; take one of these links out")
            if len(way) > MAX_TIERS:
                raise InputError(f"more than {MAX_TIERS - 1} switches above {quote(switch)}")
        return tuple(way)


def make_tree(
    ways: Mapping[str, Way], tiers: Sequence[int], stated: Mapping[str, Sequence[Uplink]]
) -> tuple[dict[str, str], dict[str, dict[str, Any]], dict[str, int], Mapping[int, bool]]:
    """Return racks of nodes, documents of racks, Mbit/s of uplinks, and tiers of stated uplinks.

    The last says of each tier with uplinks that no node states whether `tiers` does.

    Switches are told apart by their whole way up: a number may come back below another switch. A
    rack has the name of its switch, after as many switches above it as make the name unique. A
    switch above all nodes has no uplink. Uplinks are those that nodes state, in the order of their
    ways, else of the Mbit/s of their tier, the lowest first; others limit nothing.
    """
    heights: dict[Way, int] = {}
    for way in ways.values():
        for tier in range(len(way)):
            heights[way[tier:]] = max(tier, heights.get(way[tier:], 0))
    own, names = _own_uplinks(ways, stated), _names(heights)
    has_several_tops = len({way[-1:] for way in ways.values()}) > 1
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
    rack_of = {node: names[way] for node, way in ways.items() if way}
    return rack_of, racks, uplinks, is_stated


def _own_uplinks(
    ways: Mapping[str, Way], stated: Mapping[str, Sequence[Uplink]]
) -> dict[Way, Uplink]:
    """Return the uplinks that nodes state, by the way up from their switch."""
    own: dict[Way, Uplink] = {}
    for node, uplinks in stated.items():
        for tier, uplink in enumerate(uplinks):
            other = own.setdefault(ways[node][tier:], uplink)
            if other != uplink:
                both, switch = f"{quote(other[0])} and {quote(uplink[0])}", ways[node][tier]
                raise InputError(f"switch {quote(switch)}: uplinks {both}; a switch has one")
    return own


def _names(paths: Collection[Way]) -> dict[Way, str]:
    """Return a unique name of each switch by its way up: its own, and names of switches above."""
    counts = Counter(path[: end + 1] for path in paths for end in range(len(path)))
    names = {}
    for path in paths:
        end = next((end for end in range(1, len(path)) if counts[path[:end]] == 1), len(path))
        names[path] = "/".join(reversed(path[:end]))
    return names
