"""The cluster that jobs are placed on: nodes with resources, their links, the grid of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, ValidationError, model_validator

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
)
from metronome_opt.scenario.deployment import Node
from metronome_opt.scenario.model import MAX_NODES, Cluster, Gpu
from metronome_opt.scenario.topology import network_of
from metronome_opt.scheduling.consistency import check_costs, check_racks, check_ways

CLUSTER_FORMAT = "metronome-cluster/1"
_CPU_PER_GPU = 16_000
_MEMORY_PER_GPU = 128 * 1024

# So many times the largest number of tasks fits 64 bits.
Amount = Annotated[int, Field(ge=0, le=2**40)]


class Resources(Record):
    """What a task needs, or a node has.

    Parameters
    ----------
    gpus
        Whole ones.
    cpu_millicores
        Thousandths of a core.
    memory_mib
        MiB.
    """

    gpus: Amount = 0
    cpu_millicores: Amount = 0
    memory_mib: Amount = 0

    @property
    def vector(self) -> tuple[int, int, int]:
        """All three, in this order."""
        return self.gpus, self.cpu_millicores, self.memory_mib


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
    name
        Unique among the nodes.
    has
        Its resources.
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
    """Nodes that share a way to the others.

    Parameters
    ----------
    name
        Unique among the racks.
    uplink
        The link that what leaves the rack crosses; None if nothing limits it.
    """

    name: Name
    uplink: Name | None = None


class Distance(Record):
    """Network cost from one rack or region to another one."""

    origin: Name
    destination: Name
    cost: NonNegative


class ClusterSpec(Record):
    """A cluster: a tree of interfaces and uplinks, and the grid of time that its jobs keep.

    All periods divide one hyperperiod, so that all links repeat together: what a link carries at
    which slot can then be kept as one row of numbers, and scored for any job that comes.

    Parameters
    ----------
    name
        Of the cluster.
    slot_ms
        Length of a slot.
    hyperperiod
        In slots.
    nodes, racks, links
        The tree. A node in no rack has nothing but its interface between it and the others.
    zone_costs, region_costs
        Network costs between racks, and between regions, as a NetworkTopology has them.
    gpu
        The kind of GPU in all nodes; only jobs that are asked for by model need it.
    """

    format: Literal["metronome-cluster/1"] = "metronome-cluster/1"
    name: Name
    slot_ms: Positive
    hyperperiod: Annotated[int, Field(ge=1, le=HYPERPERIOD_LIMIT)]
    nodes: Annotated[tuple[Host, ...], Field(strict=False, min_length=1, max_length=MAX_NODES)]
    racks: Annotated[tuple[Rack, ...], Field(strict=False)] = ()
    links: Annotated[tuple[Link, ...], Field(strict=False)]
    zone_costs: Annotated[tuple[Distance, ...], Field(strict=False)] = ()
    region_costs: Annotated[tuple[Distance, ...], Field(strict=False)] = ()
    gpu: Annotated[Gpu | None, PlainSerializer(_gpu_as_written)] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_unique("nodes", [node.name for node in self.nodes])
        check_unique("racks", [rack.name for rack in self.racks])
        check_unique("links", [link.name for link in self.links])
        check_ways(self)
        check_racks(self)
        racks = {rack.name for rack in self.racks}
        check_costs("zone_costs", "rack", self.zone_costs, racks)
        regions = {node.region for node in self.nodes if node.region is not None}
        check_costs("region_costs", "region", self.region_costs, regions)
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a cluster from a document of format ``metronome-cluster/1``.

        Raises
        ------
        InputError
            If anything is unknown, missing, of the wrong type, out of range or inconsistent.
        """
        return build(cls, data, CLUSTER_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster as a document; `from_dict` gives back an equal one."""
        return self.model_dump(mode="json")

    @classmethod
    def of_cluster(
        cls,
        name: str,
        cluster: Cluster,
        slot_ms: int,
        hyperperiod_ms: int,
        *,
        cpu_millicores: int | None = None,
        memory_mib: int | None = None,
    ) -> Self:
        """Return a scenario's cluster.

        Parameters
        ----------
        name
            Of the cluster.
        slot_ms, hyperperiod_ms
            The grid of time; the hyperperiod is a multiple of a slot.
        cpu_millicores, memory_mib
            Of a node, of which a scenario does not speak; None for 16 cores and 128 GiB
            for each GPU.

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
        if cpu_millicores is None:
            cpu_millicores = _CPU_PER_GPU * cluster.gpus
        if memory_mib is None:
            memory_mib = _MEMORY_PER_GPU * cluster.gpus
        network = network_of(cluster)
        uplinks = {node.rack: node.links[1] for node in network.nodes if node.rack is not None}
        try:
            has = Resources(gpus=cluster.gpus, cpu_millicores=cpu_millicores, memory_mib=memory_mib)
            return cls(
                name=name,
                slot_ms=slot_ms,
                hyperperiod=hyperperiod_ms // slot_ms,
                nodes=tuple(
                    Host(name=node.name, has=has, interface=node.links[0], rack=node.rack)
                    for node in network.nodes
                ),
                racks=tuple(Rack(name=rack, uplink=uplink) for rack, uplink in uplinks.items()),
                links=tuple(
                    Link(name=link, capacity=capacity)
                    for link, capacity in network.capacities.items()
                ),
                zone_costs=tuple(
                    Distance(origin=origin, destination=destination, cost=cost)
                    for (origin, destination), cost in network.rack_cost.items()
                ),
                gpu=cluster.gpu,
            )
        except ValidationError as error:
            raise InputError(f"{show(name)}: {explain(error)}") from None

    @cached_property
    def uplinks(self) -> Mapping[str, str | None]:
        """The uplink of each rack."""
        return {rack.name: rack.uplink for rack in self.racks}

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def locales(self) -> tuple[tuple[str | None, str | None], ...]:
        """Region and rack of the nodes, each pair once."""
        return tuple(dict.fromkeys((node.region, node.rack) for node in self.nodes))

    @cached_property
    def locale_of(self) -> tuple[int, ...]:
        """The index in `locales` of each node."""
        index = {locale: i for i, locale in enumerate(self.locales)}
        return tuple(index[node.region, node.rack] for node in self.nodes)

    @cached_property
    def zone_ways(self) -> Mapping[tuple[str, str], int]:
        """Network costs by origin and destination: between racks."""
        return {(way.origin, way.destination): way.cost for way in self.zone_costs}

    @cached_property
    def region_ways(self) -> Mapping[tuple[str, str], int]:
        """The same between regions."""
        return {(way.origin, way.destination): way.cost for way in self.region_costs}

    def links_of(self, node: Host) -> tuple[str, ...]:
        """Return the links that the traffic of a node may cross, its own interface first."""
        uplink = self.uplinks.get(node.rack or "")
        return (node.interface,) if uplink is None else (node.interface, uplink)

    def deployment_nodes(self) -> tuple[Node, ...]:
        """Return the nodes as a deployment has them."""
        return tuple(
            Node(node.name, self.links_of(node), node.rack, node.region) for node in self.nodes
        )


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster from a JSON or YAML file.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_as(path, ClusterSpec.from_dict)
