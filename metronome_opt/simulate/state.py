"""State of a simulation for policies: jobs, their places and next iterations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.places import Room
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.runner import Pattern, Slot
from metronome_opt.errors import InputError
from metronome_opt.instance import Sharing
from metronome_opt.scenario.bursts import Iteration, Rounded
from metronome_opt.scenario.measured import MeasuredStep
from metronome_opt.scenario.model import DescribedJob, Scenario, Source
from metronome_opt.scenario.network import Placement

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
    scenario
        The scenario.
    source
        The source of its traffic.
    """

    def __init__(self, index: int, scenario: Scenario, source: Source) -> None:
        self.index = index
        self.work: DescribedJob = scenario.jobs[index]
        self._scenario = scenario
        self._source = source
        self._known: dict[int, tuple[Iteration, Pattern, Rounded]] = {}

    @property
    def name(self) -> str:
        """Its name in the scenario."""
        return self.work.name

    @property
    def model(self) -> str:
        """Its model, and the device that was measured; ``stated`` if its traffic is."""
        if isinstance(self._source, MeasuredStep):
            return f"{self.work.model}, measured on {self._source.device.kind}"
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

    def iteration(self, rate: int) -> Iteration:
        """Return its iteration if each worker may send at `rate` Mbit/s.

        Raises
        ------
        InputError
            If workers or batch cannot be shared out as the model asks.
        """
        return self._at(rate)[0]

    def pattern(self, rate: int) -> Pattern:
        """Return its iteration as a pattern."""
        return self._at(rate)[1]

    def claim(self, rate: int) -> Rounded:
        """Return its claim in slots of `SLOT_MS`, without idle time at the end."""
        return self._at(rate)[2]

    def _at(self, rate: int) -> tuple[Iteration, Pattern, Rounded]:
        if rate not in self._known:
            try:
                exact = self.work.iteration(rate, self._source, self._scenario.cluster.gpu)
            except InputError as error:
                raise InputError(f"jobs[{self.index}].{error}") from None
            pattern = Pattern.of_iteration(exact, self.work.jitter_of(self._source))
            self._known[rate] = exact, pattern, exact.to_slots(SLOT_MS)
        return self._known[rate]

    def slots(self, rate: int) -> int:
        """Return the slots of an iteration without delays."""
        return max(self.claim(rate).busy, math.ceil(self.pattern(rate).duration / SLOT_MS))

    @cached_property
    def demand(self) -> Demand:
        """The job as allocation sees it, with all its iterations to run."""
        return Demand(
            name=self.name,
            tasks=self.work.workers,
            each=self.work.each,
            traffic=self.pattern,
            allreduce=self.work.algorithm,
            weight=self.work.priority,
            length_ms=self.iterations * self.ideal.alone_ms,
            max_network_cost=self.work.max_network_cost,
        )

    @cached_property
    def ideal(self) -> Pattern:
        """Its pattern if the network and its interfaces are its own."""
        return self.pattern(self._scenario.cluster.nic)


def training_jobs(scenario: Scenario) -> list[TrainingJob]:
    """Return the jobs of a scenario."""
    sources = enumerate(scenario.sources())
    return [TrainingJob(index, scenario, source) for index, source in sources]


_MAX_AROUND = 24  # jobs that are planned together


@dataclass(frozen=True)
class Running:
    """A job that runs."""

    job: TrainingJob
    placement: Placement

    @property
    def peak(self) -> int:
        """Maximum rate of a task in this placement, in Mbit/s."""
        return max(burst.rate for burst in self.job.iteration(self.placement.rate).bursts)

    @property
    def claim(self) -> Rounded:
        """Its claim in this placement, in slots."""
        return self.job.claim(self.placement.rate)

    @property
    def slots(self) -> int:
        """The slots of an iteration in this placement without delays."""
        return self.job.slots(self.placement.rate)


@dataclass(frozen=True)
class Order:
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
    slot: Slot | None
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
    running
        By index.
    users
        Per link, the indices of the jobs that cross it.
    now
        In ms.
    """

    room: Room
    engine: Engine
    sharing: Sharing = "fair"
    running: dict[int, Running] = field(default_factory=dict)
    users: dict[str, list[int]] = field(default_factory=dict)
    now: float = 0.0

    def add(self, placed: Running) -> None:
        """Add a job."""
        self.room.take(placed.placement.nodes, placed.job.work.each)
        self.running[placed.job.index] = placed
        for link in placed.placement.links:
            self.users.setdefault(link, []).append(placed.job.index)

    def remove(self, index: int) -> Running:
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
        return (job.iterations - self.engine.done(index)) * job.ideal.alone_ms

    @contextmanager
    def trying(self, placed: Running) -> Iterator[None]:
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

    def changed(self, came: Iterable[int], left: Iterable[Running]) -> Iterator[list[int]]:
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
