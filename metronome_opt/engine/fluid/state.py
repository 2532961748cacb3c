"""Arrays that the event loop works on: one row for each job, link, use and segment.

Rows are records, so that the values of a job that an event needs are adjacent in memory. Times are
in ms, bandwidths in Mbit/s, volumes in Mbit/s * ms, all of them floating point: an event time is
exact up to the rounding of a double, and whole numbers stay whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metronome_opt.compiling import inner

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = Any  # structured arrays, whose fields a type checker cannot see

AWAY, WAITING, COMPUTING, BURSTING, HELD = range(5)
"""Stages of a job: not in the cluster, waiting for its start, computing, sending, and waiting with
a burst that is ready."""

_I, _F = np.int64, np.float64

SEGMENT = np.dtype(
    [
        ("compute", _F),
        ("volume", _F),
        ("rate", _F),
        ("due", _F),  # of a paced job: when in an iteration the burst has its window
        ("before", _F),  # what its iteration sends before the burst
    ]
)
"""Computing, then a burst; the last segment of an iteration has no burst (volume 0)."""

USE = np.dtype([("link", _I), ("job", _I), ("flows", _F), ("next", _I), ("prev", _I)])
"""A job on a link; `next` and `prev` chain those that send, -1 at the ends."""

LINK = np.dtype(
    [
        ("capacity", _F),
        ("demand", _F),  # of jobs that send, at their own rates
        ("head", _I),  # of the chain of uses that send
        ("active", _I),  # length of the chain
        ("stamp", _I),
        ("open", _I),  # jobs without an offer yet, while rates are computed
        ("left", _F),  # capacity that is not offered yet
        ("weight", _F),  # of the jobs without an offer
        ("watched", _I),
    ]
)

JOB = np.dtype(
    [
        # Properties.
        ("first_segment", _I),
        ("segments", _I),
        ("first_use", _I),
        ("uses", _I),
        ("rank", _I),  # classes of a larger rank are served first
        ("next_rank", _I),  # rank of its next burst
        ("share", _F),  # share of a link, among its class
        ("base", _F),  # share before it grows
        ("chance", np.uint64),  # seed of its random numbers
        ("jitter", _F),  # standard deviation of a computing time, as a share of it
        ("total", _I),  # iterations to run, -1 without end
        # Progress.
        ("stage", _I),
        ("segment", _I),
        ("key", _F),  # time of its next event
        ("order", _I),  # order among events of one time
        ("place", _I),  # in the heap, -1 if not there
        ("left", _F),  # volume left of its burst, at time `since`
        ("rate", _F),  # rate of a flow
        ("offer", _F),  # the next rate, while rates are computed; -1 for none yet
        ("held_by", _I),  # the link that allows no more, -1 if it is its own rate
        ("since", _F),
        ("step", _I),  # steps by which its share has grown
        ("left_then", _F),  # volume left of its burst at the next step
        ("growing", _I),  # whether its next event is a step, and not the end of its burst
        ("begun", _F),  # when the iteration began
        ("done", _I),  # iterations
        ("stamp", _I),
        # Its windows.
        ("period", _F),  # 0 for a job that is never held back
        ("speed", _F),  # of its clock, 1 for a true one
        ("due", _F),  # next planned start by its own clock
        ("planned", _F),  # by the clock of the controller
        ("tolerance", _F),
        ("paced", _I),  # whether its bursts have windows, and not its iterations
        ("group", _I),
        ("seen", _F),  # shift of its group that its plan has followed
        ("retry", _F),  # when a job takes windows again; 0: it has not let go; -1: new windows
        # Results.
        ("spent", _F),  # sum of iteration times
        ("shortest", _F),
        ("longest", _F),
        ("timed", _I),  # number of iterations in that sum
        ("sent", _F),  # volume of each flow in bursts that have ended
        ("rephasings", _I),
    ]
)

TRACE = np.dtype([("time", _F), ("use", _I), ("rate", _F)])
"""The flow rate of a use from `time` on."""

CLOCK = np.dtype(
    [
        ("now", _F),
        ("events", _I),
        ("heap", _I),  # length
        ("stamp", _I),  # of the jobs whose rates are computed
        ("mark", _I),  # of the links that are considered
        ("finished", _I),  # the job that ended a run
        ("traced", _I),
        ("tcp", _I),  # whether every burst has a share of its own
        ("spread", _F),  # standard deviation of the logarithms of these shares
        ("newcomer", _F),  # factor on the share of a burst that meets another one
        ("slope", _F),  # of the growth of shares over an iteration; 0 if they do not grow
        ("intercept", _F),
    ]
)


class EngineState(NamedTuple):
    """All state of a simulation."""

    clock: Rows  # shape (1,), CLOCK
    jobs: Rows  # shape (jobs,), JOB
    links: Rows  # shape (links,), LINK
    uses: Rows  # shape (uses,), USE
    segments: Rows  # shape (segments,), SEGMENT
    shifts: Floats  # lateness of the plan of a group, shape (groups,)
    heap: Ints  # jobs, shape (jobs,)
    members: Ints  # scratch: the jobs whose rates change, shape (jobs,)
    touched: Ints  # scratch: the links that they share, shape (links,)
    times: Floats  # the first iteration times of each job, shape (jobs, kept)
    trace: Rows  # shape (records,), TRACE


def empty_state(
    *, jobs: int, links: int, uses: int, segments: int, kept: int, trace: int
) -> EngineState:
    """Return a state before the first event; `kept` iteration times of a job, `trace` records."""
    state = EngineState(
        clock=np.zeros(1, CLOCK),
        jobs=np.zeros(jobs, JOB),
        links=np.zeros(links, LINK),
        uses=np.zeros(uses, USE),
        segments=np.zeros(segments, SEGMENT),
        shifts=np.zeros(max(1, jobs)),
        heap=np.zeros(max(1, jobs), np.int64),
        members=np.zeros(max(1, jobs), np.int64),
        touched=np.zeros(max(1, links), np.int64),
        times=np.zeros((jobs, kept)),
        trace=np.zeros(trace, TRACE),
    )
    state.jobs["place"], state.jobs["begun"], state.jobs["shortest"] = -1, -1.0, np.inf
    state.jobs["speed"], state.jobs["share"], state.jobs["base"] = 1.0, 1.0, 1.0
    state.links["head"] = -1
    return state


@inner
def _earlier(jobs: Rows, one: int, other: int) -> bool:
    a, b = jobs[one].key, jobs[other].key
    earlier: bool = a < b or (a == b and jobs[one].order < jobs[other].order)
    return earlier


@inner
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


@inner
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


@inner
def put_event(heap: Ints, clock: Rows, jobs: Rows, job: int) -> None:
    """Put a job into the heap, or to its position if its key or order has changed."""
    place = jobs[job].place
    if place < 0:
        place = clock[0].heap
        clock[0].heap += 1
        _rise(heap, jobs, place, job)
    elif place > 0 and _earlier(jobs, job, heap[(place - 1) >> 1]):
        _rise(heap, jobs, place, job)
    else:
        _sink(heap, clock[0].heap, jobs, place, job)


@inner
def take_event(heap: Ints, clock: Rows, jobs: Rows, job: int) -> None:
    """Remove a job from the heap, if it is there."""
    place = jobs[job].place
    if place < 0:
        return
    jobs[job].place = -1
    clock[0].heap -= 1
    last = heap[clock[0].heap]
    if last != job:
        jobs[last].place = place
        put_event(heap, clock, jobs, last)
