"""The rate of a burst: what it may be, and what follows from another one."""

from __future__ import annotations

import math

from numba import njit

from metronome_opt.kernels.fluid import heap
from metronome_opt.kernels.fluid.world import World

ROUNDING = 1e-12
"""Sums of rates that fill a link to the last bit are not taken for more than it carries."""

# The share of a burst that rounding may leave over when it ends.
_NOTHING = 1e-12


@njit(cache=True, nogil=True)
def is_over(world: World, link: int) -> bool:
    """Whether the bursts on a link would need more than it carries."""
    row = world.links[link]
    over: bool = row.demand > row.capacity * (1.0 + ROUNDING)
    return over


@njit(cache=True, nogil=True)
def own_rate(world: World, job: int) -> float:
    """Return the fastest that a flow of a job may send in its burst."""
    row = world.jobs[job]
    rate: float = world.segments[row.first_segment + row.segment].rate
    return rate


@njit(cache=True, nogil=True)
def set_rate(world: World, job: int, rate: float) -> None:
    """Let a burst go on at another rate from now on."""
    row = world.jobs[job]
    if row.rate == rate:
        return
    now = world.clock[0].now
    if row.rate > 0.0:
        row.left = max(0.0, row.left - row.rate * (now - row.since))
    row.since = now
    row.rate = rate
    if row.left <= _NOTHING * world.segments[row.first_segment + row.segment].volume:
        row.key = now  # it ends now, even if somebody takes the link at this very moment
    else:
        row.key = now + row.left / rate if rate > 0.0 else math.inf
    heap.put(world.heap, world.clock, world.jobs, job)
    note_rate(world, job, rate)


@njit(cache=True, nogil=True)
def note_rate(world: World, job: int, rate: float) -> None:
    """Write a new rate into the trace of the links that are watched."""
    clock = world.clock
    row = world.jobs[job]
    for use in range(row.first_use, row.first_use + row.uses):
        if world.links[world.uses[use].link].watched:
            record = world.trace[clock[0].traced]
            record.time = clock[0].now
            record.use = use
            record.rate = rate
            clock[0].traced += 1
