"""The cluster that jobs are placed on: nodes with resources, their links, the grid of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from metronome_opt.errors import InputError, show
from metronome_opt.instance import HYPERPERIOD_LIMIT, Link
from metronome_opt.records import Name, Positive, build, explain, read_as
from metronome_opt.scenario.listed import ListedCluster
from metronome_opt.scenario.machines import Distance, Fabric, Host, Rack, Resources
from metronome_opt.scenario.model import Cluster
from metronome_opt.scenario.topology import network_of

__all__ = ["CLUSTER_FORMAT", "ClusterSpec", "Distance", "Host", "Rack", "Resources", "read_cluster"]

CLUSTER_FORMAT = "metronome-cluster/1"
_CPU_PER_GPU = 16_000
_MEMORY_PER_GPU = 128 * 1024
_FIRST = ("format", "name", "slot_ms", "hyperperiod")


class ClusterSpec(Fabric):
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

    @model_serializer(mode="wrap")
    def _lead(self, as_usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write what it is before what it is made of."""
        document: dict[str, Any] = as_usual(self)
        return {**{field: document[field] for field in _FIRST}, **document}

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
        cluster: Cluster | ListedCluster,
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
            Of a node, of which a scenario does not speak unless it lists its machines; None for
            16 cores and 128 GiB for each GPU.

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
        try:
            if isinstance(cluster, ListedCluster):
                tree = {field: getattr(cluster, field) for field in Fabric.model_fields}
            else:
                tree = _tree_of(cluster, cpu_millicores, memory_mib)
            return cls(
                name=name,
                slot_ms=slot_ms,
                hyperperiod=hyperperiod_ms // slot_ms,
                **tree,
            )
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


def _tree_of(
    cluster: Cluster, cpu_millicores: int | None, memory_mib: int | None
) -> dict[str, Any]:
    """Return the machines of a uniform cluster one by one."""
    network = network_of(cluster)
    uplinks = {node.rack: node.links[1] for node in network.nodes if node.rack is not None}
    has = Resources(
        gpus=cluster.gpus,
        cpu_millicores=_CPU_PER_GPU * cluster.gpus if cpu_millicores is None else cpu_millicores,
        memory_mib=_MEMORY_PER_GPU * cluster.gpus if memory_mib is None else memory_mib,
    )
    return {
        "nodes": tuple(
            Host(name=node.name, has=has, interface=node.links[0], rack=node.rack)
            for node in network.nodes
        ),
        "racks": tuple(Rack(name=rack, uplink=uplink) for rack, uplink in uplinks.items()),
        "links": tuple(
            Link(name=link, capacity=capacity) for link, capacity in network.capacities.items()
        ),
        "zone_costs": tuple(
            Distance(origin=origin, destination=destination, cost=cost)
            for (origin, destination), cost in network.rack_cost.items()
        ),
        "gpu": cluster.gpu,
    }


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster from a JSON or YAML file.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_as(path, ClusterSpec.from_dict)
