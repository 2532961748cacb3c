"""Search for offsets at which the jobs of a block fit.

First fit finds offsets where there are many; a job without a feasible offset comes earlier in the
next round. Conflicts often lie in few jobs with long bursts, so these are searched depth first by
themselves, then more and more jobs, up to all. Both take turns, and more time in each turn.

Few offsets have to be tried where each job has one burst (models/formulations/kept.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from metronome_opt.allocation.slots.feasibility_problem import (
    Conflict,
    FeasibilityDecision,
    Reason,
    load,
)
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.kernels import depth_first
from metronome_opt.solvers.kernels.compiled_instance import Ints, compile_instance
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, contention, put_job
from metronome_opt.solvers.presolve.orbits import orbits
from metronome_opt.solvers.presolve.reductions import coarsen

_FIRST_TURN = 500  # placements of first fit; of a depth first search, one for each of its jobs
_ROUNDS = 8  # of first fit, in each turn
_GROWTH = 4  # of a turn over the one before
_SHARE = 2 / 3  # of the jobs in the next smaller part
_TO_THE_FRONT = 0.3  # how often a job without a feasible offset becomes the first one
_MAX_MOVES = 30  # until first fit starts again
_MAX_CANDIDATES = 2**28


def search_offsets(
    instance: Instance, budget: Budget, placements: int = 2**62, seed: int = 0
) -> FeasibilityDecision:
    """Search offsets without contention, giving up after some placements; all weights must be 1."""
    smaller, restore = coarsen(instance)
    shortest = min(job.period for job in smaller.jobs)
    first_fits = [_FirstFit(smaller, modulus, budget, seed) for modulus in (shortest, 1)]
    parts = _parts(smaller)
    searches: list[_DepthFirst] = []
    turn = min(_FIRST_TURN, max(1, placements // 10))
    rounds = _ROUNDS * len(instance.jobs)
    while placements > 0 and not budget.stopped:
        turn = min(turn, placements)
        for first_fit in first_fits:
            offsets = first_fit.run(max(turn, rounds))
            if offsets is not None:
                return FeasibilityDecision(offsets=restore(offsets))
        searches += (_DepthFirst(part, budget) for part in parts)
        for search in list(searches):
            ended = search.run(turn)
            if ended == depth_first.REFUTED:
                refuted = {job.name: instance.job(job.name).period for job in search.jobs}
                return FeasibilityDecision(refutation=Conflict(Reason.SEARCH, refuted))
            if ended == depth_first.FOUND and len(search.jobs) == len(instance.jobs):
                return FeasibilityDecision(offsets=restore(search.offsets))
            if ended == depth_first.FOUND:
                searches.remove(search)
        placements -= turn
        turn *= _GROWTH
    return FeasibilityDecision()


def _parts(instance: Instance) -> Iterator[Instance]:
    """Yield the jobs of the largest loads, then more and more jobs up to all."""
    capacity = {link.name: link.capacity for link in instance.links}

    def share(job: Job) -> Fraction:
        flows = max(Fraction(flows, capacity[link]) for link, flows in job.links.items())
        return flows * load(job, job.period)

    jobs = sorted(instance.jobs, key=share, reverse=True)
    sizes = [len(jobs)]
    while sizes[-1] > 2:
        sizes.append(int(sizes[-1] * _SHARE))
    longest = max(job.period for job in jobs)
    for size in reversed(sizes):
        if (size + 1) * longest <= _MAX_CANDIDATES:
            yield coarsen(instance.replace(jobs=tuple(jobs[:size])))[0]


class _FirstFit:
    """First fit: short periods first, then long bursts, at the lowest feasible residues."""

    def __init__(self, instance: Instance, modulus: int, budget: Budget, seed: int) -> None:
        jobs = instance.jobs
        free = [index for index, job in enumerate(jobs) if job.fixed_offset is None]
        free.sort(key=lambda index: (jobs[index].period, -jobs[index].volume))
        self._jobs = jobs
        self._modulus = modulus
        self._budget = budget.child()
        self._random = np.random.default_rng(seed)
        compiled = compile_instance(instance)
        self._state = compiled.empty()
        self._first_order = np.array(free, dtype=np.int64)
        self._order = self._first_order.copy()
        self._placed = self._moves = 0
        self._offsets = np.array([job.fixed_offset or 0 for job in jobs], dtype=np.int64)
        for index, job in enumerate(jobs):
            if job.fixed_offset is not None:
                put_job(self._state, index, job.fixed_offset, ADD)
        self._blocked = contention(compiled, self._state) > 0

    def run(self, placements: int) -> dict[str, int] | None:
        """Continue for some placements; return offsets if all jobs are placed."""
        state, order, offsets = self._state, self._order, self._offsets
        for part in self._budget.slices(placements):
            while part > 0 and not self._blocked:
                before, end = self._placed, min(len(order), self._placed + part)
                self._placed = depth_first.fill(state, order, before, end, self._modulus, offsets)
                if self._placed == len(order):
                    return {job.name: int(offsets[i]) for i, job in enumerate(self._jobs)}
                part -= 1 + self._placed - before
                if self._placed < end:
                    self._move()
        return None

    def _move(self) -> None:
        """Place the job without a feasible offset earlier."""
        last = self._placed
        self._moves = (self._moves + 1) % _MAX_MOVES
        to_the_front = self._random.random() < _TO_THE_FRONT or not last or not self._moves
        self._placed = 0 if to_the_front else int(self._random.integers(last))
        for index in self._order[self._placed : last]:
            put_job(self._state, index, self._offsets[index], REMOVE)
        part = self._order[self._placed : last + 1]
        part[:] = np.roll(part, 1)
        if not self._moves:
            self._order[:] = self._first_order


class _DepthFirst:
    """A depth first search, which continues where it ended."""

    def __init__(self, instance: Instance, budget: Budget) -> None:
        self.jobs = instance.jobs
        self._instance = instance
        self._budget = budget.child()
        self._descent: depth_first.DepthFirstState | None = None
        self.offsets: dict[str, int] = {}

    def run(self, turn: int) -> int:
        """Continue for the placements of a turn; return FOUND, REFUTED or EXHAUSTED."""
        ended: int = depth_first.EXHAUSTED
        for part in self._budget.slices(max(1, turn // len(self.jobs))):
            if self._descent is None:
                descent = self._start()
                for index in range(len(self.jobs)):
                    if self._budget.stopped:
                        return depth_first.EXHAUSTED
                    descent.feasible[0, index] = depth_first.count_feasible(descent, index)
                if self._is_overloaded or (descent.feasible[0] == 0).any():
                    return depth_first.REFUTED
                self._descent = descent
            ended = depth_first.search_depth_first(self._descent, part)
            if ended != depth_first.EXHAUSTED:
                break
        if ended == depth_first.FOUND and self._descent is not None:
            found = self._descent.offsets
            self.offsets = {job.name: int(found[i]) for i, job in enumerate(self.jobs)}
        return ended

    def _start(self) -> depth_first.DepthFirstState:
        compiled = compile_instance(self._instance)
        component, domain, equal = np.zeros((3, len(self.jobs)), dtype=np.int64)
        place = {job.name: index for index, job in enumerate(self.jobs)}
        for number, together in enumerate(orbits(self._instance)):
            for job in together.jobs:
                component[place[job.name]] = number
                domain[place[job.name]] = math.gcd(job.period, together.held)
        kinds: dict[object, int] = {}
        for index, job in enumerate(self.jobs):
            kind = (job.period, job.phases, tuple(job.links.items()))
            equal[index] = kinds.setdefault(kind, index)
        descent = depth_first.start_search(compiled, component, domain, equal, _starts(self.jobs))
        self._is_overloaded = contention(compiled, descent.state) > 0  # by jobs that are fixed
        return descent


def _starts(jobs: tuple[Job, ...]) -> Ints:
    """Return whether a job may have to start at each residue of the common divisor."""
    if any(len(job.phases) > 1 or job.fixed_offset is not None for job in jobs):
        return np.ones(1, dtype=np.int64)
    modulus = math.gcd(*(job.period for job in jobs))
    everywhere = (1 << modulus) - 1
    sums = 1  # bit r is set where r is a sum of lengths
    for job in jobs:
        if sums == everywhere:
            break
        length = job.phases[0].length % modulus
        sums |= (sums << length | sums >> (modulus - length)) & everywhere
    return np.array([int(bit) for bit in reversed(f"{sums:0{modulus}b}")], dtype=np.int64)
