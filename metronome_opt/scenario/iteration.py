"""An iteration of a job: its bursts in time and in slots."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Job, Phase

_MAX_AHEAD = 2  # slots that rounding may add before a pause without its giving them back


@dataclass(frozen=True)
class Burst:
    """A burst of one flow of a job.

    Attributes
    ----------
    after
        Time without traffic before it, in ms.
    volume, rate
        The volume in Mbit, and the maximum rate in Mbit/s.
    """

    after: Fraction
    volume: Fraction
    rate: Fraction

    @property
    def duration(self) -> Fraction:
        """Its duration at its fastest, in ms."""
        return 1000 * self.volume / self.rate

    def joined(self, other: Burst) -> Burst:
        """Return one burst of both that takes as long."""
        volume, duration = self.volume + other.volume, self.duration + other.duration
        return replace(self, volume=volume, rate=1000 * volume / duration)


@dataclass(frozen=True)
class Iteration:
    """One iteration of a job that has the network to itself.

    Attributes
    ----------
    bursts
        Its bursts, in order.
    rest
        Time without traffic after the last burst, in ms; that of a model ends with its last burst.
    is_fine
        True if bursts may be many and shorter than slots, as the bursts of buckets are, so that
        rounding every burst up would lengthen the iteration.
    jitter
        Standard deviation of a computing time, as a share of it; None where unknown.
    """

    bursts: tuple[Burst, ...]
    rest: Fraction = Fraction(0)
    is_fine: bool = False
    jitter: float | None = None

    @classmethod
    def of_job(cls, job: Job, slot_ms: int) -> Iteration:
        """Return the iteration of a job of an instance: time without a burst is computing."""
        bursts, end = [], 0
        for phase in sorted(job.phases, key=lambda phase: phase.start):
            volume = Fraction(phase.length * phase.rate * slot_ms, 1000)
            after = Fraction((phase.start - end) * slot_ms)
            bursts.append(Burst(after, volume, Fraction(phase.rate)))
            end = phase.end
        return cls(tuple(bursts), Fraction((job.period - end) * slot_ms), jitter=job.jitter)

    @cached_property
    def pauses(self) -> tuple[Fraction, ...]:
        """Times without traffic before each burst and after the last one, in ms."""
        return *(burst.after for burst in self.bursts), self.rest

    @cached_property
    def duration(self) -> Fraction:
        """Length of the iteration in ms."""
        return sum((burst.duration for burst in self.bursts), sum(self.pauses, Fraction(0)))

    @cached_property
    def isolated_ms(self) -> float:
        """Its duration as a float."""
        return float(self.duration)

    @property
    def volume(self) -> Fraction:
        """The volume of one flow in an iteration, in Mbit."""
        return sum((burst.volume for burst in self.bursts), Fraction(0))

    @cached_property
    def peak(self) -> float:
        """The maximum rate of a flow, in Mbit/s; 0 if it never sends."""
        return max((float(burst.rate) for burst in self.bursts), default=0.0)

    @cached_property
    def segments(self) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
        """Its pauses in ms, volumes in Mbit/s * ms, and rates in Mbit/s, as floats."""
        volumes = (float(1000 * burst.volume) for burst in self.bursts)
        rates = (float(burst.rate) for burst in self.bursts)
        return tuple(map(float, self.pauses)), tuple(volumes), tuple(rates)

    @cached_property
    def key(self) -> tuple[float, ...]:
        """Its numbers as floats, which are quick to compare."""
        pauses, volumes, rates = self.segments
        return (*pauses, *volumes, *rates, -1.0 if self.jitter is None else self.jitter)

    def slowed_to(self, rate: Fraction | None) -> Iteration:
        """Return the iteration with no burst faster than `rate`; None for no limit."""
        if rate is None or all(burst.rate <= rate for burst in self.bursts):
            return self
        bursts = tuple(replace(burst, rate=min(rate, burst.rate)) for burst in self.bursts)
        return replace(self, bursts=bursts)

    def to_slots(self, slot_ms: int) -> tuple[tuple[Phase, ...], int]:
        """Round it to slots: return its bursts, and the slots of the iteration.

        Pauses go to the nearest slot. A burst gets whole slots enough to carry it at its fastest,
        and then the lowest whole rate that carries it in these: at most its fastest, and less than
        1 Mbit/s * slot per slot too much.

        If it is fine, pauses give back what rounding has added before them beyond `_MAX_AHEAD`
        slots, and bursts of one rate become one where the pause between them goes to 0.
        """
        phases: list[Phase] = []
        slot, exact = 0, Fraction(0)
        lasting = volume = Fraction(0)  # of the last phase
        for before, burst in zip((None, *self.bursts), self.bursts, strict=False):
            pause = self._pause(burst.after, slot, exact, slot_ms)
            if before and self.is_fine and not pause and burst.rate == before.rate:
                slot = phases.pop().start
                lasting += burst.after + burst.duration
                volume += burst.volume
            else:
                slot += pause
                lasting, volume = burst.duration, burst.volume
            length = math.ceil(lasting / slot_ms)
            rate = math.ceil(1000 * volume / (length * slot_ms))
            phases.append(Phase(start=slot, length=length, rate=rate))
            slot += length
            exact += burst.after + burst.duration
        return tuple(phases), slot + self._pause(self.rest, slot, exact, slot_ms)

    def to_slots_inside(self, slot_ms: int) -> tuple[tuple[Phase, ...], int]:
        """Round the iteration of a job on one node, where bursts need no slots of their own.

        Its length is rounded to the nearest slot; its bursts become one at its end.
        """
        slots = max(1, _nearest(self.duration, slot_ms))
        sending = self.duration - self.rest - sum(burst.after for burst in self.bursts)
        length = min(slots, max(1, _nearest(sending, slot_ms)))
        rate = math.ceil(1000 * self.volume / (length * slot_ms))
        return (Phase(start=slots - length, length=length, rate=rate),), slots

    def _pause(self, pause: Fraction, slot: int, exact: Fraction, slot_ms: int) -> int:
        """Return the slots of a pause that begins at `slot`, and exactly at `exact` ms."""
        ahead = max(slot - exact / slot_ms - _MAX_AHEAD, Fraction(0))
        return max(0, _nearest(pause - (ahead * slot_ms if self.is_fine else 0), slot_ms))


def _nearest(time: Fraction, slot_ms: int) -> int:
    return math.floor(time / slot_ms + Fraction(1, 2))


def divisor_from(whole: int, minimum: int) -> int | None:
    """Return the smallest divisor of `whole` that is at least `minimum`; None if there is none."""
    return next((whole // n for n in range(whole // minimum, 0, -1) if whole % n == 0), None)


def period_of(slots: int, hyperperiod: int | None, slot_ms: int) -> int:
    """Return the period of an iteration: the smallest divisor of the hyperperiod that holds it.

    Parameters
    ----------
    slots
        The slots of the iteration.
    hyperperiod
        The hyperperiod in slots; None for periods without idle time.
    slot_ms
        The length of a slot.

    Raises
    ------
    InputError
        If the iteration is longer than the hyperperiod; the text has no location.
    """
    period = slots if hyperperiod is None else divisor_from(hyperperiod, slots)
    if period is None:
        raise InputError(
            f"an iteration takes {slots * slot_ms} ms, more than the hyperperiod of "
            f"{(hyperperiod or 0) * slot_ms} ms; choose a longer hyperperiod or a shorter iteration"
        )
    return period
