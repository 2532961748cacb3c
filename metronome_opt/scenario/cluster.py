"""Clusters: nodes in a tree of links."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import format_path, quote
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    NonNegative,
    Record,
    check_unique,
    refuse,
)
from metronome_opt.problem.instance import Link, Network, TrafficClasses
from metronome_opt.scenario.nodes import LINK_SPEEDS, Gpu, Node, Rack

MAX_NODES = 100_000
MAX_TASKS = 100_000
_MAX_RACKS = 4096  # the costs between racks grow with their square
MAX_TIERS = 16
_TAKEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(%|[MGT]bit/s)", re.ASCII)
_UNITS = {"Mbit/s": 1, "Gbit/s": 10**3, "Tbit/s": 10**6}

Routing = Annotated[
    Literal["ecmp", "spray", "chosen"], Field(exclude_if=lambda routing: routing == "ecmp")
]
HashSeed = Annotated[int, Field(ge=0, exclude_if=lambda seed: seed == 0)]
QueuePairs = Annotated[int, Field(ge=1, le=64, exclude_if=lambda pairs: pairs == 1)]
HasCore = Annotated[bool, Field(exclude_if=lambda has_core: has_core)]

Paths = tuple[tuple[int, ...], ...]
"""The spines by which the traffic of each task leaves its rack, one for each of its interfaces.

There are none for a task that sends nothing out of its rack.
"""

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


class Cluster(Record):
    """Machines by name in a tree of interfaces and uplinks.

    One direction of a link is modelled: what a worker of a ring, a pipeline or an all-to-all sends
    it receives as well, so that both directions carry the same. Racks may stand in racks: leaves,
    spines and so on. The core above them is taken to be free of contention, and the uplink of a
    rack is one link, balanced perfectly; or there are several, one to each spine, and both
    directions of them are modelled (`metronome_opt.scenario.flows`).

    Parameters
    ----------
    topology
        Tells it from the short form of a cluster whose nodes are all equal.
    nodes, racks, links
        The tree. A node in no rack has nothing but its interface between it and the others.
    zone_costs
        Network costs between racks, as a NetworkTopology has them.
    gpu
        The kind of GPU in all nodes; only jobs that are asked for by model need it.
    background
        Traffic of others by link, storage, say: a share of it (``30%``) or a rate (``5 Gbit/s``).
        A link that failed has ``100%``: it carries nothing, and no job is placed across it.
    traffic_classes
        Number of traffic classes that the network serves in strict order, from 1 (none) to 8.
    routing
        How flows between racks find their spine, where there are several: by a hash (``ecmp``),
        evenly over all of them packet by packet (``spray``), or as ``chosen`` by an allocation,
        those that no schedule states by their hash.
    hash_seed
        Seed of the hash, as switches have one.
    queue_pairs
        Flows of each interface with a hash of their own, with ``ecmp``.
    has_core
        Whether racks that stand in no other one are connected; if not, no job is in two of them.
    network
        How links are shared: ``fair`` (RoCE, short queues), ``tcp`` (queues as deep as
        those that it was fitted to), by priority ``weighted`` or ``strict``.
    """

    topology: Literal["listed"] = "listed"
    nodes: Annotated[tuple[Node, ...], Field(strict=False, min_length=1, max_length=MAX_NODES)]
    racks: Annotated[tuple[Rack, ...], Field(strict=False, max_length=_MAX_RACKS)] = ()
    links: Annotated[tuple[Link, ...], Field(strict=False)]
    zone_costs: Annotated[tuple[Distance, ...], Field(strict=False)] = ()
    gpu: Gpu | None = None
    background: Background = Field(default_factory=FrozenDict)
    traffic_classes: TrafficClasses = 1
    routing: Routing = "ecmp"
    hash_seed: HashSeed = 0
    queue_pairs: QueuePairs = 1
    has_core: HasCore = True
    network: Network = "fair"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.queue_pairs > 1 and self.routing != "ecmp":
            refuse("queue_pairs", f"is {self.queue_pairs}; only routing ecmp hashes flows; omit it")
        if self.hash_seed and self.routing == "spray":
            refuse("hash_seed", f"is {self.hash_seed}; routing spray hashes no flows; omit it")
        if any(rack.uplinks for rack in self.racks):
            _add_downlinks(self)
        for field in ("nodes", "racks", "links"):
            check_unique(field, [record.name for record in getattr(self, field)])
        _check_links(self)
        _check_racks(self)
        _check_regions(self)
        _check_costs(self)
        return self

    @cached_property
    def uplink_paths(self) -> Mapping[str | None, tuple[str, ...]]:
        """The racks on the way up from each rack, the rack itself first; none from no rack."""
        within = {rack.name: rack.within for rack in self.racks}
        paths: dict[str | None, tuple[str, ...]] = {None: ()}
        for name in within:
            path = [name]
            while (above := within[path[-1]]) is not None and len(path) <= MAX_TIERS:
                path.append(above)
            paths[name] = tuple(path)
        return paths

    @cached_property
    def uplinks(self) -> Mapping[str, tuple[str, ...]]:
        """The uplinks of each rack, one to each spine."""
        return {rack.name: rack.ups for rack in self.racks}

    @cached_property
    def downlinks(self) -> Mapping[str, tuple[str, ...]]:
        """The links by which traffic enters each rack, one from each of several spines."""
        return {rack.name: rack.downlinks or () for rack in self.racks}

    @cached_property
    def spines(self) -> int:
        """Number of spines that flows between racks choose from; 1 where they have no choice."""
        return max([1, *map(len, self.uplinks.values())])

    @cached_property
    def nodes_by_name(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs of each node, in the order of the nodes."""
        return {node.name: node.has.gpus for node in self.nodes}

    @cached_property
    def capacities(self) -> Mapping[str, int]:
        """Whole Mbit/s per link besides background traffic, in the order of the links."""
        taken = self.background
        return {
            link.name: math.floor(_left(link.capacity, taken.get(link.name, "0%")))
            for link in self.links
        }

    @cached_property
    def rack_cost(self) -> Mapping[tuple[str, str], int]:
        """Network costs between racks."""
        return {(ends.origin, ends.destination): ends.cost for ends in self.zone_costs}

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

    def links_of(self, node: Node) -> tuple[str, ...]:
        """Return the links that the traffic of a node may cross, its own ones first."""
        racks = self.uplink_paths[node.rack]
        between = (link for rack in racks for link in (*self.uplinks[rack], *self.downlinks[rack]))
        return (*node.rails, *between)

    def next_rails(
        self, nodes: Sequence[str], gpus: int, taken: Counter[str]
    ) -> list[tuple[str, ...]]:
        """Return the interfaces next to the GPUs of tasks, if tasks get the next GPUs of nodes.

        Which GPUs a task really gets is known only when it runs.

        Parameters
        ----------
        nodes
            One per task.
        gpus
            GPUs of a task.
        taken
            GPUs in use, by node; the GPUs of the tasks are added.

        Returns
        -------
        list
            The interfaces of each task.
        """
        rails = []
        for node in nodes:
            rails.append(self.nodes_by_name[node].rails_near(taken[node], gpus))
            taken[node] += gpus
        return rails

    @cached_property
    def memo(self) -> dict[object, Any]:
        """Results about the cluster that other modules compute once."""
        return {}

    @cached_property
    def inside_mbps(self) -> int:
        """What one GPU sends to the others of its node, as assumed where it is not known."""
        return (self.gpu and self.gpu.link_mbps) or round(1000 * LINK_SPEEDS["PCIE"])

    def steer(self, job: str, paths: Paths | None = None) -> Paths | str | None:
        """Return the `paths` of `compute_placement` for a job.

        Chosen paths, where they can be chosen; a text to hash; or None for all spines.
        """
        if self.spines == 1 or self.routing == "spray":
            return None
        return paths if paths and self.routing == "chosen" else f"{self.hash_seed}/{job}"

    def spans(self, racks: Collection[str | None]) -> tuple[int, ...]:
        """Return how many switches of each tier some racks are in, from the top."""
        if self.depth == 1:
            return (len(racks),)
        paths = [tuple(reversed(self.uplink_paths[rack])) for rack in racks]
        return tuple(len({path[:tier] for path in paths}) for tier in range(1, self.depth + 1))

    @cached_property
    def depth(self) -> int:
        """Number of tiers of racks, at least one."""
        return max(1, *map(len, self.uplink_paths.values()))

    @cached_property
    def node_order(self) -> Mapping[str, int]:
        """The index of each node where those of a rack come together, as short rings visit them."""
        first: dict[str, str] = {}  # node of each rack
        for name in sorted(self.nodes_by_name):
            for rack in self.uplink_paths[self.nodes_by_name[name].rack]:
                first.setdefault(rack, name)
        paths = {
            name: [first[rack] for rack in reversed(self.uplink_paths[node.rack])]
            for name, node in self.nodes_by_name.items()
        }
        names = sorted(paths, key=lambda name: (*paths[name], name))
        return {name: index for index, name in enumerate(names)}

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The index of each link."""
        return {link.name: index for index, link in enumerate(self.links)}


def _left(capacity: int, taken: str) -> Fraction:
    """Return the bandwidth besides background traffic of a link, in Mbit/s."""
    number, unit = re.findall(r"[0-9.]+|\S+$", taken)
    share = Fraction(capacity, 100) if unit == "%" else _UNITS[unit]
    return capacity - Fraction(number) * share


def _add_downlinks(cluster: Cluster) -> None:
    """Add the links from several spines, which files may omit.

    Unlike numbers of uplinks are refused, and several of racks in racks.
    """
    racks, links = list(cluster.racks), {link.name: link for link in cluster.links}
    count = next(len(rack.ups) for rack in racks if rack.ups)
    for index, rack in enumerate(racks):
        if rack.ups and len(rack.ups) != count:
            refuse(
                f"racks[{index}].uplinks",
                f"{len(rack.ups)} of them, and other racks have {count}; give each rack one "
                "to each spine",
            )
        if count == 1:
            more: dict[str, Any] = {"uplink": next(iter(rack.ups), None), "uplinks": None}
        elif rack.within is not None:
            fault = "several uplinks are for two tiers; leave it out"
            refuse(f"racks[{index}].within", f"{quote(rack.within)}: {fault}")
        elif rack.downlinks is None and {*rack.ups} <= links.keys() and len({*rack.ups}) > 1:
            downs = {f"{up}-down": links[up] for up in rack.ups}
            for name, up in downs.items():
                links.setdefault(name, up.model_copy(update={"name": name}))
            more = {"downlinks": tuple(downs)}
        else:
            continue
        racks[index] = rack.model_copy(update=more)
    added = [*links.values()][len(cluster.links) :]
    # It is not in use yet.
    cluster.__dict__ |= {"racks": tuple(racks), "links": (*cluster.links, *added)}


def _check_links(cluster: Cluster) -> None:
    """Refuse interfaces and uplinks that are not links, and links that are neither or both.

    Refuse background traffic on unknown links, too, or that leaves nothing of one.
    """
    known = {link.name: link.capacity for link in cluster.links}
    user: dict[str, str] = {}
    for where, link in _link_users(cluster):
        if link not in known:
            refuse(where, f"there is no link {quote(link)}")
        if link in user:
            refuse(where, f"{quote(link)} is also {user[link]}; each link has one place")
        user[link] = where
    for index, link in enumerate(known):
        if link not in user:
            refuse(
                f"links[{index}].name",
                f"{quote(link)} is no node's interface and no rack's uplink; leave it out",
            )
    for link, taken in cluster.background.items():
        where = format_path(["background", link])
        if link not in known:
            refuse(where, f"there is no link {quote(link)}")
        if (left := _left(known[link], taken)) < 1 and left != 0:
            little = f"{taken}: leaves less than 1 of its {known[link]:,} Mbit/s"
            refuse(where, f"{little}; state less, or 100% of a link that carries nothing")


def _link_users(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the location of each link of a node or a rack, and its name."""
    for index, node in enumerate(cluster.nodes):
        for number, rail in enumerate(node.rails):
            yield f"nodes[{index}].interface" + (f"s[{number}]" if node.interfaces else ""), rail
    for index, rack in enumerate(cluster.racks):
        for field, links in (("uplink", rack.ups), ("downlink", rack.downlinks or ())):
            for number, link in enumerate(links):
                yield f"racks[{index}].{field}" + (f"s[{number}]" if len(links) > 1 else ""), link


def _check_racks(cluster: Cluster) -> None:
    """Refuse unknown racks, empty ones, and those in themselves or in too many others."""
    known = {rack.name for rack in cluster.racks}
    used = {*(node.rack for node in cluster.nodes), *(rack.within for rack in cluster.racks)}
    for index, node in enumerate(cluster.nodes):
        if node.rack is not None and node.rack not in known:
            refuse(f"nodes[{index}].rack", f"there is no rack {quote(node.rack)}")
    for index, rack in enumerate(cluster.racks):
        if rack.name not in used:
            refuse(f"racks[{index}].name", f"{quote(rack.name)} holds no node; leave it out")
    for index, rack in enumerate(cluster.racks):
        if rack.within is not None and rack.within not in known:
            refuse(f"racks[{index}].within", f"there is no rack {quote(rack.within)}")
    for index, rack in enumerate(cluster.racks):
        path = cluster.uplink_paths[rack.name]
        if len(path) > MAX_TIERS:
            many = f"has more than {MAX_TIERS - 1} others above it"
            fault = "stands in itself" if len({*path}) < len(path) else many
            refuse(f"racks[{index}].within", f"{quote(rack.within)}: {fault}; leave one out")


def _check_regions(cluster: Cluster) -> None:
    """Refuse racks in two regions, unless they are above all racks of nodes."""
    first: dict[str, int] = {}
    homes = {node.rack for node in cluster.nodes}
    tops = set.intersection(*({*cluster.uplink_paths[rack]} for rack in homes)) - homes
    for index, node in enumerate(cluster.nodes):
        for rack in cluster.uplink_paths[node.rack] if node.region is not None else ():
            other = first.setdefault(rack, index)
            if cluster.nodes[other].region != node.region and rack not in tops:
                refuse(
                    f"nodes[{index}].region",
                    f"{quote(node.region)}: rack {quote(rack)} is in "
                    f"{quote(cluster.nodes[other].region)} by nodes[{other}]; a rack has one "
                    "region",
                )


def _check_costs(cluster: Cluster) -> None:
    """Refuse costs of unknown racks, of one rack to itself, and costs given twice."""
    first: dict[tuple[str, str], int] = {}
    for index, cost in enumerate(cluster.zone_costs):
        where, ends = f"zone_costs[{index}]", (cost.origin, cost.destination)
        same = first.setdefault(ends, index)
        if same != index:
            refuse(where, f"has the racks of zone_costs[{same}]; leave it out")
        for field, name in zip(("origin", "destination"), ends, strict=True):
            if name not in cluster.uplinks:
                refuse(f"{where}.{field}", f"there is no rack {quote(name)}")
        if cost.origin == cost.destination:
            refuse(where, f"{quote(cost.origin)} is both of its ends; leave it out")
