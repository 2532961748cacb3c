"""Clusters as files write them: in short, in full, or with a grid of time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    FrozenDict,
    Name,
    Positive,
    Record,
    explain,
    parse_record,
    read_record,
    refuse,
)
from metronome_opt.problem.instance import HYPERPERIOD_LIMIT, Link, Network, TrafficClasses
from metronome_opt.scenario.cluster import (
    MAX_NODES,
    Background,
    Cluster,
    Distance,
    HashSeed,
    QueuePairs,
    Routing,
)
from metronome_opt.scenario.nodes import Gpu, Node, Rack, Resources
from metronome_opt.scenario.workload import Rational, megabits

CLUSTER_FORMAT = "metronome-cluster/1"
_MAX_RACKS = 512  # whose costs are written out for each pair
_MAX_SPINES = 1024
_RACK_COST = 2  # network cost between racks: their two uplinks are crossed
DEFAULT_HYPERPERIOD = 25_200
"""Slots of a hyperperiod for jobs that come later: no shorter number has as many divisors, 90."""
_CPU_PER_GPU = 16_000  # millicores
_MEMORY_PER_GPU = 128 * 1024  # MiB


def _ratio(value: Any) -> Any:
    """Read an oversubscription: a number or text such as ``2:1``."""
    if isinstance(value, str):
        match = re.fullmatch(r"([1-9][0-9]{0,5}):([1-9][0-9]{0,5})", value)
        if match is None:
            raise PydanticCustomError("ratio", "must be a number or text such as '2:1'")
        return Fraction(int(match[1]), int(match[2]))
    return value


_Ratio = Annotated[Rational, BeforeValidator(_ratio, json_schema_input_type=float | str)]


class UniformCluster(Record):
    """A cluster whose nodes are all equal, as files write it; `listed` is the cluster.

    Parameters
    ----------
    topology
        ``single-switch``, or ``leaf-spine`` with `racks` and `oversubscription`.
    nodes, gpus
        Number of nodes (``node-00``, ``node-01`` and so on, rack by rack), and GPUs per node.
    nic_gbps, nic_mbps
        The interface of a node; exactly one of them is given.
    racks
        Number of racks, of equal size.
    oversubscription
        What the nodes of a rack can send together over what its uplinks carry.
    spines
        Number of spines, to each of which a rack has a link. With 1 uplinks are balanced perfectly.
    routing, hash_seed, queue_pairs
        As in `Cluster`, for several spines.
    gpu
        The kind of GPU in all nodes; only jobs by model need it.
    background
        As in `Cluster`; the uplink of ``rack-0`` is ``rack-0-uplink``, that to the first of several
        spines ``rack-0-uplink-0``, and what it brings goes by ``rack-0-downlink-0``.
    traffic_classes, network
        As in `Cluster`.
    """

    topology: Literal["single-switch", "leaf-spine"]
    nodes: Annotated[int, Field(ge=1, le=MAX_NODES)]
    gpus: Annotated[int, Field(ge=1, le=2**23)]  # so that their memory is an amount
    nic_gbps: Rational | None = None
    nic_mbps: Positive | None = None
    racks: Annotated[int, Field(ge=1, le=_MAX_RACKS)] | None = None
    oversubscription: _Ratio | None = None
    spines: Annotated[int, Field(ge=1, le=_MAX_SPINES)] | None = None
    routing: Routing | None = None
    hash_seed: HashSeed = 0
    queue_pairs: QueuePairs = 1
    gpu: Gpu | None = None
    background: Background = Field(default_factory=FrozenDict)
    traffic_classes: TrafficClasses = 1
    network: Network = "fair"

    @model_validator(mode="after")
    def _check(self) -> Self:
        megabits("nic", self.nic_gbps, self.nic_mbps)
        if self.topology == "single-switch":
            for field in ("racks", "oversubscription", "spines", "routing"):
                if getattr(self, field) is not None:
                    refuse(field, "a single switch has none; leave it out or use leaf-spine")
        else:
            ratio = self.oversubscription or 1
            if self.racks is None:
                refuse("racks", "missing; a leaf-spine network needs the number of racks")
            if self.nodes % self.racks:
                fault = f"the {self.nodes} nodes cannot be shared out evenly; choose a divisor"
                refuse("racks", f"{self.racks}: {fault}")
            if ratio < 1:
                fault = "must be at least 1, write 2:1 for half the rate"
                refuse("oversubscription", f"{ratio}: {fault}")
            if not self.uplink:
                refuse("oversubscription", f"{ratio}: leaves an uplink less than 1 Mbit/s")
        return self

    @property
    def nic(self) -> int:
        """The interface of a node in Mbit/s."""
        return megabits("nic", self.nic_gbps, self.nic_mbps)

    @property
    def uplink(self) -> int:
        """The capacity of an uplink of a rack, rounded down to whole Mbit/s."""
        nodes, parts = self.nodes // (self.racks or 1), self.spines or 1
        return math.floor(nodes * self.nic / (parts * (self.oversubscription or Fraction(1))))

    @cached_property
    def listed(self) -> Cluster:
        """The cluster with its nodes one by one.

        An interface is called after its node, and a node has 16 cores and 128 GiB for each GPU.
        """
        names = [f"rack-{index}" for index in range(self.racks or 0)]
        racks, spines = [], range(self.spines or 1)
        for name in names:
            its: dict[str, Any] = {"uplink": f"{name}-uplink"}
            if len(spines) > 1:
                ends = ("uplink", "downlink")
                its = {f"{to}s": tuple(f"{name}-{to}-{spine}" for spine in spines) for to in ends}
            racks.append(Rack(name=name, **its))
        digits = max(2, len(str(self.nodes - 1)))
        nodes, has = [], room_of(self.gpus)
        for index in range(self.nodes):
            name, home = f"node-{index:0{digits}}", index * len(racks) // self.nodes
            rack = names[home] if names else None
            nodes.append(Node(name=name, has=has, interface=name, rack=rack))
        links = [Link(name=node.name, capacity=self.nic) for node in nodes]
        for switch in racks:
            between = (*switch.ups, *(switch.downlinks or ()))
            links += [Link(name=link, capacity=self.uplink) for link in between]
        as_given = ("gpu", "background", "traffic_classes", "hash_seed", "queue_pairs", "network")
        tree = {
            **{field: getattr(self, field) for field in as_given},
            "nodes": nodes,
            "racks": racks,
            "links": links,
            "zone_costs": [
                Distance(origin=one, destination=other, cost=_RACK_COST)
                for one, other in permutations(names, 2)
            ],
            "routing": self.routing or "ecmp",
        }
        return Cluster.model_validate(tree)


def _in_full(value: Any) -> Any:
    """Read a cluster by its topology, so that errors fit its form; return it listed."""
    if isinstance(value, Mapping):
        topology = value.get("topology")
        if topology not in (None, "listed", "single-switch", "leaf-spine"):
            known = "'single-switch', 'leaf-spine' or 'listed'"
            refuse("topology", f"must be {known}, got {quote(topology)}")
        if topology != "listed":
            value = UniformCluster.model_validate(value)
    return value.listed if isinstance(value, UniformCluster) else value


FullCluster = Annotated[
    Cluster, BeforeValidator(_in_full, json_schema_input_type=UniformCluster | Cluster)
]
"""A cluster with its nodes one by one, whatever form a file writes."""


def room_of(gpus: int) -> Resources:
    """Return the assumed resources of a node with a number of GPUs."""
    cores, memory = _CPU_PER_GPU * gpus, _MEMORY_PER_GPU * gpus
    return Resources(gpus=gpus, cpu_millicores=cores, memory_mib=memory)


class _Grid(Record):
    format: Literal["metronome-cluster/1"] = "metronome-cluster/1"
    name: Name
    slot_ms: Positive
    hyperperiod: Annotated[int, Field(ge=1, le=HYPERPERIOD_LIMIT)] = DEFAULT_HYPERPERIOD


class ClusterSpec(Cluster, _Grid):  # the fields of the last base come first
    """A cluster: a tree of interfaces and uplinks, and the grid of time that its jobs keep.

    All periods divide one hyperperiod, so that all links repeat together: what a link carries at
    which slot can then be kept as one row of numbers, and scored for any job that comes.

    Parameters
    ----------
    name
        Name of the cluster.
    slot_ms, hyperperiod
        Length of a slot, and the hyperperiod in slots; if omitted, one with many divisors.
    nodes, racks, links, zone_costs, gpu, background, traffic_classes, has_core, network
        As in `Cluster`.
    """

    topology: Annotated[Literal["listed"], Field(exclude=True)] = "listed"

    @model_validator(mode="after")
    def _check_interfaces(self) -> Self:
        if self.spines > 1 and self.routing == "spray":
            refuse(
                "routing",
                "spray: is as one uplink of each rack that carries what all carry together; write "
                "that",
            )
        # Searches count tasks on one link a node, and the GPUs of a task are not known yet.
        for index, node in enumerate(self.nodes):
            if len(node.rails) > 1:
                refuse(
                    f"nodes[{index}].interfaces",
                    f"{len(node.rails)} of them, and a state needs nodes with one; write an "
                    "interface that carries what they do together",
                )
        return self

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Build a cluster from a document of format ``metronome-cluster/1``."""
        return parse_record(cls, data, CLUSTER_FORMAT)

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster as a document; `from_dict` gives back an equal one."""
        return self.model_dump(mode="json")

    @classmethod
    def of_cluster(cls, name: str, cluster: Cluster, slot_ms: int, hyperperiod_ms: int) -> Self:
        """Return a cluster with a grid of time.

        Parameters
        ----------
        slot_ms, hyperperiod_ms
            Length of a slot, and of the hyperperiod, a multiple of it.

        Returns
        -------
        ClusterSpec
            Its hyperperiod is in slots.

        Raises
        ------
        InputError
            If a number is out of range, or the slots do not fill the hyperperiod.
        """
        if slot_ms < 1 or hyperperiod_ms % slot_ms:
            raise InputError(
                f"{name}: slots of {quote(slot_ms)} ms do not fill a hyperperiod of "
                f"{quote(hyperperiod_ms)} ms; choose a divisor"
            )
        tree = {field: getattr(cluster, field) for field in Cluster.model_fields}
        grid = {"slot_ms": slot_ms, "hyperperiod": hyperperiod_ms // slot_ms}
        try:
            return cls.model_validate({"name": name, **grid, **tree})
        except ValidationError as error:
            raise InputError(f"{quote(name)}: {explain(error)}") from None


def read_cluster(path: str | Path) -> ClusterSpec:
    """Read a cluster from a JSON or YAML file; errors name the file, the location and the value."""
    return read_record(ClusterSpec, path)
