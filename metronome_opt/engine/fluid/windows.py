"""Windows of jobs: when iterations and bursts begin, and what a late job does.

Iterations of a job with windows are planned to begin one period apart. The job goes by its own
clock, which may be fast or slow; the controller sees by the true one when it really begins. There
are two kinds of windows:

- *Iterations* wait for their planned times. A job that is early or late by no more than its
  tolerance begins when it is ready. If it is early by more, it waits, and its clock is set. If it
  is late by more, it begins at once, and the plan of its whole group moves with it: the other jobs
  wait once, so that all keep in step.
- *Bursts* wait, each for its own planned time; such a job is *paced*. It computes as soon as it
  can, so that a variation of computing does not come between the window and the burst. A late burst
  begins at once and moves no plan: idle time lets the job catch up. A job that is late by more than
  a quarter of a period lets go: its bursts begin at once, until its plan has come to an iteration
  whose number is a multiple of `RETRY`. There the job takes the first window that it is not late
  for. Iterations are numbered from time 0, so that jobs of one period come back together. An
  iteration that is late by more than a period comes after a pause, and takes the next window. Of
  new windows a job takes the first one that it is not late for by more than its tolerance; later
  the tolerance is only the deviation of its clock that is not corrected. Jobs that run follow these
  rules by `metronome_opt.gate.windows`.
"""

from __future__ import annotations

import math

from metronome_opt.compiling import inner
from metronome_opt.engine.fluid.state import EngineState

LATEST = 0.25
"""The share of a period beyond which a late paced job lets go of its windows."""

RETRY = 64
"""A job that has let go takes a window again in an iteration with a multiple of this number."""


@inner
def next_start(state: EngineState, job: int) -> float:
    """Return when a job that has just ended an iteration begins the next one, not before now."""
    row = state.jobs[job]
    now: float = state.clock[0].now
    if row.period <= 0.0:
        return now
    row.due += row.period / row.speed
    row.planned += row.period
    if row.paced:
        return now
    _follow_group(state, job, -row.tolerance)  # a job that is early by no more does not wait
    start: float = now if row.due - now <= row.tolerance else row.due
    off = start - row.planned
    if abs(off) <= row.tolerance:
        return start
    if off < 0.0:
        row.rephasings += 1
        row.due = row.planned
        start = max(now, row.planned)
    else:
        state.shifts[row.group] += off
        row.seen = state.shifts[row.group]
        row.planned = start
        row.due = start
    return start


@inner
def burst_start(state: EngineState, job: int, at: float) -> float:
    """Return when a burst of a paced job that is ready begins, not before now.

    It is due `at` ms from the beginning of its iteration. The job sees by its own clock how late it
    is.
    """
    row = state.jobs[job]
    now: float = state.clock[0].now
    if row.period <= 0.0:
        return now
    if abs(row.due - row.planned) > row.tolerance:
        row.due = row.planned
    late = now - row.due - at
    if row.segment == 0 and (row.retry > 0.0 or late > row.period):
        late = _skip_windows(state, job, late)
        if row.planned >= row.retry:
            row.retry = 0.0
            row.rephasings += 1
    if row.retry > 0.0:
        return now
    if row.retry < 0.0 and row.segment == 0:
        row.retry = 0.0
        if late > row.tolerance:
            late = _skip_windows(state, job, late)
    if late > LATEST * row.period:
        row.retry = (math.floor(row.planned / (RETRY * row.period)) + 1) * RETRY * row.period
        return now
    start: float = max(now, row.due + at)
    return start


@inner
def _skip_windows(state: EngineState, job: int, late: float) -> float:
    """Move the plan of a job to the first window that it is not late for; return the lateness."""
    row = state.jobs[job]
    passed = math.ceil(late / row.period) * row.period
    row.planned += passed
    row.due += passed / row.speed
    left: float = late - passed / row.speed
    return left


@inner
def postponed_start(state: EngineState, job: int) -> float:
    """Return when a job begins that has waited until now: later if its group was held meanwhile."""
    row = state.jobs[job]
    now: float = state.clock[0].now
    if row.period <= 0.0 or state.shifts[row.group] <= row.seen:
        return now
    start: float = now + state.shifts[row.group] - row.seen
    _follow_group(state, job, 0.0)
    return start


@inner
def _follow_group(state: EngineState, job: int, at: float) -> None:
    """Shift the plan of a job as far as the plan of its group has been shifted.

    The job is re-phased if what is due `at` ms from the beginning of its iteration has to wait.
    """
    row = state.jobs[job]
    shift = state.shifts[row.group] - row.seen
    if shift > 0.0:
        row.seen = state.shifts[row.group]
        row.due += shift
        row.planned += shift
        if row.due + at > state.clock[0].now:
            row.rephasings += 1
