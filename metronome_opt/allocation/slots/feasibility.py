"""Feasibility at given periods, problem (a): offsets, or a refutation.

Two jobs by themselves: bursts p of job i and q of job j that a link cannot carry at once, of
lengths m_p and m_q from s_p and s_q on, never meet iff ``phi_j - phi_i`` avoids ``m_p + m_q - 1``
residues modulo the greatest common divisor of the periods, those above ``s_p - s_q - m_q`` and
below ``s_p - s_q + m_p``. So two jobs fit iff the residues that all pairs of their bursts forbid,
on all links, leave one. For one burst each that is ``m_i + m_j <= gcd(T_i, T_j)``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, lru_cache

from metronome_opt.allocation.slots.feasibility_problem import (
    Conflict,
    FeasibilityDecision,
    FeasibilityProblem,
    Reason,
    at_periods,
    find_gap_conflict,
    overloads,
    restore_offsets,
    shorten_periods,
)
from metronome_opt.allocation.slots.offset_search import search_offsets
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.presolve.blocks import restrict, split
from metronome_opt.solvers.presolve.reductions import simplify_links

_MAX_PLACEMENTS = 200  # of a short search
Forbidden = tuple[tuple[int, int], ...]
Bursts = tuple[tuple[int, int, int], ...]


class PairConflicts:
    """The pairs among some jobs that cannot burst at once, and the offsets at which they would."""

    def __init__(self, problem: FeasibilityProblem, jobs: Collection[int] | None = None) -> None:
        self._instance = problem.instance
        self._jobs = range(len(problem.instance.jobs)) if jobs is None else jobs
        self._cushion_slots = problem.cushion_slots
        self._budget = problem.budget

    @cached_property
    def impossible(self) -> tuple[int, ...]:
        """The jobs that ask a link for more than it carries by themselves."""
        capacity = {link.name: link.capacity for link in self._instance.links}
        return tuple(
            index
            for index, job in enumerate(self._instance.jobs)
            if any(job.peak * flows > capacity[link] for link, flows in job.links.items())
        )

    @cached_property
    def forbidden(self) -> Mapping[tuple[int, int], Forbidden]:
        """For each pair of jobs that share links: the (first, number) of residues that they forbid.

        Pairs are missing once the budget is spent: less is refuted then, and nothing wrongly.
        """
        forbidden: dict[tuple[int, int], Forbidden] = {}
        for link in self._instance.links:
            users = [
                (index, self._bursts(index, link.name))
                for index in self._instance.jobs_on[link.name]
                if index in self._jobs
            ]
            for place, (i, mine) in enumerate(users):
                if self._budget.stopped:
                    return forbidden
                for j, theirs in users[place + 1 :]:
                    ranges = _ranges(mine, theirs, link.capacity)
                    if ranges and (i, j) in forbidden:
                        ranges = tuple(sorted({*forbidden[i, j], *ranges}))
                    if ranges:
                        forbidden[i, j] = ranges
        return forbidden

    def fit(self, i: int, j: int, period_i: int, period_j: int) -> bool:
        """Return whether two jobs, ``i < j``, fit at some periods."""
        ranges = self.forbidden.get((i, j))
        return ranges is None or _leaves_one(ranges, math.gcd(period_i, period_j))

    def _bursts(self, index: int, link: str) -> Bursts:
        """Return (start, length, demand) of the bursts of a job on a link."""
        job = self._instance.jobs[index]
        return tuple(
            (p.start, p.length + self._cushion_slots, p.rate * job.links[link]) for p in job.phases
        )


@lru_cache(maxsize=1 << 16)
def _ranges(mine: Bursts, theirs: Bursts, capacity: int) -> Forbidden:
    """Return the (first, number) of residues that bursts forbid which a link cannot carry."""
    return tuple(
        sorted(
            {
                (start - other - other_length + 1, other_length + length - 1)
                for start, length, rate in mine
                for other, other_length, other_rate in theirs
                if rate + other_rate > capacity
            }
        )
    )


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


class FeasibilityTest:
    """Test of whether jobs fit, which remembers decisions; a quick one ends soon."""

    def __init__(self, problem: FeasibilityProblem, *, quick: bool = False) -> None:
        self.problem = problem
        self.instance = problem.instance
        self.pairs = PairConflicts(problem)
        self._quick = quick
        self._known: dict[tuple[object, ...], FeasibilityDecision] = {}
        self._some_pairs: dict[frozenset[int], PairConflicts] = {}
        self._kinds = [(job.phases, tuple(job.links.items())) for job in problem.instance.jobs]

    def decide(self, periods: Mapping[str, int]) -> FeasibilityDecision:
        """Return offsets at which jobs fit at some periods, or those of them that do not."""
        if not periods:
            return FeasibilityDecision(offsets={})
        if self.problem.budget.stopped:
            return FeasibilityDecision()
        reason = self._refute(periods)
        if reason is not None:
            return FeasibilityDecision(refutation=reason)
        if self.problem.budget.stopped:
            return FeasibilityDecision()
        kept = simplify_links(at_periods(self.instance, periods, self.problem.cushion_slots))
        full = find_gap_conflict(kept)
        if full is not None:
            mine = {name: periods[name] for name in full[1]}
            return FeasibilityDecision(refutation=Conflict(Reason.LOAD, mine))
        if kept.needs_stretch:
            kept = shorten_periods(kept)
            for link in kept.long_hyperperiods():
                users = [kept.jobs[index].name for index in kept.jobs_on[link]]
                mine = {name: periods[name] for name in users}
                return FeasibilityDecision(refutation=Conflict(Reason.HYPERPERIOD, mine))
        cut = split(kept)
        parts = []
        for block in cut.blocks:
            mine = {job.name: periods[job.name] for job in block.jobs}
            found = self._decide_block(block, mine)
            if found.offsets is None:
                return found
            parts.append(found.offsets)
        return FeasibilityDecision(offsets=restore_offsets(self.instance, cut.join(parts)))

    def _refute(self, periods: Mapping[str, int]) -> Conflict | None:
        """Return a conflict that is seen without a search."""
        jobs = self.instance.jobs
        for index in self.pairs.impossible:
            name = jobs[index].name
            if name in periods:
                return Conflict(Reason.LOAD, {name: periods[name]})
        # Two of several equal jobs stand for all.
        equal = defaultdict[object, list[int]](list)
        for index, kind in enumerate(self._kinds):
            if (period := periods.get(jobs[index].name)) is not None:
                equal[period, *kind].append(index)
        few = frozenset(index for some in equal.values() for index in some[:2])
        pairs = self._some_pairs.setdefault(few, PairConflicts(self.problem, few))
        for number, (i, j) in enumerate(pairs.forbidden):
            if number % 1024 == 0 and self.problem.budget.stopped:
                return None
            both = {jobs[index].name: periods[jobs[index].name] for index in (i, j)}
            if not pairs.fit(i, j, *both.values()):
                return Conflict(Reason.PAIR, both)
        return self._refute_loads(periods)

    def _refute_loads(self, periods: Mapping[str, int]) -> Conflict | None:
        for link, loads in overloads(self.instance, periods, self.problem.cushion_slots):
            spare = sum(loads.values()) - link.capacity
            for name, mine in sorted(loads.items(), key=lambda item: item[1]):
                if mine < spare:
                    spare -= loads.pop(name)
            return Conflict(Reason.LOAD, {name: periods[name] for name in loads})
        return None

    def _decide_block(self, block: Instance, periods: Mapping[str, int]) -> FeasibilityDecision:
        key = (*sorted(periods.items()), *(link.name for link in block.links))
        known = self._known.get(key)
        if known is None:
            placements = _MAX_PLACEMENTS if self._quick else 2**62
            terms = (self.problem.budget, placements, self.problem.seed)
            known = self._look_at_links(block, periods) or search_offsets(block, *terms)
            if known.refutation is not None:
                named = {name: periods[name] for name in known.refutation.periods}
                known = FeasibilityDecision(refutation=Conflict(Reason.SEARCH, named))
            if known != FeasibilityDecision():
                self._known[key] = known
        return known

    def _look_at_links(
        self, block: Instance, periods: Mapping[str, int]
    ) -> FeasibilityDecision | None:
        """Return the refutation of a single link, if there is one: it is smaller."""
        if len(block.links) == 1:
            return None
        for link in block.links:
            part = restrict(block, {link.name})
            mine = {job.name: periods[job.name] for job in part.jobs}
            found = self._decide_block(part, mine)
            if found.refutation is not None:
                return found
        return None


def shrink_conflict(
    refutation: Conflict, decide: Callable[[Mapping[str, int]], FeasibilityDecision]
) -> Conflict:
    """Return a conflict that needs all its jobs, as far as `decide` has time."""
    for name in list(refutation.periods):
        if refutation.reason is Reason.SEARCH and name in refutation.periods:
            fewer = {other: p for other, p in refutation.periods.items() if other != name}
            refutation = decide(fewer).refutation or refutation
    return refutation
