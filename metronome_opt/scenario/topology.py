"""Links of a cluster, and how much of a job's traffic crosses each.

One direction of a link is modelled: what a worker of a ring, a pipeline or an all-to-all sends it
receives as well, so that both directions carry the same. The core of a leaf-spine network is taken
to be free of contention, so that a rack's uplinks are one link, balanced perfectly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from metronome_opt.scenario.deployment import Node
from metronome_opt.scenario.listed import ListedCluster
from metronome_opt.scenario.model import Cluster

RACK_COST = 2
"""Network cost between racks: their two uplinks are crossed."""


@dataclass(frozen=True)
class Network:
    """The links of a cluster.

    Attributes
    ----------
    nodes
        In order of their names.
    capacities
        Mbit/s per link: the interfaces in the order of the nodes, then the uplinks; those of
        machines that are listed in the order of the list.
    rack_cost
        As in `Deployment`.
    """

    nodes: tuple[Node, ...]
    capacities: Mapping[str, int]
    rack_cost: Mapping[tuple[str, str], int]


def network_of(cluster: Cluster | ListedCluster) -> Network:
    """Return the links of a cluster.

    Where machines are not listed, an interface is called after its node, and a rack's uplink
    carries what its nodes can send together divided by the oversubscription, rounded down to whole
    Mbit/s.
    """
    if isinstance(cluster, ListedCluster):
        carries = {link.name: link.capacity for link in cluster.links}
        return Network(cluster.deployment_nodes(), carries, cluster.rack_cost)
    names = cluster.node_names
    capacities = dict.fromkeys(names, cluster.nic)
    if cluster.topology == "single-switch":
        nodes = tuple(Node(name, (name,)) for name in names)
        return Network(nodes, MappingProxyType(capacities), MappingProxyType({}))
    racks = [f"rack-{index}" for index in range(cluster.rack_count)]
    size = cluster.nodes // len(racks)
    uplink = math.floor(size * cluster.nic / cluster.ratio)
    capacities |= {f"{rack}-uplink": uplink for rack in racks}
    nodes = tuple(
        Node(name, (name, f"{racks[index // size]}-uplink"), racks[index // size])
        for index, name in enumerate(names)
    )
    costs = {(one, other): RACK_COST for one in racks for other in racks if one != other}
    return Network(nodes, MappingProxyType(capacities), MappingProxyType(costs))


def routes(network: Network, placement: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the links that the traffic of each task of a job crosses.

    A task crosses its node's interface if the job has tasks on other nodes, and its rack's uplink
    if the job has tasks in other racks.

    Parameters
    ----------
    network
        The links.
    placement
        The node of each task of the job.
    """
    nodes = {node.name: node for node in network.nodes}
    homes = [nodes[name] for name in placement]
    leaves_node = len({home.name for home in homes}) > 1
    leaves_rack = len({home.rack for home in homes}) > 1
    return tuple(
        (home.links[:1] if leaves_node else ()) + (home.links[1:] if leaves_rack else ())
        for home in homes
    )


def flows(network: Network, crossed: Sequence[Sequence[str]]) -> Mapping[str, int]:
    """Return how many tasks cross each link, in the order of the network's links.

    Every task counts in full, as if its partners were all on the far side: a ring that visits the
    nodes in turn puts less on a link, how much depends on the order of the ring.
    """
    counts = Counter(link for links in crossed for link in links)
    return {link: counts[link] for link in network.capacities if link in counts}
