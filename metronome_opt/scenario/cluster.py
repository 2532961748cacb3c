"""Clusters: machines alike or by name, the links between them and the racks they stand in."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import InputError, show
from metronome_opt.instance import HYPERPERIOD_LIMIT, Link
from metronome_opt.records import (
    Name,
    NonNegative,
    Positive,
    Record,
    build,
    check_unique,
    explain,
    read_as,
    refuse,
)
from metronome_opt.scenario.deployment import Node
from metronome_opt.scenario.workload import Rational, Speed, megabits

CLUSTER_FORMAT = "metronome-cluster/1"
_MAX_NODES = 100_000
_MAX_RACKS = 512  # the costs between racks grow with their square
_RACK_COST = 2  # network cost between racks: their two uplinks are crossed
ROOM = 25_200
"""Slots of a hyperperiod for jobs that come later: no shorter number has as many divisors, 90."""
_CPU_PER_GPU = 16_000  # millicores
_MEMORY_PER_GPU = 128 * 1024  # MiB

# So many times the largest number of tasks fits 64 bits.
Amount = Annotated[int, Field(ge=0, le=2**40)]


class Resources(Record):
    """What a task needs, or a node has."""

    gpus: Amount = 0
    cpu_millicores: Amount = 0
    memory_mib: Amount = 0

    @property
    def vector(self) -> tuple[int, int, int]:
        """All three, in this order."""
        return self.gpus, self.cpu_millicores, self.memory_mib


ONE_GPU = Resources(gpus=1)


class Gpu(Record):
    """What computes: `sustained_tflops` is what training really reaches, not the peak."""

    name: Name
    sustained_tflops: Speed

    @property
    def flops(self) -> Fraction:
        """The same in floating-point operations per second."""
        return 10**12 * self.sustained_tflops.value


def _gpu_as_written(gpu: Gpu | None) -> dict[str, Any] | None:
    """Return a GPU as a scenario has it: its speed as a number, which comes back exactly."""
    if gpu is None:
        return None
    document = gpu.model_dump(mode="json")
    document["sustained_tflops"]["value"] = float(gpu.sustained_tflops.value)
    return document


class Host(Record):
    """A machine that tasks run on.

    Parameters
    ----------
    interface
        The link that is its own.
    rack, region
        Where it stands; None where unknown. A rack is a zone to Kubernetes.
    """

    name: Name
    has: Resources
    interface: Name
    rack: Name | None = None
    region: Name | None = None


class Rack(Record):
    """Nodes that share an uplink, which what leaves them crosses; None if nothing limits it."""

    name: Name
    uplink: Name | None = None


class Distance(Record):
    """Network cost from one rack or region to another one."""

    origin: Name
    destination: Name
    cost: NonNegative


class _Fabric(Record):
    """Machines by name in a tree of interfaces and uplinks.

    One direction of a link is modelled: what a worker of a ring, a pipeline or an all-to-all sends
    it receives as well, so that both directions carry the same. The core between the racks is taken
    to be free of contention, so that a rack's uplinks are one link, balanced perfectly.

    Parameters
    ----------
    nodes, racks, links
        The tree. A node in no rack has nothing but its interface between it and the others.
    zone_costs, region_costs
        Network costs between racks, and between regions, as a NetworkTopology has them.
    gpu
        The kind of GPU in all nodes; only jobs that are asked for by model need it.
    """

    nodes: Annotated[tuple[Host, ...], Field(strict=False, min_length=1, max_length=_MAX_NODES)]
    racks: Annotated[tuple[Rack, ...], Field(strict=False)] = ()
    links: Annotated[tuple[Link, ...], Field(strict=False)]
    zone_costs: Annotated[tuple[Distance, ...], Field(strict=False)] = ()
    region_costs: Annotated[tuple[Distance, ...], Field(strict=False)] = ()
    gpu: Annotated[Gpu | None, PlainSerializer(_gpu_as_written)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for field in ("nodes", "racks", "links"):
            check_unique(field, [each.name for each in getattr(self, field)])
        _check_ways(self)
        _check_racks(self)
        _check_costs("zone_costs", "rack", self.zone_costs, set(self.uplinks))
        regions = {node.region for node in self.nodes if node.region is not None}
        _check_costs("region_costs", "region", self.region_costs, regions)
        return self

    @cached_property
    def uplinks(self) -> Mapping[str, str | None]:
        """The uplink of each rack."""
        return {rack.name: rack.uplink for rack in self.racks}

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def capacities(self) -> Mapping[str, int]:
        """Mbit/s per link, in the order of the links."""
        return {link.name: link.capacity for link in self.links}

    @cached_property
    def zone_ways(self) -> Mapping[tuple[str, str], int]:
        """Network costs by origin and destination: between racks."""
        return {(way.origin, way.destination): way.cost for way in self.zone_costs}

    @cached_property
    def region_ways(self) -> Mapping[tuple[str, str], int]:
        """The same between regions."""
        return {(way.origin, way.destination): way.cost for way in self.region_costs}

    @cached_property
    def rack_cost(self) -> Mapping[tuple[str, str], int]:
        """Network costs between racks; those in two regions are as far apart as the regions."""
        region_of = {node.rack: node.region for node in self.nodes if node.rack is not None}
        costs = dict(self.zone_ways)
        if not self.region_ways:
            return costs
        for here, one in region_of.items():
            for there, other in region_of.items():
                cost = self.region_ways.get((one or "", other or ""))
                if cost is not None:
                    costs[here, there] = cost
        return costs

    @cached_property
    def nic(self) -> int:
        """The widest interface of a node in Mbit/s."""
        return max(self.capacities[node.interface] for node in self.nodes)

    def links_of(self, node: Host) -> tuple[str, ...]:
        """Return the links that the traffic of a node may cross, its own interface first."""
        uplink = self.uplinks.get(node.rack or "")
        return (node.interface,) if uplink is None else (node.interface, uplink)

    def deployment_nodes(self) -> tuple[Node, ...]:
        """Return the nodes as a deployment has them."""
        return tuple(
            Node(node.name, self.links_of(node), node.rack, node.region) for node in self.nodes
        )

    def routes(self, nodes: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return the links that the traffic of each task of a job crosses, given the nodes of all.

        A task crosses its node's interface if the job has tasks on other nodes, and its rack's
        uplink if the job has tasks in other racks. A node that is not known is an `InputError`.
        """
        for name in nodes:
            if name not in self.hosts:
                raise InputError(f"there is no node {show(name)}")
        homes = [self.hosts[name] for name in nodes]
        if len(set(nodes)) < 2:
            return ((),) * len(homes)
        crossed = 2 if len({home.rack for home in homes}) > 1 else 1
        return tuple(self.links_of(home)[:crossed] for home in homes)

    def flows(self, nodes: Sequence[str]) -> dict[str, int]:
        """Return how many tasks of a job cross each link, in the order of the links.

        Every task counts in full, as if its partners were all on the far side: a ring that visits
        the nodes in turn puts less on a link, how much depends on the order of the ring.
        """
        counts = Counter(link for links in self.routes(nodes) for link in links)
        return {link: counts[link] for link in sorted(counts, key=self._order.__getitem__)}

    def fastest(self, flows: Mapping[str, int]) -> tuple[int, str | None]:
        """Return how fast a task of a job that crosses links alone may send, and what limits it.

        That is its share of a link in Mbit/s, and the link; of a job that crosses none the widest
        interface, and None.
        """
        shares = [(self.capacities[link] // count, link) for link, count in flows.items()]
        return min(shares, default=(self.nic, None))

    @cached_property
    def _order(self) -> Mapping[str, int]:
        return {link.name: index for index, link in enumerate(self.links)}


def _check_ways(fabric: _Fabric) -> None:
    """Refuse interfaces and uplinks that are not links, and links that are not one of them each."""
    ways = [(f"nodes[{i}].interface", node.interface) for i, node in enumerate(fabric.nodes)]
    ways += [
        (f"racks[{i}].uplink", rack.uplink)
        for i, rack in enumerate(fabric.racks)
        if rack.uplink is not None
    ]
    known = {link.name for link in fabric.links}
    user: dict[str, str] = {}
    for where, link in ways:
        if link not in known:
            refuse(where, f"there is no link {show(link)}")
        if link in user:
            refuse(where, f"{show(link)} is also {user[link]}; each link has one place")
        user[link] = where
    for index, each in enumerate(fabric.links):
        if each.name not in user:
            refuse(
                f"links[{index}].name",
                f"{show(each.name)} is no node's interface and no rack's uplink; leave it out",
            )


def _check_racks(fabric: _Fabric) -> None:
    """Refuse racks that are not there, hold no node, or stand in two regions."""
    first: dict[str, int] = {}
    known = {rack.name for rack in fabric.racks}
    used = {node.rack for node in fabric.nodes}
    for index, node in enumerate(fabric.nodes):
        if node.rack is None:
            continue
        if node.rack not in known:
            refuse(f"nodes[{index}].rack", f"there is no rack {show(node.rack)}")
        if node.region is None:
            continue
        other = first.setdefault(node.rack, index)
        if fabric.nodes[other].region != node.region:
            refuse(
                f"nodes[{index}].region",
                f"{show(node.region)}: rack {show(node.rack)} is in "
                f"{show(fabric.nodes[other].region)} by nodes[{other}]; a rack has one region",
            )
    for index, rack in enumerate(fabric.racks):
        if rack.name not in used:
            refuse(f"racks[{index}].name", f"{show(rack.name)} holds no node; leave it out")


def _check_costs(field: str, kind: str, costs: Sequence[Distance], known: set[str]) -> None:
    """Refuse costs of places that are not there, of one place to itself, and those given twice."""
    first: dict[tuple[str, str], int] = {}
    for index, way in enumerate(costs):
        for end, name in (("origin", way.origin), ("destination", way.destination)):
            if name not in known:
                refuse(f"{field}[{index}].{end}", f"there is no {kind} {show(name)}")
        if way.origin == way.destination:
            refuse(f"{field}[{index}]", f"{show(way.origin)} is both of its ends; leave it out")
        pair = way.origin, way.destination
        if pair in first:
            refuse(
                f"{field}[{index}]",
                f"{show(way.origin)} to {show(way.destination)} is also {field}[{first[pair]}]",
            )
        first[pair] = index


class _Listed(Record):
    topology: Literal["listed"]


class ListedCluster(_Fabric, _Listed):  # the fields of the last base come first
    """Machines with names, GPUs and interfaces of their own; see `_Fabric` for the fields."""

    racks: Annotated[tuple[Rack, ...], Field(strict=False, max_length=_MAX_RACKS)] = ()

    @property
    def listed(self) -> Self:
        """The cluster itself; as of a `Cluster`."""
        return self

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return tuple(self.hosts)

    @property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs of each node."""
        return {node.name: node.has.gpus for node in self.nodes}


def _ratio(value: Any) -> Any:
    """Read an oversubscription: a number or text such as ``2:1``."""
    if isinstance(value, str):
        match = re.fullmatch(r"([1-9][0-9]{0,5}):([1-9][0-9]{0,5})", value)
        if match is None:
            raise PydanticCustomError("ratio", "must be a number or text such as '2:1'")
        return Fraction(int(match[1]), int(match[2]))
    return value


_Ratio = Annotated[Rational, BeforeValidator(_ratio, json_schema_input_type=float | str)]


class Cluster(Record):
    """Machines that are all alike, and the network between them.

    Parameters
    ----------
    topology
        ``single-switch``, or ``leaf-spine`` with `racks` and `oversubscription`.
    nodes, gpus
        How many nodes (``node-00``, ``node-01`` and so on, rack by rack), and GPUs of each.
    nic_gbps, nic_mbps
        The interface of a node; exactly one of them is given.
    racks
        How many, of equal size.
    oversubscription
        What the nodes of a rack can send together over what its uplink carries.
    gpu
        The kind of GPU in all nodes; only jobs by model need it.
    """

    topology: Literal["single-switch", "leaf-spine"]
    nodes: Annotated[int, Field(ge=1, le=_MAX_NODES)]
    gpus: Annotated[int, Field(ge=1, le=2**23)]  # so that their memory is an amount
    nic_gbps: Rational | None = None
    nic_mbps: Positive | None = None
    racks: Annotated[int, Field(ge=1, le=_MAX_RACKS)] | None = None
    oversubscription: _Ratio | None = None
    gpu: Gpu | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        megabits("nic", self.nic_gbps, self.nic_mbps)
        if self.topology == "single-switch":
            for field in ("racks", "oversubscription"):
                if getattr(self, field) is not None:
                    refuse(field, "a single switch has none; leave it out or use leaf-spine")
            return self
        if self.racks is None:
            refuse("racks", "missing; a leaf-spine network needs the number of racks")
        if self.nodes % self.rack_count:
            refuse(
                "racks",
                f"{self.racks}: the {self.nodes} nodes cannot be shared out evenly; "
                "choose a divisor",
            )
        if self.ratio < 1:
            refuse(
                "oversubscription", f"{self.ratio}: must be at least 1, write 2:1 for half the rate"
            )
        if not self.uplink:
            refuse("oversubscription", f"{self.ratio}: leaves an uplink less than 1 Mbit/s")
        return self

    @property
    def nic(self) -> int:
        """The interface of a node in Mbit/s."""
        return megabits("nic", self.nic_gbps, self.nic_mbps)

    @property
    def rack_count(self) -> int:
        """The number of racks, 1 where there are none."""
        return self.racks or 1

    @property
    def ratio(self) -> Fraction:
        """The oversubscription, 1 where none is given."""
        return self.oversubscription or Fraction(1)

    @property
    def uplink(self) -> int:
        """What the uplink of a rack carries, rounded down to whole Mbit/s."""
        return math.floor(self.nodes // self.rack_count * self.nic / self.ratio)

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        digits = max(2, len(str(self.nodes - 1)))
        return tuple(f"node-{index:0{digits}}" for index in range(self.nodes))

    @property
    def gpus_of(self) -> Mapping[str, int]:
        """The GPUs of each node."""
        return dict.fromkeys(self.node_names, self.gpus)

    @property
    def listed(self) -> ListedCluster:
        """The same with its machines one by one.

        An interface is called after its node, and a node has 16 cores and 128 GiB for each GPU.
        """
        has = Resources(
            gpus=self.gpus,
            cpu_millicores=_CPU_PER_GPU * self.gpus,
            memory_mib=_MEMORY_PER_GPU * self.gpus,
        )
        is_tree = self.topology == "leaf-spine"
        racks = [f"rack-{index}" for index in range(self.rack_count)] if is_tree else []
        size = self.nodes // self.rack_count
        nodes = [
            Host(name=name, has=has, interface=name, rack=racks[index // size] if is_tree else None)
            for index, name in enumerate(self.node_names)
        ]
        return ListedCluster(
            topology="listed",
            nodes=tuple(nodes),
            racks=tuple(Rack(name=rack, uplink=f"{rack}-uplink") for rack in racks),
            links=(
                *(Link(name=node.name, capacity=self.nic) for node in nodes),
                *(Link(name=f"{rack}-uplink", capacity=self.uplink) for rack in racks),
            ),
            zone_costs=tuple(
                Distance(origin=one, destination=other, cost=_RACK_COST)
                for one, other in permutations(racks, 2)
            ),
            gpu=self.gpu,
        )


def _cluster(value: Any) -> Any:
    """Read a cluster by its topology, so that what is wrong in it is named as of that one."""
    if isinstance(value, (Cluster, ListedCluster)):
        return value
    topology = value.get("topology") if isinstance(value, Mapping) else None
    if topology == "listed":
        return ListedCluster.model_validate(value)
    if topology is not None and topology not in ("single-switch", "leaf-spine"):
        known = "'single-switch', 'leaf-spine' or 'listed'"
        refuse("topology", f"must be {known}, got {show(topology)}")
    return Cluster.model_validate(value)


AnyCluster = Annotated[
    Cluster | ListedCluster,
    BeforeValidator(_cluster, json_schema_input_type=Cluster | ListedCluster),
]


def find_room(
    free: Mapping[str, int], wanted: Sequence[tuple[int, int]]
) -> list[tuple[str, ...] | None]:
    """Return the nodes of jobs of so many tasks with so many GPUs each; None without room.

    Jobs are spread, one after the other, each task where most GPUs are free. Where that leaves one
    of them without room all are packed instead, larger tasks first, where fewest GPUs are free.
    """
    places: list[tuple[str, ...] | None] = []
    for spread in (True, False):
        left, places = Counter(free), [None] * len(wanted)
        order = range(len(wanted))
        for index in order if spread else sorted(order, key=lambda i: -wanted[i][1]):
            workers, each = wanted[index]
            if sum(count // each for count in left.values()) >= workers:
                nodes = most_free(left, workers, each) if spread else _packed(left, workers, each)
                left.subtract({node: each * count for node, count in Counter(nodes).items()})
                places[index] = nodes
        if None not in places:
            break
    return places


def _packed(free: Mapping[str, int], workers: int, each: int) -> tuple[str, ...]:
    fullest = sorted((count, node) for node, count in free.items())
    places = [node for count, node in fullest for _ in range(count // each)]
    return tuple(sorted(places[:workers]))


def most_free(free: Mapping[str, int], workers: int, each: int = 1) -> tuple[str, ...]:
    """Return nodes for tasks of `each` GPUs, one after the other where most are free, by name.

    This is what Kubernetes does if it looks at resources alone (its score LeastAllocated).
    """
    heap = [(-count, node) for node, count in free.items() if count >= each]
    heapq.heapify(heap)
    chosen = []
    for _ in range(workers):
        count, node = heap[0]
        chosen.append(node)
        if -count - each >= each:
            heapq.heapreplace(heap, (count + each, node))
        else:
            heapq.heappop(heap)
    return tuple(sorted(chosen))


class _Grid(Record):
    format: Literal["metronome-cluster/1"] = "metronome-cluster/1"
    name: Name
    slot_ms: Positive
    hyperperiod: Annotated[int, Field(ge=1, le=HYPERPERIOD_LIMIT)] = ROOM


class ClusterSpec(_Fabric, _Grid):  # the fields of the last base come first
    """A cluster: a tree of interfaces and uplinks, and the grid of time that its jobs keep.

    All periods divide one hyperperiod, so that all links repeat together: what a link carries at
    which slot can then be kept as one row of numbers, and scored for any job that comes.

    Parameters
    ----------
    name
        Of the cluster.
    slot_ms, hyperperiod
        Length of a slot, and the hyperperiod in slots; left out, one with many divisors.
    nodes, racks, links, zone_costs, region_costs, gpu
        As in `_Fabric`.
    """

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a cluster from a document of format ``metronome-cluster/1``."""
        return build(cls, data, CLUSTER_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster as a document; `from_dict` gives back an equal one."""
        return self.model_dump(mode="json")

    @classmethod
    def of_cluster(
        cls, name: str, cluster: Cluster | ListedCluster, slot_ms: int, hyperperiod_ms: int
    ) -> Self:
        """Return a scenario's cluster with a grid of time.

        Raises
        ------
        InputError
            If a number is out of range, or the slots do not fill the hyperperiod.
        """
        if slot_ms < 1 or hyperperiod_ms % slot_ms:
            raise InputError(
                f"{name}: slots of {show(slot_ms)} ms do not fill a hyperperiod of "
                f"{show(hyperperiod_ms)} ms; choose a divisor"
            )
        listed = cluster.listed
        tree = {field: getattr(listed, field) for field in _Fabric.model_fields}
        try:
            return cls(name=name, slot_ms=slot_ms, hyperperiod=hyperperiod_ms // slot_ms, **tree)
        except ValidationError as error:
            raise InputError(f"{show(name)}: {explain(error)}") from None

    @cached_property
    def locales(self) -> tuple[tuple[str | None, str | None], ...]:
        """Region and rack of the nodes, each pair once."""
        return tuple(dict.fromkeys((node.region, node.rack) for node in self.nodes))

    @cached_property
    def locale_of(self) -> tuple[int, ...]:
        """The index in `locales` of each node."""
        index = {locale: i for i, locale in enumerate(self.locales)}
        return tuple(index[node.region, node.rack] for node in self.nodes)


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster from a JSON or YAML file; errors name the file, the place and the value."""
    return read_as(path, ClusterSpec.from_dict)
