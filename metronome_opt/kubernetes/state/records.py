"""Gangs, reservations and changes of a cluster.

All tasks of a gang are equal, and so is their traffic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, quote
from metronome_opt.files.records import (
    Jitter,
    Name,
    NonNegative,
    Positive,
    Record,
    parse_record,
    read_document_as,
    refuse,
)
from metronome_opt.problem.instance import HYPERPERIOD_LIMIT, Job, Phase
from metronome_opt.scenario.cluster import ANY_COST, MAX_TASKS, NetworkCost
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.collectives import Algorithm, TrainingStep, Transfer, Transport
from metronome_opt.scenario.iteration import divisor_from
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.job_traffic import JobTraffic, Sources
from metronome_opt.scenario.nodes import ONE_GPU, Resources
from metronome_opt.scenario.scenario_file import Folder, in_folder
from metronome_opt.scenario.traffic import Traffic

JOB_FORMAT = "metronome-job/1"


class Gang(Record):
    """The tasks of one job: all of them are placed, or none.

    Parameters
    ----------
    tasks, each
        Their number, and the resources that one task needs.
    period, phases
        Traffic of one flow in slots and Mbit/s, at the nodes of a reservation; of a job that asks
        for nodes, at its best ones.
    step
        Iteration at any nodes; None where bursts are as stated by `phases`, or slower where links
        do not carry them.
    allreduce
        Algorithm by which collectives cross the network.
    weight
        Priority, larger is more important.
    ready
        Slot at which the job would start unshifted.
    max_stretch
        Largest number of idle slots added to the period, so that it divides the hyperperiod.
    most_racks
        Largest number of racks; None for no limit.
    max_network_cost
        As in `JobSpec`.
    iterations
        Number of iterations; None if the end of the job is not known.
    jitter
        As in `Job`.
    """

    format: Literal["metronome-job/1"] = "metronome-job/1"
    name: Name
    tasks: Annotated[int, Field(ge=1, le=MAX_TASKS)]
    each: Resources = ONE_GPU
    period: Positive
    phases: Annotated[tuple[Phase, ...], Field(strict=False, min_length=1)]
    step: Annotated[TrainingStep | None, Field(exclude_if=lambda step: step is None)] = None
    allreduce: Algorithm = "tasks"
    weight: NonNegative = 1
    ready: NonNegative = 0
    max_stretch: NonNegative = 0
    most_racks: Positive | None = None
    max_network_cost: NetworkCost = ANY_COST
    iterations: Positive | None = None
    jitter: Jitter = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.job({})
        except InputError as error:
            where, _, fault = str(error).removeprefix("Job: ").partition(": ")
            refuse(where, fault)
        longest = self.period + self.max_stretch
        if longest > HYPERPERIOD_LIMIT:
            refuse(
                "max_stretch" if self.max_stretch else "period",
                f"an iteration may take {quote(longest)} slots, above the limit of "
                f"{HYPERPERIOD_LIMIT}; coarsen the slots",
            )
        return self

    def job(
        self, links: Mapping[str, int], *, stretch: int = 0, current_offset: int | None = None
    ) -> Job:
        """Return the gang as a job with flows on links, stretched by at least `stretch`."""
        return Job(
            name=self.name,
            period=self.period,
            weight=self.weight,
            ready=self.ready,
            max_stretch=max(stretch, self.max_stretch),
            phases=self.phases,
            links=dict(links),
            current_offset=current_offset,
            jitter=self.jitter,
        )

    @property
    def busy(self) -> int:
        """Number of slots of an iteration in which a task sends."""
        return sum(phase.length for phase in self.phases)

    @property
    def peak(self) -> int:
        """Highest rate of a task, in Mbit/s."""
        return max(phase.rate for phase in self.phases)

    def at(self, transport: Transport, slot_ms: int, hyperperiod: int) -> Gang:
        """Return the gang at a place, with a period that can divide the hyperperiod.

        Raises
        ------
        InputError
            If an iteration there is longer than the hyperperiod.
        """
        is_inside = transport.nodes == 1
        if self.step is None or self.step.is_stated:
            stated = self._as_stated(slot_ms)
            if is_inside or stated.peak <= transport.rate:
                return stated
            step = self.step or self._stated_step(slot_ms)
            slowed = stated._slowed_to(transport.rate, hyperperiod)
            return slowed.model_copy(update={"step": step})
        limit = math.floor(transport.rate * transport.flows)  # also of bursts that are only stated
        step = self.step if is_inside else self.step.limited_to(limit)
        return self._with(*step.in_slots(transport, slot_ms), hyperperiod)

    def _stated_step(self, slot_ms: int) -> TrainingStep:
        """Return the bursts as an iteration."""
        transfers, computed = [], 0
        for before, phase in zip((None, *self._in_order), self._in_order, strict=False):
            computed += phase.start - (before.end if before else 0)
            transfers.append(
                Transfer(
                    kind="stated",
                    mbit=Fraction(phase.length * slot_ms * phase.rate, 1000),
                    ready_ms=Fraction(computed * slot_ms),
                    needed_ms=Fraction(computed * slot_ms),
                    max_mbps=phase.rate,
                )
            )
        computed += self.period - self._in_order[-1].end
        return TrainingStep(compute_ms=Fraction(computed * slot_ms), transfers=tuple(transfers))

    def _as_stated(self, slot_ms: int) -> Gang:
        """Return the gang with the bursts that it states, rather than those of its place."""
        if self.step is None:
            return self
        phases, sending = [], 0
        for transfer in self.step.transfers:
            rate = transfer.max_mbps or 1
            length = round(1000 * transfer.mbit / rate / slot_ms)
            start = sending + round(transfer.ready_ms / slot_ms)
            phases.append(Phase(start=start, length=length, rate=rate))
            sending += length
        period = sending + round(self.step.compute_ms / slot_ms)
        return self.model_copy(update={"phases": tuple(phases), "period": period, "step": None})

    @property
    def _in_order(self) -> list[Phase]:
        return sorted(self.phases, key=lambda phase: phase.start)

    def _slowed_to(self, rate: Fraction, hyperperiod: int) -> Gang:
        """Return the gang with no burst above a rate, in Mbit/s; pauses stay."""
        phases, later = [], 0
        for phase in self._in_order:
            slowed = min(Fraction(phase.rate), rate)
            length = math.ceil(phase.length * phase.rate / slowed)
            start = phase.start + later
            phases.append(Phase(start=start, length=length, rate=math.floor(slowed)))
            later += length - phase.length
        return self._with(tuple(phases), self.period + later, hyperperiod)

    def _with(self, phases: tuple[Phase, ...], period: int, hyperperiod: int) -> Gang:
        divisor = divisor_from(hyperperiod, period)
        if divisor is None:
            raise InputError(
                f"{self.name}: period: {period} slots at its place are longer than the hyperperiod "
                f"of {hyperperiod}; choose a longer one"
            )
        stretch = max(self.max_stretch, divisor - period)
        changes = {"period": period, "phases": phases, "max_stretch": stretch}
        return self.model_copy(update=changes)

    def stretch_for(self, hyperperiod: int) -> int:
        """Return the smallest stretch with which the period divides the hyperperiod.

        Raises
        ------
        InputError
            If `max_stretch` is smaller.
        """
        period, longest = self.period, self.period + self.max_stretch
        divisor = divisor_from(hyperperiod, period)
        if divisor is not None and divisor <= longest:
            return divisor - period
        remedy = "choose a longer hyperperiod"
        if divisor:
            remedy = f"allow a max_stretch of {divisor - period}"
        raise InputError(
            f"{self.name}: period: {period} slots do not divide the hyperperiod of "
            f"{hyperperiod}, nor does anything up to {longest}; {remedy}"
        )


class Reservation(Record):
    """The nodes and the slots of a job that runs.

    Parameters
    ----------
    gang, nodes
        Its gang, with the bursts that its nodes allow, and the node of each task.
    offset
        Slot at which its period starts.
    stretch
        Idle slots at the end of an iteration.
    gated
        Whether bursts wait for their windows; if not, offset and stretch have no effect.
    started
        Start in whole seconds of Unix time; None if it or the end of the job is not known.
    paths
        Spines of the flows, where they were chosen.
    traffic_class
        From 0 to 7; links serve higher ones first. A job keeps its class while it runs.
    """

    gang: Gang
    nodes: Annotated[tuple[Name, ...], Field(strict=False)]
    offset: NonNegative
    stretch: NonNegative = 0
    gated: bool = True
    started: NonNegative | None = None
    paths: Annotated[
        tuple[Annotated[tuple[NonNegative, ...], Field(strict=False)], ...],
        Field(strict=False, exclude_if=lambda paths: not paths),
    ] = ()
    traffic_class: Annotated[int, Field(ge=0, le=7, exclude_if=lambda number: not number)] = 0

    @property
    def job(self) -> str:
        """Name of the job."""
        return self.gang.name

    @property
    def period(self) -> int:
        """Length of an iteration with its idle time, in slots."""
        return self.gang.period + self.stretch

    @property
    def iteration(self) -> int:
        """Length of an undelayed iteration, in slots: ungated jobs are never idle."""
        return self.period if self.gated else self.gang.period


class Change(NamedTuple):
    """A change of a cluster; all of it happens, or nothing.

    Attributes
    ----------
    reservations
        New and revised reservations by job; None for a job that has none any more.
    capacities
        Capacities of links from now on, in Mbit/s; 0 for a link that failed.
    up
        By node, whether it takes tasks from now on; jobs on it stay.
    """

    reservations: Mapping[str, Reservation | None] = MappingProxyType({})
    capacities: Mapping[str, int] = MappingProxyType({})
    up: Mapping[str, bool] = MappingProxyType({})


# ------------------------------------------------------------------ files that ask for a place


class JobFile(JobSpec):
    """A job as a scenario describes it, by its traffic in ms or by its model.

    Parameters
    ----------
    most_racks
        As in `Gang`.
    workloads, measured
        As of a `Scenario`.
    """

    format: Literal["metronome-job/1"] = "metronome-job/1"
    most_racks: Positive | None = None
    workloads: Folder | None = None
    measured: Folder | None = None

    @model_validator(mode="after")
    def _check_nodes(self) -> Self:
        if self.nodes is not None:
            refuse("nodes", "a job that asks for a place is given some; leave them out")
        return self


def read_request(path: str | Path, cluster: ClusterSpec) -> Gang:
    """Read a job that asks for a place: a `Gang`, or one with ``traffic`` in ms or a ``model``.

    Raises
    ------
    InputError
        If the file holds no such job; the text names the file, the field and the value.
    """
    return read_document_as(
        path, lambda document: request(document, cluster, folder=Path(path).parent)
    )


def read_job(path: str | Path) -> Gang | JobFile:
    """Read a job that asks for a place without a cluster; errors are as of `read_request`."""
    return read_document_as(path, lambda document: _described(document, Path(path).parent))


def _described(document: Mapping[str, Any], folder: Path) -> Gang | JobFile:
    if {"model", "traffic", "workers"} & set(document):
        return parse_record(JobFile, in_folder(document, folder), JOB_FORMAT)
    return parse_record(Gang, document, JOB_FORMAT)


def request(document: Mapping[str, Any], cluster: ClusterSpec, *, folder: Path) -> Gang:
    """Return the gang that a document describes; its workloads are relative to `folder`."""
    job = _described(document, folder)
    if isinstance(job, Gang):
        fastest = max(range(len(job.phases)), key=lambda index: job.phases[index].rate)
        _check_rate(f"phases[{fastest}].rate", job.phases[fastest].rate, job, cluster)
        return job
    gang = _rounded(job, cluster)
    if isinstance(job.stated, Traffic):
        _check_rate("traffic", job.stated.fastest, gang, cluster)
    elif job.rate is not None:
        _check_rate("rate_mbps", job.rate, gang, cluster)
    return gang


def _check_rate(where: str, rate: int, gang: Gang, cluster: ClusterSpec) -> None:
    """Refuse a rate that no interface carries, unless all tasks fit onto one node."""
    widest = cluster.nic
    together = [gang.tasks * needs for needs in gang.each.vector]
    if rate > widest and all(
        any(needs > has for has, needs in zip(node.has.vector, together, strict=True))
        for node in cluster.nodes
    ):
        raise InputError(
            f"{where}: {rate} Mbit/s is more than any interface carries; use at most {widest}"
        )


def _rounded(job: JobFile, cluster: ClusterSpec) -> Gang:
    """Return a described job in slots, which may be stretched to a divisor of the hyperperiod."""
    traffic = JobTraffic(job, Sources(job.workloads, job.measured, cluster.gpu).of(job), cluster)
    # A job that is too large for the cluster waits for more nodes, as if each worker needed one.
    place = traffic.best or Transport(
        algorithm=traffic.algorithm,
        gpus=job.workers * max(1, job.each.gpus),
        nodes=job.workers,
        gpus_per_node=max(1, job.each.gpus),
        gpus_per_worker=max(1, job.each.gpus),
        link_mbps=cluster.nic,
        rate=Fraction(cluster.nic),
    )
    phases, slots = traffic.in_slots(place, cluster.slot_ms)
    return gang_of(
        traffic,
        period=slots,
        phases=phases,
        max_stretch=traffic.period(place, cluster.slot_ms, cluster.hyperperiod) - slots,
        ready=job.ready_ms // cluster.slot_ms,
        most_racks=job.most_racks,
    )


def gang_of(traffic: JobTraffic, **fields: Any) -> Gang:
    """Return the gang of a described job, given its period, phases, stretch and first slot."""
    spec = traffic.job
    return Gang(
        name=spec.name,
        tasks=spec.workers,
        each=spec.each,
        step=None if traffic.step.is_stated else traffic.step,
        allreduce=traffic.algorithm,
        weight=spec.priority,
        max_network_cost=spec.max_network_cost,
        iterations=spec.iterations,
        jitter=traffic.jitter,
        **fields,
    )
