"""Iterated local search: kick a few jobs that share links, let their surroundings settle.

All jobs must be scaled alike: compile with `common_scale`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from metronome_opt.kernels.jobs import put_job, score_job
from metronome_opt.kernels.sliding import first_offset
from metronome_opt.kernels.tables import Compiled, Ints, Tables


class Neighbours(NamedTuple):
    """Who shares a link with whom; only jobs that may move and cost something count.

    ``other[ptr[j]:ptr[j + 1]]`` are the neighbours of job j, `free` the jobs that may move.
    """

    ptr: Ints
    other: Ints
    free: Ints


class Queue(NamedTuple):
    """Jobs that wait to be looked at, each once: a ring of `waiting[0]` entries from `head[0]`."""

    ring: Ints
    queued: Ints
    head: Ints
    waiting: Ints


def neighbours_of(compiled: Compiled) -> Neighbours:
    """Return the neighbours of every job of an instance."""
    jobs = compiled.instance.jobs
    around: list[set[int]] = [set() for _ in jobs]
    for link in compiled.links:
        movable = {job for job in link.jobs if jobs[job].fixed_offset is None}
        for job in movable:
            around[job] |= movable - {job}
    used = {job for link in compiled.links for job in link.jobs}
    free = [job for job in sorted(used) if jobs[job].fixed_offset is None]
    counts = [len(others) for others in around]
    return Neighbours(
        ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        other=np.array([job for others in around for job in sorted(others)], dtype=np.int64),
        free=np.array(free, dtype=np.int64),
    )


def empty_queue(jobs: int) -> Queue:
    """Return a queue for that many jobs."""
    return Queue(*(np.zeros(size, dtype=np.int64) for size in (jobs, jobs, 1, 1)))


@njit(cache=True, nogil=True)
def search_chunk(
    tables: Tables,
    demand: Ints,
    offsets: Ints,
    around: Neighbours,
    queue: Queue,
    strength: int,
    kicks: int,
    seed: int,
    work: Ints,
) -> int:
    """Try `kicks` kicks, keeping each result that is no worse; return the scaled change of value.

    A kick moves up to `strength` jobs, one and some of its neighbours, to random offsets; then they
    and their neighbours move to their cheapest offsets, one by one, until none gains.

    Parameters
    ----------
    demand, offsets
        In and out: a schedule and its layered demand.
    queue
        Scratch, see `empty_queue`.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    np.random.seed(seed)
    before = np.empty(offsets.shape[0], np.int64)
    total = 0
    for _ in range(kicks):
        before[:] = offsets
        change = _kick(tables, demand, offsets, around, queue, strength, work)
        change += _settle(tables, demand, offsets, around, queue, work)
        if change <= 0:
            total += change
            continue
        for job in around.free:
            if offsets[job] != before[job]:
                put_job(tables, demand, job, offsets[job], -1)
                put_job(tables, demand, job, before[job], 1)
                offsets[job] = before[job]
    return total


@njit(cache=True, nogil=True)
def _kick(
    tables: Tables,
    demand: Ints,
    offsets: Ints,
    around: Neighbours,
    queue: Queue,
    strength: int,
    work: Ints,
) -> int:
    """Move jobs to random offsets, queue whoever is affected, return the scaled change."""
    centre = around.free[np.random.randint(around.free.shape[0])]
    first, last = around.ptr[centre], around.ptr[centre + 1]
    change = 0
    for step in range(strength if last > first else 1):
        job = centre if step == 0 else around.other[np.random.randint(first, last)]
        period = tables.period[job]
        cost = work[:period]
        put_job(tables, demand, job, offsets[job], -1)
        score_job(tables, demand, job, cost, work[period:])
        target = np.random.randint(period)
        change += cost[target] - cost[offsets[job]]
        offsets[job] = target
        put_job(tables, demand, job, target, 1)
        _enqueue(queue, job)
        _enqueue_neighbours(queue, around, job)
    return change


@njit(cache=True, nogil=True)
def _settle(
    tables: Tables, demand: Ints, offsets: Ints, around: Neighbours, queue: Queue, work: Ints
) -> int:
    """Move queued jobs to their cheapest offsets until none gains; return the scaled change."""
    change = 0
    while queue.waiting[0] > 0:
        job = _dequeue(queue)
        period = tables.period[job]
        cost = work[:period]
        put_job(tables, demand, job, offsets[job], -1)
        lowest = score_job(tables, demand, job, cost, work[period:])
        gain = cost[offsets[job]] - lowest
        if gain > 0:
            change -= gain
            offsets[job] = first_offset(cost, lowest, np.random.randint(period))
            _enqueue_neighbours(queue, around, job)
        put_job(tables, demand, job, offsets[job], 1)
    return change


@njit(cache=True, nogil=True)
def _enqueue_neighbours(queue: Queue, around: Neighbours, job: int) -> None:
    for entry in range(around.ptr[job], around.ptr[job + 1]):
        _enqueue(queue, around.other[entry])


@njit(cache=True, nogil=True)
def _enqueue(queue: Queue, job: int) -> None:
    if queue.queued[job]:
        return
    queue.queued[job] = 1
    queue.ring[(queue.head[0] + queue.waiting[0]) % queue.ring.shape[0]] = job
    queue.waiting[0] += 1


@njit(cache=True, nogil=True)
def _dequeue(queue: Queue) -> int:
    job: int = queue.ring[queue.head[0]]
    queue.head[0] = (queue.head[0] + 1) % queue.ring.shape[0]
    queue.waiting[0] -= 1
    queue.queued[job] = 0
    return job
