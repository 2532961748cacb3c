"""Running jobs: their iterations and windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

from metronome_opt.problem.instance import Instance, Job
from metronome_opt.scenario.iteration import Iteration


@dataclass(frozen=True)
class IterationProfile:
    """One iteration.

    Attributes
    ----------
    compute
        Computing time before each burst and after the last one, in ms, shape (bursts + 1,).
    volume
        What a flow sends in each burst, in Mbit/s * ms, shape (bursts,).
    rate
        The fastest that a flow may send in each burst, in Mbit/s, shape (bursts,).
    jitter
        Standard deviation of a computing time, as a share of it; None where unknown.
    """

    compute: tuple[Fraction, ...]
    volume: tuple[Fraction, ...]
    rate: tuple[Fraction, ...]
    jitter: float | None = None

    @cached_property
    def duration(self) -> Fraction:
        """The length of an iteration if the network is the job's own, in ms."""
        bursts = zip(self.volume, self.rate, strict=True)
        return sum(self.compute, Fraction(0)) + sum(
            (volume / rate for volume, rate in bursts), Fraction(0)
        )

    @cached_property
    def alone_ms(self) -> float:
        """The duration as a float."""
        return float(self.duration)

    @cached_property
    def key(self) -> tuple[float, ...]:
        """The same numbers as floats, which are quick to compare."""
        numbers = (*self.compute, *self.volume, *self.rate)
        return (*map(float, numbers), -1.0 if self.jitter is None else self.jitter)

    @cached_property
    def peak(self) -> float:
        """The maximum rate of a flow, in Mbit/s; 0 if it never sends."""
        return max(map(float, self.rate), default=0.0)

    def slowed_to(self, rate: Fraction | None) -> IterationProfile:
        """Return the pattern with no burst faster than `rate`; None for no limit."""
        if rate is None:
            return self
        return replace(self, rate=tuple(min(own, rate) for own in self.rate))

    @classmethod
    def of_iteration(cls, iteration: Iteration, jitter: float | None = None) -> IterationProfile:
        """Return the pattern of an iteration without delays."""
        return cls(
            (*(burst.after for burst in iteration.bursts), iteration.rest),
            tuple(1000 * burst.volume for burst in iteration.bursts),
            tuple(Fraction(burst.rate) for burst in iteration.bursts),
            jitter,
        )

    @classmethod
    def of_job(cls, job: Job, slot_ms: int) -> IterationProfile:
        """Return the pattern of a job of an instance: whatever is no burst is computing."""
        compute, end = [], 0
        phases = sorted(job.phases, key=lambda phase: phase.start)
        for phase in phases:
            compute.append(Fraction((phase.start - end) * slot_ms))
            end = phase.start + phase.length
        compute.append(Fraction((job.period - end) * slot_ms))
        return cls(
            tuple(compute),
            tuple(Fraction(phase.length * phase.rate * slot_ms) for phase in phases),
            tuple(Fraction(phase.rate) for phase in phases),
            job.jitter,
        )


def pattern_alone(instance: Instance, job: Job) -> IterationProfile:
    """Return the iteration of a job that has its links to itself.

    Longer than its period if its own flows do not fit on a link.
    """
    capacities = {link.name: link.capacity for link in instance.links}
    widest = [Fraction(capacities[link], flows) for link, flows in job.links.items()]
    return IterationProfile.of_job(job, instance.slot_ms).slowed_to(min(widest, default=None))


def alone_ms(instance: Instance, job: Job) -> Fraction:
    """Return the length of an iteration of a job that has its links to itself, in ms."""
    return pattern_alone(instance, job).duration


@dataclass(frozen=True)
class EngineJob:
    """A job that may enter the engine.

    Attributes
    ----------
    pattern, weight
        Its iteration, and its priority.
    iterations
        Number of iterations; None for no end.
    max_links
        Maximum number of links that it crosses.
    traffic_class
        Links serve higher ones first, however jobs of one class share them.
    """

    name: str
    pattern: IterationProfile
    weight: int = 1
    iterations: int | None = None
    max_links: int = 1
    traffic_class: int = 0

    @classmethod
    def of_instance(cls, instance: Instance, iterations: int | None = None) -> list[Self]:
        """Return all jobs of an instance with the given number of iterations."""
        return [
            cls(
                job.name,
                IterationProfile.of_job(job, instance.slot_ms),
                job.weight,
                iterations,
                len(job.links),
            )
            for job in instance.jobs
        ]


@dataclass(frozen=True)
class WindowSchedule:
    """Planned beginnings of the iterations of a job, or of its bursts.

    Attributes
    ----------
    period_ms
        From one beginning to the next.
    tolerance_ms
        Deviation that does not cause re-phasing. Of windows of bursts: deviation of the job's clock
        that does not cause a correction.
    group
        Jobs of one group wait for one another if iterations have windows.
    bursts_ms
        When each burst is due, from the beginning of the iteration: bursts wait for their times,
        and iterations begin at once. Empty for iterations that wait, and bursts that do not. See
        `engine.fluid.windows`.
    """

    period_ms: float
    tolerance_ms: float = 0.0
    group: int = 0
    bursts_ms: tuple[float, ...] = ()
