"""All choices in the order of their cost, all offsets: slow, plain, the judge of the others.

Nothing is shared with them but what is asked and answered, and how long a hyperperiod may be.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    Decision,
    Kept,
    Reason,
    Refutation,
    Task,
)
from metronome_opt.compatible.decider import refute_hyperperiod
from metronome_opt.instance import Job
from metronome_opt.kernels.tables import Ints


def choose(task: Task, choices: Choices) -> Chosen:
    """Try all combinations of choices, the cheapest first."""
    bound = Fraction(0)
    for bound, taken in _by_cost(choices):
        periods = {name: period for name, period in taken.items() if period is not None}
        found = decide(task, periods)
        if found.offsets is not None:
            task.offer(Kept(periods, found.offsets), bound)
            return Chosen(Kept(periods, found.offsets), bound, bound)
        if found.refutation is None:
            return Chosen(None, None, bound)
    return Chosen(None, None, None)


def _by_cost(choices: Choices) -> Iterator[tuple[Fraction, dict[str, int | None]]]:
    """Yield all combinations of choices with what they cost, the cheapest first.

    Each comes after the one in which its last job that has not its cheapest choice has the next
    cheaper one.
    """
    ranked = [sorted(each, key=lambda choice: choice.cost) for each in choices.values()]
    first = sum((each[0].cost for each in ranked), Fraction(0))
    heap = [(first, (0,) * len(ranked), 0)]
    while heap:
        cost, numbers, last = heapq.heappop(heap)
        taken = zip(choices, ranked, numbers, strict=True)
        yield cost, {name: each[number].period for name, each, number in taken}
        for place in range(last, len(ranked)):
            each, number = ranked[place], numbers[place]
            if number + 1 < len(each):
                more = each[number + 1].cost - each[number].cost
                further = (*numbers[:place], number + 1, *numbers[place + 1 :])
                heapq.heappush(heap, (cost + more, further, place))


def decide(task: Task, periods: Mapping[str, int]) -> Decision:
    """Try all offsets of some jobs at some periods."""
    long = refute_hyperperiod(task.instance, periods)
    if long is not None:
        return Decision(refutation=long)
    jobs = [job for job in task.instance.jobs if job.name in periods]
    capacity = {link.name: link.capacity for link in task.instance.links}
    demand: dict[str, Ints] = {
        name: np.zeros(
            math.lcm(*(periods[job.name] for job in jobs if name in job.links)), dtype=np.int64
        )
        for name in capacity
    }
    rates = {job.name: _rates(job, periods[job.name], task.cushion_slots) for job in jobs}
    offsets: dict[str, int] = {}

    def add(job: Job, offset: int, sign: int) -> None:
        moved = sign * np.roll(rates[job.name], offset)
        for link, flows in job.links.items():
            demand[link] += flows * np.tile(moved, len(demand[link]) // len(moved))

    def place(rest: list[Job]) -> bool:
        """Return whether the rest fits beside what is placed; its offsets are noted if so."""
        if not rest:
            return True
        job, *others = rest
        mine = range(periods[job.name]) if job.fixed_offset is None else [job.fixed_offset]
        for offset in mine:
            if task.budget.stopped:
                return False
            add(job, offset, 1)
            fits = all(demand[link].max() <= capacity[link] for link in job.links)
            found = fits and place(others)
            add(job, offset, -1)
            if found:
                offsets[job.name] = offset
                return True
        return False

    found = place(jobs)
    if found or task.budget.stopped:
        return Decision(offsets=offsets if found else None)
    return Decision(refutation=Refutation(Reason.SEARCH, dict(periods)))


def _rates(job: Job, period: int, cushion_slots: int) -> Ints:
    """Return the rate of a flow in each slot of a period: of bursts that meet, the largest."""
    rates = np.zeros(period, dtype=np.int64)
    for phase in job.phases:
        for slot in range(phase.start, phase.end + cushion_slots):
            rates[slot % period] = max(rates[slot % period], phase.rate)
    return rates
