"""Search for offsets at which the jobs of a block fit.

First fit, a job that finds no place coming earlier in the next round, finds what fits. Why others
do not fit often lies in few jobs with long bursts, so those are searched depth first by themselves,
then more and more of them, until all are. Both take turns, and more time in each turn.

Where each job has one burst, that begins with its period, few offsets have to be tried. Take
offsets that fit and hold one job. Move any other one back, slot by slot, until the end of a burst
of another stops it; move jobs that only stop one another back together. In the end each job that is
not at 0 begins where another one ends modulo what their periods share, that one as well, and so on.
So, modulo what all periods share, each offset is a sum of lengths of different bursts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from metronome_opt.compatible.problem import FitDecision, Reason, Refutation, load
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels import fitting
from metronome_opt.kernels.jobs import ADD, contention, put_job
from metronome_opt.kernels.tables import Compiled, Ints, compile_instance
from metronome_opt.presolve.orbits import orbits
from metronome_opt.presolve.reductions import coarsen
from metronome_opt.solvers.budget import Budget

_FIRST_TURN = 1_000  # placements of first fit; of a depth first search, one for each of its jobs
_GROWTH = 4  # of a turn over the one before
_SHARE = 2 / 3  # of the jobs in the next smaller part
_TO_THE_FRONT = 0.3  # how often a job that finds no place becomes the first one
_MAX_CANDIDATES = 2**28


def search_offsets(
    instance: Instance, budget: Budget, placements: int = 2**62, seed: int = 0
) -> FitDecision:
    """Search an instance for offsets without contention; all weights must be 1.

    Parameters
    ----------
    placements
        After how many placements to give up.
    """
    smaller = coarsen(instance)
    filling = _Filling(smaller.instance, seed)
    parts = _parts(smaller.instance)
    searches: list[_Descent] = []
    turn = max(_FIRST_TURN, 2 * len(instance.jobs))
    while placements > 0 and not budget.stopped:
        turn = min(turn, placements)
        offsets = filling.run(budget, turn)
        if offsets is not None:
            return FitDecision(offsets=smaller.restore(offsets))
        searches += (_Descent(part, budget) for part in parts)
        for search in list(searches):
            ended = search.run(turn)
            if ended == fitting.REFUTED:
                refuted = {job.name: instance.job(job.name).period for job in search.jobs}
                return FitDecision(refutation=Refutation(Reason.SEARCH, refuted))
            if ended == fitting.FOUND and len(search.jobs) == len(instance.jobs):
                return FitDecision(offsets=smaller.restore(search.offsets))
            if ended == fitting.FOUND:
                searches.remove(search)
        placements -= turn
        turn *= _GROWTH
    return FitDecision()


def _parts(instance: Instance) -> Iterator[Instance]:
    """Yield some of the jobs, those of the largest loads, and more and more of them up to all."""
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
            yield coarsen(instance.replace(jobs=tuple(jobs[:size]))).instance


class _Filling:
    """First fit in two ways: at the lowest residue modulo the shortest period, or first offset."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self._jobs = instance.jobs
        self._random = np.random.default_rng(seed)
        free = [index for index, job in enumerate(self._jobs) if job.fixed_offset is None]
        # Short periods first, and long bursts.
        free.sort(key=lambda index: (self._jobs[index].period, -self._jobs[index].volume))
        shortest = min(job.period for job in self._jobs)
        compiled = compile_instance(instance)
        self._rows = [_Row(compiled, free, modulus) for modulus in (shortest, 1)]
        self._blocked = contention(compiled, self._rows[0].state) > 0

    def run(self, budget: Budget, placements: int) -> dict[str, int] | None:
        """Go on for so many placements; return offsets if all jobs are placed."""
        for part in budget.child().slices(placements):
            if self._blocked:
                return None
            while part > 0:
                row = self._rows[0]
                end = min(len(row.order), row.placed + part)
                part -= max(1, row.fill(end))
                if row.placed == len(row.order):
                    return {job.name: int(row.offsets[i]) for i, job in enumerate(self._jobs)}
                if row.placed < end:
                    self._blocked = row.placed == 0
                    ahead = self._random.random() < _TO_THE_FRONT
                    row.move(0 if ahead else int(self._random.integers(row.placed or 1)))
                    self._rows.reverse()
        return None


class _Row:
    """Jobs in the order in which they are placed."""

    def __init__(self, compiled: Compiled, order: list[int], modulus: int) -> None:
        self.state = compiled.empty()
        self.order = np.array(order, dtype=np.int64)
        self.placed = 0
        self.offsets = np.zeros(len(compiled.instance.jobs), dtype=np.int64)
        self._modulus = modulus
        for index, job in enumerate(compiled.instance.jobs):
            if job.fixed_offset is not None:
                self.offsets[index] = job.fixed_offset
                put_job(self.state, index, job.fixed_offset, ADD)

    def fill(self, end: int) -> int:
        """Place jobs up to a place in the order; return how many were placed."""
        before = self.placed
        self.placed = fitting.fill(self.state, self.order, before, end, self._modulus, self.offsets)
        return self.placed - before

    def move(self, place: int) -> None:
        """Move the job that found no place to an earlier place in the order."""
        fitting.clear(self.state, self.order, place, self.placed, self.offsets)
        self.order[place : self.placed + 1] = np.roll(self.order[place : self.placed + 1], 1)
        self.placed = place


class _Descent:
    """A depth first search, which goes on where it ended."""

    def __init__(self, instance: Instance, budget: Budget) -> None:
        self.jobs = instance.jobs
        self._instance = instance
        self._budget = budget.child()
        self._descent: fitting.Descent | None = None
        self.offsets: dict[str, int] = {}

    def run(self, turn: int) -> int:
        """Go on for as many placements as fit a turn; return FOUND, REFUTED or EXHAUSTED."""
        ended: int = fitting.EXHAUSTED
        for part in self._budget.slices(max(1, turn // len(self.jobs))):
            if self._descent is None:
                self._descent = self._start()
                if (self._descent.room[0] == 0).any():
                    return fitting.REFUTED
            ended = fitting.descend(self._descent, part)
            if ended != fitting.EXHAUSTED:
                break
        if ended == fitting.FOUND and self._descent is not None:
            found = self._descent.offsets
            self.offsets = {job.name: int(found[i]) for i, job in enumerate(self.jobs)}
        return ended

    def _start(self) -> fitting.Descent:
        compiled = compile_instance(self._instance)
        component, domain, alike = np.zeros((3, len(self.jobs)), dtype=np.int64)
        place = {job.name: index for index, job in enumerate(self.jobs)}
        for number, together in enumerate(orbits(self._instance).components):
            for job in together.jobs:
                component[place[job.name]] = number
                domain[place[job.name]] = math.gcd(job.period, together.held)
        kinds: dict[object, int] = {}
        for index, job in enumerate(self.jobs):
            kind = (job.period, job.phases, tuple(job.links.items()))
            alike[index] = kinds.setdefault(kind, index)
        descent = fitting.start_descent(compiled, component, domain, alike, _starts(self.jobs))
        if contention(compiled, descent.state) > 0:  # of jobs that are fixed
            descent.room[0] = 0
        return descent


def _starts(jobs: tuple[Job, ...]) -> Ints:
    """Return for each residue modulo what all periods share whether a job may have to begin there.

    Only 1 if it has to be tried everywhere.
    """
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
