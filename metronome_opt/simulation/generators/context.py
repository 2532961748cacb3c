"""Base classes of the generators of jobs, and what they draw for."""

from __future__ import annotations

import math
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from metronome_opt.errors import InputError
from metronome_opt.files.records import Record
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.job_traffic import GPU_HINT, JobTraffic, Sources
from metronome_opt.scenario.nodes import Resources
from metronome_opt.scenario.published import PublishedStep
from metronome_opt.scenario.scenario_file import read_scenario
from metronome_opt.scenario.workload import HybridParallel, TensorParallel, Workload, data_folder
from metronome_opt.simulation.generators.batches import Setting, batches_around, suitable_batches

Mix = Literal["harmonic", "any", "free"]
"""Set of batches to draw from; see `GeneratorContext.batches`."""

T = TypeVar("T", int, float)

MAX_ITERATIONS = 10**9
HARMONIC_MS = (75, 125, 375, 750, 1500)
BATCHES = (0.5, 2.0)  # as multiples of the usual batch


@dataclass(frozen=True)
class Model:
    """Training model with its usual batch, as in the scenario ``paper-24``."""

    name: str
    batch: int
    source: Workload

    def job(self, name: str, workers: int, batch: int, **fields: Any) -> JobSpec:
        """Return a job that trains it."""
        return JobSpec(name=name, model=self.name, batch=batch, workers=workers, **fields)

    def workers(self, low: int, high: int) -> tuple[int, ...]:
        """Return the numbers of workers that the model can be distributed over.

        A tensor-parallel job has the fewest: in an iteration each of its workers sends the
        activations of all, so that more of them would only send longer. An `InputError` if there is
        none.
        """
        match self.source.parallelism:
            case TensorParallel():
                return (low,)
            case HybridParallel() as spread:
                unit = spread.tensor.value * spread.stages.value
            case _:
                unit = 1
        numbers = tuple(range(-(-low // unit) * unit, high + 1, unit))
        if not numbers:
            raise InputError(
                f"workers: {low} to {high}: {self.name} needs a multiple of {unit}; allow one"
            )
        return numbers


@dataclass(frozen=True)
class GeneratorContext:
    """The cluster and models that jobs are drawn for."""

    cluster: Cluster  # the nodes; they are taken to be equal
    slot_ms: int  # length of a slot
    hyperperiod: int | None  # in slots; None for any periods
    sources: Sources  # the known workloads

    @cached_property
    def models(self) -> Mapping[str, Model]:
        """The thirteen models of the shipped ``paper-24`` by job name, in its order."""
        example = read_scenario(data_folder() / "scenarios" / "paper-24.yaml")
        return {
            job.name: self.model(job.model, job.batch)
            for job in example.jobs
            if job.model is not None and job.batch is not None
        }

    @property
    def gpus(self) -> int:
        """GPUs of the whole cluster."""
        return sum(self.cluster.gpus_of.values())

    @property
    def widest(self) -> int:
        """The maximum number of GPUs of a node."""
        return max(self.cluster.gpus_of.values())

    def model(self, name: str, batch: int) -> Model:
        """Return a model by name; an `InputError` if it is not known."""
        return Model(name, batch, self.sources.workload(name))

    def isolated_s(
        self, model: Model, workers: int, batch: int, nodes: Sequence[str] | None = None
    ) -> float:
        """Return the seconds of an isolated iteration, on nodes or at the best placement."""
        setting = self._setting(model, workers, batch, nodes)
        return float(setting.iteration(model.source, batch).duration) / 1000

    def batches(
        self, model: Model, workers: int, mix: Mix, nodes: Sequence[str] | None = None
    ) -> tuple[int, ...]:
        """Return the batches to draw from, from half to twice the usual one.

        ``harmonic``
            The period, a divisor of the hyperperiod, is one of `HARMONIC_MS`, and idle for at most
            5 % of an iteration.
        ``any``
            The period may be any divisor of the hyperperiod, idle for at most 5 % as well.
        ``free``
            All of them: periods are not adjusted to each other.

        If there is no such batch, those of minimum idle time: GPT2 and GPT3 have one or two samples
        a worker, which leaves no choice.

        Raises
        ------
        InputError
            If every iteration is longer than the hyperperiod.
        """
        batches = batches_around(model.batch, *BATCHES)
        if mix == "free":
            return tuple(batches)
        wanted = tuple(ms // self.slot_ms for ms in HARMONIC_MS if ms % self.slot_ms == 0)
        suitable = suitable_batches(
            model.source,
            self._setting(model, workers, model.batch, nodes),
            batches,
            self.slot_ms,
            self.hyperperiod,
            wanted if mix == "harmonic" else (),
        )
        if not suitable:
            raise InputError(f"mix: {mix}: no batch of {model.name} fits the hyperperiod")
        return suitable

    def _setting(
        self, model: Model, workers: int, batch: int, nodes: Sequence[str] | None
    ) -> Setting:
        gpu = self.cluster.gpu
        if gpu is None or gpu.flops is None:
            raise InputError(f"cluster.gpu: missing; jobs are drawn by model, so {GPU_HINT}")
        fields = {"nodes": tuple(nodes)} if nodes else {}
        traffic = JobTraffic(
            model.job(model.name, workers, batch, **fields), model.source, self.cluster
        )
        place = traffic.best
        if nodes:
            place = compute_placement(self.cluster, nodes, traffic.algorithm, task_gpus=1).transport
        if place is None:
            raise InputError(f"workers: {workers}: more than the cluster has room for")
        return Setting(workers, gpu.flops, place)


def published_job(
    context: GeneratorContext,
    name: str,
    step: PublishedStep,
    rate_mbps: int,
    gpus: int,
    *,
    arrival_s: float,
    iterations: float,
    jitter: float | None,
) -> JobSpec:
    """Return a job with the traffic of a published iteration.

    A job that fits on a node has one task. The tasks of a larger one have the greatest common
    divisor of its GPUs and a node's.
    """
    if iterations > MAX_ITERATIONS:
        raise InputError(
            f"faster: {name} has {iterations:.3g} iterations, above {MAX_ITERATIONS:,}; let time "
            "pass faster"
        )
    task_gpus = gpus if gpus <= context.widest else math.gcd(gpus, context.widest)
    return JobSpec(
        name=name,
        traffic=step.traffic(rate_mbps),
        workers=gpus // task_gpus,
        each=Resources(gpus=task_gpus),
        allreduce="ring",
        arrival_s=arrival_s,
        iterations=max(1, round(iterations)),
        jitter=jitter,
    )


def nodes_by_rack(cluster: Cluster) -> Mapping[str | None, Sequence[str]]:
    """Return the names of the nodes of each rack, in order."""
    names: dict[str | None, list[str]] = {}
    for node in cluster.nodes:
        names.setdefault(node.rack, []).append(node.name)
    return names


def stream(seed: int, aspect: str) -> random.Random:
    """Return a random number generator for one aspect of a scenario.

    Scenarios of one seed differ in no more than their parameters do: a higher load brings the same
    jobs sooner.
    """
    return random.Random(f"{aspect} {seed}")  # noqa: S311 (not for cryptography)


def job_names(count: int) -> list[str]:
    """Return numbered names of equal length."""
    digits = len(str(count - 1))
    return [f"job-{index:0{digits}}" for index in range(count)]


def _classes(value: Any) -> Any:
    """Read classes of priority: text such as ``1/4/16``, so that it can stand in a grid."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(/[0-9]{1,9})*", value):
        return tuple(map(int, value.split("/")))
    if isinstance(value, tuple):  # as it is read already
        return value
    raise PydanticCustomError("classes", "must be text such as '1/2/4'")


def ordered(value: tuple[T, T]) -> tuple[T, T]:
    """Return a minimum and a maximum; refuse them in another order."""
    if value[0] > value[1]:
        raise PydanticCustomError("ordered", "must be the minimum and the maximum, in this order")
    return value


Priorities = Annotated[
    tuple[int, ...],
    BeforeValidator(_classes),
    PlainSerializer(lambda value: "/".join(map(str, value))),
]
"""Priorities to draw from uniformly, written ``1/2/4``."""

Span = Annotated[
    tuple[
        Annotated[int, Field(ge=1, le=MAX_ITERATIONS)],
        Annotated[int, Field(ge=1, le=MAX_ITERATIONS)],
    ],
    Field(strict=False),
    AfterValidator(ordered),
]
"""Minimum and maximum of a uniform distribution."""

Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""Number of jobs."""

Load = Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]
"""GPU-seconds of isolated jobs that arrive, over the GPU-seconds that there are."""

Seconds = Annotated[float, Field(gt=0, le=10**7, allow_inf_nan=False)]


class Generator(Record, ABC):
    """Parameters from which, with a seed, the jobs of a scenario are drawn."""

    @abstractmethod
    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs; equal parameters, context and seed give equal jobs.

        An `InputError` if there are none for these parameters begins with the parameter's name.
        """


class Arrivals(Generator):
    """Poisson arrivals of jobs that policies place.

    Jobs arrive in the time in which the GPUs do the work of all. So load comes out exactly:
    arrivals are drawn given their number.

    Parameters
    ----------
    count
        Number of jobs that arrive, beginning with an empty cluster.
    load
        GPU-seconds of isolated jobs that arrive per second, over the number of GPUs.
    workers, iterations
        Minimum and maximum of a uniform distribution.
    priorities
        Priorities to draw from.
    """

    count: Count
    load: Load = 0.8
    workers: Span = (2, 8)
    priorities: Priorities = (1, 2, 4)
    iterations: Span = (200, 1000)

    @abstractmethod
    def draw(self, context: GeneratorContext, seed: int) -> Iterator[tuple[JobSpec, float]]:
        """Yield random jobs without end, with their GPU-seconds."""

    def jobs(self, context: GeneratorContext, seed: int) -> tuple[JobSpec, ...]:
        """Return the jobs in order of arrival."""
        drawn = list(islice(self.draw(context, seed), self.count))
        end = math.fsum(gpu_s for _, gpu_s in drawn) / (self.load * context.gpus)
        times = stream(seed, "arrivals")
        arrivals = sorted((times.uniform(0.0, end), number) for number in range(self.count))
        return tuple(
            drawn[number][0].model_copy(update={"name": name, "arrival_s": arrival})
            for name, (arrival, number) in zip(job_names(self.count), arrivals, strict=True)
        )
