"""Network overhead: what Diktyo's scheduler plugin of this name counts, to filter and score nodes.

Source: kubernetes-sigs/scheduler-plugins, pkg/networkaware/networkoverhead. A rack is a zone. The
plugin needs a NetworkTopology, which only clusters with costs between racks have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from metronome_opt.scenario.cluster import ANY_COST, Cluster

_SAME_RACK = 1
_UNKNOWN = 100


class Overhead(NamedTuple):
    """Dependencies of a pod on a node on pods that have theirs.

    Attributes
    ----------
    cost
        The score of the node before it is normalised; lower is better.
    satisfied, violated
        Number of dependencies within their cost limit, and beyond it; without unknown costs.
    """

    cost: int
    satisfied: int
    violated: int

    @property
    def is_rejected(self) -> bool:
        """Whether the filter turns the node down."""
        return self.violated > self.satisfied


def overhead(cluster: Cluster, node: str, others: Iterable[tuple[str, int]]) -> Overhead:
    """Return the overhead of a node, given the nodes that a pod depends on and the largest costs.

    Costs are those from the node to the other one.
    """
    cost = satisfied = violated = 0
    here = cluster.nodes_by_name[node]
    for other, limit in others:
        there, most = cluster.nodes_by_name[other], limit
        each: int | None = 0
        if node == other:
            most = 0
        elif there.region is None and there.rack is None:
            each, most = _UNKNOWN, -1
        elif (here.region, here.rack) == (there.region, there.rack):
            each = most = _SAME_RACK
        elif here.region == there.region:
            each = cluster.rack_cost.get((here.rack or "", there.rack or ""))
        else:
            each = cluster.region_cost.get((here.region or "", there.region or ""))
        satisfied += each is not None and each <= most
        violated += each is not None and each > most
        cost += _UNKNOWN if each is None else each
    return Overhead(cost, satisfied, violated)


def is_tolerated(cluster: Cluster, nodes: Sequence[str], most: int) -> bool:
    """Return whether no pod of a ring on some nodes is rejected, in any order of arrival.

    A pod depends on the next one only. All nodes pass where any cost is tolerated or none is known.
    """
    if most == ANY_COST or not cluster.zone_costs:
        return True
    following = {*zip(nodes, [*nodes[1:], nodes[0]], strict=True)}
    return not any(overhead(cluster, node, [(to, most)]).is_rejected for node, to in following)


def tolerated_groups(cluster: Cluster, nodes: Sequence[str], most: int) -> list[list[int]]:
    """Return groups of some nodes, by index, between any two of which costs are tolerated.

    Each node is in one at least, which no other node could join.
    """
    near = np.array([[is_tolerated(cluster, (a, b), most) for b in nodes] for a in nodes])
    groups: dict[tuple[int, ...], None] = {}
    for first, left in enumerate(near.copy()):
        group, left[first] = [first], False
        while left.any():
            group.append(int(left.argmax()))
            left[group[-1]] = False
            left &= near[group[-1]]
        groups[tuple(sorted(group))] = None
    return [*map(list, groups)]
