"""Network overhead: the costs by which Diktyo's scheduler plugin of this name filters nodes.

Source: kubernetes-sigs/scheduler-plugins, pkg/networkaware/networkoverhead. A rack is a zone. The
plugin needs a NetworkTopology, which only clusters with costs between racks have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metronome_opt.scenario.cluster import ANY_COST, Cluster

_SAME_RACK = 1
_UNLABELLED = ANY_COST + 1  # of a node without rack and region, which no limit tolerates


def network_cost(cluster: Cluster, node: str, other: str) -> int | None:
    """Return the network cost from a node to another one; None where no entry states it."""
    here, there = cluster.nodes_by_name[node], cluster.nodes_by_name[other]
    if node == other:
        return 0
    if there.region is None and there.rack is None:
        return _UNLABELLED
    if (here.region, here.rack) == (there.region, there.rack):
        return _SAME_RACK
    if here.region == there.region:
        return cluster.rack_cost.get((here.rack or "", there.rack or ""))
    return cluster.region_cost.get((here.region or "", there.region or ""))


def is_tolerated(cluster: Cluster, nodes: Sequence[str], most: int) -> bool:
    """Return whether the plugin rejects no pod of a ring on some nodes, in any order of arrival.

    A pod depends on the next one only. All nodes pass where any cost is tolerated or none is known.
    """
    if most == ANY_COST or not cluster.zone_costs:
        return True
    following = {*zip(nodes, [*nodes[1:], nodes[0]], strict=True)}
    return not any(_exceeds(cluster, node, to, most) for node, to in following)


def _exceeds(cluster: Cluster, node: str, other: str, most: int) -> bool:
    """Return whether a cost is known and too large; the cost inside a rack never is."""
    cost = network_cost(cluster, node, other)
    here, there = cluster.nodes_by_name[node], cluster.nodes_by_name[other]
    if cost == _SAME_RACK and here.rack == there.rack:
        return False
    return cost is not None and cost > most


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
