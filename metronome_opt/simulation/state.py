"""State of a simulation for policies: jobs, their placements and next iterations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.errors import InputError, pluralise
from metronome_opt.problem.instance import Phase, Sharing
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.job_traffic import JobTraffic, read_traffic
from metronome_opt.scenario.measured import MeasuredStep
from metronome_opt.scenario.scenario_file import Scenario

SLOT_MS = 1
"""The grid of the policies, fine enough for rounding to cost little.

That of the scenario, and its hyperperiod, are for instances, where all periods have to fit; here
only jobs that share links need common periods.
"""

_MAX_GROUP = 24  # jobs that are planned together


@dataclass(frozen=True, kw_only=True)
class TrainingJob(JobRequest):
    """A job of a scenario, with all its iterations to run."""

    index: int  # its position in the scenario
    source: JobTraffic
    # returns its bursts at a placement in slots of `SLOT_MS`, and the slots of an iteration
    in_slots: Callable[[Transport], tuple[tuple[Phase, ...], int]]

    @property
    def spec(self) -> JobSpec:
        """The job as the scenario states it."""
        return self.source.job

    @property
    def model(self) -> str:
        """Its model, and the device that was measured; ``stated`` if its traffic is."""
        source = self.source.source
        if isinstance(source, MeasuredStep):
            return f"{self.spec.model}, measured on {source.device.kind}"
        return self.spec.model or "stated"

    @property
    def iterations(self) -> int:
        """The number of its iterations."""
        if self.spec.iterations is None:
            raise InputError(
                f"jobs[{self.index}].iterations: missing; a simulation needs to know when "
                f"{self.name} ends"
            )
        return self.spec.iterations

    @property
    def sent_gbit(self) -> float:
        """What all of its tasks send in an iteration if each is on a node of its own."""
        gpus = max(1, self.task_resources.gpus)
        apart = Transport(
            self.algorithm,
            gpus=self.tasks * gpus,
            nodes=self.tasks,
            gpus_per_node=gpus,
            link_mbps=1,
            rate=Fraction(1),
            gpus_per_worker=gpus,
        )
        return self.tasks * float(self.source.at(apart).volume) / 1000

    @property
    def best(self) -> Iteration:
        """Its shortest iteration in the empty cluster."""
        if self.source.best is None:
            raise InputError(
                f"jobs[{self.index}]: {self.name} does not fit the empty cluster; its "
                f"{self.spec.workers} workers need {pluralise(self.spec.gpus, 'GPU')}, and its "
                "links 1 Mbit/s for each flow"
            )
        return self.traffic(self.source.best)


def training_jobs(scenario: Scenario) -> list[TrainingJob]:
    """Return the jobs of a scenario."""
    jobs = []
    for index, source in enumerate(read_traffic(scenario)):
        request, iterations = JobRequest.of_traffic(source, None), source.job.iterations
        fields = {**vars(request), "length_ms": iterations and iterations * request.best_ms}
        in_slots = cache(lambda place, at=request.traffic: at(place).to_slots(SLOT_MS))
        jobs.append(TrainingJob(**fields, index=index, source=source, in_slots=in_slots))
    return jobs


@dataclass(frozen=True)
class RunningJob(PlacedJob):
    """A job that runs."""

    job: TrainingJob

    @property
    def peak(self) -> int:
        """Maximum rate of a flow in this placement, in whole Mbit/s."""
        return math.ceil(self.profile.peak)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Its bursts in slots in this placement."""
        return self.job.in_slots(self.placement.transport)[0]

    @property
    def slots(self) -> int:
        """The slots of an iteration in this placement without delays."""
        slots = self.job.in_slots(self.placement.transport)[1]
        return max(slots, math.ceil(self.profile.duration / SLOT_MS))


@dataclass(frozen=True)
class JobInstruction:
    """Instruction to a job from its next iteration on."""

    index: int  # index of the job
    windows: WindowSchedule | None = None  # None to begin as soon as it can
    start_ms: float = 0.0  # start of the next iteration if it has windows
    # class of its bursts from the next one on; links serve higher classes first
    traffic_class: int = 0


@dataclass
class SimState:
    """The cluster at a moment."""

    room: CandidatePlacements  # nodes, links and free resources
    engine: Engine  # the engine, read only
    sharing: Sharing = "fair"  # how links are shared
    jitter: float = 0.0  # jitter of jobs that do not state theirs
    running: dict[int, RunningJob] = field(default_factory=dict)  # jobs by index
    # indices of the jobs that cross a link, by link
    users: dict[str, list[int]] = field(default_factory=dict)
    now: float = 0.0  # in ms
    _used_ms: Counter[str] = field(default_factory=Counter)
    _used_since: dict[str, float] = field(default_factory=dict)

    def add(self, placed: RunningJob) -> None:
        """Add a job."""
        self.room.take(placed.placement.nodes, placed.job.spec.each)
        self.running[placed.job.index] = placed
        for link in placed.placement.links:
            self.users.setdefault(link, []).append(placed.job.index)
            self._used_since.setdefault(link, self.now)

    def remove(self, index: int) -> RunningJob:
        """Remove a job, and return it."""
        placed = self.running.pop(index)
        self.room.release(placed.placement.nodes, placed.job.spec.each)
        for link in placed.placement.links:
            self.users[link].remove(index)
            if not self.users[link]:
                self._used_ms[link] += self.now - self._used_since.pop(link)  # type: ignore[assignment]
        return placed

    def used_ms(self) -> Mapping[str, float]:
        """Return the time until now in which jobs were placed across links, by link."""
        now = {link: self.now - since for link, since in self._used_since.items()}
        return {link: self._used_ms[link] + now.get(link, 0.0) for link in self.users}

    def earliest_start(self, index: int) -> float:
        """Return when a job could begin its next iteration, in ms."""
        return max(self.now, self.engine.earliest_start(index))

    def left_ms(self, index: int) -> float:
        """Return the remaining time of a job without delays."""
        job = self.running[index].job
        return (job.iterations - self.engine.done(index)) * job.best_ms

    def group_of(self, seed: int) -> list[int]:
        """Return a job and the nearest jobs that may delay it, directly or through others."""
        members = {seed: None}
        seen: set[str] = set()
        queue = [seed]
        for index in queue:
            for link in self.running[index].placement.links:
                if link in seen:
                    continue
                seen.add(link)
                # The bursts of all jobs there together may need no more than it carries.
                there = [self.running[other] for other in self.users[link]]
                peak = sum(placed.placement.links[link] * placed.peak for placed in there)
                if peak <= self.room.cluster.capacities[link]:
                    continue
                for other in self.users[link]:
                    if other not in members:
                        if len(members) >= _MAX_GROUP:
                            return list(members)
                        members[other] = None
                        queue.append(other)
        return list(members)

    def changed_groups(
        self, arrived: Iterable[int], departed: Iterable[RunningJob]
    ) -> Iterator[list[int]]:
        """Yield the groups of jobs that arrived, and of jobs on the links of those that departed.

        A job that was yielded already does not start another group.
        """
        seen: set[int] = set()
        links = dict.fromkeys(link for placed in departed for link in placed.placement.links)
        for index in [*arrived, *(job for link in links for job in self.users.get(link, ()))]:
            if index not in seen:
                members = self.group_of(index)
                seen.update(members)
                yield members

    def peak_load(self) -> Counter[str]:
        """Return the peak demand of all jobs together by link, in Mbit/s."""
        total: Counter[str] = Counter()
        for placed in self.running.values():
            for link, flows in placed.placement.links.items():
                total[link] += flows * placed.peak
        return total
