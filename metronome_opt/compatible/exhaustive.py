"""All choices in the order of their cost, all offsets: slow, plain, the judge of the others.

Nothing is shared with them but what is asked and answered, and how long a hyperperiod may be.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

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
from metronome_opt.instance import Instance, Job


def decide(task: Task, periods: Mapping[str, int]) -> Decision:
    """Try all offsets of some jobs at some periods."""
    instance, cushion_slots = task.instance, task.cushion_slots
    long = refute_hyperperiod(instance, periods)
    if long is not None:
        return Decision(refutation=long)
    jobs = [job for job in instance.jobs if job.name in periods]
    lengths = {
        link.name: math.lcm(*(periods[job.name] for job in jobs if link.name in job.links))
        for link in instance.links
    }
    demand = _Demand(instance, lengths)
    rates = {job.name: _rates(job, periods[job.name], cushion_slots) for job in jobs}
    offsets: dict[str, int] = {}

    def place(rest: list[Job]) -> bool:
        """Return whether the rest fits beside what is placed; its offsets are noted if so."""
        if not rest:
            return True
        job, *others = rest
        mine = range(periods[job.name]) if job.fixed_offset is None else [job.fixed_offset]
        for offset in mine:
            if task.budget.stopped:
                return False
            demand.add(job, rates[job.name], offset)
            found = demand.fits(job) and place(others)
            demand.add(job, [-rate for rate in rates[job.name]], offset)
            if found:
                offsets[job.name] = offset
                return True
        return False

    if place(jobs):
        return Decision(offsets=offsets)
    if task.budget.stopped:
        return Decision()
    return Decision(refutation=Refutation(Reason.SEARCH, dict(periods)))


def _by_cost(choices: Choices) -> Iterator[tuple[Fraction, dict[str, int | None]]]:
    """Yield all combinations of choices with what they cost, the cheapest first.

    Each comes after the one in which its last job that has not its cheapest choice has the next
    cheaper one.
    """
    names = list(choices)
    sorted_choices = [sorted(choices[name], key=lambda choice: choice.cost) for name in names]
    first = sum((each[0].cost for each in sorted_choices), Fraction(0))
    heap = [(first, (0,) * len(names), 0)]
    while heap:
        cost, numbers, last = heapq.heappop(heap)
        taken = zip(names, sorted_choices, numbers, strict=True)
        yield cost, {name: each[number].period for name, each, number in taken}
        for place in range(last, len(names)):
            each, number = sorted_choices[place], numbers[place]
            if number + 1 < len(each):
                more = each[number + 1].cost - each[number].cost
                further = (*numbers[:place], number + 1, *numbers[place + 1 :])
                heapq.heappush(heap, (cost + more, further, place))


class _Demand:
    """What jobs ask of each link, slot by slot over its hyperperiod."""

    def __init__(self, instance: Instance, lengths: Mapping[str, int]) -> None:
        self._rows = {link: [0] * length for link, length in lengths.items()}
        self._capacity = {link.name: link.capacity for link in instance.links}

    def add(self, job: Job, rates: Sequence[int], offset: int) -> None:
        for link, flows in job.links.items():
            row = self._rows[link]
            for slot in range(len(row)):
                row[slot] += flows * rates[(slot - offset) % len(rates)]

    def fits(self, job: Job) -> bool:
        return all(max(self._rows[link]) <= self._capacity[link] for link in job.links)


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


def _rates(job: Job, period: int, cushion_slots: int) -> list[int]:
    """Return the rate of a flow in each slot of a period: of bursts that meet, the largest."""
    rates = [0] * period
    for phase in job.phases:
        for slot in range(phase.start, phase.end + cushion_slots):
            rates[slot % period] = max(rates[slot % period], phase.rate)
    return rates
