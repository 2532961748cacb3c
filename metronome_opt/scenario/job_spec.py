"""Training jobs as files describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import pluralise, quote
from metronome_opt.files.records import (
    Jitter,
    Name,
    NonNegative,
    Positive,
    Record,
    refuse,
)
from metronome_opt.scenario.cluster import ANY_COST, MAX_TASKS, NetworkCost
from metronome_opt.scenario.collectives import AllReduce, TrainingStep
from metronome_opt.scenario.measured import MEASURED
from metronome_opt.scenario.nodes import ONE_GPU, Resources
from metronome_opt.scenario.placement_limits import PlacementLimits
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.scenario.workload import IF_GIVEN, Rational, megabits, published_files

COMPUTED = "computed"  # traffic of jobs by model
_MAX_BATCH = 10**9
_MIN_GPUS = 2  # of a job by model
_LARGE = {"each": {"properties": {"gpus": {"minimum": _MIN_GPUS}}, "required": ["gpus"]}}
_MANY: Any = {
    "if": {"required": ["model"], "not": {"properties": _LARGE, "required": ["each"]}},
    "then": {"properties": {"workers": {"minimum": _MIN_GPUS}}},
}


def _placement(value: Any) -> Any:
    """Read a placement: a node name per task, or how many tasks each node has."""
    if isinstance(value, (list, tuple)):
        for index, node in enumerate(value):
            if not isinstance(node, str):
                refuse(f"[{index}]", f"must be the name of a node, got {quote(node)}")
        return tuple(value)
    if isinstance(value, Mapping):
        for node, count in value.items():
            where, got = f"[{quote(node)}]", f"got {quote(count)}"
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                refuse(where, f"must be a positive number of tasks, {got}")
            if count > MAX_TASKS:
                refuse(where, f"must be at most {MAX_TASKS} tasks, {got}")
        return tuple(node for node, count in value.items() for _ in range(count))
    raise PydanticCustomError("placement", "must be a list of nodes or a mapping of nodes to tasks")


_Paths = tuple[Annotated[tuple[int, ...], Field(strict=False)], ...]
_Placement = Annotated[
    tuple[Name, ...],
    BeforeValidator(_placement, json_schema_input_type=list[Name] | dict[Name, Positive]),
]


MostRacks = Annotated[Positive | None, IF_GIVEN]
Within = Annotated[NonNegative | None, IF_GIVEN]
AllowedNodes = Annotated[tuple[Name, ...] | None, Field(strict=False, min_length=1), IF_GIVEN]


def _traffic(value: Any) -> Any:
    """Read traffic; refuse the name of a pattern that no scenario has put its traffic in place of.

    Stated traffic is read here, so that errors name its fields.
    """
    if value is None or value == COMPUTED:
        return None
    if isinstance(value, Traffic | TrainingStep):
        return value
    if isinstance(value, str):
        if value in MEASURED or value in published_files():
            return value
        raise PydanticCustomError("pattern", "must be a mapping; patterns are a scenario's")
    is_step = isinstance(value, Mapping) and "transfers" in value
    return (TrainingStep if is_step else Traffic).model_validate(value)


_Traffic = Annotated[
    Traffic | TrainingStep | str | None,
    BeforeValidator(_traffic, json_schema_input_type=Traffic | TrainingStep | Name | None),
]


class JobSpec(Record):
    """A training job as files describe it: its tasks, their resources, and its model or traffic.

    Parameters
    ----------
    model, batch
        A workload by name, and samples per GPU and iteration.
    traffic
        What one worker sends, in place of model and batch; in a scenario perhaps the name of one
        of its patterns. Or ``measured``, ``measured-tf32``: the model's, from a record of a
        training step on the cluster's GPU in bfloat16 or TF32, whose batch it is; or the name of
        published iterations, such as ``muri``: the model's with as many GPUs; or ``computed`` from
        its workload, as if omitted.
    rate_gbps, rate_mbps
        The fastest that one worker sends; omitted, what its traffic says or its links leave it.
    workers
        Number of tasks; a job by model needs at least two GPUs together.
    each
        The resources of one worker.
    allreduce
        How its workers all-reduce: ``ring``, in order of rank, which NCCL takes for large buffers;
        ``tree``, trees over nodes, which it takes for small ones and on two nodes; ``tasks``, each
        with a flow of its own. Left out, ``ring``; where traffic is only stated by rates, and in
        pipelines, ``tasks``.
    priority
        Weight, larger is more important.
    max_network_cost
        The largest network cost from a worker to the next one that it tolerates; any if omitted.
    most_racks
        Largest number of racks that its workers are in; any if omitted.
    within
        The tier of a switch below which all its workers are: 0 a node, 1 a rack of nodes, 2 a rack
        of such racks, and so on; any if omitted.
    allowed_nodes
        The only nodes that it may run on, by their names or those of racks above them.
    nodes
        The node of each task, or the number of tasks of each node; omitted, `allocate` chooses
        them, and other commands take the nearest.
    paths
        Where the cluster has several spines and lets them be chosen, and nodes are named: for each
        task the spines that it sends over, one for each of its interfaces; ``[]`` for a task that
        sends nothing out of its rack. Left out, they are chosen, too.
    pods, namespace
        What the cluster calls the pod of each task, and where they live; None where unknown.
    arrival_s, iterations
        Kept for the simulator; the instance does not depend on them.
    jitter
        As in `Job`; of measured traffic, omitted, that of its record.
    ready_ms, max_stretch_ms, fixed_offset_ms, current_offset_ms
        As in `Job`, but in ms; multiples of a slot.
    """

    model_config = ConfigDict(json_schema_extra=_MANY)

    name: Name
    model: Name | None = None
    batch: Annotated[int, Field(ge=1, le=_MAX_BATCH)] | None = None
    traffic: _Traffic = None
    rate_gbps: Rational | None = None
    rate_mbps: Positive | None = None
    workers: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    each: Resources = ONE_GPU
    allreduce: AllReduce | None = None
    priority: NonNegative = 1
    max_network_cost: NetworkCost = ANY_COST
    most_racks: MostRacks = None
    within: Within = None
    allowed_nodes: AllowedNodes = None
    nodes: _Placement | None = None
    paths: Annotated[_Paths | None, Field(strict=False), IF_GIVEN] = None
    pods: Annotated[tuple[Name, ...], Field(strict=False)] | None = None
    namespace: Name | None = None
    arrival_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    iterations: Positive | None = None
    jitter: Jitter = None
    ready_ms: NonNegative = 0
    max_stretch_ms: NonNegative = 0
    fixed_offset_ms: NonNegative | None = None
    current_offset_ms: NonNegative | None = None

    @model_validator(mode="after")
    def _check_traffic(self) -> Self:
        if self.stated is not None:
            for field in ("model", "batch"):
                if getattr(self, field) is not None:
                    refuse(field, "the job states its traffic; leave one of the two out")
        elif self.model is None:
            refuse("model", "missing; name a workload, or state the traffic")
        elif self.batch is None and self.traffic is None:
            refuse("batch", "missing; say how many samples each GPU has in an iteration")
        if self.rate_gbps is not None or self.rate_mbps is not None:
            megabits("rate", self.rate_gbps, self.rate_mbps)
        return self

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if 0 < self.gpus < _MIN_GPUS and self.stated is None:
            refuse("workers", f"must be at least {_MIN_GPUS}, got {self.workers}")
        if not self.each.gpus and (self.stated is None or self.nodes is None):
            refuse("each.gpus", "0: a worker needs at least 1, unless traffic and nodes are stated")
        if self.paths is not None and self.nodes is None:
            refuse("paths", "name the nodes as well, or leave it out")
        for field in ("nodes", "paths", "pods"):
            given = getattr(self, field)
            if given is not None and len(given) != self.workers:
                what = "pod" if field == "pods" else "task"
                refuse(field, f"names {pluralise(len(given), what)}, but workers is {self.workers}")
        return self

    @property
    def limits(self) -> PlacementLimits:
        """Limits on its nodes."""
        return PlacementLimits.of(self)

    @property
    def stated(self) -> Traffic | TrainingStep | None:
        """Its traffic where it is stated; None for a job by model."""
        return None if isinstance(self.traffic, str) else self.traffic

    @property
    def gpus(self) -> int:
        """The number of GPUs of its workers together."""
        return self.workers * self.each.gpus

    @property
    def rate(self) -> int | None:
        """The fastest that one worker sends in Mbit/s; None where the job does not say."""
        if self.rate_gbps is None:
            return self.rate_mbps
        return megabits("rate", self.rate_gbps, self.rate_mbps)
