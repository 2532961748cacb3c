"""Rules by which a job keeps its slot, or finds another if it has lost it.

A job with a slot begins its iterations at planned times, one period apart. It goes by its own
clock, which may be fast or slow; the controller sees by the true one when it really begins. Off by
no more than its cushion, it is left alone and begins when it is ready. If it is early by more, it
waits, and its clock is set. If it is late by more, it is re-phased by one of two rules:

- ``HOLD``: it begins at once, and its whole group's plan moves with it: the others wait once, so
  that all keep in step;
- ``YIELD``: it stops and waits for its next slot, so that no other job is disturbed.

A *paced* job computes as soon as it can, and its bursts wait, each for its own planned time. So
what computing takes less or more at one time does not come between the slot and the burst. If a
burst is late beyond the cushion, it begins at once, and plans move by no more than what is beyond:
its own or that of its group. One that yields moves no plan, whatever its cushion: it begins at
once, and idle time lets it catch up. If it is late by more than a quarter of a period it lets go:
its bursts begin at once, until its plan has come to an iteration whose number is a multiple of
`RETRY`. There it takes the first slot that it is not late for. Iterations are numbered from time 0,
so that jobs of one period come back together. An iteration that is late by more than a period comes
after a pause, and takes the next slot. Of slots that are new to it a job takes the first one that
it is not late for, but for its cushion. `metronome_opt.gate.windows` has the same rule for jobs
that run.
"""

from __future__ import annotations

import math

from metronome_opt.compiling import inner
from metronome_opt.engine.fluid.state import YIELD, EngineState

LATEST = 0.25
"""The share of a period beyond which a late job that yields lets go of its slots."""

RETRY = 64
"""A job that has let go takes a slot again in an iteration whose number is a multiple of this."""


@inner
def next_start(world: EngineState, job: int) -> float:
    """Return when a job that has just ended an iteration begins the next one, not before now."""
    row = world.jobs[job]
    now: float = world.clock[0].now
    if row.period <= 0.0:
        return now
    row.due += row.period / row.speed
    row.planned += row.period
    if row.paced:
        return now
    _take_part(world, job, -row.cushion)  # a job that is early by no more does not wait
    start: float = now if row.due - now <= row.cushion else row.due
    off = start - row.planned
    if abs(off) <= row.cushion:
        return start
    if off < 0.0 or row.lateness == YIELD:
        row.rephasings += 1
        row.planned += max(0.0, math.ceil(off / row.period)) * row.period
        row.due = row.planned
        start = max(now, row.planned)
    else:
        world.shifts[row.group] += off
        row.seen = world.shifts[row.group]
        row.planned = start
        row.due = start
    return start


@inner
def burst_start(world: EngineState, job: int, at: float) -> float:
    """Return when a burst that is ready begins, not before now.

    Parameters
    ----------
    at
        When in its iteration it is due.
    """
    row = world.jobs[job]
    now: float = world.clock[0].now
    if row.period <= 0.0:
        return now
    _take_part(world, job, at)
    if abs(row.due - row.planned) > row.cushion:
        row.due = row.planned
    if row.lateness == YIELD:
        return _yielding_start(world, job, at)
    start: float = max(now, row.due + at)
    late = start - (row.planned + at) - row.cushion
    if late <= 0.0:
        return start
    world.shifts[row.group] += late
    row.seen = world.shifts[row.group]
    row.planned += late
    row.due = row.planned
    return start


@inner
def _yielding_start(world: EngineState, job: int, at: float) -> float:
    """Return when a burst of a job that yields begins; see the module.

    It sees by its own clock how late it is.
    """
    row = world.jobs[job]
    now: float = world.clock[0].now
    late = now - row.due - at
    if row.segment == 0 and (row.retry > 0.0 or late > row.period):
        passed = math.ceil(late / row.period) * row.period
        row.planned += passed
        row.due += passed / row.speed
        late -= passed / row.speed
        if row.planned >= row.retry:
            row.retry = 0.0
            row.rephasings += 1
    if row.retry > 0.0:
        return now
    if row.retry < 0.0 and row.segment == 0:
        row.retry = 0.0
        if late > row.cushion:
            passed = math.ceil(late / row.period) * row.period
            row.planned += passed
            row.due += passed / row.speed
            late -= passed / row.speed
    if late > LATEST * row.period:
        row.retry = (math.floor(row.planned / (RETRY * row.period)) + 1) * RETRY * row.period
        return now
    start: float = max(now, row.due + at)
    return start


@inner
def postponed(world: EngineState, job: int, at: float) -> float:
    """Return when a job begins that has waited until now: later if its group was held meanwhile.

    Parameters
    ----------
    at
        When in its iteration that is due which it begins: 0, or that of a burst.
    """
    row = world.jobs[job]
    now: float = world.clock[0].now
    if row.period <= 0.0 or world.shifts[row.group] <= row.seen:
        return now
    start: float = now + world.shifts[row.group] - row.seen
    _take_part(world, job, at)
    return start


@inner
def _take_part(world: EngineState, job: int, at: float) -> None:
    """Shift the plan of a job as far as that of its group has been shifted.

    It is re-phased by that if what is due `at` ms from the beginning of its iteration has to wait.
    """
    row = world.jobs[job]
    shift = world.shifts[row.group] - row.seen
    if shift > 0.0:
        row.seen = world.shifts[row.group]
        row.due += shift
        row.planned += shift
        if row.due + at > world.clock[0].now:
            row.rephasings += 1
