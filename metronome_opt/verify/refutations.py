"""Check of what proves that jobs cannot all keep slots, and of the weight that is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import count

from metronome_opt.errors import quote
from metronome_opt.instance import Instance, Job
from metronome_opt.schedule import Refutation, Schedule
from metronome_opt.verify.evaluation import Run, Violation

_MAX_SLOTS = 1_000_000  # of the common multiple that a link is looked at for
_MAX_NODES = 100_000  # of the search for the lightest jobs to leave out


def refutation_faults(instance: Instance, schedule: Schedule) -> Iterator[Violation]:
    """Yield the refutations that are false or not proved by what they state."""
    jobs = {job.name: job for job in instance.jobs}
    for index, each in enumerate(schedule.refutations):
        place = f"refutations[{index}]"
        wrong = _naming_fault(each.periods, jobs)
        if wrong is None and each.link is not None:
            wrong = _load_fault(each, instance, schedule.cushion_slots)
        if wrong is None and each.branching is not None:
            chosen = [jobs[name] for name in each.periods]
            wrong = _Replay(instance, chosen, schedule.cushion_slots).fault(each.branching)
        if wrong is not None:
            yield Violation(place, f"not together {', '.join(map(quote, each.periods))}", wrong)


def _naming_fault(periods: Mapping[str, int], jobs: Mapping[str, Job]) -> str | None:
    for name, period in periods.items():
        if name not in jobs:
            return f"there is no job {quote(name)}"
        if jobs[name].period != period:
            return f"the period of {name} is {jobs[name].period}, not {quote(period)}"
    return None


def _load(job: Job, link: str, longer: int) -> Fraction:
    """Return what a job puts on a link in the mean, Mbit/s."""
    volume = sum(slots * rate for _, slots, rate in Run(job, 0, 0, longer).pattern)
    return Fraction(job.links.get(link, 0) * volume, job.period)


def _load_fault(stated: Refutation, instance: Instance, longer: int) -> str | None:
    capacities = {link.name: link.capacity for link in instance.links}
    if stated.link not in capacities:
        return f"there is no link {quote(stated.link)}"
    link = stated.link
    load = sum(
        (_load(job, link, longer) for job in instance.jobs if job.name in stated.periods),
        Fraction(0),
    )
    if load > capacities[link]:
        return None
    return f"link {link} carries their mean traffic, {load} of {capacities[link]} Mbit/s"


class _Replay:
    """The replay of a search tree, with jobs at all their slots.

    Jobs meet as they do at the least common multiple of what their period shares with those of the
    others on their links (models/formulations/kept.md, Divisors). If no job is fixed, all may be
    shifted together, and the first job placed is held at slot 0.
    """

    def __init__(self, instance: Instance, jobs: list[Job], longer: int) -> None:
        self._jobs = jobs
        self._capacity = {link.name: link.capacity for link in instance.links}
        self._free = all(job.fixed_offset is None for job in jobs)
        self._moduli = [
            math.lcm(
                *(
                    math.gcd(job.period, other.period)
                    for other in jobs
                    if other is not job and job.links.keys() & other.links.keys()
                )
            )
            for job in jobs
        ]
        self._rates = [
            _rates(job, modulus, longer) for job, modulus in zip(jobs, self._moduli, strict=True)
        ]
        lengths = {
            link: math.lcm(
                *(m for job, m in zip(jobs, self._moduli, strict=True) if link in job.links)
            )
            for job in jobs
            for link in job.links
        }
        self._too_long = [link for link, length in lengths.items() if length > _MAX_SLOTS]
        self._demand = {} if self._too_long else {k: [0] * n for k, n in lengths.items()}

    def fault(self, branching: tuple[int, ...]) -> str | None:
        """Return what is wrong with a tree; None if it shows that the jobs do not fit."""
        if self._too_long:
            return f"the common multiple of periods on link {self._too_long[0]} is too long"
        nodes = enumerate(branching)
        # Jobs that are placed, each with the slots that are left to try; the last is the deepest.
        path: list[tuple[int, list[int]]] = []
        placed: dict[int, int] = {}
        while True:
            number, job = next(nodes, (len(branching), -1))
            if job < 0:
                return "the branching ends too early: some slots of a job are left open"
            if job >= len(self._jobs) or job in placed:
                return f"branching[{number}] is {quote(job)}: no job that is still to be placed"
            path.append((job, self._open_slots(job, first=not path)))
            while path and not path[-1][1]:
                self._move(path.pop()[0], placed)
                # The job above moves on to its next slot, or is done as well.
            if not path:
                rest = next(nodes, None)
                return None if rest is None else f"branching[{rest[0]}] belongs to no slot"
            job, left = path[-1]
            self._move(job, placed, left.pop(0))

    def _open_slots(self, job: int, *, first: bool) -> list[int]:
        """Return the slots at which a job overloads no link beside those that are placed."""
        modulus, rates = self._moduli[job], self._rates[job]
        fixed = self._jobs[job].fixed_offset
        slots = [0] if first and self._free else range(modulus)
        possible = set(slots if fixed is None else [fixed % modulus])
        for link, flows in self._jobs[job].links.items():
            for rate in set(rates) - {0}:
                most = self._capacity[link] - flows * rate
                full = {t % modulus for t, d in enumerate(self._demand[link]) if d > most}
                sends = [slot for slot, each in enumerate(rates) if each == rate]
                possible -= {(t - slot) % modulus for t in full for slot in sends}
        return sorted(possible)

    def _move(self, job: int, placed: dict[int, int], slot: int | None = None) -> None:
        """Take a job from its slot, if it has one, and place it at another one, if one is given."""
        for sign, where in ((-1, placed.pop(job, None)), (1, slot)):
            if where is None:
                continue
            modulus, rates = self._moduli[job], self._rates[job]
            for link, flows in self._jobs[job].links.items():
                demand = self._demand[link]
                for t in range(len(demand)):
                    demand[t] += sign * flows * rates[(t - where) % modulus]
        if slot is not None:
            placed[job] = slot


def _rates(job: Job, modulus: int, longer: int) -> list[int]:
    """Return the largest rate of a flow of a job at offset 0 in each slot modulo a number."""
    rates = [0] * modulus
    for slot, length, rate in Run(job, 0, 0, longer).pattern:
        for t in range(slot, slot + min(length, modulus)):
            rates[t % modulus] = max(rates[t % modulus], rate)
    return rates


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
    elif all(each.is_proved for each in schedule.refutations) and (
        left_out_proved(instance, schedule) is False
    ):
        yield Violation("left_out_bound", quote(bound), "the refutations allow less")


def left_out_proved(instance: Instance, schedule: Schedule) -> bool | None:
    """Return whether proved refutations show a bound of the weight left out; None if too long."""
    weights = {job.name: job.weight for job in instance.jobs}
    capacities = {link.name: link.capacity for link in instance.links}
    # Of the jobs of each refutation, parts have to be left out that add up to so much.
    needs: list[tuple[dict[str, Fraction], Fraction]] = []
    for each in schedule.refutations:
        if each.link in capacities and each.periods.keys() <= weights.keys():
            chosen = [job for job in instance.jobs if job.name in each.periods]
            loads = {job.name: _load(job, each.link, schedule.cushion_slots) for job in chosen}
            needs.append((loads, sum(loads.values()) - Fraction(capacities[each.link])))
        elif each.is_proved and each.periods.keys() <= weights.keys():
            needs.append((dict.fromkeys(each.periods, Fraction(1)), Fraction(1)))
    # Depth first: the jobs that are left out, and those that are not.
    open_nodes: list[tuple[frozenset[str], frozenset[str]]] = [(frozenset(), frozenset())]
    for node in count():
        if not open_nodes:
            return True
        if node == _MAX_NODES:
            return None
        out, kept = open_nodes.pop()
        if sum(weights[name] for name in out) >= (schedule.left_out_bound or 0):
            continue
        lacking = (
            parts
            for parts, need in needs
            if sum((part for name, part in parts.items() if name in out), Fraction(0)) < need
        )
        parts = next(lacking, None)
        if parts is None:
            return False
        for name in parts.keys() - out - kept:
            open_nodes.append((out | {name}, kept))
            kept |= {name}
    return None
