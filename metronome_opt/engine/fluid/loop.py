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
from metronome_opt.engine.fluid.slots import burst_start, next_start, postponed
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

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / 2.0**53
_CUT = 3.0  # standard deviations


@kernel
def mix(state: np.uint64, step: int) -> np.uint64:
    """Return a number that looks as if it had nothing to do with `state` and `step`.

    References
    ----------
    G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
    (the finaliser of SplitMix64).
    """
    z = state + _GOLDEN * np.uint64(step + 1)
    z = (z ^ (z >> _S30)) * _ONE
    z = (z ^ (z >> _S27)) * _TWO
    return z ^ (z >> _S31)


@inner
def _uniform(state: np.uint64) -> float:
    """Return a number in (0, 1)."""
    return (float(state >> _S11) + 0.5) * _UNIT


@inner
def _normal(state: np.uint64) -> float:
    """Return a standard normal number, no further from 0 than three standard deviations."""
    radius = math.sqrt(-2.0 * math.log(_uniform(mix(state, 0))))
    number = radius * math.cos(2.0 * math.pi * _uniform(mix(state, 1)))
    return min(max(number, -_CUT), _CUT)


@kernel
def share_of_burst(world: EngineState, job: int, draw: np.uint64) -> float:
    """Return the share of a burst that begins now, which it keeps to its end.

    The share of a burst that begins alone is drawn from a lognormal distribution of median 1. One
    that meets another burst, on any of its links, has a window that is still small, and so less.
    """
    clock, row = world.clock[0], world.jobs[job]
    share = math.exp(clock.spread * _normal(mix(draw, 5)))
    for use in range(row.first_use, row.first_use + row.uses):
        if world.links[world.uses[use].link].active > 0:
            return share * float(clock.newcomer)
    return share


REACHED, FINISHED, FULL, PAUSED = range(4)
"""Why the loop returned: the time is reached, a job has run all its iterations, the trace has no
room left, or so many events have happened."""


@kernel
def run(world: EngineState, until: float, most_events: int, room: int) -> int:
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
    clock, jobs = world.clock, world.jobs
    last = clock[0].events + most_events
    while clock[0].heap > 0 and jobs[world.heap[0]].key <= until:
        if clock[0].events >= last:
            return PAUSED
        if clock[0].traced + room > world.trace.shape[0]:
            return FULL
        job = world.heap[0]
        clock[0].now = jobs[job].key
        clock[0].events += 1
        if _happen(world, job):
            clock[0].finished = job
            return FINISHED
    clock[0].now = max(clock[0].now, until)
    return REACHED


@inner
def _happen(world: EngineState, job: int) -> bool:
    """Let the next event of a job happen; return whether it has finished."""
    row = world.jobs[job]
    stage = row.stage
    if stage in (WAITING, HELD):
        held = stage == HELD
        due = world.segments[row.first_segment + row.segment].due if held else 0.0
        start = postponed(world, job, due)
        if start > world.clock[0].now:
            wait_for(world, job, start)
            return False
        if stage == WAITING:
            _begin(world, job)
    elif stage == BURSTING:
        if row.growing:
            row.step += 1
            share_around(world, job)
            return False
        row.sent += _volume(world, job)
        end_burst(world, job)
    return _go_on(world, job, stage)


@inner
def _begin(world: EngineState, job: int) -> None:
    """Begin an iteration."""
    row = world.jobs[job]
    _time_iteration(world, job)
    row.begun = world.clock[0].now
    row.segment = 0


@inner
def _go_on(world: EngineState, job: int, stage: int) -> bool:
    """Go on to what takes time next, now that `stage` is over; return whether nothing is left."""
    row = world.jobs[job]
    now = world.clock[0].now
    while True:
        segment = row.first_segment + row.segment
        if stage == WAITING and world.segments[segment].compute > 0.0:
            _until(
                world, job, COMPUTING, now + world.segments[segment].compute * _factor(world, job)
            )
            return False
        if stage != BURSTING and world.segments[segment].volume > 0.0:
            if row.paced and stage != HELD:
                start = burst_start(world, job, world.segments[segment].due)
                if start > now:
                    _until(world, job, HELD, start)
                    return False
            _send(world, job)
            return False
        row.segment += 1
        stage = WAITING
        if row.segment < row.segments:
            continue
        row.done += 1
        if row.done == row.total:
            _time_iteration(world, job)
            _leave(world, job)
            return True
        start = next_start(world, job)
        if start > now:
            _until(world, job, WAITING, start)
            return False
        _begin(world, job)


@inner
def _send(world: EngineState, job: int) -> None:
    """Begin the burst of the segment."""
    row = world.jobs[job]
    row.stage = BURSTING
    row.order = job  # bursts that end go before those that begin
    row.left = _volume(world, job)
    row.rate = -1.0  # none yet, not even 0
    row.held_by = -1
    row.rank = row.next_rank
    if row.uses > 0:
        if world.clock[0].tcp:
            row.base = share_of_burst(world, job, _draw(row))
        row.share = row.base
        if world.clock[0].slope != 0.0:
            row.step = 0
            grow(world, job)
        begin_burst(world, job)
    else:
        set_rate(world, job, own_rate(world, job))


@inner
def _leave(world: EngineState, job: int) -> None:
    """Take a job that sends nothing out of the simulation."""
    row = world.jobs[job]
    row.stage = AWAY
    take_event(world.heap, world.clock, world.jobs, job)


@kernel
def wait_for(world: EngineState, job: int, start: float) -> None:
    """Let a job that waits begin at another time."""
    _until(world, job, world.jobs[job].stage, start)


@kernel
def interrupt(world: EngineState, job: int, start: float) -> None:
    """Stop the iteration of a job, which begins anew at `start`; the time until then is not its."""
    row = world.jobs[job]
    if row.stage == BURSTING:
        row.sent += _volume(world, job) - max(0.0, still_left(world, job))
        end_burst(world, job)
    elif row.stage == WAITING:
        _time_iteration(world, job)
    row.begun = -1.0
    _until(world, job, WAITING, start)


@kernel
def leave_links(world: EngineState, job: int) -> float:
    """Take a job off its links in the midst of a burst; return what is left of it, or -1."""
    row = world.jobs[job]
    if row.stage != BURSTING:
        return -1.0
    left = max(0.0, still_left(world, job))
    row.sent += _volume(world, job) - left
    end_burst(world, job)
    return left


@kernel
def resume(world: EngineState, job: int, left: float) -> None:
    """Let a job send what is left of a burst on other links."""
    row = world.jobs[job]
    row.sent -= _volume(world, job) - left  # counted, and will be once more
    row.left = left
    row.rate, row.held_by = -1.0, -1
    if row.uses > 0:
        begin_burst(world, job)
    else:
        set_rate(world, job, own_rate(world, job))


@kernel
def enter(world: EngineState, job: int, start: float) -> None:
    """Let a job begin its first iteration at `start`."""
    row = world.jobs[job]
    row.done = 0
    row.begun = -1.0
    _until(world, job, WAITING, start)


@inner
def _until(world: EngineState, job: int, stage: int, time: float) -> None:
    row = world.jobs[job]
    row.stage = stage
    row.key = time
    row.order = world.jobs.shape[0] + job
    put_event(world.heap, world.clock, world.jobs, job)


@inner
def _factor(world: EngineState, job: int) -> float:
    jitter: float = world.jobs[job].jitter
    if jitter <= 0.0:
        return 1.0
    return max(0.0, 1.0 + jitter * _normal(mix(_draw(world.jobs[job]), 2)))


@inner
def _volume(world: EngineState, job: int) -> float:
    row = world.jobs[job]
    volume: float = world.segments[row.first_segment + row.segment].volume
    return volume


@inner
def _draw(row: Rows) -> np.uint64:
    """Return where the numbers of this segment of this iteration come from."""
    return mix(mix(row.chance, row.done), row.segment)


@inner
def _time_iteration(world: EngineState, job: int) -> None:
    """Take down how long the iteration took that is over, if there was one.

    An iteration lasts until the next one begins, the last one until its own end.
    """
    row = world.jobs[job]
    if row.begun < 0.0:
        return
    time = world.clock[0].now - row.begun
    row.spent += time
    row.shortest = min(row.shortest, time)
    row.longest = max(row.longest, time)
    if row.timed < world.times.shape[1]:
        world.times[job, row.timed] = time
    row.timed += 1


@kernel
def add_sent(world: EngineState, volumes: Floats) -> None:
    """Add what each flow of each job has sent so far, shape (jobs,)."""
    for job in range(world.jobs.shape[0]):
        row = world.jobs[job]
        volumes[job] += row.sent
        if row.stage == BURSTING:
            volumes[job] += _volume(world, job) - max(0.0, still_left(world, job))
