"""A binary heap of jobs by the time of their next event, each job in it at most once."""

from __future__ import annotations

from numba import njit

from metronome_opt.kernels.fluid.world import Ints, Rows


@njit(cache=True, nogil=True)
def _earlier(jobs: Rows, one: int, other: int) -> bool:
    a, b = jobs[one].key, jobs[other].key
    earlier: bool = a < b or (a == b and jobs[one].order < jobs[other].order)
    return earlier


@njit(cache=True, nogil=True)
def _rise(heap: Ints, jobs: Rows, place: int, job: int) -> None:
    while place > 0:
        above = (place - 1) >> 1
        if not _earlier(jobs, job, heap[above]):
            break
        heap[place] = heap[above]
        jobs[heap[place]].place = place
        place = above
    heap[place] = job
    jobs[job].place = place


@njit(cache=True, nogil=True)
def _sink(heap: Ints, size: int, jobs: Rows, place: int, job: int) -> None:
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _earlier(jobs, heap[below + 1], heap[below]):
            below += 1
        if not _earlier(jobs, heap[below], job):
            break
        heap[place] = heap[below]
        jobs[heap[place]].place = place
        place = below
    heap[place] = job
    jobs[job].place = place


@njit(cache=True, nogil=True)
def put(heap: Ints, clock: Rows, jobs: Rows, job: int) -> None:
    """Put a job in, or where it belongs now that its key or order has changed."""
    place = jobs[job].place
    if place < 0:
        place = clock[0].heap
        clock[0].heap += 1
        _rise(heap, jobs, place, job)
    elif place > 0 and _earlier(jobs, job, heap[(place - 1) >> 1]):
        _rise(heap, jobs, place, job)
    else:
        _sink(heap, clock[0].heap, jobs, place, job)


@njit(cache=True, nogil=True)
def take(heap: Ints, clock: Rows, jobs: Rows, job: int) -> None:
    """Take a job out, if it is in."""
    place = jobs[job].place
    if place < 0:
        return
    jobs[job].place = -1
    clock[0].heap -= 1
    last = heap[clock[0].heap]
    if last != job:
        jobs[last].place = place
        put(heap, clock, jobs, last)
