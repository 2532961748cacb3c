"""Machines by name, the links between them and the racks they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, PlainSerializer, model_validator

from metronome_opt.instance import Link
from metronome_opt.records import Name, NonNegative, Record, check_unique
from metronome_opt.scenario.consistency import check_costs, check_racks, check_ways
from metronome_opt.scenario.deployment import Node
from metronome_opt.scenario.workload import Measure

MAX_NODES = 100_000
MAX_RACKS = 512  # the costs between racks grow with their square

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


ONE_GPU = Resources(gpus=1)


class Gpu(Record):
    """What computes: `sustained_tflops` is what training really reaches, not the peak."""

    name: Name
    sustained_tflops: Measure

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


class Fabric(Record):
    """Machines by name in a tree of interfaces and uplinks.

    Parameters
    ----------
    nodes, racks, links
        The tree. A node in no rack has nothing but its interface between it and the others.
    zone_costs, region_costs
        Network costs between racks, and between regions, as a NetworkTopology has them.
    gpu
        The kind of GPU in all nodes; only jobs that are asked for by model need it.
    """

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

    @cached_property
    def uplinks(self) -> Mapping[str, str | None]:
        """The uplink of each rack."""
        return {rack.name: rack.uplink for rack in self.racks}

    @cached_property
    def hosts(self) -> Mapping[str, Host]:
        """The nodes by name."""
        return {node.name: node for node in self.nodes}

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
