"""Event loop with exact event times, and its random numbers.

Random numbers go by their place, not by their turn: the factor of the k-th computing time of a job
is a function of the seed, the job, the iteration and the segment. So whatever a policy does, the
job meets the same chance in the same iteration, and policies can be compared pair by pair.
"""

from __future__ import annotations

import math

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.engine.fluid.sharing import (
    begin_burst,
    end_burst,
    grow,
    own_rate,
    set_rate,
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
    """Return a number that looks as if it had nothing to do with `word` and `step`.

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
def share_of_burst(state: EngineState, job: int, draw: np.uint64) -> float:
    """Return the share of a burst that begins now, which it keeps to its end.

    The share of a burst that begins alone is drawn from a lognormal distribution of median 1. One
    that meets another burst, on any of its links, has a window that is still small, and so less.
    """
    clock, row = state.clock[0], state.jobs[job]
    share = math.exp(clock.spread * _normal(mix(draw, 5)))
    for use in range(row.first_use, row.first_use + row.uses):
        if state.links[state.uses[use].link].active > 0:
            return share * float(clock.newcomer)
    return share


REACHED, FINISHED, FULL, PAUSED = range(4)
"""Why the loop returned: the time is reached, a job has run all its iterations, the trace has no
room left, or so many events have happened."""


@kernel
def run(state: EngineState, until: float, most_events: int, room: int) -> int:
    """Go on until `until`, at the latest.

    Parameters
    ----------
    until
        All events up to this time happen.
    most_events
        Return after so many.
    room
        Return when less than this is left of the trace; no event writes more.

    Returns
    -------
    int
        Why; see above. ``clock.finished`` is the job that has finished.
    """
    clock, jobs = state.clock, state.jobs
    last = clock[0].events + most_events
    while clock[0].heap > 0 and jobs[state.heap[0]].key <= until:
        if clock[0].events >= last:
            return PAUSED
        if clock[0].traced + room > state.trace.shape[0]:
            return FULL
        job = state.heap[0]
        clock[0].now = jobs[job].key
        clock[0].events += 1
        if _happen(state, job):
            clock[0].finished = job
            return FINISHED
    clock[0].now = max(clock[0].now, until)
    return REACHED


@inner
def _happen(state: EngineState, job: int) -> bool:
    """Let the next event of a job happen; return whether it has finished."""
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
    """Go on to what takes time next, now that `stage` is over; return whether nothing is left."""
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
            row.base = share_of_burst(state, job, _draw(row))
        row.share = row.base
        if state.clock[0].slope != 0.0:
            row.step = 0
            grow(state, job)
        begin_burst(state, job)
    else:
        set_rate(state, job, own_rate(state, job))


@inner
def _leave(state: EngineState, job: int) -> None:
    """Take a job that sends nothing out of the simulation."""
    row = state.jobs[job]
    row.stage = AWAY
    take_event(state.heap, state.clock, state.jobs, job)


@kernel
def wait_for(state: EngineState, job: int, start: float) -> None:
    """Let a job that waits begin at another time."""
    _until(state, job, state.jobs[job].stage, start)


@kernel
def interrupt(state: EngineState, job: int, start: float) -> None:
    """Stop the iteration of a job, which begins anew at `start`; the time until then is not its."""
    row = state.jobs[job]
    if row.stage == BURSTING:
        row.sent += _volume(state, job) - max(0.0, still_left(state, job))
        end_burst(state, job)
    elif row.stage == WAITING:
        _time_iteration(state, job)
    row.begun = -1.0
    _until(state, job, WAITING, start)


@kernel
def leave_links(state: EngineState, job: int) -> float:
    """Take a job off its links in the midst of a burst; return what is left of it, or -1."""
    row = state.jobs[job]
    if row.stage != BURSTING:
        return -1.0
    left = max(0.0, still_left(state, job))
    row.sent += _volume(state, job) - left
    end_burst(state, job)
    return left


@kernel
def resume(state: EngineState, job: int, left: float) -> None:
    """Let a job send what is left of a burst on other links."""
    row = state.jobs[job]
    row.sent -= _volume(state, job) - left  # counted, and will be once more
    row.left = left
    row.rate, row.held_by = -1.0, -1
    if row.uses > 0:
        begin_burst(state, job)
    else:
        set_rate(state, job, own_rate(state, job))


@kernel
def start_job(state: EngineState, job: int, start: float) -> None:
    """Let a job begin its first iteration at `start`."""
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
    """Return where the numbers of this segment of this iteration come from."""
    return mix(mix(row.chance, row.done), row.segment)


@inner
def _time_iteration(state: EngineState, job: int) -> None:
    """Take down how long the iteration took that is over, if there was one.

    An iteration lasts until the next one begins, the last one until its own end.
    """
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
