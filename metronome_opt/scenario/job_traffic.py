"""The traffic of a described job, wherever it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, cached_property

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import TrainingStep, Transport
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.iteration import Iteration, SlottedIteration
from metronome_opt.scenario.reference import empty_cluster
from metronome_opt.scenario.scenario_file import JobSpec, Scenario, Source
from metronome_opt.scenario.traffic import Traffic
from metronome_opt.scenario.workload import Workload


class JobTraffic:
    """The traffic of a job by its place in a cluster.

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
    """

    def __init__(self, job: JobSpec, source: Source, cluster: Cluster) -> None:
        self.job, self.source, self._cluster = job, source, cluster
        self.step = job.step(source, cluster.gpu)
        self.algorithm = job.algorithm(self.step)
        self._at: dict[Transport, Iteration] = {}
        self._rounded: dict[tuple[Transport, int, int | None], SlottedIteration] = {}

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
        """Its jitter; None where unknown."""
        return self.job.jitter_of(self.source)

    def at(self, transport: Transport) -> Iteration:
        """Return its iteration at a place; where rates are stated, as stated."""
        if transport not in self._at:
            self._at[transport] = self.step.at(transport)
        return self._at[transport]

    def alone(self, transport: Transport) -> Iteration:
        """Return its iteration at a place where it has the network to itself."""
        exact = self.at(transport)
        return exact if transport.nodes == 1 else exact.slowed_to(transport.rate)

    def rounded(
        self, transport: Transport, slot_ms: int, hyperperiod: int | None
    ) -> SlottedIteration:
        """Return its iteration in slots; if it is too long, the error names the field to change."""
        key = transport, slot_ms, hyperperiod
        if key not in self._rounded:
            try:
                self._rounded[key] = in_slots(self.step, transport, slot_ms, hyperperiod)
            except InputError as error:
                raise error.within(self.long_field) from None
        return self._rounded[key]

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
        """What the places mean for it that it could have in the empty cluster; none: no room.

        Nodes that the job names are one of them, where there is one path.
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
        """The place of its shortest iteration in the empty cluster; None if it has no room."""
        return min(self.transports, key=lambda place: self.alone(place).duration, default=None)

    def best_ms(self, own: Transport, slot_ms: int, hyperperiod: int | None) -> Fraction:
        """Return its shortest iteration in slots, in the empty cluster or at a place of its own."""
        times = [self._alone_ms(own, slot_ms, hyperperiod), *self._best_ms(slot_ms, hyperperiod)]
        return min(times)

    def _alone_ms(self, place: Transport, slot_ms: int, hyperperiod: int | None) -> Fraction:
        rounded = self.rounded(place, slot_ms, hyperperiod)
        fastest = max(phase.rate for phase in rounded.phases)
        return rounded.alone_ms(Fraction(fastest) if place.nodes == 1 else place.rate)

    @cache  # noqa: B019 (as long as the job)
    def _best_ms(self, slot_ms: int, hyperperiod: int | None) -> Sequence[Fraction]:
        times = []
        for place in self.transports:
            with suppress(InputError):  # longer than the hyperperiod
                times.append(self._alone_ms(place, slot_ms, hyperperiod))
        return [min(times)] if times else []


def in_slots(
    step: TrainingStep, transport: Transport, slot_ms: int, hyperperiod: int | None = None
) -> SlottedIteration:
    """Return an iteration at a place, in slots."""
    exact = step.at(transport)
    if transport.nodes == 1 and not step.is_stated:
        return exact.to_slots_inside(slot_ms, hyperperiod)
    return exact.to_slots(slot_ms, hyperperiod)


def read_traffic(scenario: Scenario) -> tuple[JobTraffic, ...]:
    """Return the traffic of the jobs of a scenario; errors name the job and its field."""
    traffic = []
    for index, (job, source) in enumerate(zip(scenario.jobs, scenario.sources(), strict=True)):
        try:
            traffic.append(JobTraffic(job, source, scenario.cluster))
        except InputError as error:
            raise InputError(f"jobs[{index}].{error}") from None
    return tuple(traffic)
