"""Placements of one job in the empty cluster; the best one is the reference of its slowdown.

The order of the tree is that of the numbers, in the file, of the racks above a node, from the top,
and then of its own. A node holds the tasks that its resources suffice for; those that hold none do
not count. Its width is what its interfaces carry together. Looked at are the nodes below each rack,
and all nodes, each time in three orders, whose ties are broken by that of the tree:

- those that hold most tasks first, of these the widest;
- the widest first, of these those that hold most;
- in turn by rack: in the first order, the first node of every rack, then the second of every rack,
  and so on; a node in no rack counts as in one with all others in none.

In each order tasks fill the first nodes, m say, if all nodes hold them. Or they are shared out to
the first m, 2 m, 4 m, ... of all that can be used, and to all of these, which are as many as there
are nodes, or tasks if these are fewer: nodes get one task each in turn until they hold no more.

Tasks on these nodes are numbered in the order of the tree, and get the first GPUs there. Flows
cross all spines evenly, as one where each node has one interface. A placement at which a flow has
less than 1 Mbit/s, traffic divides into too many parts, or the iteration is longer than the
hyperperiod does not count. That of the job does, whichever it is. The shortest iteration over these
is exact where nodes are equal, but for all-to-alls and for groups that do not divide a job, for
which unequal shares may be better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from metronome_opt.errors import InputError
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import Algorithm, Transport
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.nodes import Resources


class _Node(NamedTuple):
    """A node: its position in the tree, its name, the capacities of its interfaces in Mbit/s."""

    home: tuple[int, ...]
    name: str
    rails: tuple[int, ...]


_Fits = Mapping[str, int]
"""The tasks that each node can hold."""


class EmptyCluster:
    """The placements of one job in a cluster without others.

    Parameters
    ----------
    cluster
        The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        number = {rack.name: index for index, rack in enumerate(cluster.racks)}
        self._nodes = [
            _Node(
                (*(number[rack] for rack in reversed(cluster.uplink_paths[node.rack])), index),
                node.name,
                tuple(cluster.capacities[rail] for rail in node.rails),
            )
            for index, node in enumerate(cluster.nodes)
        ]
        self._carries = [
            tuple(cluster.capacities[link] for link in (*rack.ups, *(rack.downlinks or ())))
            for rack in cluster.racks
        ]
        self._known: dict[object, tuple[Transport, ...]] = {}

    def transports(
        self, tasks: int, needs: Resources, algorithm: Algorithm
    ) -> tuple[Transport, ...]:
        """Return the transports of the candidate placements of a job.

        Parameters
        ----------
        tasks, needs
            Number of its tasks, and the resources of one.
        algorithm
            How its collectives cross the network.

        Returns
        -------
        tuple of Transport
            Different ones; none if the job does not fit.
        """
        key = tasks, needs, algorithm
        if key not in self._known:
            self._known[key] = tuple(dict.fromkeys(self._transports(*key)))
        return self._known[key]

    def _transports(
        self, tasks: int, needs: Resources, algorithm: Algorithm
    ) -> Iterator[Transport]:
        is_simple = all(len(node.rails) == 1 for node in self._nodes)
        for nodes in dict.fromkeys(self._places(tasks, needs)):
            rails = self._cluster.next_rails(nodes, needs.gpus, Counter())
            with suppress(InputError):  # too many parts
                place = compute_placement(
                    self._cluster, nodes, algorithm, task_gpus=needs.gpus, rails=rails
                )
                if place.rate:
                    transport, rate = place.transport, place.transport.rate
                    whole = transport._replace(rate=rate * transport.flows, flows=1)
                    yield whole if is_simple and algorithm != "all-to-all" else transport

    def _places(self, tasks: int, needs: Resources) -> Iterator[tuple[str, ...]]:
        fits = {}
        for node in self._cluster.nodes:
            pairs = zip(node.has.vector, needs.vector, strict=True)
            fits[node.name] = min((has // amount for has, amount in pairs if amount), default=tasks)
        usable = sorted(node for node in self._nodes if fits[node.name])
        for area in self._areas(usable, fits):
            for order in dict.fromkeys(_orders(area, fits)):
                for counts in _shares(order, fits, tasks):
                    yield tuple(node.name for node in sorted(counts) for _ in range(counts[node]))

    def _areas(self, nodes: Sequence[_Node], fits: _Fits) -> Iterable[Sequence[_Node]]:
        """Return the nodes below each switch, the whole cluster first; equal ones once."""
        below: dict[tuple[int, ...], list[_Node]] = {(): []}
        for node in nodes:
            for depth in range(len(node.home)):
                below.setdefault(node.home[:depth], []).append(node)
        kinds: dict[object, Sequence[_Node]] = {}
        for top, area in below.items():
            first: dict[tuple[int, ...], int] = {}  # of each switch below, by its first node
            kind: list[object] = []
            for at, node in enumerate(area):
                # GPUs share out the interfaces.
                kind.append((fits[node.name], self._cluster.gpus_of[node.name], node.rails))
                for depth in range(len(top) + 1, len(node.home)):
                    switch = node.home[:depth]
                    kind.append((first.setdefault(switch, at), self._carries[switch[-1]]))
            kinds.setdefault(tuple(kind), area)
        return kinds.values()


def empty_cluster(cluster: Cluster) -> EmptyCluster:
    """Return the placements of single jobs in a cluster; they are kept with it."""
    if EmptyCluster not in cluster.memo:
        cluster.memo[EmptyCluster] = EmptyCluster(cluster)
    empty: EmptyCluster = cluster.memo[EmptyCluster]
    return empty


def _orders(area: Sequence[_Node], fits: _Fits) -> Iterator[tuple[_Node, ...]]:
    """Yield nodes by what they hold, by the width of their interfaces, and in turn by rack."""
    keys = {node: (-fits[node.name], -sum(node.rails)) for node in area}
    fullest = sorted(area, key=lambda node: (*keys[node], node.home))
    yield tuple(fullest)
    yield tuple(sorted(area, key=lambda node: (*reversed(keys[node]), node.home)))
    seen: Counter[tuple[int, ...]] = Counter()
    turns = []
    for node in fullest:
        turns.append((seen[node.home[:-1]], node.home, node))
        seen[node.home[:-1]] += 1
    yield tuple(node for *_, node in sorted(turns))


def _shares(order: Sequence[_Node], fits: _Fits, tasks: int) -> Iterator[dict[_Node, int]]:
    """Yield the tasks of nodes: the first ones get all they hold, or more of them equal shares."""
    filled: dict[_Node, int] = {}
    left = tasks
    for node in order:
        if left:
            filled[node] = min(left, fits[node.name])
            left -= filled[node]
    if left:
        return
    yield filled
    count, most = len(filled), min(tasks, len(order))
    while True:
        yield _evenly(order[:count], fits, tasks)
        if count == most:
            break
        count = min(2 * count, most)


def _evenly(nodes: Sequence[_Node], fits: _Fits, tasks: int) -> dict[_Node, int]:
    """Return equal shares of nodes as far as these hold them, the first ones getting one more."""
    shares = dict.fromkeys(nodes, 0)
    left = tasks
    while left:
        open_ = [node for node in nodes if shares[node] < fits[node.name]]
        level = min(fits[node.name] - shares[node] for node in open_)
        share = min(level, left // len(open_))
        for index, node in enumerate(open_):
            shares[node] += share if share else int(index < left)
        left -= share * len(open_) if share else left
    return {node: share for node, share in shares.items() if share}
