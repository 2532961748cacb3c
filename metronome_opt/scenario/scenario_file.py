"""Scenarios as files describe them: a cluster and jobs by model or by traffic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from metronome_opt.errors import InputError, error_context, pluralise, quote
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Jitter,
    Name,
    NonNegative,
    Positive,
    Record,
    check_unique,
    parse_record,
    read_document_as,
    refuse,
)
from metronome_opt.scenario.cluster import ANY_COST, MAX_TASKS, NetworkCost, Paths
from metronome_opt.scenario.cluster_input import FullCluster
from metronome_opt.scenario.collectives import Algorithm, AllReduce, TrainingStep
from metronome_opt.scenario.nodes import ONE_GPU, Gpu, Resources
from metronome_opt.scenario.traffic import Traffic, training_step
from metronome_opt.scenario.workload import (
    Rational,
    Workload,
    file_of,
    find_files,
    find_workloads,
    megabits,
    published_files,
    read_workload,
)

if TYPE_CHECKING:
    from metronome_opt.scenario.measured import MeasuredStep

SCENARIO_FORMAT = "metronome-scenario/1"
MAX_BATCH = 10**9
GPU_HINT = "add cluster.gpu: {name: A100, sustained_tflops: 23}"
COMPUTED = "computed"  # traffic of jobs by model
MEASURED = {"measured": "bfloat16", "measured-tf32": "tf32"}  # likewise; precision of the records
RINGS = ("data-parallel", "tensor-parallel")  # models that send all-reduces among all GPUs alone
_PIPELINES = ("hybrid-parallel", "pipeline-parallel")
_SENDERS = 2  # GPUs of a job by model, at least
_LARGE = {"each": {"properties": {"gpus": {"minimum": _SENDERS}}, "required": ["gpus"]}}
_MANY: Any = {
    "if": {"required": ["model"], "not": {"properties": _LARGE, "required": ["each"]}},
    "then": {"properties": {"workers": {"minimum": _SENDERS}}},
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
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                refuse(
                    f"[{quote(node)}]", f"must be a positive number of tasks, got {quote(count)}"
                )
            if count > MAX_TASKS:
                refuse(f"[{quote(node)}]", f"must be at most {MAX_TASKS} tasks, got {quote(count)}")
        return tuple(node for node, count in value.items() for _ in range(count))
    raise PydanticCustomError("placement", "must be a list of nodes or a mapping of nodes to tasks")


_Placement = Annotated[
    tuple[Name, ...],
    BeforeValidator(_placement, json_schema_input_type=list[Name] | dict[Name, Positive]),
]


def _traffic(value: Any) -> Any:
    """Read traffic; refuse the name of a pattern that no scenario has put its traffic in place of.

    What is stated is read here, so that what is wrong in it is named as of that.
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


def _pattern(value: Any) -> Traffic:
    """Read a pattern; in place of a wrong one, which its scenario refuses, any other one."""
    try:
        return Traffic.model_validate(value)
    except ValidationError:
        burst = {"start_ms": 0, "length_ms": 1, "rate_mbps": 1}
        return Traffic.model_validate({"period_ms": 1, "phases": [burst]})


_Traffic = Annotated[
    Traffic | TrainingStep | str | None,
    BeforeValidator(_traffic, json_schema_input_type=Traffic | TrainingStep | Name | None),
]

Folder = Annotated[str, Field(min_length=1)]

Source: TypeAlias = "Workload | MeasuredStep | Traffic | TrainingStep"
"""The source of the traffic of a job."""


class JobSpec(Record):
    """A training job as files describe it: its tasks, what each needs, and what it trains.

    Parameters
    ----------
    model, batch
        A workload by name, and samples per GPU and iteration.
    traffic
        What one worker sends, in place of model and batch; in a scenario perhaps the name of one
        of its patterns. Or ``measured``, ``measured-tf32``: the model's, from a record of a
        training step on the cluster's GPU in bfloat16 or TF32, whose batch it is; or the name of
        published iterations, such as ``muri``: the model's with as many GPUs; or ``computed`` from
        its workload, as if left out.
    rate_gbps, rate_mbps
        The fastest that one worker sends; left out, what its traffic says or its links leave it.
    workers
        How many tasks; of a job by model with at least two GPUs together.
    each
        What one worker needs.
    allreduce
        How its workers all-reduce: ``ring``, in order of rank, which NCCL takes for large buffers;
        ``tree``, trees over nodes, which it takes for small ones and on two nodes; ``tasks``, each
        with a flow of its own. Left out, ``ring``; where traffic is only stated by rates, and in
        pipelines, ``tasks``.
    priority
        Weight, larger is more important.
    max_network_cost
        The largest network cost from a worker to the next one that it tolerates; left out, any.
    nodes
        The node of each task, or the number of tasks of each node; left out, `solve` chooses them,
        and other commands take the nearest.
    paths
        Where the cluster has several spines and lets them be chosen, and nodes are named: for each
        task the spines that it sends over, one for each of its interfaces; ``[]`` for a task that
        sends nothing out of its rack. Left out, they are chosen, too.
    pods, namespace
        What the cluster calls the pod of each task, and where they live; None where unknown.
    arrival_s, iterations
        Kept for the simulator; the instance does not depend on them.
    jitter
        As in `Job`; of measured traffic, left out, that of its record.
    ready_ms, max_stretch_ms, fixed_offset_ms, current_offset_ms
        As in `Job`, but in ms; multiples of a slot.
    """

    model_config = ConfigDict(json_schema_extra=_MANY)

    name: Name
    model: Name | None = None
    batch: Annotated[int, Field(ge=1, le=MAX_BATCH)] | None = None
    traffic: _Traffic = None
    rate_gbps: Rational | None = None
    rate_mbps: Positive | None = None
    workers: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    each: Resources = ONE_GPU
    allreduce: AllReduce | None = None
    priority: NonNegative = 1
    max_network_cost: NetworkCost = ANY_COST
    nodes: _Placement | None = None
    paths: Annotated[
        tuple[Annotated[tuple[int, ...], Field(strict=False)], ...] | None,
        Field(strict=False, exclude_if=lambda paths: paths is None),
    ] = None
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
        if 0 < self.gpus < _SENDERS and self.stated is None:
            refuse("workers", f"must be at least {_SENDERS}, got {self.workers}")
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

    def algorithm(self, step: TrainingStep) -> Algorithm:
        """Return how its collectives cross the network: as stated, or as is usual for them."""
        usual = step.usual_algorithm
        if self.allreduce in ("ring", "tree") and usual != "ring" and not step.is_stated:
            whose = "its traffic" if self.model is None else f"what {quote(self.model)} sends"
            raise InputError(
                f"allreduce: {quote(self.allreduce)}: {whose} is more than an all-reduce among all "
                "workers; leave it out"
            )
        return self.allreduce or usual

    def step(self, source: Source, gpu: Gpu | None) -> TrainingStep:
        """Return its iteration wherever it runs; errors name its field."""
        gpus = self.workers * max(1, self.each.gpus)
        if isinstance(source, TrainingStep):
            step = source
            step.check_groups(gpus)
        elif isinstance(source, Traffic):
            step = source.step
            step.check_groups(gpus, "phases", "collective")
        elif self.each.gpus > 1 and source.kind in _PIPELINES:
            raise InputError(
                f"each.gpus: {self.each.gpus}: what {quote(self.model)} sends can be computed for "
                "workers of one GPU only; state the traffic"
            )
        elif not isinstance(source, Workload):
            source.check_batch(self.batch)
            step = source.step(self.gpus)
        elif gpu is None or gpu.flops is None:
            raise InputError(
                f"model: {quote(self.model)}: the cluster does not say how fast its GPUs are; "
                f"{GPU_HINT}, or state the job's traffic"
            )
        else:
            step = training_step(source, self.gpus, self.batch or 1, gpu.flops)
        return step if self.rate is None else step.limited_to(self.rate)

    def jitter_of(self, source: Source) -> float | None:
        """Return its jitter as it states it, else that of a measured step; None where unknown."""
        if self.jitter is not None or isinstance(source, Traffic | TrainingStep | Workload):
            return self.jitter
        return source.jitter


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
    measured
        Folder of records of training steps of one's own, likewise; of whatever GPU.
    patterns
        Traffic by name, which jobs share.
    """

    format: Literal["metronome-scenario/1"] = "metronome-scenario/1"
    name: Name
    slot_ms: Positive
    hyperperiod_ms: Positive | None = None
    workloads: Folder | None = None
    measured: Folder | None = None
    cluster: FullCluster
    patterns: FrozenMap[Name, Traffic] = Field(default_factory=FrozenDict)
    jobs: Annotated[tuple[JobSpec, ...], Field(strict=False)]

    @model_validator(mode="before")
    @classmethod
    def _share_patterns(cls, data: Any) -> Any:
        """Give the jobs that name a pattern its traffic; what is wrong with it is said of it."""
        jobs = data.get("jobs") if isinstance(data, Mapping) else None
        if not isinstance(jobs, (list, tuple)):
            return data
        patterns = data.get("patterns")
        known = patterns if isinstance(patterns, Mapping) else {}
        read = {name: _pattern(pattern) for name, pattern in known.items()}
        taken = (COMPUTED, *MEASURED, *published_files())
        for each in taken:
            if each in known:
                refuse(f"patterns.{each}", f"{quote(each)} is taken; rename the pattern")
        shared = []
        for index, job in enumerate(jobs):
            name = job.get("traffic") if isinstance(job, Mapping) else None
            if isinstance(name, str) and name not in (*known, *taken):
                there = f"there are {', '.join(map(str, known))}" if known else "write patterns"
                hint = f"{there}; published are {', '.join(published_files())}"
                refuse(f"jobs[{index}].traffic", f"there is no pattern {quote(name)}; {hint}")
            is_pattern = isinstance(name, str) and name in known
            shared.append({**job, "traffic": read[name]} if is_pattern else job)
        return {**data, "jobs": shared}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.jobs:
            refuse("jobs", "empty; there is nothing to schedule")
        if self.hyperperiod_ms is not None and self.hyperperiod_ms % self.slot_ms:
            refuse("hyperperiod_ms", self._off_grid(self.hyperperiod_ms))
        known = self.cluster.nodes_by_name
        check_unique("jobs", [job.name for job in self.jobs])
        for index, job in enumerate(self.jobs):
            where = f"jobs[{index}]"
            for field in _TIMES:
                value = getattr(job, field)
                if value is not None and value % self.slot_ms:
                    refuse(f"{where}.{field}", self._off_grid(value))
            for node in job.nodes or ():
                if node not in known:
                    first, *_, last = (*known, *known)
                    refuse(
                        f"{where}.nodes",
                        f"there is no node {quote(node)}; there are {first} to {last}",
                    )
            if job.paths is not None:
                self._check_paths(job.paths, where)
        self._check_pods()
        return self

    def _check_paths(self, paths: Paths, where: str) -> None:
        """Refuse paths that nothing chooses, and spines that are not there."""
        if self.cluster.spines == 1 or self.cluster.routing != "chosen":
            refuse(f"{where}.paths", "are for clusters of several spines and routing: chosen")
        try:
            self.cluster.check_spines(paths)
        except InputError as error:
            task, _, fault = str(error).partition(": ")
            refuse(f"{where}.{task}", fault)

    def _check_pods(self) -> None:
        """Refuse two tasks that are said to be one pod."""
        first: dict[tuple[str | None, str], str] = {}
        for index, job in enumerate(self.jobs):
            for number, pod in enumerate(job.pods or ()):
                where = f"jobs[{index}].pods[{number}]"
                other = first.setdefault((job.namespace, pod), where)
                if other != where:
                    refuse(where, f"{quote(pod)} is also {other}; a pod is one task")

    def at(
        self, places: Mapping[str, Sequence[str]], paths: Mapping[str, Paths] | None = None
    ) -> Self:
        """Return the scenario with its jobs on some nodes, one per task; others are left out.

        Paths that are not given are those of before.
        """
        jobs = tuple(
            job.model_copy(
                update={
                    "nodes": tuple(places[job.name]),
                    "paths": (paths or {}).get(job.name, job.paths),
                }
            )
            for job in self.jobs
            if job.name in places
        )
        return self.model_copy(update={"jobs": jobs})

    @property
    def is_placed(self) -> bool:
        """Whether all jobs say where they run, and by which paths where these can be chosen."""
        is_free = self.cluster.spines > 1 and self.cluster.routing == "chosen"
        return all((job.paths if is_free else job.nodes) is not None for job in self.jobs)

    @property
    def hyperperiod_slots(self) -> int | None:
        """The hyperperiod in slots, None where none is given."""
        return None if self.hyperperiod_ms is None else self.hyperperiod_ms // self.slot_ms

    def sources(self) -> tuple[Source, ...]:
        """Return what the traffic of each job comes from."""
        sources = Sources(self.workloads, self.measured, self.cluster.gpu)
        return tuple(sources.of(job, f"jobs[{i}].model") for i, job in enumerate(self.jobs))

    def _off_grid(self, value: int) -> str:
        return f"{quote(value)}: must be a multiple of slot_ms, {self.slot_ms}"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, folder: str | Path = ".") -> Self:
        """Build a scenario from a document; its folders of models are relative to `folder`.

        Raises
        ------
        InputError
            If anything is unknown, missing, of the wrong type, out of range or inconsistent.
        """
        return parse_record(cls, in_folder(data, folder), SCENARIO_FORMAT)


def in_folder(data: Mapping[str, Any], folder: str | Path) -> Mapping[str, Any]:
    """Return a document whose folders of models are relative to the working directory."""
    given = {field: data.get(field) for field in ("workloads", "measured")}
    folders = {
        field: str(Path(folder) / name)
        for field, name in given.items()
        if isinstance(name, str) and name
    }
    return {**data, **folders}


S = TypeVar("S")


class Sources:
    """Workloads and measured steps by name; each file is read once.

    Parameters
    ----------
    workloads, measured
        Folders of one's own, as of a `Scenario`; they come before what the package has.
    gpu
        The GPU of the cluster, which the package may have measured steps of.
    """

    def __init__(
        self, workloads: str | None = None, measured: str | None = None, gpu: Gpu | None = None
    ) -> None:
        self._workloads, self._own = find_workloads(workloads), find_files("measured", measured)
        self._gpu = gpu.name if gpu else None
        self._read: dict[Path, Any] = {}

    def of(self, job: JobSpec, where: str = "model") -> Source:
        """Return the source of the traffic of a job; errors name the place that asks for it."""
        model = job.model or ""
        if not isinstance(job.traffic, str):
            return job.stated or self.workload(model, where)
        if job.traffic in MEASURED:
            from metronome_opt.scenario.measured import find_step, read_measured  # few need it

            path = find_step(model, job.traffic, self._gpu, self._own, where)
            return self._once(path, read_measured)
        from metronome_opt.scenario.published import read_published

        with error_context(where):
            return read_published(job.traffic).traffic(model, job.gpus, job.batch)

    def workload(self, model: str, where: str = "model") -> Workload:
        """Return a workload, whatever the case of its name."""
        return self._once(file_of(model, self._workloads, where, "workload"), read_workload)

    def _once(self, path: Path, read: Callable[[Path], S]) -> S:
        if path not in self._read:
            self._read[path] = read(path)
        return cast("S", self._read[path])


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a YAML or JSON file.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_document_as(
        path, lambda document: Scenario.from_dict(document, folder=Path(path).parent)
    )
