"""From exact times to slots, and batches for which this costs little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.scenario.traffic import Iteration, Setting, iteration
from metronome_opt.scenario.workload import Workload

_MOST_IDLE = 0.05
"""Idle time of an iteration, relative to it, up to which it is close to a divisor."""


@dataclass(frozen=True)
class Rounded:
    """An iteration on the grid of slots.

    Attributes
    ----------
    phases
        The bursts in slots and Mbit/s.
    busy, period
        Slots of the iteration itself (a model's ends with its last burst), and with the idle time
        that a hyperperiod asks for.
    exact
        The iteration as it was.
    """

    phases: tuple[Phase, ...]
    busy: int
    period: int
    slot_ms: int
    exact: Iteration

    @property
    def grid_error(self) -> Fraction:
        """Relative change of the iteration's length by rounding to slots."""
        return self.busy * self.slot_ms / self.exact.duration - 1

    @property
    def idle_error(self) -> Fraction:
        """Idle time added to reach a divisor of the hyperperiod, relative to the iteration."""
        return (self.period - self.busy) * self.slot_ms / self.exact.duration

    @property
    def period_error(self) -> Fraction:
        """Relative change of the iteration's length in all."""
        return self.grid_error + self.idle_error

    @property
    def volume_error(self) -> Fraction:
        """Relative change of the volume, from rates that are whole Mbit/s; never negative."""
        sent = Fraction(
            sum(phase.length * phase.rate for phase in self.phases) * self.slot_ms, 1000
        )
        return sent / self.exact.volume - 1


def to_slots(exact: Iteration, slot_ms: int, hyperperiod: int | None = None) -> Rounded:
    """Round an iteration to slots.

    Pauses go to the nearest slot. A burst gets whole slots enough to carry it at its fastest, and
    then the lowest whole rate that carries it in these: at most its fastest, and less than
    1 Mbit/s * slot per slot too much. The period becomes the smallest divisor of the hyperperiod,
    in slots, that is long enough; with None there is no idling.

    Raises
    ------
    ValueError
        If the iteration is longer than the hyperperiod.
    """
    phases = []
    slot = 0
    for burst in exact.bursts:
        slot += _nearest(burst.after, slot_ms)
        length = math.ceil(burst.duration / slot_ms)
        rate = math.ceil(1000 * burst.volume / (length * slot_ms))
        phases.append(Phase(start=slot, length=length, rate=rate))
        slot += length
    slot += _nearest(exact.rest, slot_ms)
    period = slot if hyperperiod is None else _divisor(hyperperiod, slot)
    return Rounded(tuple(phases), slot, period, slot_ms, exact)


def round_to(
    exact: Iteration, slot_ms: int, hyperperiod: int | None, place: str, remedy: str
) -> Rounded:
    """Do as `to_slots`; what is too long is an `InputError` that names a place and a remedy."""
    try:
        return to_slots(exact, slot_ms, hyperperiod)
    except ValueError:
        raise InputError(
            f"{place}: an iteration takes {float(exact.duration):.0f} ms, more than the "
            f"hyperperiod of {(hyperperiod or 0) * slot_ms} ms; {remedy}"
        ) from None


def _nearest(pause: Fraction, slot_ms: int) -> int:
    return math.floor(pause / slot_ms + Fraction(1, 2))


def _divisor(whole: int, least: int) -> int:
    """Return the smallest divisor of `whole` that is at least `least`."""
    if least > whole:
        raise ValueError(f"{least} slots are longer than the hyperperiod of {whole}")
    return next(number for number in range(least, whole + 1) if whole % number == 0)


def batches_around(batch: int, least: float, most: float) -> range:
    """Return the batches from `least` to `most` times `batch`, in steps of a hundredth of it."""
    return range(max(1, round(batch * least)), round(batch * most) + 1, max(1, batch // 100))


@lru_cache(maxsize=4096)
def suitable_batches(
    workload: Workload,
    setting: Setting,
    batches: range,
    slot_ms: int,
    hyperperiod: int | None,
    periods: Sequence[int] = (),
) -> tuple[int, ...]:
    """Return the batches that leave at most `_MOST_IDLE` of an iteration idle.

    If there is none, those that leave least whatever their period; none at all if every iteration
    is longer than the hyperperiod.

    Parameters
    ----------
    setting
        Workers, throughput and rate; its batch does not matter.
    slot_ms, hyperperiod
        As `to_slots` takes them.
    periods
        The periods that are wanted, in slots; empty for any. Must be hashable.
    """
    fitted: dict[int, Rounded] = {}
    for batch in batches:
        exact = iteration(workload, replace(setting, batch=batch))
        try:
            fitted[batch] = to_slots(exact, slot_ms, hyperperiod)
        except ValueError:
            continue  # longer than the hyperperiod
    close = tuple(
        batch
        for batch, rounded in fitted.items()
        if rounded.idle_error <= _MOST_IDLE and (not periods or rounded.period in periods)
    )
    least = min((rounded.idle_error for rounded in fitted.values()), default=0)
    return close or tuple(batch for batch, rounded in fitted.items() if rounded.idle_error == least)
