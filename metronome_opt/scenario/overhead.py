"""Network overhead: the costs by which Diktyo's scheduler plugin of this name filters nodes.

Source: kubernetes-sigs/scheduler-plugins, pkg/networkaware/networkoverhead. A rack is a zone. The
plugin needs a NetworkTopology, which only clusters with costs between racks have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metronome_opt.scenario.cluster import ANY_COST, Cluster

_UNLABELLED = ANY_COST + 1  # of a node without rack and region, which no limit tolerates


def network_cost(cluster: Cluster, node: str, other: str) -> int | None:
    """Return the network cost from a node to another one; None where no entry states it.

    Inside a rack, where the plugin counts 1 whatever is tolerated, it is 0.
    """
    here, there = cluster.nodes_by_name[node], cluster.nodes_by_name[other]
    if node == other:
        return 0
    if there.region is None and there.rack is None:
        return _UNLABELLED
    if here.region != there.region:
        return cluster.region_cost.get((here.region or "", there.region or ""))
    if here.rack != there.rack:
        return cluster.rack_cost.get((here.rack or "", there.rack or ""))
    return 0


def is_tolerated(cluster: Cluster, nodes: Sequence[str], most: int) -> bool:
    """Return whether the plugin rejects no pod of a ring on some nodes, in any order of arrival.

    A pod depends on the next one only. All nodes pass where any cost is tolerated or none is known.

    Parameters
    ----------
    cluster, nodes
        The cluster, and the node of each pod.
    most
        The largest network cost that the job tolerates.

    Returns
    -------
    bool
        Whether no dependency costs more.
    """
    if most == ANY_COST or not cluster.zone_costs:
        return True
    following = {*zip(nodes, [*nodes[1:], nodes[0]], strict=True)}
    return all((network_cost(cluster, node, to) or 0) <= most for node, to in following)


def ring_cost(cluster: Cluster, nodes: Sequence[str]) -> int:
    """Return the sum of costs around a ring on some nodes, the highest where none is stated."""
    pairs = zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    costs = (network_cost(cluster, node, other) for node, other in pairs)
    return sum(ANY_COST if cost is None else cost for cost in costs)


def tolerated_groups(cluster: Cluster, nodes: Sequence[str], most: int) -> list[list[int]]:
    """Return groups of nodes, by index, between any two of which costs are tolerated.

    Each node is in one group at least, which no other node could join.
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
