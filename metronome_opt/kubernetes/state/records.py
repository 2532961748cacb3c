"""Gangs, reservations and changes of a cluster.

All tasks of a gang are equal, and so is their traffic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from metronome_opt.errors import InputError, error_context, quote
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
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
from metronome_opt.scenario.iteration import Iteration, divisor_from, period_of
from metronome_opt.scenario.job_spec import AllowedNodes, JobSpec, Within
from metronome_opt.scenario.job_traffic import JobTraffic, Sources
from metronome_opt.scenario.nodes import ONE_GPU, Resources
from metronome_opt.scenario.placement_limits import PlacementLimits
from metronome_opt.scenario.scenario_file import Folder, in_folder

JOB_FORMAT = "metronome-job/1"
STATE_FORMAT = "metronome-state/1"


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
    most_racks, within, allowed_nodes, max_network_cost
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
    within: Within = None
    allowed_nodes: AllowedNodes = None
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
    def limits(self) -> PlacementLimits:
        """Limits on its nodes."""
        return PlacementLimits.of(self)

    @property
    def busy(self) -> int:
        """Number of slots of an iteration in which a task sends."""
        return sum(phase.length for phase in self.phases)

    @property
    def peak(self) -> int:
        """Highest rate of a task, in Mbit/s."""
        return max(phase.rate for phase in self.phases)

    def iteration_at(self, transport: Transport, slot_ms: int) -> Iteration:
        """Return its iteration at a placement where it has the network to itself."""
        if self.step is None:
            exact = Iteration.of_job(self.job({}), slot_ms)
        else:
            # Bursts that are only stated are those of one flow.
            nodes = 1 if self.step.is_stated else transport.nodes
            exact = replace(self.step.at(transport._replace(nodes=nodes)), jitter=self.jitter)
        return exact if transport.nodes == 1 else exact.slowed_to(transport.rate)

    def at(self, transport: Transport, slot_ms: int, hyperperiod: int) -> Gang:
        """Return the gang at a placement, with a period that can divide the hyperperiod.

        Raises
        ------
        InputError
            If an iteration there is longer than the hyperperiod.
        """
        whole = transport._replace(rate=Fraction(math.floor(transport.rate)))
        iteration, step = self.iteration_at(whole, slot_ms), self.step
        if step is None or step.is_stated:
            stated = self.iteration_at(whole._replace(nodes=1), slot_ms)
            step = None if iteration == stated else step or _step_of(stated)
        if step is None is self.step:
            return self
        if step is not None and transport.nodes == 1:
            phases, slots = iteration.to_slots_inside(slot_ms)
        else:
            phases, slots = iteration.to_slots(slot_ms)
        with error_context(f"{self.name}: period"):
            stretch = period_of(slots, hyperperiod, slot_ms) - slots
        changes = {"phases": phases, "period": slots, "step": step}
        return self.model_copy(update={**changes, "max_stretch": max(self.max_stretch, stretch)})

    def stretch_for(self, hyperperiod: int) -> int:
        """Return the smallest stretch with which the period divides the hyperperiod.

        Raises
        ------
        InputError
            If `max_stretch` is smaller.
        """
        longest = self.period + self.max_stretch
        divisor = divisor_from(hyperperiod, self.period)
        if divisor is not None and divisor <= longest:
            return divisor - self.period
        remedy = "choose a longer hyperperiod"
        if divisor:
            remedy = f"allow a max_stretch of {divisor - self.period}"
        raise InputError(
            f"{self.name}: period: {self.period} slots do not divide the hyperperiod of "
            f"{hyperperiod}, nor does anything up to {longest}; {remedy}"
        )


def _step_of(iteration: Iteration) -> TrainingStep:
    """Return an iteration whose bursts are stated, wherever it runs."""
    transfers, computed = [], Fraction(0)
    for burst in iteration.bursts:
        computed += burst.after
        transfers.append(
            Transfer(
                kind="stated",
                mbit=burst.volume,
                ready_ms=computed,
                needed_ms=computed,
                max_mbps=int(burst.rate),
            )
        )
    return TrainingStep(compute_ms=computed + iteration.rest, transfers=tuple(transfers))


class Reservation(Record):
    """The nodes and the windows of a job that runs.

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


class StateSnapshot(Record):
    """A state as a document.

    Parameters
    ----------
    claims
        Reservations in force, in the order in which they came.
    capacities, down
        Capacities of links that differ from the cluster's description, in Mbit/s, and nodes that
        take no tasks.
    mode
        Jobs share links: the only value.
    cluster, sequence
        As in `ClusterState`.
    """

    format: Literal["metronome-state/1"] = "metronome-state/1"
    cluster: ClusterSpec
    mode: Literal["shared"] = "shared"
    sequence: NonNegative = 0
    claims: Annotated[tuple[Reservation, ...], Field(strict=False)] = ()
    capacities: FrozenMap[Name, NonNegative] = Field(default_factory=FrozenDict)
    down: Annotated[tuple[Name, ...], Field(strict=False)] = ()


# ------------------------------------------------------------------ files that ask for a placement


class JobFile(JobSpec):
    """A job as a scenario describes it, by its traffic in ms or by its model.

    Parameters
    ----------
    workloads, measured
        As of a `Scenario`.
    """

    format: Literal["metronome-job/1"] = "metronome-job/1"
    workloads: Folder | None = None
    measured: Folder | None = None

    @model_validator(mode="after")
    def _check_nodes(self) -> Self:
        if self.nodes is not None:
            refuse("nodes", "a job that asks for a placement is given some; leave them out")
        return self


def read_request(path: str | Path, cluster: ClusterSpec) -> Gang:
    """Read a job that asks for a placement: a `Gang`, or one with ``traffic`` in ms or a ``model``.

    Raises
    ------
    InputError
        If the file holds no such job; the text names the file, the field and the value.
    """
    return read_document_as(
        path, lambda document: request(document, cluster, folder=Path(path).parent)
    )


def read_job(path: str | Path) -> Gang | JobFile:
    """Read a job that asks for a placement without a cluster; errors are as of `read_request`."""
    return read_document_as(path, lambda document: _described(document, Path(path).parent))


def _described(document: Mapping[str, Any], folder: Path) -> Gang | JobFile:
    if {"model", "traffic", "workers"} & set(document):
        return parse_record(JobFile, in_folder(document, folder), JOB_FORMAT)
    return parse_record(Gang, document, JOB_FORMAT)


def request(document: Mapping[str, Any], cluster: ClusterSpec, *, folder: Path) -> Gang:
    """Return the gang that a document describes; its workloads are relative to `folder`."""
    job = _described(document, folder)
    if isinstance(job, Gang):
        gang = job
    else:
        source = Sources(job.workloads, job.measured, cluster.gpu).of(job)
        gang = gang_of(JobTraffic(job, source, cluster), cluster)
    if unknown := {*(gang.allowed_nodes or ())} - {*cluster.nodes_by_name, *cluster.uplinks}:
        raise InputError(f"allowed_nodes: there is no node or rack {quote(min(unknown))}")
    return gang


def gang_of(traffic: JobTraffic, cluster: ClusterSpec) -> Gang:
    """Return a described job in slots, which may be stretched to a divisor of the hyperperiod."""
    job = traffic.job
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
    stretch = traffic.period(place, cluster.slot_ms, cluster.hyperperiod) - slots
    return Gang(
        name=job.name,
        tasks=job.workers,
        each=job.each,
        period=slots,
        phases=phases,
        step=None if traffic.step.is_stated else traffic.step,
        allreduce=traffic.algorithm,
        weight=job.priority,
        ready=job.ready_ms // cluster.slot_ms,
        max_stretch=max(stretch, job.max_stretch_ms // cluster.slot_ms),
        **job.limits.stated(),
        iterations=job.iterations,
        jitter=traffic.jitter,
    )
