"""State of a simulation for policies: jobs, their places and next iterations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property

from metronome_opt.allocation.candidates import FreeResources
from metronome_opt.allocation.request import JobRequest
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.jobs import WindowSchedule
from metronome_opt.errors import InputError, pluralise
from metronome_opt.problem.instance import Phase, Sharing
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.flows import Placement
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


class TrainingJob:
    """A job of a scenario.

    Parameters
    ----------
    index
        Its place in the scenario.
    traffic
        Its traffic.
    """

    def __init__(self, index: int, traffic: JobTraffic) -> None:
        self.index, self.traffic = index, traffic
        self.work: JobSpec = traffic.job
        self._known: dict[Transport, Iteration] = {}

    @property
    def name(self) -> str:
        """Its name in the scenario."""
        return self.work.name

    @property
    def model(self) -> str:
        """Its model, and the device that was measured; ``stated`` if its traffic is."""
        source = self.traffic.source
        if isinstance(source, MeasuredStep):
            return f"{self.work.model}, measured on {source.device.kind}"
        return self.work.model or "stated"

    @property
    def iterations(self) -> int:
        """The number of its iterations."""
        if self.work.iterations is None:
            raise InputError(
                f"jobs[{self.index}].iterations: missing; a simulation needs to know when "
                f"{self.work.name} ends"
            )
        return self.work.iterations

    def pattern(self, transport: Transport) -> Iteration:
        """Return its iteration at a place."""
        if transport not in self._known:
            self._known[transport] = self.traffic.isolated(transport)
        return self._known[transport]

    @cache  # noqa: B019 (as long as the job)
    def in_slots(self, transport: Transport) -> tuple[tuple[Phase, ...], int]:
        """Return its bursts in slots of `SLOT_MS` at a place, and the slots of an iteration."""
        return self.traffic.isolated(transport).to_slots(SLOT_MS)

    @cached_property
    def demand(self) -> JobRequest:
        """The job as allocation sees it, with all its iterations to run."""
        return JobRequest(
            name=self.name,
            tasks=self.work.workers,
            each=self.work.each,
            traffic=self.pattern,
            best_ms=self.best_ms,
            algorithm=self.traffic.algorithm,
            weight=self.work.priority,
            length_ms=self.iterations * self.best_ms,
            max_network_cost=self.work.max_network_cost,
        )

    @property
    def best(self) -> Iteration:
        """Its shortest iteration in the empty cluster."""
        return self.pattern(self._best_place)

    @property
    def best_ms(self) -> float:
        """Its length in ms."""
        return self.best.isolated_ms

    @cached_property
    def _best_place(self) -> Transport:
        place = self.traffic.best
        if place is None:
            raise InputError(
                f"jobs[{self.index}]: {self.name} finds no room even in an empty cluster; its "
                f"{self.work.workers} workers need {pluralise(self.work.gpus, 'GPU')}, and its "
                "links 1 Mbit/s for each flow"
            )
        return place


def training_jobs(scenario: Scenario) -> list[TrainingJob]:
    """Return the jobs of a scenario."""
    return [TrainingJob(index, traffic) for index, traffic in enumerate(read_traffic(scenario))]


_MAX_AROUND = 24  # jobs that are planned together


@dataclass(frozen=True)
class RunningJob:
    """A job that runs."""

    job: TrainingJob
    placement: Placement

    @property
    def peak(self) -> int:
        """Maximum rate of a flow in this placement, in whole Mbit/s."""
        return math.ceil(self.pattern.peak)

    @property
    def pattern(self) -> Iteration:
        """Its iteration in this placement."""
        return self.job.pattern(self.placement.transport)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Its bursts in slots in this placement."""
        return self.job.in_slots(self.placement.transport)[0]

    @property
    def slots(self) -> int:
        """The slots of an iteration in this placement without delays."""
        slots = self.job.in_slots(self.placement.transport)[1]
        return max(slots, math.ceil(self.pattern.duration / SLOT_MS))


@dataclass(frozen=True)
class JobInstruction:
    """Instruction to a job from its next iteration on.

    Attributes
    ----------
    index
        Of the job.
    slot
        None to begin as soon as it can.
    start_ms
        Start of the next iteration.
    traffic_class
        Of its bursts from the next one on; links serve higher ones first.
    """

    index: int
    slot: WindowSchedule | None
    start_ms: float
    traffic_class: int = 0


@dataclass
class SimState:
    """The cluster at a moment.

    Attributes
    ----------
    room
        Nodes, links and free resources.
    engine
        The engine, read only.
    sharing
        How links are shared.
    jitter
        That of jobs that do not state theirs.
    running
        By index.
    users
        Per link, the indices of the jobs that cross it.
    now
        In ms.
    """

    room: FreeResources
    engine: Engine
    sharing: Sharing = "fair"
    jitter: float = 0.0
    running: dict[int, RunningJob] = field(default_factory=dict)
    users: dict[str, list[int]] = field(default_factory=dict)
    now: float = 0.0

    def add(self, placed: RunningJob) -> None:
        """Add a job."""
        self.room.take(placed.placement.nodes, placed.job.work.each)
        self.running[placed.job.index] = placed
        for link in placed.placement.links:
            self.users.setdefault(link, []).append(placed.job.index)

    def remove(self, index: int) -> RunningJob:
        """Remove a job."""
        placed = self.running.pop(index)
        self.room.release(placed.placement.nodes, placed.job.work.each)
        for link in placed.placement.links:
            self.users[link].remove(index)
        return placed

    def can_start(self, index: int) -> float:
        """Return when a job could begin its next iteration, in ms."""
        return max(self.now, self.engine.can_start(index))

    def left_ms(self, index: int) -> float:
        """Return the remaining time of a job without delays."""
        job = self.running[index].job
        return (job.iterations - self.engine.done(index)) * job.best_ms

    @contextmanager
    def trying(self, placed: RunningJob) -> Iterator[None]:
        """Add a job temporarily."""
        self.add(placed)
        try:
            yield
        finally:
            self.remove(placed.job.index)

    def around(self, seed: int) -> list[int]:
        """Return a job and those that may delay it, directly or through others.

        Only the nearest 24.
        """
        members = {seed: None}
        queue = [seed]
        seen: set[str] = set()
        for index in queue:
            for link in self.running[index].placement.links:
                if link not in seen:
                    seen.add(link)
                    # The bursts of all jobs there together may need no more than it carries.
                    there = [self.running[other] for other in self.users[link]]
                    peak = sum(placed.placement.links[link] * placed.peak for placed in there)
                    is_contended = peak > self.room.cluster.capacities[link]
                    for other in self.users[link] if is_contended else ():
                        if other not in members:
                            if len(members) >= _MAX_AROUND:
                                return list(members)
                            members[other] = None
                            queue.append(other)
        return list(members)

    def changed(self, came: Iterable[int], left: Iterable[RunningJob]) -> Iterator[list[int]]:
        """Yield the jobs around each that came, and around neighbours of those that left.

        A job that was yielded already does not start another group.
        """
        seen: set[int] = set()
        links = dict.fromkeys(link for placed in left for link in placed.placement.links)
        neighbours = (index for link in links for index in self.users.get(link, ()))
        for index in [*came, *neighbours]:
            if index not in seen:
                members = self.around(index)
                seen.update(members)
                yield members

    def load(self) -> Counter[str]:
        """Return the peak demand of all jobs together by link, in Mbit/s."""
        total: Counter[str] = Counter()
        for placed in self.running.values():
            for link, flows in placed.placement.links.items():
                total[link] += flows * placed.peak
        return total
