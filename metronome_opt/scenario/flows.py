"""Flows of a placed job on links, and the spines that they cross.

Where racks have several uplinks, one to each spine, what leaves a rack by a spine enters the next
one by its link to the same spine. Both directions of these links count on their own: a hash gives
the flows that leave a rack and those that enter it different spines, so that one direction does not
tell of the other. Everywhere else what a worker sends it receives as well, and one is enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

from metronome_opt.errors import InputError, pluralise, quote
from metronome_opt.scenario.cluster import Cluster, Paths
from metronome_opt.scenario.collectives import Algorithm, Transport

_MAX_PARTS = 1024  # into which what a task sends is divided
_MAX_PAIRS = 64  # flows of a task on a link in an all-to-all: as many parts describe it well


@dataclass(frozen=True)
class Placement:
    """The nodes of the tasks of a job, and what the job puts on links there.

    Attributes
    ----------
    nodes
        One per task, in the order of their ranks.
    routes
        The links that each task crosses, repeated for each of its flows.
    links
        Number of flows on each link, in the order of the cluster's links.
    transport
        How the placement carries collectives.
    bottleneck
        The link that limits the rate of a flow; None if the job crosses none.
    spans
        Number of switches of each tier that the job spans, from the top; racks of nodes last.
    task_gpus
        GPUs of a task.
    paths
        The spines of its flows; empty if they cross none, or all of them evenly.
    """

    nodes: tuple[str, ...]
    routes: tuple[tuple[str, ...], ...]
    links: Mapping[str, int]
    transport: Transport
    bottleneck: str | None
    spans: tuple[int, ...]
    task_gpus: int = 1
    paths: Paths = ()

    @property
    def rate(self) -> int:
        """The fastest that a flow may be if the job has the network to itself, in whole Mbit/s."""
        return math.floor(self.transport.rate)

    @property
    def racks(self) -> int:
        """Number of racks with nodes of the job."""
        return self.spans[-1]

    @property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs that it takes of each node."""
        return {node: self.task_gpus * tasks for node, tasks in Counter(self.nodes).items()}


class _Sender(NamedTuple):
    """A task, its interfaces, the task that it sends to, and the racks that are left, entered."""

    task: int
    rails: tuple[str, ...]
    to: int
    left: Sequence[str]
    entered: Sequence[str]

    def is_between(self, cluster: Cluster) -> bool:
        """Return whether what it sends crosses a link between a rack and one of several spines."""
        return any(len(cluster.uplinks[rack]) > 1 for rack in (*self.left, *self.entered))


def compute_placement(
    cluster: Cluster,
    nodes: Sequence[str],
    algorithm: Algorithm = "tasks",
    *,
    task_gpus: int = 1,
    rails: Sequence[tuple[str, ...]] | None = None,
    paths: Paths | str | None = None,
) -> Placement:
    """Return the flows of a job on links, given the node of each task.

    Tasks with a flow of their own cross their node's interface if the job has tasks on other
    nodes, and the uplinks up to the lowest rack that all of them share: as if all its partners
    were there; what a task receives enters its rack as what it sends leaves it. In a ring or in
    trees, flat or of nodes, the last task on a node does so for the next one. In an all-to-all a
    task has as many flows on a link as there are GPUs beyond it; they are many, and cross all
    spines evenly. Of several interfaces a task uses equally those that it is next to, `rails`, or
    all; a ring leaves a node by those of all its tasks there.

    Parameters
    ----------
    task_gpus
        GPUs of a task.
    paths
        The spines, of several, that flows cross; or a text whose hash with the two tasks of a flow
        and its interface decides, equally in both directions; or None for all of them evenly.

    Raises
    ------
    InputError
        If a node or a spine is not known, or traffic is divided into too many parts.
    """
    for name in nodes:
        if name not in cluster.nodes_by_name:
            raise InputError(f"there is no node {quote(name)}")
    tasks_on = Counter(nodes)
    near = [cluster.nodes_by_name[name].rails for name in nodes] if rails is None else rails
    gpus = max(1, task_gpus)
    transport = Transport(
        algorithm=algorithm,
        gpus=gpus * len(nodes),
        nodes=len(tasks_on),
        gpus_per_node=gpus * max(tasks_on.values(), default=0),
        link_mbps=cluster.inside_mbps,
        rate=Fraction(0),
        gpus_per_worker=gpus,
    )
    routes: list[tuple[str, ...]] = [()] * len(nodes)
    spines: Paths = ()
    if len(tasks_on) < 2:
        transport = transport._replace(rate=Fraction(transport.link_mbps))
    elif algorithm == "all-to-all":
        transport, routes = _between_all(cluster, nodes, near, transport)
    else:
        senders = _senders(cluster, nodes, near, algorithm)
        if paths is not None:
            spines = _spines_of(cluster, len(nodes), senders, paths)
        parts, routes = _from_senders(cluster, len(nodes), senders, spines)
        transport = transport._replace(flows=parts)
    if isinstance(paths, tuple) and any(paths) and not spines:
        raise InputError("paths: no flow of it has one of its own; leave them out")
    counts = Counter(link for links in routes for link in links)
    flows = {link: counts[link] for link in sorted(counts, key=cluster.order.__getitem__)}
    shares = [(Fraction(cluster.capacities[link], n), link) for link, n in flows.items()]
    rate, bottleneck = min(shares, default=(transport.rate, None))
    return Placement(
        tuple(nodes),
        tuple(routes),
        flows,
        transport._replace(rate=rate),
        bottleneck,
        cluster.spans({cluster.nodes_by_name[name].rack for name in tasks_on}),
        task_gpus,
        spines,
    )


def _senders(
    cluster: Cluster, nodes: Sequence[str], near: Sequence[tuple[str, ...]], algorithm: Algorithm
) -> list[_Sender]:
    """Return the tasks that send to other nodes: all, or the last one on each node.

    A ring visits the tasks of a node one after the other, and nodes in the order of their first
    tasks. Source: NVIDIA/nccl, src/init.cc and `connectRings` in src/graph/connect.cc.
    """
    above = [cluster.uplink_paths[cluster.nodes_by_name[name].rack] for name in nodes]
    senders = []
    if algorithm == "tasks":
        shared, count = set(above[0]).intersection(*above), len(nodes)
        for task, rails in enumerate(near):
            others = (*range(task + 1, count), *range(task))
            to = next(other for other in others if nodes[other] != nodes[task])
            left = [rack for rack in above[task] if rack not in shared]
            senders.append(_Sender(task, rails, to, left, left))
        return senders
    last = {node: task for task, node in enumerate(nodes)}  # in the order of first tasks
    around: dict[str, dict[str, None]] = {}
    for node, rails in zip(nodes, near, strict=True):
        around.setdefault(node, {}).update(dict.fromkeys(rails))
    tasks = list(last.values())
    for task, to in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        left = [rack for rack in above[task] if rack not in above[to]]
        entered = [rack for rack in above[to] if rack not in above[task]]
        senders.append(_Sender(task, tuple(around[nodes[task]]), to, left, entered))
    return senders


def _from_senders(
    cluster: Cluster, tasks: int, senders: Sequence[_Sender], spines: Paths
) -> tuple[int, list[tuple[str, ...]]]:
    """Return the parts of what a task sends, and the links of tasks, one as often as parts."""
    is_even = not spines and any(sender.is_between(cluster) for sender in senders)
    over = cluster.spines if is_even else 1
    flows = [len(its) for its in spines if its]
    parts = math.lcm(over, *flows, *[len(sender.rails) for sender in senders])
    if parts > _MAX_PARTS:
        raise InputError(
            f"interfaces: tasks on these nodes send in {quote(parts)} equal parts, above the "
            f"limit of {_MAX_PARTS}; place the job on nodes with like numbers of interfaces"
        )
    routes: list[tuple[str, ...]] = [()] * tasks
    for sender in senders:
        crossed = spines[sender.task] if spines else range(over)
        route = sender.rails * (parts // len(sender.rails))
        between = [cluster.uplinks[rack] for rack in sender.left]
        between += [cluster.downlinks[rack] for rack in sender.entered]
        for spine in crossed:
            route += tuple(links[spine] for links in between if links) * (parts // len(crossed))
        routes[sender.task] = route
    return parts, routes


def _between_all(
    cluster: Cluster,
    nodes: Sequence[str],
    near: Sequence[tuple[str, ...]],
    transport: Transport,
) -> tuple[Transport, list[tuple[str, ...]]]:
    """Return the links of tasks that all send to one another."""
    senders = _senders(cluster, nodes, near, "ring")
    ring, around = _from_senders(cluster, len(nodes), senders, ())
    above = [cluster.uplink_paths[cluster.nodes_by_name[name].rack] for name in nodes]
    on_node = Counter(nodes)
    below = Counter(rack for racks in above for rack in racks)
    # The tasks beyond each link of a task, times a number that rails divide.
    parts = math.lcm(cluster.spines, *map(len, near))
    beyond: list[dict[str, int]] = []
    for node, rails, racks in zip(nodes, near, above, strict=True):
        counts = dict.fromkeys(rails, parts // len(rails) * (len(nodes) - on_node[node]))
        for rack in racks:
            ups, outside = cluster.uplinks[rack], len(nodes) - below[rack]
            if ups and outside:
                links = (*ups, *cluster.downlinks[rack])
                counts.update(dict.fromkeys(links, parts // len(ups) * outside))
        beyond.append(counts)
    numbers = {count for counts in beyond for count in counts.values()}
    unit = Fraction(max(math.gcd(*numbers), -(-max(numbers) // _MAX_PAIRS)))
    routes = [
        tuple(link for link, count in counts.items() for _ in range(math.ceil(count / unit)))
        for counts in beyond
    ]
    total, leaving = (
        Counter(link for route in many for link in route) for many in (routes, around)
    )
    own = (sum(link in rails for link in route) for route, rails in zip(routes, near, strict=True))
    gpus = transport.gpus // len(nodes)
    return (
        transport._replace(
            flows=max(own),
            pairs=gpus * gpus * unit / parts,
            rings=max(Fraction(leaving[link], total[link]) for link in leaving) / ring,
        ),
        routes,
    )


def _spines_of(
    cluster: Cluster, tasks: int, senders: Sequence[_Sender], paths: Paths | str
) -> Paths:
    """Return the spines of flows between racks that have several; see `compute_placement`."""
    between = {sender.task: sender for sender in senders if sender.is_between(cluster)}
    flows = [len(between[task].rails) if task in between else 0 for task in range(tasks)]
    if isinstance(paths, str):
        pairs = cluster.queue_pairs if cluster.routing == "ecmp" else 1
        ends = {task: sorted((task, sender.to)) for task, sender in between.items()}
        return tuple(
            tuple(
                _hash(f"{paths}/{ends[task][0]}/{ends[task][1]}/{n}", cluster.spines)
                for n in range(pairs * count)
            )
            for task, count in enumerate(flows if between else ())
        )
    if len(paths) != tasks:
        raise InputError(f"paths: of {pluralise(len(paths), 'task')}, and there are {tasks}")
    for task, (spines, count) in enumerate(zip(paths, flows, strict=True)):
        if len(spines) != count:
            sends = f"it sends {pluralise(count, 'flow')} over spines; name one for each"
            raise InputError(f"paths[{task}]: {pluralise(len(spines), 'spine')}, and {sends}")
        for spine in spines:
            if not 0 <= spine < cluster.spines:
                there = f"there is no spine {spine} of 0 to {cluster.spines - 1}"
                raise InputError(f"paths[{task}]: {there}")
    return paths


def _hash(text: str, spines: int) -> int:
    """Return the spine that a hash gives: the first 8 bytes of SHA-256, modulo their number."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") % spines
