"""Check of what proves that jobs cannot all keep slots, and of the weight that is left out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from metronome_opt.errors import first_few, quote
from metronome_opt.instance import Instance, Job
from metronome_opt.schedule import Refutation, Schedule
from metronome_opt.verify.evaluation import Run, Violation

MAX_STEPS = 20_000_000
"""How long the proofs of a file may take to replay: `_Slots` counts the steps."""


def refutation_faults(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield the refutations that are false or not proved by what they state."""
    jobs = {job.name: job for job in instance.jobs}
    loads = _Loads(instance, schedule.cushion_slots)
    steps = MAX_STEPS
    for index, each in enumerate(schedule.refutations):
        wrong = _naming_fault(each.periods, jobs)
        if wrong is None and each.link is not None:
            wrong = loads.fault(each)
        if wrong is None and each.branching is not None:
            slots = _Slots(instance, each.periods, schedule.cushion_slots, steps)
            wrong = _tree_fault(slots, each.branching)
            steps = slots.steps
        if wrong is not None:
            names = first_few([quote(name) for name in each.periods])
            yield Violation(f"refutations[{index}]", f"not together {names}", wrong)


def _naming_fault(periods: Mapping[str, int], jobs: Mapping[str, Job]) -> str | None:
    for name, period in periods.items():
        if name not in jobs:
            return f"there is no job {quote(name)}"
        if jobs[name].period != period:
            return f"the period of {name} is {jobs[name].period}, not {quote(period)}"
    return None


# ------------------------------------------------------------------ loads


class _Loads:
    """What jobs put on links in the mean, Mbit/s."""

    def __init__(self, instance: Instance, longer: int) -> None:
        self._instance = instance
        self._longer = longer
        self._capacities = {link.name: link.capacity for link in instance.links}

    @cached_property
    def _rates(self) -> dict[str, Fraction]:
        """The mean rate of a flow of each job."""
        patterns = {job: Run(job, 0, 0, self._longer).pattern for job in self._instance.jobs}
        return {
            job.name: Fraction(sum(slots * rate for _, slots, rate in pattern), job.period)
            for job, pattern in patterns.items()
        }

    def excess(self, stated: Refutation) -> tuple[dict[str, Fraction], Fraction]:
        """Return the loads of the jobs of a refutation on its link, and what is too much."""
        link = stated.link or ""
        flows = {name: self._instance.job(name).links.get(link, 0) for name in stated.periods}
        loads = {name: number * self._rates[name] for name, number in flows.items() if number}
        return loads, sum(loads.values(), Fraction(-self._capacities[link]))

    def fault(self, stated: Refutation) -> str | None:
        """Return what is wrong with a refutation by a link."""
        if stated.link not in self._capacities:
            return f"there is no link {quote(stated.link)}"
        loads, excess = self.excess(stated)
        if excess > 0:
            return None
        load, capacity = sum(loads.values()), self._capacities[stated.link]
        return f"link {stated.link} carries their mean traffic, {load} of {capacity} Mbit/s"


# ------------------------------------------------------------------ search trees


class _Slots:
    """Slots of jobs, and what those that are placed ask of their links.

    Jobs meet as they do at the least common multiple of what their period shares with those of the
    others on their links (models/formulations/kept.md, Divisors), so slots count modulo that.

    Attributes
    ----------
    jobs
        In the order of the instance.
    steps
        How many more may be taken: one for each pair of jobs, and at each node for each slot in
        the common multiple of each link of its job, and for each burst.
    """

    def __init__(self, instance: Instance, names: Iterable[str], longer: int, steps: int) -> None:
        chosen = set(names)
        self.jobs = [job for job in instance.jobs if job.name in chosen]
        self.steps = steps - len(self.jobs) ** 2
        self._demand: dict[str, list[int]] = {}
        if self.steps < 0:
            return
        self._capacity = {link.name: link.capacity for link in instance.links}
        self._moduli = [_modulus(job, self.jobs) for job in self.jobs]
        self._patterns = [
            [
                (slot, min(length, modulus), rate)
                for slot, length, rate in Run(job, 0, 0, longer).pattern
                if rate
            ]
            for job, modulus in zip(self.jobs, self._moduli, strict=True)
        ]
        lengths: dict[str, int] = {}
        for job, modulus in zip(self.jobs, self._moduli, strict=True):
            for link in job.links:
                lengths[link] = math.lcm(lengths.get(link, 1), modulus)
        self.steps -= sum(lengths.values())
        if self.steps >= 0:
            self._demand = {link: [0] * length for link, length in lengths.items()}

    def open_slots(self, index: int, *, first: bool) -> list[int]:
        """Return the slots at which a job overloads no link beside those that are placed.

        If no job is fixed, all may be shifted together, and the first one is held at slot 0.
        """
        job, modulus = self.jobs[index], self._moduli[index]
        slots = list(range(modulus))
        if job.fixed_offset is not None:
            slots = [job.fixed_offset % modulus]
        elif first and all(each.fixed_offset is None for each in self.jobs):
            slots = [0]
        for link, flows in job.links.items():
            for begin, length, rate in self._patterns[index]:
                most = self._capacity[link] - flows * rate
                asked = enumerate(self._demand[link])
                full = {slot % modulus for slot, demand in asked if demand > most}
                starts = set(_starts(full, length, modulus))
                slots = [slot for slot in slots if (slot + begin) % modulus not in starts]
        return slots

    def place(self, index: int, slot: int, sign: int = 1) -> None:
        """Place a job at a slot, or with a sign of -1 take it from there."""
        modulus = self._moduli[index]
        rates: dict[int, int] = {}  # of what falls into the same slot, the largest
        for begin, length, rate in self._patterns[index]:
            for each in range(slot + begin, slot + begin + length):
                rates[each % modulus] = max(rates.get(each % modulus, 0), rate)
        for link, flows in self.jobs[index].links.items():
            demand = self._demand[link]
            for turn in range(0, len(demand), modulus):
                for each, rate in rates.items():
                    demand[turn + each] += sign * flows * rate

    def count(self, index: int) -> bool:
        """Count the steps that placing a job takes; return whether they may be taken."""
        job = self.jobs[index]
        self.steps -= 1 + len(job.phases) * sum(len(self._demand[link]) for link in job.links)
        return self.steps >= 0


def _modulus(job: Job, jobs: Iterable[Job]) -> int:
    """Return the least common multiple of what a period shares with those on common links."""
    others = (each for each in jobs if each is not job and each.links.keys() & job.links.keys())
    return math.lcm(*{math.gcd(job.period, other.period) for other in others})


def _starts(full: Collection[int], length: int, modulus: int) -> Iterator[int]:
    """Yield where a burst may not begin, or it would be in a slot that is full."""
    before = max(full, default=0) - modulus
    for slot in sorted(full):
        for start in range(max(before, slot - length) + 1, slot + 1):
            yield start % modulus
        before = slot


def _tree_fault(slots: _Slots, branching: Sequence[int]) -> str | None:
    """Return what is wrong with a search tree; None if it shows that jobs do not fit."""
    # The jobs that are placed, each at the last of the slots that are left to it.
    path: list[tuple[int, list[int]]] = []
    for number, index in enumerate(branching):
        place = f"branching[{number}]"
        if number and not path:
            return f"{place} belongs to no slot"
        if index >= len(slots.jobs) or index in (placed for placed, _ in path):
            return f"{place} is {quote(index)}: no job that is still to be placed"
        if not slots.count(index):
            return f"it takes more than {MAX_STEPS:,} steps to see"
        path.append((index, slots.open_slots(index, first=not path)[::-1]))
        _move_on(slots, path)
    if path or not branching:
        return "the branching ends too early: some slots of a job are left open"
    return None


def _move_on(slots: _Slots, path: list[tuple[int, list[int]]]) -> None:
    """Place the last job of a path; if no slots are left to it, the one above moves on instead."""
    while path and not path[-1][1]:
        path.pop()
        if path:
            index, left = path[-1]
            slots.place(index, left.pop(), -1)
    if path:
        index, left = path[-1]
        slots.place(index, left[-1])


# ------------------------------------------------------------------ weight that is left out


def left_out_faults(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield a bound of the weight that is left out if it is above that, or not proved."""
    bound = schedule.left_out_bound
    if bound is None:
        return
    gated = schedule.gated or {}
    weight = sum(job.weight for job in instance.jobs if not gated.get(job.name, True))
    if bound > weight:
        yield Violation("left_out_bound", quote(bound), f"the weight left out is {weight}")
    elif not is_left_out(instance, schedule.refutations, bound, schedule.cushion_slots):
        yield Violation("left_out_bound", quote(bound), "the refutations do not prove it")


def is_left_out(
    instance: Instance, refutations: Iterable[Refutation], bound: int, cushion_slots: int
) -> bool:
    """Return whether refutations, if true, show that jobs of some weight have to be left out.

    False as well if it takes too long to see.
    """
    needs = _needs(instance, refutations, cushion_slots)
    weights = {job.name: job.weight for job in instance.jobs}
    steps = 0
    # Depth first: the jobs that are left out, those that are not, and how many needs are met.
    todo: list[tuple[frozenset[str], frozenset[str], int]] = [(frozenset(), frozenset(), 0)]
    while todo:
        out, kept, met = todo.pop()
        if sum(weights[name] for name in out) >= bound:
            continue
        for parts, need in needs[met:]:
            steps += len(parts)
            if sum((parts[name] for name in parts.keys() & out), Fraction(0)) < need:
                break
            met += 1
        else:
            return False
        if steps > MAX_STEPS:
            return False
        for name in parts:
            if name not in out | kept:
                todo.append((out | {name}, kept, met))
                kept |= {name}
    return True


def _needs(
    instance: Instance, refutations: Iterable[Refutation], longer: int
) -> list[tuple[dict[str, Fraction], Fraction]]:
    """Return parts of jobs, and to how much the parts of those that are left out must add up."""
    names = {job.name for job in instance.jobs}
    links = {link.name for link in instance.links}
    loads = _Loads(instance, longer)
    needs = []
    for each in refutations:
        if not each.periods.keys() <= names or not each.is_proved:
            continue  # it is a fault, or proves nothing
        if each.link in links:
            needs.append(loads.excess(each))
        elif each.branching is not None:
            needs.append((dict.fromkeys(each.periods, Fraction(1)), Fraction(1)))
    return sorted(needs, key=lambda need: len(need[0]))
