"""A walk over local optima: kick a few jobs that share links, let their surroundings settle.

The walk can be left after any number of steps and resumed; a step scores one job at all its
offsets. Jobs that wait for their step are in a queue. One that was kicked goes to a random offset,
any other to its cheapest one, and whoever moves queues its neighbours. Once the queue is empty, the
schedule is locally optimal: it is kept or taken back, and the next kick is made.

A worse schedule is kept with the probability of Metropolis. A kick has its centre at the one of two
random jobs that adds more to the contention. How many jobs it moves is learnt: of two sizes drawn
at random the one is taken that has led to more gains per step so far.

All jobs must be scaled alike: compile with `common_scale`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from metronome_opt.kernels.anneal import Floats
from metronome_opt.kernels.jobs import put_job, score_job
from metronome_opt.kernels.sliding import first_offset
from metronome_opt.kernels.tables import Compiled, Ints, Tables

_LARGEST_KICK = 8
VALUE, KEPT, BEST, HEAD, WAITING, KICK, CENTRE, STEPS = range(8)  # in `Walk.counters`


class Neighbours(NamedTuple):
    """Who shares a link with whom; only jobs that may move and cost something count.

    ``other[ptr[j]:ptr[j + 1]]`` are the neighbours of job j, `free` the jobs that may move.
    """

    ptr: Ints
    other: Ints
    free: Ints


class Kicks(NamedTuple):
    """Per size of kick, how often it has led to something better, and the steps it has taken."""

    gains: Floats
    spent: Floats


class Walk(NamedTuple):
    """Where a walk stands.

    Attributes
    ----------
    counters
        Scaled value of the schedule, of the last one kept, of the best, all relative to the start;
        head and length of the queue; size, centre and steps so far of the kick under way.
    ring, queued, kicked
        The queue: a ring of jobs; per job, whether it is in it and whether it was kicked.
    kept, best
        Offsets per job: last kept, best.
    blame
        Per job, what it last was seen to add to the contention, scaled.
    kicks
        See `Kicks`.
    """

    counters: Ints
    ring: Ints
    queued: Ints
    kicked: Ints
    kept: Ints
    best: Ints
    blame: Ints
    kicks: Kicks


def neighbours_of(compiled: Compiled) -> Neighbours:
    """Return the neighbours of every job of an instance."""
    jobs = compiled.instance.jobs
    used = {job for link in compiled.links for job in link.jobs}
    free = [job for job in sorted(used) if jobs[job].fixed_offset is None]
    movable = set(free)
    around = [
        [other for other in others if other in movable] if job in movable else []
        for job, others in enumerate(compiled.sharing())
    ]
    counts = [len(others) for others in around]
    return Neighbours(
        ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        other=np.array([job for others in around for job in others], dtype=np.int64),
        free=np.array(free, dtype=np.int64),
    )


def no_kicks() -> Kicks:
    """Return the experience of who has not kicked yet: every size seems as good as one gain."""
    return Kicks(np.ones(_LARGEST_KICK + 1), np.ones(_LARGEST_KICK + 1))


def start_walk(offsets: Ints, around: Neighbours, kicks: Kicks) -> Walk:
    """Return a walk that begins by letting the whole of a schedule settle.

    Parameters
    ----------
    kicks
        Experience so far; goes on to be updated.
    """
    jobs = len(offsets)
    walk = Walk(
        counters=np.zeros(8, dtype=np.int64),
        ring=np.zeros(jobs, dtype=np.int64),
        queued=np.zeros(jobs, dtype=np.int64),
        kicked=np.zeros(jobs, dtype=np.int64),
        kept=offsets.copy(),
        best=offsets.copy(),
        blame=np.zeros(jobs, dtype=np.int64),
        kicks=kicks,
    )
    walk.ring[: len(around.free)] = around.free
    walk.queued[around.free] = 1
    walk.counters[WAITING] = len(around.free)
    return walk


@njit(cache=True, nogil=True)
def go_to(tables: Tables, demand: Ints, offsets: Ints, free: Ints, target: Ints) -> None:
    """Move the free jobs to the offsets in `target`.

    Parameters
    ----------
    demand, offsets
        In and out, consistent with each other.
    """
    for job in free:
        if offsets[job] != target[job]:
            put_job(tables, demand, job, offsets[job], -1)
            put_job(tables, demand, job, target[job], 1)
            offsets[job] = target[job]


@njit(cache=True, nogil=True)
def take_steps(
    tables: Tables,
    demand: Ints,
    offsets: Ints,
    around: Neighbours,
    walk: Walk,
    tolerance: Floats,
    generator: np.random.Generator,
    steps: int,
    work: Ints,
) -> None:
    """Go on with a walk.

    Parameters
    ----------
    demand, offsets
        In and out: the schedule as the walk left it, and its layered demand.
    tolerance
        Per job, the scaled loss that a kick around it may keep with probability 1/e.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    for _ in range(steps):
        if walk.counters[WAITING] == 0:
            _judge(tables, demand, offsets, around, walk, tolerance, generator)
            _kick(around, walk, generator)
        _step(tables, demand, offsets, around, walk, generator, work)


@njit(cache=True, nogil=True)
def _step(
    tables: Tables,
    demand: Ints,
    offsets: Ints,
    around: Neighbours,
    walk: Walk,
    generator: np.random.Generator,
    work: Ints,
) -> None:
    """Move the first job of the queue."""
    job = _dequeue(walk)
    period = tables.period[job]
    cost = work[:period]
    put_job(tables, demand, job, offsets[job], -1)
    least = score_job(tables, demand, job, cost, work[period:])
    before = cost[offsets[job]]
    start = generator.integers(0, period)
    if walk.kicked[job]:
        walk.kicked[job] = 0
        offsets[job] = start
        _enqueue(walk, job)
        _enqueue_neighbours(walk, around, job)
    elif least < before:
        offsets[job] = first_offset(cost, least, start)
        _enqueue_neighbours(walk, around, job)
    put_job(tables, demand, job, offsets[job], 1)
    walk.blame[job] = cost[offsets[job]]
    walk.counters[VALUE] += cost[offsets[job]] - before
    walk.counters[STEPS] += 1


@njit(cache=True, nogil=True)
def _judge(
    tables: Tables,
    demand: Ints,
    offsets: Ints,
    around: Neighbours,
    walk: Walk,
    tolerance: Floats,
    generator: np.random.Generator,
) -> None:
    """Keep the schedule or take it back."""
    counters = walk.counters
    loss = counters[VALUE] - counters[KEPT]
    size = counters[KICK]
    walk.kicks.spent[size] += counters[STEPS]
    if loss < 0:
        walk.kicks.gains[size] += 1.0
    allowed = tolerance[counters[CENTRE]]
    if loss > 0 and (allowed == 0 or generator.random() >= np.exp(-loss / allowed)):
        go_to(tables, demand, offsets, around.free, walk.kept)
        counters[VALUE] = counters[KEPT]
        return
    walk.kept[:] = offsets
    counters[KEPT] = counters[VALUE]
    if counters[VALUE] < counters[BEST]:
        counters[BEST] = counters[VALUE]
        walk.best[:] = offsets


@njit(cache=True, nogil=True)
def _kick(around: Neighbours, walk: Walk, generator: np.random.Generator) -> None:
    """Mark and queue a few jobs, each but the first a neighbour of one before it."""
    size = _better_of_two(walk, generator)
    walk.counters[KICK] = size
    walk.counters[STEPS] = 0
    centre = around.free[generator.integers(0, around.free.shape[0])]
    rival = around.free[generator.integers(0, around.free.shape[0])]
    if walk.blame[rival] > walk.blame[centre]:
        centre = rival
    walk.counters[CENTRE] = centre
    walk.kicked[centre] = 1
    _enqueue(walk, centre)
    for _ in range(1, size):
        drawn = generator.integers(0, walk.counters[WAITING])
        member = walk.ring[(walk.counters[HEAD] + drawn) % walk.ring.shape[0]]
        first, last = around.ptr[member], around.ptr[member + 1]
        if last > first:
            job = around.other[generator.integers(first, last)]
            walk.kicked[job] = 1
            _enqueue(walk, job)


@njit(cache=True, nogil=True)
def _better_of_two(walk: Walk, generator: np.random.Generator) -> int:
    """Return a size of kick: of two at random the one with more gains per step."""
    one = generator.integers(1, _LARGEST_KICK + 1)
    other = generator.integers(1, _LARGEST_KICK + 1)
    if (
        walk.kicks.gains[one] * walk.kicks.spent[other]
        >= walk.kicks.gains[other] * walk.kicks.spent[one]
    ):
        return int(one)
    return int(other)


@njit(cache=True, nogil=True)
def _enqueue_neighbours(walk: Walk, around: Neighbours, job: int) -> None:
    for entry in range(around.ptr[job], around.ptr[job + 1]):
        _enqueue(walk, around.other[entry])


@njit(cache=True, nogil=True)
def _enqueue(walk: Walk, job: int) -> None:
    if walk.queued[job]:
        return
    walk.queued[job] = 1
    tail = walk.counters[HEAD] + walk.counters[WAITING]
    walk.ring[tail % walk.ring.shape[0]] = job
    walk.counters[WAITING] += 1


@njit(cache=True, nogil=True)
def _dequeue(walk: Walk) -> int:
    job: int = walk.ring[walk.counters[HEAD]]
    walk.counters[HEAD] = (walk.counters[HEAD] + 1) % walk.ring.shape[0]
    walk.counters[WAITING] -= 1
    walk.queued[job] = 0
    return job
