"""Switches above nodes: collected from what names them one by one, and as racks of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.cluster import MAX_NODES, MAX_TIERS

Way = tuple[str, ...]
"""The switches above a node, its own one first."""

Uplink = tuple[str, int]
"""Name and Mbit/s."""

DOUBLE = "link {}: connects two nodes or zones to the others; give each its own"


class Wiring:
    """Nodes and switches, each right below one switch at most."""

    def __init__(self) -> None:
        self._node: dict[str, str] = {}
        self._switch: dict[str, str] = {}

    def add(
        self, where: str, above: str, nodes: Iterable[str] = (), switches: Iterable[str] = ()
    ) -> None:
        """Put nodes and switches right below a switch; an `InputError` if one has another."""
        for kind, known, names in (
            ("node", self._node, nodes),
            ("switch", self._switch, switches),
        ):
            for name in names:
                other = known.setdefault(name, above)
                if other != above:
                    raise InputError(
                        f"{where}: {kind} {quote(name)} is below {quote(other)} and below "
                        f"{quote(above)}; a tree has one way up, leave one of them out"
                    )
            if len(known) > MAX_NODES:
                raise InputError(f"{where}: more than {MAX_NODES} {kind}s; divide the fabric")

    def ways(self) -> dict[str, Way]:
        """Return the way up from each node; an `InputError` if one of a switch has no end."""
        ways = {node: self._way(switch) for node, switch in self._node.items()}
        for switch in self._switch:  # also those above no node
            self._way(switch)
        return ways

    def _way(self, switch: str) -> Way:
        way = [switch]
        while way[-1] in self._switch:
            way.append(self._switch[way[-1]])
            if way[-1] in way[:-1]:
                names = ", ".join(quote(name) for name in way[way.index(way[-1]) :])
                raise InputError(f"switches above themselves: {names}; take one of these links out")
            if len(way) > MAX_TIERS:
                raise InputError(
                    f"switch {quote(switch)} has more than {MAX_TIERS - 1} above it; leave "
                    "tiers out"
                )
        return tuple(way)


class Tree(NamedTuple):
    """The rack of each node that has a switch, racks as documents, and Mbit/s of their uplinks.

    Nothing says what uplinks of the tiers in `unlimited` carry.
    """

    rack_of: Mapping[str, str]
    racks: Sequence[Mapping[str, str]]
    uplinks: Mapping[str, int]
    unlimited: Collection[int]


def make_tree(
    ways: Mapping[str, Way], tiers: Sequence[int], stated: Mapping[str, Sequence[Uplink]]
) -> Tree:
    """Return the racks of nodes, those of the lowest tier first.

    Switches are told apart by their whole way up: a number may come back below another switch. A
    rack has the name of its switch, after those above it as far as that tells it from the others.
    The one switch above all nodes leads nowhere, and has no uplink.

    Parameters
    ----------
    tiers
        Mbit/s of the uplink of a switch of each tier, the lowest first; others limit nothing.
    stated
        Uplinks that nodes state, in the order of their ways.
    """
    heights: dict[Way, int] = {}
    for way in ways.values():
        for tier in range(len(way)):
            heights[way[tier:]] = max(tier, heights.get(way[tier:], 0))
    own, names = _own_uplinks(ways, stated), _names(heights)
    several = len({way[-1:] for way in ways.values()}) > 1
    racks, uplinks, unlimited = [], {}, set()
    for path, tier in sorted(heights.items(), key=itemgetter(1)):
        rack, uplink = {"name": names[path]}, own.get(path)
        if uplink is None and (several or len(path) > 1):
            if tier < len(tiers):
                uplink = f"{names[path]}-uplink", tiers[tier]
            else:
                unlimited.add(tier)
        if uplink is not None:
            if uplink[0] in uplinks:
                raise InputError(DOUBLE.format(quote(uplink[0])))
            rack["uplink"], uplinks[uplink[0]] = uplink
        if len(path) > 1:
            rack["within"] = names[path[1:]]
        racks.append(rack)
    rack_of = {node: names[way] for node, way in ways.items() if way}
    return Tree(rack_of, racks, uplinks, unlimited)


def _own_uplinks(
    ways: Mapping[str, Way], stated: Mapping[str, Sequence[Uplink]]
) -> dict[Way, Uplink]:
    """Return the uplinks that nodes state, by the way up from their switch."""
    own: dict[Way, Uplink] = {}
    for node, uplinks in stated.items():
        for tier, uplink in enumerate(uplinks):
            other = own.setdefault(ways[node][tier:], uplink)
            if other != uplink:
                raise InputError(
                    f"switch {quote(ways[node][tier])}: its nodes name the uplinks "
                    f"{quote(other[0])} and {quote(uplink[0])}; a switch has one"
                )
    return own


def _names(paths: Collection[Way]) -> dict[Way, str]:
    """Return the name of each switch by its way up: its own one and as many above as it takes."""
    counts = Counter(path[: end + 1] for path in paths for end in range(len(path)))
    names = {}
    for path in paths:
        ends = range(1, len(path) + 1)
        end = next((end for end in ends if counts[path[:end]] == 1), len(path))
        names[path] = "/".join(reversed(path[:end]))
    return names
