"""Periods with short common multiples: the minimum weighted stretch within a limit.

Each job may extend its period by a few idle slots. A link repeats itself after the least common
multiple of the periods on it, its hyperperiod; periods that divide one another keep it short, and
let bursts interleave at all. This module finds the cheapest stretches with
which no link's hyperperiod exceeds a limit.

Jobs are decided one after the other. What has been decided matters to the rest only through the
common multiples of the links that further jobs use, so of all choices that lead to the same
multiples the cheapest one is kept: dynamic programming over those multiples, exact unless there
are more of them than memory is meant for. A first pass that keeps few of them tells the second how
much is too much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Job
from metronome_opt.presolve.components import components

_FEW_STEPS = 10_000  # from the multiples that are kept, with each stretch of the next job
_MAX_STEPS = 1_000_000

_Multiples = tuple[int, ...]


@dataclass(frozen=True)
class Periods:
    """A choice of stretches.

    Attributes
    ----------
    stretch
        Idle slots per job name.
    price
        Their weighted sum, the objective ``stretch``.
    proved
        Whether no cheaper choice keeps to the limit.
    """

    stretch: Mapping[str, int]
    price: Fraction
    proved: bool


def choose_periods(instance: Instance, *, limit: int | None = None) -> Periods:
    """Return the cheapest stretches with which no link's hyperperiod exceeds a limit.

    Of choices that cost the same the one with less idle time is taken.

    Parameters
    ----------
    instance
        Its jobs say how far they may be stretched.
    limit
        Slots; that of the instance if left out.

    Raises
    ------
    InputError
        If no choice of stretches keeps to the limit, or none is found.
    """
    limit = instance.hyperperiod_limit if limit is None else limit
    stretch = {job.name: 0 for job in instance.jobs}
    proved = True
    for part in components(instance):
        if part.links and max(part.hyperperiods.values()) > limit:
            chosen, whole = _choose(part, limit)
            stretch |= chosen
            proved = proved and whole
    return Periods(stretch, price_of(instance, stretch), proved)


def count_choices(instance: Instance) -> int:
    """Return how many choices of stretches there are."""
    return math.prod(job.max_stretch + 1 for job in instance.jobs)


def price_of(instance: Instance, stretch: Mapping[str, int]) -> Fraction:
    """Return the objective ``stretch``: the sum of ``weight * stretch / period``."""
    return sum(
        (Fraction(job.weight * stretch[job.name], job.period) for job in instance.jobs), Fraction(0)
    )


def stretched(instance: Instance, stretch: Mapping[str, int]) -> Instance:
    """Return the instance with its jobs stretched for good.

    They may not be stretched further, but for a job that runs now at an offset beyond its new
    period: it keeps as much stretch as makes that offset one of its own. It has to move, and this
    has to count.

    Raises
    ------
    InputError
        If a link's hyperperiod is above the limit of the instance then.
    """
    jobs = []
    for job in instance.jobs:
        period = job.period + stretch[job.name]
        beyond = 0 if job.current_offset is None else max(0, job.current_offset + 1 - period)
        jobs.append(job.model_copy(update={"period": period, "max_stretch": beyond}))
    return instance.replace(jobs=tuple(jobs))


# ------------------------------------------------------------------ the cheapest choice


class _Way(NamedTuple):
    """The cheapest way to some multiples: weighted sum, scaled, and plain one of all stretches."""

    price: int
    idle: int
    stretches: tuple[int, ...]


def _choose(part: Instance, limit: int) -> tuple[dict[str, int], bool]:
    """Return the cheapest stretches of jobs that share links, and whether that is proved."""
    jobs = _in_order(part.jobs)
    best, proved = _best_way(jobs, limit, None, _FEW_STEPS)
    if not proved:
        other, proved = _best_way(jobs, limit, best, _MAX_STEPS)
        best = other or best
    if best is None:
        longest = max(part.hyperperiods, key=part.hyperperiods.__getitem__)
        raise InputError(
            f"max_stretch: {'no' if proved else 'found no'} stretches of the "
            f"{len(jobs)} jobs around link {quote(longest)} that give every link a hyperperiod of "
            f"at most {limit} slots; allow more stretch, coarsen the slots or raise the limit"
        )
    return dict(zip((job.name for job in jobs), best.stretches, strict=True)), proved


def _in_order(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs such that few links are begun and not finished at a time."""
    left = list(jobs)
    order: list[Job] = []
    begun: set[str] = set()
    while left:
        job = min(left, key=lambda job: len(set(job.links) - begun))
        left.remove(job)
        order.append(job)
        begun |= set(job.links)
    return order


def _best_way(
    jobs: Sequence[Job], limit: int, known: _Way | None, max_steps: int
) -> tuple[_Way | None, bool]:
    """Return the cheapest way through all jobs that is better than a known one, if there is any.

    Also whether that is proved; it is not if there were more multiples than may be kept.
    """
    scale = math.lcm(*(job.period for job in jobs))
    ways: dict[_Multiples, _Way] = {(): _Way(0, 0, ())}
    begun: tuple[str, ...] = ()
    proved = True
    for at, job in enumerate(jobs):
        links = tuple(dict.fromkeys((*begun, *job.links)))
        needed = {link for later in jobs[at + 1 :] for link in later.links}
        kept = [place for place, link in enumerate(links) if link in needed]
        price = job.weight * scale // job.period
        following: dict[_Multiples, _Way] = {}
        for multiples, way in ways.items():
            padded = (*multiples, *[1] * (len(links) - len(multiples)))
            for slots in range(job.max_stretch + 1):
                new = _Way(way.price + slots * price, way.idle + slots, (*way.stretches, slots))
                if known is not None and new[:2] >= known[:2]:
                    break
                joint = [
                    math.lcm(multiple, job.period + slots) if link in job.links else multiple
                    for multiple, link in zip(padded, links, strict=True)
                ]
                left = tuple(joint[place] for place in kept)
                if max(joint, default=1) <= limit and (
                    left not in following or new[:2] < following[left][:2]
                ):
                    following[left] = new
        kept_at_most = max(1, max_steps // (jobs[min(at + 1, len(jobs) - 1)].max_stretch + 1))
        if len(following) > kept_at_most:
            proved = False
            ranked = sorted(following, key=lambda left: (following[left][:2], left))
            following = {left: following[left] for left in ranked[:kept_at_most]}
        ways = following
        begun = tuple(links[place] for place in kept)
    return min(ways.values(), key=lambda way: way[:2], default=None), proved
