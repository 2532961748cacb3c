"""A scenario as a person writes it: a cluster and jobs by model name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import show
from metronome_opt.instance import Link
from metronome_opt.records import (
    Name,
    NonNegative,
    Positive,
    Record,
    build,
    check_unique,
    read_as,
    refuse,
)
from metronome_opt.scenario.deployment import MAX_TASKS
from metronome_opt.scenario.machines import (
    MAX_NODES,
    MAX_RACKS,
    ONE_GPU,
    Distance,
    Gpu,
    Host,
    ListedCluster,
    Rack,
    Resources,
)
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.scenario.workload import Rational

SCENARIO_FORMAT = "metronome-scenario/1"
MAX_BATCH = 10**9
_RACK_COST = 2  # network cost between racks: their two uplinks are crossed
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


def _placement(value: Any) -> Any:
    """Read a placement: a node name per task, or how many tasks each node has."""
    if isinstance(value, (list, tuple)):
        for index, node in enumerate(value):
            if not isinstance(node, str):
                refuse(f"[{index}]", f"must be the name of a node, got {show(node)}")
        return tuple(value)
    if isinstance(value, Mapping):
        for node, count in value.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                refuse(f"[{show(node)}]", f"must be a positive number of tasks, got {show(count)}")
            if count > MAX_TASKS:
                refuse(f"[{show(node)}]", f"must be at most {MAX_TASKS} tasks, got {show(count)}")
        return tuple(node for node, count in value.items() for _ in range(count))
    raise PydanticCustomError("placement", "must be a list of nodes or a mapping of nodes to tasks")


Ratio = Annotated[Rational, BeforeValidator(_ratio)]
Placement = Annotated[tuple[Name, ...], BeforeValidator(_placement)]


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
    """

    topology: Literal["single-switch", "leaf-spine"]
    nodes: Annotated[int, Field(ge=1, le=MAX_NODES)]
    gpus: Annotated[int, Field(ge=1, le=2**23)]  # so that their memory is an amount
    nic_gbps: Rational | None = None
    nic_mbps: Positive | None = None
    racks: Annotated[int, Field(ge=1, le=MAX_RACKS)] | None = None
    oversubscription: Ratio | None = None
    gpu: Gpu

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.nic_gbps is None) == (self.nic_mbps is None):
            refuse("nic_gbps", "give either nic_gbps or nic_mbps")
        if self.nic_gbps is not None and (1000 * self.nic_gbps).denominator != 1:
            refuse("nic_gbps", f"{float(self.nic_gbps)}: must be a whole number of Mbit/s")
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
        if self.nic_gbps is not None:
            return int(1000 * self.nic_gbps)
        return self.nic_mbps or 0

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


def network_of(cluster: Cluster | ListedCluster) -> ListedCluster:
    """Return a cluster with its machines one by one.

    Where they are not listed, an interface is called after its node, and a node has 16 cores and
    128 GiB for each GPU.
    """
    if isinstance(cluster, ListedCluster):
        return cluster
    has = Resources(
        gpus=cluster.gpus,
        cpu_millicores=_CPU_PER_GPU * cluster.gpus,
        memory_mib=_MEMORY_PER_GPU * cluster.gpus,
    )
    is_tree = cluster.topology == "leaf-spine"
    racks = [f"rack-{index}" for index in range(cluster.rack_count)] if is_tree else []
    size = cluster.nodes // cluster.rack_count
    nodes = [
        Host(name=name, has=has, interface=name, rack=racks[index // size] if is_tree else None)
        for index, name in enumerate(cluster.node_names)
    ]
    uplinks = [Rack(name=rack, uplink=f"{rack}-uplink") for rack in racks]
    return ListedCluster(
        topology="listed",
        nodes=tuple(nodes),
        racks=tuple(uplinks),
        links=(
            *(Link(name=node.name, capacity=cluster.nic) for node in nodes),
            *(Link(name=f"{rack}-uplink", capacity=cluster.uplink) for rack in racks),
        ),
        zone_costs=tuple(
            Distance(origin=one, destination=other, cost=_RACK_COST)
            for one in racks
            for other in racks
            if one != other
        ),
        gpu=cluster.gpu,
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


AnyCluster = Annotated[Cluster | ListedCluster, BeforeValidator(_cluster)]


class Work(Record):
    """A training job.

    Parameters
    ----------
    model, batch
        A workload by name, and samples per GPU and iteration.
    traffic
        What one worker sends, in place of model and batch.
    workers
        How many tasks, at least 2: a single one sends nothing.
    each
        What one worker needs.
    priority
        Weight, larger is more important.
    nodes
        The node of each task, or the number of tasks of each node; left out, the tasks are spread.
    pods, namespace
        What the cluster calls the pod of each task, and where they live; None where unknown.
    arrival_s, iterations
        Kept for the simulator; the instance does not depend on them.
    ready_ms, max_stretch_ms, fixed_offset_ms, current_offset_ms
        As in `Job`, but in ms; multiples of a slot.
    """

    name: Name
    model: Name | None = None
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)] | None = None
    traffic: Traffic | None = None
    workers: Annotated[int, Field(ge=2, le=MAX_TASKS)]
    each: Resources = ONE_GPU
    priority: NonNegative = 1
    nodes: Placement | None = None
    pods: Annotated[tuple[Name, ...], Field(strict=False)] | None = None
    namespace: Name | None = None
    arrival_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    iterations: Positive | None = None
    ready_ms: NonNegative = 0
    max_stretch_ms: NonNegative = 0
    fixed_offset_ms: NonNegative | None = None
    current_offset_ms: NonNegative | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.traffic is not None:
            for field in ("model", "batch"):
                if getattr(self, field) is not None:
                    refuse(field, "the job states its traffic; leave one of the two out")
        elif self.model is None:
            refuse("model", "missing; name a workload, or state the traffic")
        elif self.batch is None:
            refuse("batch", "missing; say how many samples each GPU has in an iteration")
        if not self.each.gpus:
            refuse("each.gpus", "0: a worker needs at least 1")
        for field in ("nodes", "pods"):
            given = getattr(self, field)
            if given is not None and len(given) != self.workers:
                what = "tasks are placed" if field == "nodes" else "pods are named"
                refuse(field, f"{len(given)} {what}, but workers is {self.workers}")
        return self

    @property
    def gpus(self) -> int:
        """How many GPUs its workers have together."""
        return self.workers * self.each.gpus


_TIMES = ("ready_ms", "max_stretch_ms", "fixed_offset_ms", "current_offset_ms")


class Scenario(Record):
    """A cluster and the jobs on it.

    Parameters
    ----------
    name
        Becomes the name of the instance.
    hyperperiod_ms
        Periods are lengthened to divisors of it, so that they repeat together; None for periods
        as they come.
    workloads
        Folder of workloads of one's own, relative to the scenario file.
    """

    format: Literal["metronome-scenario/1"] = "metronome-scenario/1"
    name: Name
    slot_ms: Positive
    hyperperiod_ms: Positive | None = None
    workloads: Annotated[str, Field(min_length=1)] | None = None
    cluster: AnyCluster
    jobs: Annotated[tuple[Work, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.jobs:
            refuse("jobs", "empty; there is nothing to schedule")
        if self.hyperperiod_ms is not None and self.hyperperiod_ms % self.slot_ms:
            refuse("hyperperiod_ms", self._off_grid(self.hyperperiod_ms))
        known = set(self.cluster.node_names)
        check_unique("jobs", [job.name for job in self.jobs])
        for index, job in enumerate(self.jobs):
            where = f"jobs[{index}]"
            for field in _TIMES:
                value = getattr(job, field)
                if value is not None and value % self.slot_ms:
                    refuse(f"{where}.{field}", self._off_grid(value))
            for node in job.nodes or ():
                if node not in known:
                    names = self.cluster.node_names
                    refuse(
                        f"{where}.nodes",
                        f"there is no node {show(node)}; there are {names[0]} to {names[-1]}",
                    )
        self._check_pods()
        return self

    def _check_pods(self) -> None:
        """Refuse two tasks that are said to be one pod."""
        first: dict[tuple[str | None, str], str] = {}
        for index, job in enumerate(self.jobs):
            for number, pod in enumerate(job.pods or ()):
                where = f"jobs[{index}].pods[{number}]"
                other = first.setdefault((job.namespace, pod), where)
                if other != where:
                    refuse(where, f"{show(pod)} is also {other}; a pod is one task")

    @property
    def hyperperiod_slots(self) -> int | None:
        """The hyperperiod in slots, None where none is given."""
        return None if self.hyperperiod_ms is None else self.hyperperiod_ms // self.slot_ms

    def _off_grid(self, value: int) -> str:
        return f"{show(value)}: must be a multiple of slot_ms, {self.slot_ms}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: str | Path = ".") -> Self:
        """Build a scenario from a document; its ``workloads`` is relative to `folder`.

        Raises
        ------
        InputError
            If anything is unknown, missing, of the wrong type, out of range or inconsistent.
        """
        return build(cls, in_folder(data, folder), SCENARIO_FORMAT)


def in_folder(data: Mapping[str, Any], folder: str | Path) -> Mapping[str, Any]:
    """Return a document whose folder of ``workloads``, if it has one, is found from here."""
    workloads = data.get("workloads")
    if not isinstance(workloads, str) or not workloads:
        return data
    return {**data, "workloads": str(Path(folder) / workloads)}


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a YAML or JSON file.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_as(path, lambda document: Scenario.from_dict(document, folder=Path(path).parent))
