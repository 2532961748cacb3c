"""Fleets: how many equal jobs fit on one link, and their slots, for each pattern of the job.

Of bursts of `length` slots, `m` of which a link carries at once, ``floor(m * period / length)``
fit: their lengths add up to no more than `m` periods, and put end to end around the period they are
never more than `m` at once. So no mix of patterns with one burst each has more jobs than the
pattern of the smallest share ``length / period``. Patterns of several bursts are searched.
"""

from __future__ import annotations

from typing import NamedTuple

from metronome_opt.compatible.problem import Fit, load
from metronome_opt.compatible.solvers import find_fit
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Job, Link
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.solve import DEFAULT_TIME_LIMIT, check_numbers

_LINK = "uplink"


class Fleet(NamedTuple):
    """The largest number of equal jobs that keep slots on one link.

    Attributes
    ----------
    pattern
        Index of the option that they keep; None for their own pattern.
    offsets
        Of the jobs, one each, in slots.
    bound
        How many there are at most; as many as `offsets` unless time was over.
    """

    pattern: int | None
    offsets: tuple[int, ...]
    bound: int


def find_fleet(
    job: Job,
    capacity: int,
    *,
    flows: int = 1,
    cushion_slots: int = 0,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
) -> tuple[Fleet, ...]:
    """Return how many jobs like one fit on a link, and when, for each of its patterns.

    Parameters
    ----------
    capacity
        Of the link, in Mbit/s.
    flows
        How many flows of the rate of its bursts each job puts on the link.
    cushion_slots
        By how many slots bursts are longer.
    time_limit
        Seconds for all patterns of several bursts; None for no limit.

    Returns
    -------
    tuple of Fleet
        That of the job's own pattern, then that of each option.

    Raises
    ------
    InputError
        If a number makes no sense.
    """
    check_numbers(time_limit, 0, None)
    for name, number, least in (
        ("capacity", capacity, 1),
        ("flows", flows, 1),
        ("cushion_slots", cushion_slots, 0),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise InputError(f"{name}: must be an integer from {least} on, got {quote(number)}")
    budget = Budget(time_limit)
    fleets = []
    for index, (_, each) in enumerate(job.variants):
        at_once = capacity // (flows * each.peak)
        low, high = at_once, int(capacity // (flows * load(each, each.period, cushion_slots)))
        offsets = (0,) * low
        if len(each.phases) == 1 and at_once:
            length = min(each.phases[0].length + cushion_slots, each.period)
            low = high = at_once * each.period // length
            offsets = tuple(number * length % each.period for number in range(low))
        high = high if at_once else 0
        while low < high and not budget.stopped:  # a part of a fleet fits where all of it does
            count = (low + high + 1) // 2
            fit = _fit(each, count, capacity, flows, cushion_slots, budget.remaining)
            if fit.offsets is not None:
                low, offsets = count, tuple(fit.offsets.values())
            elif fit.bound is None:
                high = count - 1
            else:
                break
        fleets.append(Fleet(index - 1 if index else None, offsets, high))
    return tuple(fleets)


def _fit(job: Job, count: int, capacity: int, flows: int, cushion: int, time: float | None) -> Fit:
    """Decide whether so many equal jobs fit; the first one may begin at 0."""
    changes = {"links": {_LINK: flows}, "fixed_offset": None}
    jobs = tuple(job.model_copy(update={**changes, "name": str(each)}) for each in range(count))
    links = (Link(name=_LINK, capacity=capacity),)
    instance = Instance(name="fleet", slot_ms=1, links=links, jobs=jobs)
    return find_fit(instance, time_limit=time, cushion_slots=min(cushion, job.period), workers=1)
