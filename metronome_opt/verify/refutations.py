"""Verification of refutations, and of the bound of the weight of ungated jobs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from metronome_opt.errors import first_few, quote
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.problem.schedule import Refutation, Schedule
from metronome_opt.verify.evaluation import ScheduledJob, Violation

MAX_STEPS = 20_000_000
"""Largest number of steps to replay the proofs of a file; `_Slots` counts them."""
NODE_STEPS = 200
"""Steps of a node besides those for slots."""


def refutation_violations(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield refutations that are false or not proved by their statements."""
    jobs = {job.name: job for job in instance.jobs}
    traffic = _Traffic(instance, schedule.cushion_slots)
    steps = MAX_STEPS
    for index, refutation in enumerate(schedule.refutations):
        wrong = _naming_violation(refutation.periods, jobs)
        if wrong is None and refutation.link is not None:
            wrong = traffic.violation(refutation)
        if wrong is None and refutation.branching is not None:
            slots = _Slots(traffic, refutation.periods, steps)
            wrong = _tree_violation(slots, refutation.branching)
            steps = slots.steps
        if wrong is not None:
            names = first_few([quote(name) for name in refutation.periods])
            yield Violation(f"refutations[{index}]", f"not together {names}", wrong)


def _naming_violation(periods: Mapping[str, int], jobs: Mapping[str, Job]) -> str | None:
    for name, period in periods.items():
        if name not in jobs:
            return f"there is no job {quote(name)}"
        if jobs[name].period != period:
            return f"the period of {name} is {jobs[name].period}, not {quote(period)}"
    return None


# ------------------------------------------------------------------ traffic


class _Traffic:
    """The traffic of jobs, with every burst extended by some slots."""

    def __init__(self, instance: Instance, cushion_slots: int) -> None:
        self.instance = instance
        self.capacities = {link.name: link.capacity for link in instance.links}
        self._cushion_slots = cushion_slots

    @cached_property
    def jobs(self) -> dict[str, ScheduledJob]:
        """The jobs by name, at offset 0."""
        jobs = self.instance.jobs
        return {job.name: ScheduledJob(job, 0, 0, self._cushion_slots) for job in jobs}

    def bursts(self, name: str) -> list[tuple[int, int, int]]:
        """Return the (slot, slots, rate) of the bursts of a job; none of them overlap."""
        return [part for part in self.jobs[name].pattern if part[2]]

    def excess(self, stated: Refutation) -> tuple[dict[str, Fraction], Fraction]:
        """Return the mean loads of jobs on the link of a refutation, and their excess in sum."""
        link = stated.link or ""
        loads = {
            name: Fraction(job.job.links[link] * job.volume, job.period)
            for name, job in self.jobs.items()
            if name in stated.periods and link in job.job.links
        }
        return loads, sum(loads.values(), Fraction(-self.capacities[link]))

    def violation(self, stated: Refutation) -> str | None:
        """Return the violation of a refutation by a link as text."""
        if stated.link not in self.capacities:
            return f"there is no link {quote(stated.link)}"
        loads, excess = self.excess(stated)
        if excess > 0 or self.is_crowded(stated):
            return None
        load, capacity = sum(loads.values()), self.capacities[stated.link]
        return (
            f"link {stated.link} carries their mean traffic, {load} of {capacity} Mbit/s, and "
            "between the bursts of some there is room for those of the others"
        )

    def _long(self, job: Job, link: str) -> list[int]:
        """Return the lengths of the bursts, joined where they touch, above half of a link."""
        flows, lengths, end = job.links.get(link, 0), [0], None
        parts = [
            (slot, slots)
            for slot, slots, rate in self.bursts(job.name)
            if 2 * flows * rate > self.capacities[link]
        ]
        for slot, slots in parts:
            if slot != end:
                lengths.append(0)
            lengths[-1] += slots
            end = slot + slots
        if len(lengths) > 2 and parts[0][0] + job.period == end:
            lengths[1] += lengths.pop()
        return lengths[1:]

    def is_crowded(self, stated: Refutation) -> bool:
        """Return whether bursts of some jobs leave too few gaps to bursts of other jobs.

        Bursts that take more than half of a link cannot meet. Bursts whose periods divide a window
        take one part of every window, and long bursts must lie in the gaps between them. A shorter
        burst takes the place of a long one if it is too long for the rest. False also after too
        many steps.
        """
        bursts = [
            (self.instance.job(name).period, slots)
            for name in stated.periods
            for slots in self._long(self.instance.job(name), stated.link or "")
        ]
        cases = {(window, shortest) for window, _ in bursts for _, shortest in bursts}
        if len(cases) * len(bursts) > MAX_STEPS:
            return False
        for window, shortest in cases:
            taken = sum(window // period * slots for period, slots in bursts if not window % period)
            most, rest = divmod(window - taken, shortest)
            counts = [Fraction(0)]
            for period, slots in bursts:
                if period % window == 0 and period != window:
                    if slots >= shortest:
                        counts[0] += Fraction(window, period)
                    elif slots > rest:
                        counts.append(Fraction(window, period))
            if taken and counts[0] + max(counts[1:], default=0) > most:
                return True
        return False


# ------------------------------------------------------------------ search trees


class _Slots:
    """Slots of jobs, and the demand of the placed jobs on their links.

    Jobs meet as at the least common multiple of the divisors that their period shares with others
    on their links (models/formulations/kept.md, Divisors), so that slots count modulo that number.

    Attributes
    ----------
    jobs
        In the order of the instance.
    steps
        Steps that are left: one is taken for each pair of jobs, for each slot in the period of a
        burst and in the common multiple of a link; at a node `NODE_STEPS`, and for each of its
        bursts one for each slot of its links.
    """

    def __init__(self, traffic: _Traffic, names: Iterable[str], steps: int) -> None:
        chosen = set(names)
        self.jobs = [job for job in traffic.instance.jobs if job.name in chosen]
        self.steps = steps - len(self.jobs) ** 2
        if self.steps < 0:
            return
        self._capacities = traffic.capacities
        self._moduli = [_modulus(job, self.jobs) for job in self.jobs]
        lengths: dict[str, int] = {}
        for job, modulus in zip(self.jobs, self._moduli, strict=True):
            self.steps -= len(job.phases) * modulus
            for link in job.links:
                lengths[link] = math.lcm(lengths.get(link, 1), modulus)
        self.steps -= sum(lengths.values())
        if self.steps < 0:
            return
        self._demand = {link: [0] * length for link, length in lengths.items()}
        self._patterns = [
            [(slot, min(length, modulus), rate) for slot, length, rate in traffic.bursts(job.name)]
            for job, modulus in zip(self.jobs, self._moduli, strict=True)
        ]
        self._rates = list(map(_largest, self._patterns, self._moduli))

    def open_slots(self, index: int, *, first: bool) -> list[int]:
        """Return the slots at which a job overloads no link beside the placed jobs.

        If no job is fixed, all may be shifted together, so that the first one stays at slot 0.
        """
        job, modulus = self.jobs[index], self._moduli[index]
        slots = list(range(modulus))
        if job.fixed_offset is not None:
            slots = [job.fixed_offset % modulus]
        elif first and all(job.fixed_offset is None for job in self.jobs):
            slots = [0]
        for link, flows in job.links.items():
            for begin, length, rate in self._patterns[index]:
                most = self._capacities[link] - flows * rate
                asked = enumerate(self._demand[link])
                full = {slot % modulus for slot, demand in asked if demand > most}
                starts = _starts(full, length, modulus)
                slots = [slot for slot in slots if (slot + begin) % modulus not in starts]
        return slots

    def place(self, index: int, slot: int, sign: int = 1) -> None:
        """Place a job at a slot, or with a sign of -1 remove it."""
        modulus = self._moduli[index]
        for link, flows in self.jobs[index].links.items():
            demand = self._demand[link]
            for start, rate in self._rates[index].items():
                for t in range((slot + start) % modulus, len(demand), modulus):
                    demand[t] += sign * flows * rate

    def count(self, index: int) -> bool:
        """Count the steps of placing a job; return whether they are allowed."""
        if self.steps < 0:
            return False
        job = self.jobs[index]
        slots = sum(len(self._demand[link]) for link in job.links)
        self.steps -= NODE_STEPS + len(job.phases) * slots
        return self.steps >= 0


def _modulus(job: Job, jobs: Iterable[Job]) -> int:
    """Return the least common multiple of the divisors shared with jobs on common links."""
    others = (other for other in jobs if other is not job and other.links.keys() & job.links)
    return math.lcm(*{math.gcd(job.period, other.period) for other in others})


def _starts(full: Collection[int], length: int, modulus: int) -> set[int]:
    """Return the starts at which a burst would be in a full slot."""
    starts: set[int] = set()
    before = max(full, default=0) - modulus
    for slot in sorted(full):
        starts.update(range(max(before, slot - length) + 1, slot + 1))
        before = slot
    return starts | {start + modulus for start in starts if start < 0}


def _largest(pattern: list[tuple[int, int, int]], modulus: int) -> dict[int, int]:
    """Return the largest rate by slot modulo a number."""
    rates: dict[int, int] = {}
    for begin, length, rate in pattern:
        for slot in range(begin, begin + length):
            rates[slot % modulus] = max(rates.get(slot % modulus, 0), rate)
    return rates


def _tree_violation(slots: _Slots, branching: Sequence[int]) -> str | None:
    """Return the violation of a search tree as text; None if it proves that jobs do not fit."""
    # The placed jobs, at the last of their remaining slots.
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
    """Place the last job of a path; without slots for it, the job above moves on."""
    while path and not path[-1][1]:
        path.pop()
        if path:
            index, left = path[-1]
            slots.place(index, left.pop(), -1)
    if path:
        index, left = path[-1]
        slots.place(index, left[-1])


# ------------------------------------------------------------------ weight of ungated jobs


def left_out_violations(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield a bound of the weight of ungated jobs that is above it, or not proved."""
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
    """Return whether true refutations prove a bound of the weight of ungated jobs.

    Parameters
    ----------
    instance, refutations
        The problem, and true refutations of it.
    bound
        The weight.
    cushion_slots
        Slots by which every burst is extended.

    Returns
    -------
    bool
        False also after too many steps.
    """
    needs = _needs(instance, refutations, cushion_slots)
    weights = {job.name: job.weight for job in instance.jobs}
    steps = 0
    # Depth first: ungated jobs, gated jobs, and the number of needs that are met.
    todo: list[tuple[frozenset[str], frozenset[str], int]] = [(frozenset(), frozenset(), 0)]
    while todo:
        out, kept, met = todo.pop()
        if sum(weights[name] for name in out) >= bound:
            continue
        while met < len(needs) and needs[met].is_met(out):
            steps += len(needs[met].parts)
            met += 1
        if met == len(needs) or steps > MAX_STEPS:
            return False
        steps += NODE_STEPS + len(needs[met].parts)
        for name in needs[met].parts:
            if name not in out | kept:
                todo.append((out | {name}, kept, met))
                kept |= {name}
    return True


class _Need(NamedTuple):
    """Parts of jobs, and the least sum of the parts of ungated jobs."""

    parts: dict[str, Fraction]
    least: Fraction

    def is_met(self, out: Set[str]) -> bool:
        """Return whether jobs that are not gated are enough."""
        return sum(self.parts[name] for name in self.parts.keys() & out) >= self.least


def _needs(
    instance: Instance, refutations: Iterable[Refutation], cushion_slots: int
) -> list[_Need]:
    names = {job.name for job in instance.jobs}
    traffic = _Traffic(instance, cushion_slots)
    needs = []
    for refutation in refutations:
        if not refutation.periods.keys() <= names:
            continue  # it is a violation
        one_of_all = _Need(dict.fromkeys(refutation.periods, Fraction(1)), Fraction(1))
        if refutation.link in traffic.capacities:
            loads, excess = traffic.excess(refutation)
            needs.append(_Need(loads, excess) if excess > 0 else one_of_all)
        elif refutation.branching is not None:
            needs.append(one_of_all)
    return sorted(needs, key=lambda need: len(need.parts))
