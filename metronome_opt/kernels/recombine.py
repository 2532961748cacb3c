"""Two schedules make a third: a connected part of one, put into the other.

Good schedules of an instance are alike, but turned against each other: rotating all jobs by the
same amount changes nothing. So the second schedule is turned until many of its jobs agree with the
first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from metronome_opt.kernels.perturb import Neighbours
from metronome_opt.kernels.tables import Ints

_TURNS = 64  # that are tried
_FARTHEST_TURN = 2**40
_AGREEMENT = 20  # jobs agree that are no farther apart than their period divided by this
_STRAY = 16  # one in so many jobs of a part need not be a neighbour of another


@njit(cache=True, nogil=True)
def recombine(
    period: Ints,
    around: Neighbours,
    one: Ints,
    other: Ints,
    turnable: bool,
    generator: np.random.Generator,
) -> Ints:
    """Return the offsets of `one` with those of `other` in a part of 30 to 70 % of the free jobs.

    Parameters
    ----------
    period
        Per job.
    one, other
        Offsets per job.
    turnable
        Whether rotating all jobs changes nothing: none is fixed.
    """
    turn = _best_turn(period, around.free, one, other, generator) if turnable else 0
    child = one.copy()
    for job in _draw_part(around, generator):
        child[job] = (other[job] + turn) % period[job]
    return child


@njit(cache=True, nogil=True)
def _best_turn(
    period: Ints, free: Ints, one: Ints, other: Ints, generator: np.random.Generator
) -> int:
    """Return the turn of `other`, of some at which a random job agrees, at which most jobs do."""
    best, most = 0, -1
    for _ in range(_TURNS):
        job = free[generator.integers(0, free.shape[0])]
        around = generator.integers(0, _FARTHEST_TURN // period[job]) * period[job]
        turn = around + (one[job] - other[job]) % period[job]
        agreeing = 0
        for j in free:
            apart = (one[j] - other[j] - turn) % period[j]
            if min(apart, period[j] - apart) * _AGREEMENT <= period[j]:
                agreeing += 1
        if agreeing > most:
            best, most = turn, agreeing
    return best


@njit(cache=True, nogil=True)
def _draw_part(around: Neighbours, generator: np.random.Generator) -> Ints:
    """Return some free jobs, nearly all of them connected."""
    free = around.free
    size = max(1, free.shape[0] * generator.integers(30, 71) // 100)
    part = np.empty(size, np.int64)
    inside = np.zeros(around.ptr.shape[0], np.bool_)
    count = 0
    while count < size:
        job = free[generator.integers(0, free.shape[0])]
        if count > 0 and generator.integers(0, _STRAY) > 0:
            member = part[generator.integers(0, count)]
            first, last = around.ptr[member], around.ptr[member + 1]
            if first == last:
                continue
            job = around.other[generator.integers(first, last)]
        if not inside[job]:
            inside[job] = True
            part[count] = job
            count += 1
    return part
