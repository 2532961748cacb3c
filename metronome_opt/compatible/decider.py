"""Problem (a): do these jobs fit at these periods? Offsets, or why there are none.

Two jobs by themselves: bursts p of job i and q of job j that a link cannot carry at once, of
lengths m_p and m_q from s_p and s_q on, never meet iff ``phi_j - phi_i`` avoids ``m_p + m_q - 1``
residues modulo the greatest common divisor of the periods, those above ``s_p - s_q - m_q`` and
below ``s_p - s_q + m_p``. So two jobs fit iff the residues that all pairs of their bursts forbid,
on all links, leave one. For one burst each that is ``m_i + m_j <= gcd(T_i, T_j)``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache

import numpy as np

from metronome_opt.compatible.choices import (
    Decision,
    Reason,
    Refutation,
    Task,
    at_periods,
    load,
)
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels import fitting
from metronome_opt.kernels.jobs import contention
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.presolve import orbits, restrict, simplify_links, split
from metronome_opt.solvers.budget import Budget

_NODES = 2_000  # placements between two looks at the clock
_LOOKS = 10  # of the search, if somebody else goes on
Settle = Callable[[Instance], Decision]
"""Decides whether the contention of an instance can be 0."""

Forbidden = tuple[tuple[int, int], ...]


class Pairs:
    """The pairs of an instance that cannot burst at once, and what keeps them apart."""

    def __init__(self, instance: Instance, cushion_slots: int = 0) -> None:
        self._instance = instance
        self._cushion_slots = cushion_slots

    @cached_property
    def impossible(self) -> tuple[int, ...]:
        """The jobs that ask a link for more than it carries even when they are alone."""
        capacity = {link.name: link.capacity for link in self._instance.links}
        return tuple(
            index
            for index, job in enumerate(self._instance.jobs)
            if any(job.peak * flows > capacity[link] for link, flows in job.links.items())
        )

    @cached_property
    def forbidden(self) -> Mapping[tuple[int, int], Forbidden]:
        """For each pair of jobs that meet: the (first, number) of residues that they forbid."""
        found: dict[tuple[int, int], set[tuple[int, int]]] = {}
        jobs = self._instance.jobs
        for link in self._instance.links:
            for i, j in itertools.combinations(self._instance.jobs_on[link.name], 2):
                pair = found.setdefault((i, j), set())
                pair.update(self._ranges(jobs[i], jobs[j], link.name, link.capacity))
        return {pair: tuple(sorted(ranges)) for pair, ranges in found.items() if ranges}

    def fit(self, i: int, j: int, period_i: int, period_j: int) -> bool:
        """Return whether two jobs, ``i < j``, fit at some periods."""
        ranges = self.forbidden.get((i, j))
        return ranges is None or _leaves_one(ranges, math.gcd(period_i, period_j))

    def fit_named(self, one: str, period: int, other: str, other_period: int) -> bool:
        """Return whether two jobs, named in any order, fit at some periods."""
        i, j = self._index[one], self._index[other]
        if i < j:
            return self.fit(i, j, period, other_period)
        return self.fit(j, i, other_period, period)

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {job.name: index for index, job in enumerate(self._instance.jobs)}

    def _ranges(self, one: Job, other: Job, link: str, capacity: int) -> Iterator[tuple[int, int]]:
        for p, q in itertools.product(one.phases, other.phases):
            if p.rate * one.links[link] + q.rate * other.links[link] > capacity:
                before, after = q.length + self._cushion_slots, p.length + self._cushion_slots
                yield p.start - q.start - before + 1, before + after - 1


@lru_cache(maxsize=1 << 16)
def _leaves_one(ranges: Forbidden, modulus: int) -> bool:
    """Return whether some ranges of residues leave one of a modulus."""
    if max(number for _, number in ranges) >= modulus:
        return False
    pieces = sorted((first % modulus, first % modulus + number) for first, number in ranges)
    reach = max(0, pieces[-1][1] - modulus, *(end - modulus for _, end in pieces))
    for first, end in pieces:
        if first > reach:
            return True
        reach = max(reach, end)
    return reach < modulus


class Decider:
    """Decides whether jobs of an instance fit, and keeps what it has found out.

    Parameters
    ----------
    settle
        Decides instances that the search does not decide soon.
    """

    def __init__(self, task: Task, settle: Settle | None = None) -> None:
        self.task = task
        self.instance = task.instance
        self.pairs = Pairs(task.instance, task.cushion_slots)
        self._settle = settle
        self._known: dict[tuple[object, ...], Decision] = {}

    def decide(self, periods: Mapping[str, int]) -> Decision:
        """Return offsets at which jobs fit at some periods, or jobs of them that do not."""
        if not periods:
            return Decision(offsets={})
        reason = self._refute(periods)
        if reason is not None:
            return Decision(refutation=reason)
        smaller = simplify_links(at_periods(self.instance, periods, self.task.cushion_slots))
        cut = split(smaller.instance)
        parts = []
        for block in cut.blocks:
            mine = {job.name: periods[job.name] for job in block.jobs}
            found = self._decide_block(block, mine)
            if found.offsets is None:
                return found
            parts.append(found.offsets)
        return Decision(offsets=smaller.restore(cut.join(parts)))

    # ------------------------------------------------------------------ without search

    def _refute(self, periods: Mapping[str, int]) -> Refutation | None:
        """Return a reason that can be seen without a search."""
        jobs = self.instance.jobs
        for index in self.pairs.impossible:
            name = jobs[index].name
            if name in periods:
                return Refutation(Reason.LOAD, {name: periods[name]})
        for i, j in self.pairs.forbidden:
            one, other = jobs[i].name, jobs[j].name
            if one in periods and other in periods:
                mine = {one: periods[one], other: periods[other]}
                if not self.pairs.fit(i, j, *mine.values()):
                    return Refutation(Reason.PAIR, mine)
        return self._refute_loads(periods) or refute_hyperperiod(self.instance, periods)

    def _refute_loads(self, periods: Mapping[str, int]) -> Refutation | None:
        for link in self.instance.links:
            users = (self.instance.jobs[index] for index in self.instance.jobs_on[link.name])
            loads = {
                job.name: job.links[link.name]
                * load(job, periods[job.name], self.task.cushion_slots)
                for job in users
                if job.name in periods
            }
            spare = sum(loads.values()) - link.capacity
            if spare > 0:
                for name, mine in sorted(loads.items(), key=lambda item: item[1]):
                    if mine < spare:
                        spare -= loads.pop(name)
                return Refutation(Reason.LOAD, {name: periods[name] for name in loads})
        return None

    # ------------------------------------------------------------------ by search

    def _decide_block(self, block: Instance, periods: Mapping[str, int]) -> Decision:
        key = (*sorted(periods.items()), *(link.name for link in block.links))
        known = self._known.get(key)
        if known is None:
            known = self._look_at_links(block, periods) or self._search(block)
            if known.refutation is not None:
                named = {name: periods[name] for name in known.refutation.periods}
                known = Decision(refutation=Refutation(Reason.SEARCH, named))
            if known != Decision():
                self._known[key] = known
        return known

    def _search(self, block: Instance) -> Decision:
        if self._settle is None:
            return search_offsets(block, self.task.budget)
        found = search_offsets(block, self.task.budget, _LOOKS)
        return self._settle(block) if found == Decision() else found

    def _look_at_links(self, block: Instance, periods: Mapping[str, int]) -> Decision | None:
        """Return the refutation of a single link, if one of them has it: it is the smaller one."""
        if len(block.links) == 1:
            return None
        for link in block.links:
            part = restrict(block, {link.name})
            mine = {job.name: periods[job.name] for job in part.jobs}
            found = self._decide_block(part, mine)
            if found.refutation is not None:
                return found
        return None


def core(refutation: Refutation, decide: Callable[[Mapping[str, int]], Decision]) -> Refutation:
    """Return a refutation from which no job can be left out, as far as `decide` has time."""
    for name in list(refutation.periods):
        if refutation.reason is Reason.SEARCH and name in refutation.periods:
            fewer = {other: p for other, p in refutation.periods.items() if other != name}
            refutation = decide(fewer).refutation or refutation
    return refutation


def refute_hyperperiod(instance: Instance, periods: Mapping[str, int]) -> Refutation | None:
    """Return jobs of a link whose periods have no common multiple within the limit, if any."""
    for users in instance.jobs_on.values():
        names = [instance.jobs[user].name for user in users]
        kept = {name: periods[name] for name in names if name in periods}
        if math.lcm(*kept.values()) > instance.hyperperiod_limit:
            for name in list(kept):
                less = {other: period for other, period in kept.items() if other != name}
                if math.lcm(*less.values()) > instance.hyperperiod_limit:
                    kept = less
            return Refutation(Reason.HYPERPERIOD, kept)
    return None


def search_offsets(instance: Instance, budget: Budget, looks: int | None = None) -> Decision:
    """Search an instance for offsets without contention; all weights must be 1.

    Parameters
    ----------
    looks
        After how many looks at the clock to give up; None for no limit.
    """
    compiled = compile_instance(instance)
    component, domain = np.zeros((2, len(instance.jobs)), dtype=np.int64)
    place = {job.name: index for index, job in enumerate(instance.jobs)}
    for number, together in enumerate(orbits(instance).components):
        for job in together.jobs:
            component[place[job.name]] = number
            domain[place[job.name]] = math.gcd(job.period, together.held)
    descent = fitting.start_descent(compiled, component, domain)
    blocked = contention(compiled, descent.state) > 0 or (descent.room[0] == 0).any()
    ended = fitting.REFUTED if blocked else fitting.EXHAUSTED
    while ended == fitting.EXHAUSTED and not budget.stopped and looks != 0:
        ended = fitting.descend(descent, _NODES)
        looks = None if looks is None else looks - 1
    if ended == fitting.FOUND:
        return Decision(offsets={name: int(descent.offsets[i]) for name, i in place.items()})
    if ended == fitting.REFUTED:
        return Decision(
            refutation=Refutation(Reason.SEARCH, {job.name: job.period for job in instance.jobs})
        )
    return Decision()
