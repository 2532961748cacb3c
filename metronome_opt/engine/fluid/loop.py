"""Event loop with exact event times, and its random numbers.

Random numbers depend on where they are drawn, not on their order: the factor of the k-th computing
time of a job is a function of the seed, the job, the iteration and the segment. Whatever a policy
does, an iteration has the same random numbers, so that policies can be compared pair by pair.
"""

from __future__ import annotations

import math

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.engine.fluid.sharing import (
    begin_burst,
    end_burst,
    grow,
    share_around,
    still_left,
)
from metronome_opt.engine.fluid.state import (
    AWAY,
    BURSTING,
    COMPUTING,
    HELD,
    WAITING,
    EngineState,
    Floats,
    Rows,
    put_event,
    take_event,
)
from metronome_opt.engine.fluid.windows import burst_start, next_start, postponed_start

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / 2.0**53
_CUT = 3.0  # standard deviations


@kernel
def mix(word: np.uint64, step: int) -> np.uint64:
    """Return a pseudorandom number that depends on `word` and `step`.

    References
    ----------
    G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
    (the finaliser of SplitMix64).
    """
    z = word + _GOLDEN * np.uint64(step + 1)
    z = (z ^ (z >> _S30)) * _ONE
    z = (z ^ (z >> _S27)) * _TWO
    return z ^ (z >> _S31)


@inner
def _uniform(word: np.uint64) -> float:
    """Return a number in (0, 1)."""
    return (float(word >> _S11) + 0.5) * _UNIT


@inner
def _normal(word: np.uint64) -> float:
    """Return a standard normal number, no further from 0 than three standard deviations."""
    radius = math.sqrt(-2.0 * math.log(_uniform(mix(word, 0))))
    number = radius * math.cos(2.0 * math.pi * _uniform(mix(word, 1)))
    return min(max(number, -_CUT), _CUT)


@kernel
def _share_of_burst(state: EngineState, job: int, draw: np.uint64) -> float:
    """Return the share of a burst that begins now, which it keeps to its end.

    The share of a burst that begins by itself is drawn from a lognormal distribution of median 1.
    One that meets another burst, on any of its links, has a small congestion window, and so less.
    """
    clock, row = state.clock[0], state.jobs[job]
    share = math.exp(clock.spread * _normal(mix(draw, 5)))
    for use in range(row.first_use, row.first_use + row.uses):
        if state.links[state.uses[use].link].active > 0:
            return share * float(clock.newcomer)
    return share


REACHED, FINISHED, FULL, PAUSED = range(4)
"""Why the loop returned: the time is reached, a job has run all its iterations, the trace is full,
or the maximum number of events has happened."""


@kernel
def run(state: EngineState, until: float, max_events: int, reserve: int) -> int:
    """Process the events up to a time in ms, but no more than some; return why it returned.

    No event writes more than `reserve` records of the trace. ``clock.finished`` is the job that has
    finished.
    """
    clock, jobs = state.clock, state.jobs
    last = clock[0].events + max_events
    while clock[0].heap > 0 and jobs[state.heap[0]].key <= until:
        if clock[0].events >= last:
            return PAUSED
        if clock[0].traced + reserve > state.trace.shape[0]:
            return FULL
        job = state.heap[0]
        clock[0].now = jobs[job].key
        clock[0].events += 1
        if _process(state, job):
            clock[0].finished = job
            return FINISHED
    clock[0].now = max(clock[0].now, until)
    return REACHED


@inner
def _process(state: EngineState, job: int) -> bool:
    """Process the next event of a job; return whether it has finished."""
    row = state.jobs[job]
    stage = row.stage
    if stage == WAITING:
        start = postponed_start(state, job)
        if start > state.clock[0].now:
            wait_for(state, job, start)
            return False
        _begin(state, job)
    elif stage == BURSTING:
        if row.growing:
            row.step += 1
            share_around(state, job)
            return False
        row.sent += _volume(state, job)
        end_burst(state, job)
    return _go_on(state, job, stage)


@inner
def _begin(state: EngineState, job: int) -> None:
    """Begin an iteration."""
    row = state.jobs[job]
    _time_iteration(state, job)
    row.begun = state.clock[0].now
    row.segment = 0


@inner
def _go_on(state: EngineState, job: int, stage: int) -> bool:
    """Begin what takes time after `stage`, which is over; return whether the job has finished."""
    row = state.jobs[job]
    now = state.clock[0].now
    while True:
        segment = row.first_segment + row.segment
        if stage == WAITING and state.segments[segment].compute > 0.0:
            _until(
                state, job, COMPUTING, now + state.segments[segment].compute * _factor(state, job)
            )
            return False
        if stage != BURSTING and state.segments[segment].volume > 0.0:
            if row.paced and stage != HELD:
                start = burst_start(state, job, state.segments[segment].due)
                if start > now:
                    _until(state, job, HELD, start)
                    return False
            _send(state, job)
            return False
        row.segment += 1
        stage = WAITING
        if row.segment < row.segments:
            continue
        row.done += 1
        if row.done == row.total:
            _time_iteration(state, job)
            _leave(state, job)
            return True
        start = next_start(state, job)
        if start > now:
            _until(state, job, WAITING, start)
            return False
        _begin(state, job)


@inner
def _send(state: EngineState, job: int) -> None:
    """Begin the burst of the segment."""
    row = state.jobs[job]
    row.stage = BURSTING
    row.order = job  # bursts that end go before those that begin
    row.left = _volume(state, job)
    row.rate = -1.0  # none yet, not even 0
    row.held_by = -1
    row.rank = row.next_rank
    if row.uses > 0:
        if state.clock[0].tcp:
            row.base = _share_of_burst(state, job, _draw(row))
        row.share = row.base
        if state.clock[0].slope != 0.0:
            row.step = 0
            grow(state, job)
    begin_burst(state, job)


@inner
def _leave(state: EngineState, job: int) -> None:
    """Remove a job that sends nothing from the simulation."""
    row = state.jobs[job]
    row.stage = AWAY
    take_event(state.heap, state.clock, state.jobs, job)


@kernel
def wait_for(state: EngineState, job: int, start: float) -> None:
    """Change the time at which a job that waits begins."""
    _until(state, job, state.jobs[job].stage, start)


@kernel
def interrupt(state: EngineState, job: int, start: float) -> None:
    """Stop the iteration of a job, which begins again at `start`; no iteration lasts until then."""
    row = state.jobs[job]
    if row.stage == WAITING:
        _time_iteration(state, job)
    leave_links(state, job)
    row.begun = -1.0
    _until(state, job, WAITING, start)


@kernel
def leave_links(state: EngineState, job: int) -> float:
    """Remove a job from its links; return what is left of its burst, -1 if it does not send."""
    row = state.jobs[job]
    if row.stage != BURSTING:
        return -1.0
    left = max(0.0, still_left(state, job))
    row.sent += _volume(state, job) - left
    end_burst(state, job)
    return left


@kernel
def resume(state: EngineState, job: int, left: float) -> None:
    """Send what is left of a job's burst on other links."""
    row = state.jobs[job]
    row.sent -= _volume(state, job) - left  # counted, and will be once more
    row.left = left
    row.rate, row.held_by = -1.0, -1
    begin_burst(state, job)


@kernel
def start_job(state: EngineState, job: int, start: float) -> None:
    """Start a job's first iteration at `start`."""
    row = state.jobs[job]
    row.done = 0
    row.begun = -1.0
    _until(state, job, WAITING, start)


@inner
def _until(state: EngineState, job: int, stage: int, time: float) -> None:
    row = state.jobs[job]
    row.stage = stage
    row.key = time
    row.order = state.jobs.shape[0] + job
    put_event(state.heap, state.clock, state.jobs, job)


@inner
def _factor(state: EngineState, job: int) -> float:
    jitter: float = state.jobs[job].jitter
    if jitter <= 0.0:
        return 1.0
    return max(0.0, 1.0 + jitter * _normal(mix(_draw(state.jobs[job]), 2)))


@inner
def _volume(state: EngineState, job: int) -> float:
    row = state.jobs[job]
    volume: float = state.segments[row.first_segment + row.segment].volume
    return volume


@inner
def _draw(row: Rows) -> np.uint64:
    """Return the seed of the random numbers of this segment of this iteration."""
    return mix(mix(row.chance, row.done), row.segment)


@inner
def _time_iteration(state: EngineState, job: int) -> None:
    """Record the length of an iteration that is over: to the next one, or its own end."""
    row = state.jobs[job]
    if row.begun < 0.0:
        return
    time = state.clock[0].now - row.begun
    row.spent += time
    row.shortest = min(row.shortest, time)
    row.longest = max(row.longest, time)
    if row.timed < state.times.shape[1]:
        state.times[job, row.timed] = time
    row.timed += 1


@kernel
def add_sent(state: EngineState, volumes: Floats) -> None:
    """Add what each flow of each job has sent so far, shape (jobs,)."""
    for job in range(state.jobs.shape[0]):
        row = state.jobs[job]
        volumes[job] += row.sent
        if row.stage == BURSTING:
            volumes[job] += _volume(state, job) - max(0.0, still_left(state, job))
