"""What a job does in an iteration if nothing holds it up: computing times and bursts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from metronome_opt.instance import Job
from metronome_opt.scenario.traffic import Iteration


@dataclass(frozen=True)
class Pattern:
    """One iteration.

    Attributes
    ----------
    compute
        Computing time before each burst and after the last one, in ms, shape (bursts + 1,).
    volume
        What a flow sends in each burst, in Mbit/s * ms, shape (bursts,).
    rate
        The fastest that a flow may send in each burst, in Mbit/s, shape (bursts,).
    """

    compute: tuple[Fraction, ...]
    volume: tuple[Fraction, ...]
    rate: tuple[Fraction, ...]

    @cached_property
    def duration(self) -> Fraction:
        """How long an iteration takes if the network is the job's own, in ms."""
        bursts = zip(self.volume, self.rate, strict=True)
        return sum(self.compute, Fraction(0)) + sum(
            (volume / rate for volume, rate in bursts), Fraction(0)
        )

    @cached_property
    def alone_ms(self) -> float:
        """The same as a number for the event loop."""
        return float(self.duration)

    def slowed_to(self, rate: Fraction | None) -> Pattern:
        """Return the pattern with no burst faster than `rate`; None for no limit."""
        if rate is None:
            return self
        return Pattern(self.compute, self.volume, tuple(min(own, rate) for own in self.rate))

    @classmethod
    def of_iteration(cls, iteration: Iteration) -> Pattern:
        """Return the pattern of an iteration that nothing holds up."""
        return cls(
            (*(burst.after for burst in iteration.bursts), iteration.rest),
            tuple(1000 * burst.volume for burst in iteration.bursts),
            tuple(Fraction(burst.rate) for burst in iteration.bursts),
        )

    @classmethod
    def of_job(cls, job: Job, slot_ms: int) -> Pattern:
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
        )
