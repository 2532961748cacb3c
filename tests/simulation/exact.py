"""A simulation in exact arithmetic, for small systems: all rates anew at every event.

Gated jobs are one group that holds, without a cushion: a late job shifts the windows of all. What
happens at one moment goes in the order that `metronome_opt.engine` states. Nothing of the package
is used but the instance. Times are in ms, bandwidths in Mbit/s, volumes in Mbit/s * ms and per
flow.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from metronome_opt.problem.instance import Instance, Job


@dataclass(frozen=True)
class Segment:
    """A part of an iteration: as long as it takes alone, at this rate; rate 0 is computing."""

    length: Fraction
    rate: int

    @property
    def volume(self) -> Fraction:
        """What each flow carries."""
        return self.length * self.rate


@dataclass(frozen=True)
class Loop:
    """A job: `iterations` times its segments, one after the other, from `start` on."""

    name: str
    segments: tuple[Segment, ...]
    flows: Mapping[str, int]
    weight: int
    start: Fraction
    iterations: int


@dataclass(frozen=True)
class System:
    """Loops over links; `sharing` is fair, strict or weighted.

    Gated ones have a period in `periods`, and keep in step.
    """

    capacities: Mapping[str, int]
    loops: tuple[Loop, ...]
    sharing: str
    periods: Mapping[str, Fraction] = field(default_factory=dict)


def system(
    instance: Instance,
    offsets: Mapping[str, int],
    iterations: int,
    sharing: str = "fair",
    stretch: Mapping[str, int] | None = None,
) -> System:
    """Return an instance whose jobs start at their offsets, `iterations` each.

    They are gated if it is said how far each is stretched.
    """
    return System(
        {link.name: link.capacity for link in instance.links},
        tuple(
            Loop(
                job.name,
                _segments(job, instance.slot_ms),
                dict(job.links),
                job.weight,
                Fraction(offsets[job.name] * instance.slot_ms),
                iterations,
            )
            for job in instance.jobs
        ),
        sharing,
        {}
        if stretch is None
        else {
            job.name: Fraction((job.period + stretch[job.name]) * instance.slot_ms)
            for job in instance.jobs
        },
    )


def _segments(job: Job, slot_ms: int) -> tuple[Segment, ...]:
    """Return bursts in order with the computing between them; nothing has length 0."""
    segments = []
    now = 0
    for phase in sorted(job.phases, key=lambda phase: phase.start):
        segments += [(phase.start - now, 0), (phase.length, phase.rate)]
        now = phase.end
    segments.append((job.period - now, 0))
    return tuple(Segment(Fraction(slots * slot_ms), rate) for slots, rate in segments if slots)


def classes(loops: Sequence[Loop], sharing: str) -> list[list[Loop]]:
    """Return the loops in the groups that are served one after the other.

    By weight a job of weight 0 gets what the others leave.
    """
    ranks = {
        loop.name: {"fair": 0, "strict": loop.weight, "weighted": min(loop.weight, 1)}[sharing]
        for loop in loops
    }
    return [
        [loop for loop in loops if ranks[loop.name] == rank]
        for rank in sorted(set(ranks.values()), reverse=True)
    ]


def exact_ends(system: System) -> dict[str, list[Fraction]]:
    """Return for each job when its iterations end, in ms."""
    return {runner.loop.name: runner.ends for runner in _run(system)}


def exact_times(system: System) -> dict[str, list[Fraction]]:
    """Return how long the iterations of each job last, each until the next one begins, in ms."""
    return {
        runner.loop.name: [
            after - before
            for before, after in itertools.pairwise([*runner.begins, runner.ends[-1]])
        ]
        for runner in _run(system)
    }


def _run(system: System) -> list[_Runner]:
    group = _Group()
    runners = [_Runner(loop, group, system.periods.get(loop.name)) for loop in system.loops]
    now = Fraction(0)
    while any(not runner.done for runner in runners):
        sending = {runner.loop.name: runner.rate for runner in runners if runner.rate}
        rates = exact_rates(system, sending)
        for runner in runners:
            runner.speed = rates.get(runner.loop.name, Fraction(1))
        step = min(runner.next_event for runner in runners if not runner.done)
        now += step
        over = [runner for runner in runners if runner.advance(step)]
        for runner in sorted(over, key=lambda runner: not runner.rate):  # bursts that end go first
            runner.go_on(now)
    return runners


@dataclass
class _Group:
    """Jobs that keep in step: by how much their windows have been shifted, in ms."""

    shift: Fraction = Fraction(0)


@dataclass
class _Runner:
    """Where a loop is: what is left of its segment, in ms of computing or in volume.

    A job whose iteration has not begun yet is in segment -1, and what is left is the time to wait.
    """

    loop: Loop
    group: _Group
    period: Fraction | None
    segment: int = -1
    speed: Fraction = Fraction(0)
    begins: list[Fraction] = field(default_factory=list)
    ends: list[Fraction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = self.loop.start

    @property
    def done(self) -> bool:
        return len(self.ends) == self.loop.iterations

    @property
    def rate(self) -> int:
        """The rate at which it would send; 0 if it does not."""
        return 0 if self.done or self.segment < 0 else self.loop.segments[self.segment].rate

    @property
    def next_event(self) -> Fraction:
        """In how many ms the segment ends."""
        # Starved for now: the event of another job will change that.
        return self.left / self.speed if self.speed else Fraction(10**12)

    def advance(self, step: Fraction) -> bool:
        """Return whether the segment is over after a step."""
        self.left -= step * self.speed
        return not self.done and self.left <= 0

    def go_on(self, now: Fraction) -> None:
        """Go on to the next segment, or to the next iteration."""
        if self.segment >= 0:
            self.segment += 1
            if self.segment < len(self.loop.segments):
                self._begin_segment()
                return
            self.ends.append(now)
            if self.done:
                return
        planned = self._planned(now)
        if planned > now:
            self.segment, self.left = -1, planned - now
            return
        self.group.shift += now - planned
        self.segment = 0
        self.begins.append(now)
        self._begin_segment()

    def _planned(self, now: Fraction) -> Fraction:
        if self.period is None:
            return now
        return self.loop.start + len(self.ends) * self.period + self.group.shift

    def _begin_segment(self) -> None:
        segment = self.loop.segments[self.segment]
        self.left = segment.volume if segment.rate else segment.length


def exact_rates(system: System, sending: Mapping[str, int]) -> dict[str, Fraction]:
    """Return the flow rates of the jobs that send, given the own rate of each.

    Water-filling: the level of all open jobs rises until one reaches its own rate or a link is
    full; these jobs stay where they are, the others rise on.
    """
    free = {link: Fraction(capacity) for link, capacity in system.capacities.items()}
    rates: dict[str, Fraction] = {}
    for group in classes([loop for loop in system.loops if loop.name in sending], system.sharing):
        speeds = {
            loop.name: max(loop.weight, 1) if system.sharing == "weighted" else 1 for loop in group
        }
        rates.update(dict.fromkeys(speeds, Fraction(0)))
        rising = group
        while rising:
            pull = {
                link: sum(speeds[loop.name] * loop.flows.get(link, 0) for loop in rising)
                for link in free
            }
            rise = min(
                *((sending[loop.name] - rates[loop.name]) / speeds[loop.name] for loop in rising),
                *(free[link] / pull[link] for link in free if pull[link]),
                Fraction(10**12),
            )
            for loop in rising:
                rates[loop.name] += rise * speeds[loop.name]
            for link in free:
                free[link] -= rise * pull[link]
            rising = [
                loop
                for loop in rising
                if rates[loop.name] < sending[loop.name]
                and all(free[link] > 0 for link in loop.flows)
            ]
    return rates
