"""Placements of a single job in the empty cluster; the best one is the reference of its slowdown.

`metronome_opt.scenario.reference` defines them; the enumeration here follows its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metronome_opt.verify.flows import Document, Place, Tree
from metronome_opt.verify.places import RESOURCES


class EmptyCluster:
    """Placements of single jobs in an empty cluster.

    Parameters
    ----------
    tree, cluster
        The cluster by name, and its document.
    """

    def __init__(self, tree: Tree, cluster: Document) -> None:
        self._tree = tree
        racks = {rack["name"]: number for number, rack in enumerate(cluster["racks"])}
        self._home = {  # numbers of the racks above a node, from the top, and its own
            node["name"]: (*(racks[rack] for rack in reversed(tree.above[node["name"]])), number)
            for number, node in enumerate(cluster["nodes"])
        }
        self._width = {
            name: sum(tree.capacity[rail] for rail in tree.rails[name]) for name in tree.nodes
        }
        self._is_single = all(len(tree.rails[name]) == 1 for name in tree.nodes)
        self._known: dict[Any, list[Place]] = {}

    def places(self, job: Document) -> Sequence[Place]:
        """Return the different placements of a job where a flow has 1 Mbit/s at least."""
        needs = tuple(job["each"][kind] for kind in RESOURCES)
        key = needs, job["workers"], job["algorithm"]
        if key not in self._known:
            found = (
                self._tree.place(nodes, needs[0], job["algorithm"], Counter())
                for nodes in dict.fromkeys(self._nodes(job["workers"], needs))
            )
            places = [entry[1] for entry in found if entry and entry[1].rate >= 1]
            if job["algorithm"] != "all-to-all" and self._is_single:
                places = [
                    place._replace(parts=1, rate=place.rate * place.parts) for place in places
                ]
            self._known[key] = list(dict.fromkeys(places))
        return self._known[key]

    def _nodes(self, tasks: int, needs: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the nodes of tasks at every placement, in the order of the tree."""
        holds = {name: self._holds(name, needs, tasks) for name in self._home}
        usable = sorted((name for name in holds if holds[name]), key=self._home.__getitem__)
        areas: dict[str | None, list[str]] = {None: usable}
        for name in usable:
            for switch in self._tree.above[name]:
                areas.setdefault(switch, []).append(name)
        for area in areas.values():
            for order in dict.fromkeys(self._orders(area, holds)):
                for counts in _counts(order, holds, tasks):
                    yield tuple(name for name in area for _ in range(counts.get(name, 0)))

    def _holds(self, name: str, needs: tuple[int, ...], tasks: int) -> int:
        """Return the number of tasks that a node can hold."""
        has = self._tree.nodes[name]["has"]
        needed = zip(RESOURCES, needs, strict=True)
        return min((has[kind] // amount for kind, amount in needed if amount), default=tasks)

    def _orders(self, area: Sequence[str], holds: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
        """Yield nodes of an area in three orders."""
        fullest = sorted(area, key=lambda name: (-holds[name], -self._width[name]))
        yield tuple(fullest)
        yield tuple(sorted(area, key=lambda name: (-self._width[name], -holds[name])))
        turn: dict[str, int] = {}
        racks: Counter[str | None] = Counter()
        for name in fullest:
            rack = self._tree.nodes[name]["rack"]
            turn[name] = racks[rack]
            racks[rack] += 1
        yield tuple(sorted(area, key=turn.__getitem__))


def _counts(
    order: Sequence[str], holds: Mapping[str, int], tasks: int
) -> Iterator[Mapping[str, int]]:
    """Yield numbers of tasks by node: first nodes filled, then tasks shared among more nodes."""
    filled: dict[str, int] = {}
    for name in order:
        rest = tasks - sum(filled.values())
        if rest:
            filled[name] = min(holds[name], rest)
    if sum(filled.values()) < tasks:
        return
    yield filled
    number, most = len(filled), min(tasks, len(order))
    while number < most:
        yield _shared_out(order[:number], holds, tasks)
        number *= 2
    yield _shared_out(order[:most], holds, tasks)


def _shared_out(nodes: Sequence[str], holds: Mapping[str, int], tasks: int) -> Mapping[str, int]:
    """Return numbers of tasks by node, dealt in turn to nodes with room."""
    counts: Counter[str] = Counter()
    while tasks:
        for name in nodes:
            if tasks and counts[name] < holds[name]:
                counts[name] += 1
                tasks -= 1
    return counts
