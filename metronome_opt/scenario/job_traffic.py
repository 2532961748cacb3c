"""The traffic of a described job, wherever it runs."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import TypeAlias

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import read_record
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import Algorithm, TrainingStep, Transport
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.iteration import Iteration, period_of
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.measured import MEASURED, MeasuredStep, find_step
from metronome_opt.scenario.nodes import Gpu
from metronome_opt.scenario.published import read_published
from metronome_opt.scenario.reference import empty_cluster
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.scenario.traffic import Traffic, training_step
from metronome_opt.scenario.workload import Workload, file_of, find_files

GPU_HINT = "add cluster.gpu: {name: A100, sustained_tflops: 23}"
RINGS = ("data-parallel", "tensor-parallel")  # models that send all-reduces among all GPUs alone
_PIPELINES = ("hybrid-parallel", "pipeline-parallel")

Source: TypeAlias = Workload | MeasuredStep | Traffic | TrainingStep
"""The source of the traffic of a job."""


class Sources:
    """Workloads and measured steps by name; a file is read once.

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
        self._workloads = find_files("workloads", workloads)
        self._own = find_files("measured", measured)
        self._gpu = gpu.name if gpu else None
        self._read_measured = cache(partial(read_record, MeasuredStep))
        self._read_workload = cache(partial(read_record, Workload))

    def of(self, job: JobSpec, where: str = "model") -> Source:
        """Return the source of the traffic of a job; errors name the location that asks for it."""
        model = job.model or ""
        if not isinstance(job.traffic, str):
            return job.stated or self.workload(model, where)
        if job.traffic in MEASURED:
            path = find_step(model, job.traffic, self._gpu, self._own, where)
            return self._read_measured(path)
        with error_context(where):
            return read_published(job.traffic).traffic(model, job.gpus, job.batch)

    def workload(self, model: str, where: str = "model") -> Workload:
        """Return a workload, whatever the case of its name."""
        return self._read_workload(file_of(model, self._workloads, where, "workload"))


class JobTraffic:
    """The traffic of a job by its placement in a cluster.

    Parameters
    ----------
    job, source
        The job, and the source of its traffic.
    cluster
        Where it runs.

    Attributes
    ----------
    algorithm, step
        How its collectives cross the network, and its iteration wherever it runs.
    at, in_slots
        Functions that return its iteration at a placement, in time and slots; see `TrainingStep`.
    """

    def __init__(self, job: JobSpec, source: Source, cluster: Cluster) -> None:
        self.job, self.source, self._cluster = job, source, cluster
        self.step = _step(job, source, cluster.gpu)
        self.algorithm = _algorithm(job, self.step)
        self.at = cache(self.step.at)
        self.in_slots = cache(self.step.in_slots)
        self._best_ms: dict[tuple[int, int | None], list[Fraction]] = {}

    @property
    def title(self) -> str:
        """The model, with where its traffic was measured if it was; or ``stated``."""
        match self.source:
            case Traffic() | TrainingStep():
                return f"{self.job.model}, {self.job.traffic}" if self.job.model else "stated"
            case Workload() as workload:
                return workload.name
            case step:
                return f"{step.model}, measured on {step.device}"

    @property
    def jitter(self) -> float | None:
        """Its jitter as it states it, else that of a measured step; None where unknown."""
        if self.job.jitter is not None or not isinstance(self.source, MeasuredStep):
            return self.job.jitter
        return self.source.jitter

    def isolated(self, transport: Transport) -> Iteration:
        """Return its iteration at a placement where it has the network to itself."""
        exact = replace(self.at(transport), jitter=self.jitter)
        return exact if transport.nodes == 1 else exact.slowed_to(transport.rate)

    def period(self, transport: Transport, slot_ms: int, hyperperiod: int | None) -> int:
        """Return its period at a placement.

        Parameters
        ----------
        transport
            How the placement carries its collectives.
        hyperperiod
            In slots; None for a period without idle time.

        Returns
        -------
        int
            In slots, a divisor of the hyperperiod.

        Raises
        ------
        InputError
            If an iteration is longer than the hyperperiod; it names the field to change.
        """
        slots = self.in_slots(transport, slot_ms)[1]
        try:
            return period_of(slots, hyperperiod, slot_ms)
        except InputError as error:
            raise error.within(self.long_field) from None

    @property
    def long_field(self) -> str:
        """The field to change if its iteration is too long."""
        job = self.job
        if isinstance(job.stated, Traffic):
            return f"traffic.period_ms: {float(job.stated.period_ms):g}"
        if job.stated is not None:
            return f"traffic.compute_ms: {float(self.step.compute_ms):g}"
        if isinstance(job.traffic, str):
            return f"model: {quote(job.model)}"
        return f"batch: {job.batch}"

    @cached_property
    def transports(self) -> tuple[Transport, ...]:
        """Its transports at the candidate placements in the empty cluster; none if it does not fit.

        The nodes that the job names are a candidate, too, where there is one path.
        """
        job, cluster = self.job, self._cluster
        places = empty_cluster(cluster).transports(job.workers, job.each, self.algorithm)
        if job.nodes is not None and cluster.spines == 1:
            rails = cluster.next_rails(job.nodes, job.each.gpus, Counter())
            own = compute_placement(
                cluster, job.nodes, self.algorithm, task_gpus=job.each.gpus, rails=rails
            )
            places = (*places, own.transport) if own.rate else places
        return places

    @cached_property
    def best(self) -> Transport | None:
        """The placement of its shortest iteration in the empty cluster; None if it has no room."""
        return min(self.transports, key=lambda place: self.isolated(place).duration, default=None)

    def best_ms(self, own: Transport, slot_ms: int, hyperperiod: int | None) -> Fraction:
        """Return its shortest iteration in slots, in the empty cluster or at its own placement."""
        key = slot_ms, hyperperiod
        if key not in self._best_ms:
            times = []
            for place in self.transports:
                with suppress(InputError):  # longer than the hyperperiod
                    times.append(self.isolated_ms(place, slot_ms, hyperperiod))
            self._best_ms[key] = sorted(times)[:1]
        return min([self.isolated_ms(own, slot_ms, hyperperiod), *self._best_ms[key]])

    def isolated_ms(self, place: Transport, slot_ms: int, hyperperiod: int | None) -> Fraction:
        """Return its iteration in slots with no burst faster than its links allow; pauses stay."""
        period = Fraction(self.period(place, slot_ms, hyperperiod))
        if place.nodes > 1:
            for phase in self.in_slots(place, slot_ms)[0]:
                period += phase.length * max(Fraction(0), phase.rate / place.rate - 1)
        return period * slot_ms


def _algorithm(job: JobSpec, step: TrainingStep) -> Algorithm:
    """Return how the collectives of a job cross the network: as stated, or as is usual for them."""
    usual = step.usual_algorithm
    if job.allreduce in ("ring", "tree") and usual != "ring" and not step.is_stated:
        whose = "its traffic" if job.model is None else f"what {quote(job.model)} sends"
        raise InputError(
            f"allreduce: {quote(job.allreduce)}: {whose} is more than an all-reduce among all "
            "workers; leave it out"
        )
    return job.allreduce or usual


def _step(job: JobSpec, source: Source, gpu: Gpu | None) -> TrainingStep:
    """Return the iteration of a job wherever it runs; errors name its field."""
    gpus = job.workers * max(1, job.each.gpus)
    if isinstance(source, TrainingStep):
        step = source
        step.check_groups(gpus)
    elif isinstance(source, Traffic):
        step = source.step
        step.check_groups(gpus, "phases", "collective")
    elif job.each.gpus > 1 and source.kind in _PIPELINES:
        raise InputError(
            f"each.gpus: {job.each.gpus}: what {quote(job.model)} sends can be computed for "
            "workers of one GPU only; state the traffic"
        )
    elif not isinstance(source, Workload):
        source.check_batch(job.batch)
        step = source.step(job.gpus)
    elif gpu is None or gpu.flops is None:
        raise InputError(
            f"model: {quote(job.model)}: the cluster does not say how fast its GPUs are; "
            f"{GPU_HINT}, or state the job's traffic"
        )
    else:
        step = training_step(source, job.gpus, job.batch or 1, gpu.flops)
    return step if job.rate is None else step.limited_to(job.rate)


def read_traffic(scenario: Scenario) -> tuple[JobTraffic, ...]:
    """Return the traffic of the jobs of a scenario; errors name the job and its field."""
    traffic = []
    sources = Sources(scenario.workloads, scenario.measured, scenario.cluster.gpu)
    for index, job in enumerate(scenario.jobs):
        source = sources.of(job, f"jobs[{index}].model")
        try:
            traffic.append(JobTraffic(job, source, scenario.cluster))
        except InputError as error:
            raise InputError(f"jobs[{index}].{error}") from None
    return tuple(traffic)
