"""Batches for which an iteration comes close to a divisor of the hyperperiod, from below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from metronome_opt.scenario.rounding import Rounded, to_slots
from metronome_opt.scenario.traffic import Setting, iteration
from metronome_opt.scenario.workload import Workload

IDLE = 0.05
"""Most idle time of an iteration, relative to it, that counts as close."""


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
    """Return the batches that leave at most `IDLE` of an iteration idle.

    If there is none, those that leave least whatever their period; none at all if every iteration
    is longer than the hyperperiod.

    Parameters
    ----------
    workload
        What is trained.
    setting
        Workers, throughput and rate; its batch does not matter.
    batches
        Which to try.
    slot_ms, hyperperiod
        As `to_slots` takes them.
    periods
        The periods that are wanted, in slots; empty for any. Must be hashable.
    """
    fitted = {
        batch: rounded
        for batch in batches
        if (rounded := _rounded(workload, replace(setting, batch=batch), slot_ms, hyperperiod))
    }
    close = tuple(
        batch
        for batch, rounded in fitted.items()
        if rounded.idle_error <= IDLE and (not periods or rounded.period in periods)
    )
    least = min((rounded.idle_error for rounded in fitted.values()), default=0)
    return close or tuple(batch for batch, rounded in fitted.items() if rounded.idle_error == least)


def _rounded(
    workload: Workload, setting: Setting, slot_ms: int, hyperperiod: int | None
) -> Rounded | None:
    """Return an iteration in slots; None if it is longer than the hyperperiod."""
    exact = iteration(workload, setting)
    try:
        return to_slots(exact, slot_ms, hyperperiod)
    except ValueError:
        return None
