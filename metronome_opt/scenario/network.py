"""Clusters: nodes in a tree of links, and the flows of a placed job."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import InputError, format_path, quote
from metronome_opt.instance import Link, Network, TrafficClasses
from metronome_opt.records import (
    FrozenDict,
    FrozenMap,
    Name,
    NonNegative,
    Record,
    check_unique,
    refuse,
)
from metronome_opt.scenario.collectives import Algorithm, Transport
from metronome_opt.scenario.gpus import ASSUMED
from metronome_opt.scenario.nodes import Gpu, Host, Rack, gpu_as_written
from metronome_opt.scenario.reference import EmptyCluster

MAX_NODES = 100_000
_MAX_RACKS = 4096  # the costs between racks grow with their square
MAX_TIERS = 16
_MAX_PARTS = 1024  # into which what a task sends is divided
_MAX_PAIRS = 64  # flows of a task on a link in an all-to-all: as many parts describe it well
_TAKEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(%|[MGT]bit/s)", re.ASCII)
_UNITS = {"Mbit/s": 1, "Gbit/s": 10**3, "Tbit/s": 10**6}

ANY_COST = 10_000  # the largest network cost that AppGroups may tolerate
NetworkCost = Annotated[int, Field(ge=0, le=ANY_COST, exclude_if=lambda cost: cost == ANY_COST)]


def _taken(value: Any) -> Any:
    """Read a share or a rate of a link."""
    if not isinstance(value, str) or _TAKEN.fullmatch(value) is None:
        raise PydanticCustomError("taken", "must be a share such as 30% or a rate such as 5 Gbit/s")
    return value


# By link. Left out of documents where there is none, so that their checksums stay.
Background = Annotated[
    FrozenMap[Name, Annotated[str, BeforeValidator(_taken, json_schema_input_type=str)]],
    Field(exclude_if=lambda taken: not taken),
]


class Distance(Record):
    """Network cost from one rack to another one."""

    origin: Name
    destination: Name
    cost: NonNegative


@dataclass(frozen=True)
class Placement:
    """The nodes of the tasks of a job, and what the job puts on links there.

    Attributes
    ----------
    nodes
        One per task, in the order of their ranks.
    routes
        The links that each task crosses, one as often as it puts a flow there.
    links
        Number of flows on each link, in the order of the cluster's links.
    transport
        What the place means for collectives.
    limit
        The link that limits the rate of a flow; None if the job crosses none.
    spans
        How many switches of each tier the job spans, from the top; the racks of its nodes last.
    each
        GPUs of a task.
    """

    nodes: tuple[str, ...]
    routes: tuple[tuple[str, ...], ...]
    links: Mapping[str, int]
    transport: Transport
    limit: str | None
    spans: tuple[int, ...]
    each: int = 1

    @property
    def rate(self) -> int:
        """The fastest that a flow may be if the job has the network to itself, in whole Mbit/s."""
        return math.floor(self.transport.rate)

    @property
    def racks(self) -> int:
        """How many racks have nodes of the job."""
        return self.spans[-1]

    @property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs that it takes of each node."""
        return {node: self.each * tasks for node, tasks in Counter(self.nodes).items()}


class Cluster(Record):
    """Machines by name in a tree of interfaces and uplinks.

    One direction of a link is modelled: what a worker of a ring, a pipeline or an all-to-all sends
    it receives as well, so that both directions carry the same. Racks may stand in racks: leaves,
    spines and so on. The core above them is taken to be free of contention, and the uplinks of a
    rack are one link, balanced perfectly.

    Parameters
    ----------
    topology
        Tells it from the short form of a cluster whose nodes are all alike.
    nodes, racks, links
        The tree. A node in no rack has nothing but its interface between it and the others.
    zone_costs
        Network costs between racks, as a NetworkTopology has them.
    gpu
        The kind of GPU in all nodes; only jobs that are asked for by model need it.
    background
        Traffic of others by link, storage, say: a share of it (``30%``) or a rate (``5 Gbit/s``).
    traffic_classes
        How many traffic classes the network serves in strict order, from 1 (none) to 8.
    network
        How links are shared: ``fair`` (RoCE, InfiniBand, short queues), ``tcp`` (queues as deep as
        those that it was fitted to), by priority ``weighted`` or ``strict``.
    """

    topology: Literal["listed"] = "listed"
    nodes: Annotated[tuple[Host, ...], Field(strict=False, min_length=1, max_length=MAX_NODES)]
    racks: Annotated[tuple[Rack, ...], Field(strict=False, max_length=_MAX_RACKS)] = ()
    links: Annotated[tuple[Link, ...], Field(strict=False)]
    zone_costs: Annotated[tuple[Distance, ...], Field(strict=False)] = ()
    gpu: Annotated[Gpu | None, PlainSerializer(gpu_as_written)] = None
    background: Background = Field(default_factory=FrozenDict)
    traffic_classes: TrafficClasses = 1
    network: Network = "fair"

    @model_validator(mode="after")
    def _check(self) -> Self:
        for field in ("nodes", "racks", "links"):
            check_unique(field, [each.name for each in getattr(self, field)])
        _check_ways(self)
        _check_racks(self)
        _check_tiers(self)
        _check_regions(self)
        _check_costs(self.zone_costs, {rack.name for rack in self.racks})
        check_background(self.background, {link.name: link.capacity for link in self.links})
        return self

    @cached_property
    def ways(self) -> Mapping[str | None, dict[str, str | None]]:
        """The uplinks on the way up from each rack, its own first, by rack; none from no rack."""
        racks = {rack.name: rack for rack in self.racks}
        ways: dict[str | None, dict[str, str | None]] = {None: {}}
        for rack in self.racks:
            way, above = ways.setdefault(rack.name, {}), rack
            way[rack.name] = rack.uplink
            while above.within is not None and len(way) < MAX_TIERS:
                above = racks[above.within]
                if above.name in way:
                    break
                way[above.name] = above.uplink
        return ways

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs of each node, in the order of the nodes."""
        return {node.name: node.has.gpus for node in self.nodes}

    @cached_property
    def capacities(self) -> Mapping[str, int]:
        """Mbit/s per link that others leave, in the order of the links."""
        return {
            link.name: _left(link.capacity, self.background.get(link.name)) for link in self.links
        }

    @cached_property
    def rack_cost(self) -> Mapping[tuple[str, str], int]:
        """Network costs between racks."""
        return {(way.origin, way.destination): way.cost for way in self.zone_costs}

    @cached_property
    def region_cost(self) -> Mapping[tuple[str, str], int]:
        """Network costs between regions: the largest from a rack of one to a rack of the other."""
        region_of = {node.rack: node.region for node in self.nodes if node.region is not None}
        costs: dict[tuple[str, str], int] = {}
        for (origin, destination), cost in self.rack_cost.items():
            ends = region_of.get(origin, ""), region_of.get(destination, "")
            if "" not in ends and ends[0] != ends[1]:
                costs[ends] = max(cost, costs.get(ends, 0))
        return costs

    @cached_property
    def nic(self) -> int:
        """The maximum rate of a node in Mbit/s."""
        return max(sum(self.capacities[rail] for rail in node.rails) for node in self.nodes)

    def links_of(self, node: Host) -> tuple[str, ...]:
        """Return the links that the traffic of a node may cross, its own ones first."""
        return (*node.rails, *filter(None, self.ways[node.rack].values()))

    def next_rails(
        self, nodes: Sequence[str], gpus: int, taken: Counter[str]
    ) -> list[tuple[str, ...]]:
        """Return the interfaces next to the GPUs that tasks get, if each gets the next ones there.

        Which ones they really get is known only when they run. What they get is added to `taken`.
        """
        rails = []
        for node in nodes:
            rails.append(self.hosts[node].rails_near(taken[node], gpus))
            taken[node] += gpus
        return rails

    @cached_property
    def empty(self) -> EmptyCluster:
        """The places of single jobs in it."""
        return EmptyCluster(self)

    @cached_property
    def link_mbps(self) -> int | None:
        """What one GPU sends to the others of its node, in Mbit/s; None where unknown."""
        return None if self.gpu is None else self.gpu.link_mbps

    @property
    def inside_mbps(self) -> int:
        """The same, as assumed where it is not known."""
        return self.link_mbps or round(1000 * ASSUMED.gbps)

    def placement(
        self,
        nodes: Sequence[str],
        algorithm: Algorithm = "tasks",
        *,
        each: int = 1,
        rails: Sequence[tuple[str, ...]] | None = None,
    ) -> Placement:
        """Return the flows of a job on links, given the node of each task.

        Tasks with a flow of their own cross their node's interface if the job has tasks on other
        nodes, and the uplinks up to the lowest rack that all of them share: as if all its partners
        were there. In a ring or in trees, flat or of nodes, the last task on a node does so for the
        next one. In an all-to-all a task has as many flows on a link as there are GPUs beyond it.
        Of several interfaces a task uses equally those that it is next to, `rails`, or all; a ring
        leaves a node by those of all its tasks there. A node that is not known is an `InputError`.
        """
        for name in nodes:
            if name not in self.hosts:
                raise InputError(f"there is no node {quote(name)}")
        tasks_on = Counter(nodes)
        near = [self.hosts[name].rails for name in nodes] if rails is None else rails
        gpus = max(1, each)
        transport = Transport(
            algorithm=algorithm,
            gpus=gpus * len(nodes),
            nodes=len(tasks_on),
            gpus_per_node=gpus * max(tasks_on.values(), default=0),
            link_mbps=self.inside_mbps,
            rate=Fraction(0),
            gpus_per_worker=gpus,
        )
        routes: list[tuple[str, ...]] = [()] * len(nodes)
        if len(tasks_on) < 2:
            transport = transport._replace(rate=Fraction(transport.link_mbps))
        elif algorithm == "all-to-all":
            transport, routes = self._between_all(nodes, near, transport)
        else:
            transport, routes = self._from_senders(nodes, near, transport)
        counts = Counter(link for links in routes for link in links)
        flows = {link: counts[link] for link in sorted(counts, key=self._order.__getitem__)}
        shares = [(Fraction(self.capacities[link], n), link) for link, n in flows.items()]
        rate, limit = min(shares, default=(transport.rate, None))
        return Placement(
            tuple(nodes),
            tuple(routes),
            flows,
            transport._replace(rate=rate),
            limit,
            self._spans({self.hosts[name].rack for name in tasks_on}),
            each,
        )

    def _from_senders(
        self, nodes: Sequence[str], near: Sequence[tuple[str, ...]], transport: Transport
    ) -> tuple[Transport, list[tuple[str, ...]]]:
        """Return the links of tasks where all of them send, or one of each node."""
        ways = [self.ways[self.hosts[name].rack] for name in nodes]
        if transport.algorithm == "tasks":
            shared = set(ways[0]).intersection(*ways)
            senders = [(task, its, shared) for task, its in enumerate(near)]
        else:
            senders = [(task, its, set(ways[to])) for task, its, to in _around(nodes, near)]
        parts = math.lcm(*[len(its) for _, its, _ in senders])
        if parts > _MAX_PARTS:
            raise InputError(
                f"interfaces: tasks on these nodes send in {quote(parts)} equal parts, above the "
                f"limit of {_MAX_PARTS}; place the job on nodes with like numbers of interfaces"
            )
        routes: list[tuple[str, ...]] = [()] * len(nodes)
        for task, its, shared in senders:
            uplinks = [link for rack, link in ways[task].items() if link and rack not in shared]
            routes[task] = its * (parts // len(its)) + tuple(uplinks) * parts
        return transport._replace(flows=parts), routes

    def _between_all(
        self, nodes: Sequence[str], near: Sequence[tuple[str, ...]], transport: Transport
    ) -> tuple[Transport, list[tuple[str, ...]]]:
        """Return the links of tasks that all send to one another."""
        ring, around = self._from_senders(nodes, near, transport._replace(algorithm="ring"))
        on_node = Counter(nodes)
        below: Counter[str] = Counter()  # tasks below each rack
        for node, tasks in on_node.items():
            for rack in self.ways[self.hosts[node].rack]:
                below[rack] += tasks
        # Of a task: how many are beyond each of its links, times a number that rails divide.
        parts = math.lcm(*map(len, near))
        beyond: list[dict[str, int]] = []
        for node, its in zip(nodes, near, strict=True):
            counts = dict.fromkeys(its, parts // len(its) * (len(nodes) - on_node[node]))
            for rack, link in self.ways[self.hosts[node].rack].items():
                if link and below[rack] < len(nodes):
                    counts[link] = parts * (len(nodes) - below[rack])
            beyond.append(counts)
        numbers = {count for counts in beyond for count in counts.values()}
        unit = Fraction(max(math.gcd(*numbers), -(-max(numbers) // _MAX_PAIRS)))
        routes = [
            tuple(link for link, count in counts.items() for _ in range(math.ceil(count / unit)))
            for counts in beyond
        ]
        total, leaving = (
            Counter(link for its in each for link in its) for each in (routes, around)
        )
        gpus = transport.gpus // len(nodes)
        return (
            transport._replace(
                flows=max(
                    sum(link in its for link in route)
                    for route, its in zip(routes, near, strict=True)
                ),
                pairs=gpus * gpus * unit / parts,
                rings=max(Fraction(leaving[link], total[link]) for link in leaving) / ring.flows,
            ),
            routes,
        )

    def _spans(self, racks: Collection[str | None]) -> tuple[int, ...]:
        """Return how many switches of each tier some racks are in, from the top."""
        if self.depth == 1:
            return (len(racks),)
        ways = [tuple(reversed(self.ways[rack])) for rack in racks]
        return tuple(len({way[:tier] for way in ways}) for tier in range(1, self.depth + 1))

    @cached_property
    def depth(self) -> int:
        """How many tiers of racks there are, at least one."""
        return max(1, *map(len, self.ways.values()))

    @cached_property
    def _order(self) -> Mapping[str, int]:
        return {link.name: index for index, link in enumerate(self.links)}


def _around(
    nodes: Sequence[str], near: Sequence[tuple[str, ...]]
) -> list[tuple[int, tuple[str, ...], int]]:
    """Return the tasks that leave a node in a ring, their interfaces, and the task on the next one.

    A ring visits the tasks of a node one after the other, and nodes in the order of their first
    tasks. Source: NVIDIA/nccl, src/init.cc and `connectRings` in src/graph/connect.cc.
    """
    last = {node: task for task, node in enumerate(nodes)}  # in the order of first tasks
    rails: dict[str, dict[str, None]] = {}
    for node, its in zip(nodes, near, strict=True):
        rails.setdefault(node, {}).update(dict.fromkeys(its))
    leaving = list(last.values())
    return [
        (task, tuple(rails[nodes[task]]), following)
        for task, following in zip(leaving, [*leaving[1:], leaving[0]], strict=True)
    ]


def check_background(background: Mapping[str, str], capacities: Mapping[str, int]) -> None:
    """Refuse traffic of others on links that are not there, or that leaves nothing of one."""
    for link, taken in background.items():
        where = format_path(["background", link])
        if link not in capacities:
            refuse(where, f"there is no link {quote(link)}")
        if _left(capacities[link], taken) < 1:
            refuse(where, f"{taken}: leaves nothing of its {capacities[link]:,} Mbit/s; state less")


def _left(capacity: int, taken: str | None) -> int:
    """Return what others leave of a link, in whole Mbit/s, rounded down."""
    match = _TAKEN.fullmatch(taken or "0%")
    assert match is not None  # noqa: S101 (checked when it was read)
    share = Fraction(capacity, 100) if match[2] == "%" else _UNITS[match[2]]
    return math.floor(capacity - Fraction(match[1]) * share)


def _check_ways(fabric: Cluster) -> None:
    """Refuse interfaces and uplinks that are not links, and links that are not one of them each."""
    ways = [
        (f"nodes[{i}].interface" + (f"s[{number}]" if node.interfaces else ""), rail)
        for i, node in enumerate(fabric.nodes)
        for number, rail in enumerate(node.rails)
    ]
    ways += [
        (f"racks[{i}].uplink", rack.uplink)
        for i, rack in enumerate(fabric.racks)
        if rack.uplink is not None
    ]
    known = {link.name for link in fabric.links}
    user: dict[str, str] = {}
    for where, link in ways:
        if link not in known:
            refuse(where, f"there is no link {quote(link)}")
        if link in user:
            refuse(where, f"{quote(link)} is also {user[link]}; each link has one place")
        user[link] = where
    for index, each in enumerate(fabric.links):
        if each.name not in user:
            refuse(
                f"links[{index}].name",
                f"{quote(each.name)} is no node's interface and no rack's uplink; leave it out",
            )


def _check_racks(fabric: Cluster) -> None:
    """Refuse racks that are not there, or hold nothing."""
    known = {rack.name for rack in fabric.racks}
    used = {*(node.rack for node in fabric.nodes), *(rack.within for rack in fabric.racks)}
    for index, node in enumerate(fabric.nodes):
        if node.rack is not None and node.rack not in known:
            refuse(f"nodes[{index}].rack", f"there is no rack {quote(node.rack)}")
    for index, rack in enumerate(fabric.racks):
        if rack.name not in used:
            refuse(f"racks[{index}].name", f"{quote(rack.name)} holds no node; leave it out")


def _check_tiers(fabric: Cluster) -> None:
    """Refuse racks in racks that are not there, in themselves, or in too many others."""
    within = {rack.name: rack.within for rack in fabric.racks}
    for index, rack in enumerate(fabric.racks):
        if rack.within is not None and rack.within not in within:
            refuse(f"racks[{index}].within", f"there is no rack {quote(rack.within)}")
    for index, rack in enumerate(fabric.racks):
        way = fabric.ways[rack.name]
        above = within[next(reversed(way))]
        if above is not None:
            many = f"has more than {MAX_TIERS - 1} others above it"
            fault = "stands in itself" if above in way else many
            refuse(f"racks[{index}].within", f"{quote(rack.within)}: {fault}; leave one out")


def _check_regions(fabric: Cluster) -> None:
    """Refuse racks in two regions, unless they are above all racks of nodes."""
    first: dict[str, int] = {}
    homes = {node.rack for node in fabric.nodes}
    tops = set.intersection(*({*fabric.ways[rack]} for rack in homes)) - homes
    for index, node in enumerate(fabric.nodes):
        for rack in fabric.ways[node.rack] if node.region is not None else ():
            other = first.setdefault(rack, index)
            if fabric.nodes[other].region != node.region and rack not in tops:
                refuse(
                    f"nodes[{index}].region",
                    f"{quote(node.region)}: rack {quote(rack)} is in "
                    f"{quote(fabric.nodes[other].region)} by nodes[{other}]; a rack has one region",
                )


def _check_costs(costs: Sequence[Distance], known: set[str]) -> None:
    """Refuse costs of racks that are not there, of one rack to itself, and those given twice."""
    first: dict[tuple[str, str], int] = {}
    for index, way in enumerate(costs):
        same = first.setdefault((way.origin, way.destination), index)
        if same != index:
            refuse(f"zone_costs[{index}]", f"has the racks of zone_costs[{same}]; leave it out")
        for end, name in (("origin", way.origin), ("destination", way.destination)):
            if name not in known:
                refuse(f"zone_costs[{index}].{end}", f"there is no rack {quote(name)}")
        if way.origin == way.destination:
            refuse(f"zone_costs[{index}]", f"{quote(way.origin)} is both of its ends; leave it out")
