"""Local search: annealing, and a walk over local optima.

*Annealing* takes every offset of a job into account at once. One pass of the sliding window gives
what a job adds to the contention at all of its offsets. So an offset can be drawn from the
Boltzmann distribution, ``P(o) ~ exp(-cost(o) / temperature)``, itself (heat bath, or Gibbs
sampling; Geman and Geman 1984), where Metropolis would propose offsets one by one and refuse most.
The draw is the offset that minimises ``cost(o) - temperature * g(o)`` for independent standard
Gumbel variables g (Gumbel 1954), which come from a table.

The *walk* kicks a few jobs that share links, and lets their surroundings settle. It can be left
after any number of steps and resumed; a step scores one job at all its offsets. Jobs that wait for
their step are in a queue. One that was kicked goes to a random offset, any other to its cheapest
one, and a job that moves queues its neighbours. Once the queue is empty, the schedule is locally
optimal: it is kept or taken back, and the next kick is made. A worse schedule is kept with the
probability of Metropolis. A kick has its centre at the one of two random jobs that adds more to the
contention. How many jobs it moves is learnt: of two sizes drawn at random the one is taken that has
led to more gains per step so far.

All jobs must be scaled alike: compile with `common_scale`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.arrays import copy_entries
from metronome_opt.solvers.kernels.burst_costs import first_offset
from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance, DemandState, Ints
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, put_job, scored

Floats = NDArray[np.float64]
_STARTS = 2**13  # positions to begin at in the table of noise


def gumbel_noise(generator: np.random.Generator, longest: int) -> Floats:
    """Return a table of standard Gumbel variables, enough for periods of up to `longest` slots."""
    return generator.gumbel(size=_STARTS + longest)


@kernel
def spreads(state: DemandState, offsets: Ints, jobs: Ints, deviations: Floats) -> None:
    """Compute the standard deviation of each job's cost over its offsets, given all the others."""
    for position in range(jobs.shape[0]):
        job = jobs[position]
        put_job(state, job, offsets[job], REMOVE)
        cost, _ = scored(state, job)
        put_job(state, job, offsets[job], ADD)
        deviations[position] = np.std(cost)


@kernel
def anneal(
    state: DemandState,
    offsets: Ints,
    free: Ints,
    scale: Floats,
    temperature: float,
    cooling: float,
    noise: Floats,
    generator: np.random.Generator,
    steps: int,
) -> float:
    """Draw the offset of a random job again, `steps` times; return the temperature at the end.

    Parameters
    ----------
    state, offsets
        In and out, consistent with each other.
    scale
        Per job, the scaled contention that temperature 1 stands for.
    temperature, cooling
        At the first step, and what it is multiplied by after each.
    """
    for _ in range(steps):
        job = free[_draw_integer(generator, 0, free.shape[0])]
        period = state.tables.jobs[job]["period"]
        put_job(state, job, offsets[job], REMOVE)
        cost, _ = scored(state, job)
        begin = _draw_integer(generator, 0, noise.shape[0] - period)
        offsets[job] = _draw(cost, temperature * scale[job], noise[begin : begin + period])
        put_job(state, job, offsets[job], ADD)
        temperature *= cooling
    return temperature


@inner
def _draw(cost: Ints, temperature: float, noise: Floats) -> int:
    """Return an offset from the Boltzmann distribution of `cost`."""
    drawn = 0
    minimum = np.inf
    for o in range(cost.shape[0]):
        value = cost[o] - temperature * noise[o]
        if value < minimum:
            drawn, minimum = o, value
    return drawn


_LARGEST_KICK = 8
VALUE, KEPT, BEST, HEAD, WAITING, KICK, CENTRE, STEPS = range(8)  # in `Walk.counters`


class Neighbours(NamedTuple):
    """Jobs that share links; only those that may move and cost something count.

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
    """State of a walk; values are scaled and relative to that of the start."""

    # Value of the schedule, of the last one kept, of the best; head and length of the queue; size,
    # centre and steps so far of the kick under way.
    counters: Ints
    ring: Ints  # the queue of jobs
    queued: Ints  # per job, whether it is in it
    kicked: Ints  # per job
    kept: Ints  # offsets per job, of the last schedule kept
    best: Ints  # of the best
    blame: Ints  # per job, what it last was seen to add to the contention
    kicks: Kicks


def neighbours_of(compiled: CompiledInstance) -> Neighbours:
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
    """Return the experience before the first kick: every size seems as good as one gain."""
    return Kicks(np.ones(_LARGEST_KICK + 1), np.ones(_LARGEST_KICK + 1))


def start_walk(offsets: Ints, around: Neighbours, kicks: Kicks) -> Walk:
    """Return a walk that begins by letting the whole of a schedule settle; it updates `kicks`."""
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


@kernel
def go_to(state: DemandState, offsets: Ints, free: Ints, target: Ints) -> None:
    """Move the free jobs from `offsets` to `target`."""
    for job in free:
        if offsets[job] != target[job]:
            put_job(state, job, offsets[job], REMOVE)
            put_job(state, job, target[job], ADD)
            offsets[job] = target[job]


@kernel
def take_steps(
    state: DemandState,
    offsets: Ints,
    around: Neighbours,
    walk: Walk,
    tolerance: Floats,
    generator: np.random.Generator,
    steps: int,
) -> None:
    """Go on with a walk from the schedule as it was left.

    `tolerance` is per job the scaled loss that a kick around it may keep with probability 1/e.
    """
    for _ in range(steps):
        if walk.counters[WAITING] == 0:
            if not _keep(offsets, walk, tolerance, generator):
                go_to(state, offsets, around.free, walk.kept)
                walk.counters[VALUE] = walk.counters[KEPT]
            _kick(around, walk, generator)
        _step(state, offsets, around, walk, generator)


@inner
def _step(
    state: DemandState,
    offsets: Ints,
    around: Neighbours,
    walk: Walk,
    generator: np.random.Generator,
) -> None:
    """Move the first job of the queue."""
    job = _dequeue(walk)
    put_job(state, job, offsets[job], REMOVE)
    cost, minimum = scored(state, job)
    before = cost[offsets[job]]
    start: Any = _draw_integer(generator, 0, cost.shape[0])
    if walk.kicked[job]:
        walk.kicked[job] = 0
        offsets[job] = start
        _enqueue(walk, job)
        _enqueue_neighbours(walk, around, job)
    elif minimum < before:
        offsets[job] = first_offset(cost, minimum, start)
        _enqueue_neighbours(walk, around, job)
    put_job(state, job, offsets[job], ADD)
    walk.blame[job] = cost[offsets[job]]
    walk.counters[VALUE] += cost[offsets[job]] - before
    walk.counters[STEPS] += 1


@inner
def _keep(offsets: Ints, walk: Walk, tolerance: Floats, generator: np.random.Generator) -> bool:
    """Judge the last kick; keep the schedule, or return False."""
    counters = walk.counters
    loss = counters[VALUE] - counters[KEPT]
    size = counters[KICK]
    walk.kicks.spent[size] += counters[STEPS]
    if loss < 0:
        walk.kicks.gains[size] += 1.0
    allowed = tolerance[counters[CENTRE]]
    if loss > 0 and (allowed == 0 or generator.random() >= np.exp(-loss / allowed)):
        return False
    copy_entries(offsets, walk.kept)
    counters[KEPT] = counters[VALUE]
    if counters[VALUE] < counters[BEST]:
        counters[BEST] = counters[VALUE]
        copy_entries(offsets, walk.best)
    return True


@inner
def _kick(around: Neighbours, walk: Walk, generator: np.random.Generator) -> None:
    """Mark and queue a few jobs, each but the first a neighbour of one before it."""
    size = _better_of_two(walk, generator)
    walk.counters[KICK] = size
    walk.counters[STEPS] = 0
    centre = around.free[_draw_integer(generator, 0, around.free.shape[0])]
    rival = around.free[_draw_integer(generator, 0, around.free.shape[0])]
    if walk.blame[rival] > walk.blame[centre]:
        centre = rival
    walk.counters[CENTRE] = centre
    walk.kicked[centre] = 1
    _enqueue(walk, centre)
    for _ in range(1, size):
        drawn = _draw_integer(generator, 0, walk.counters[WAITING])
        member = walk.ring[(walk.counters[HEAD] + drawn) % walk.ring.shape[0]]
        first, last = around.ptr[member], around.ptr[member + 1]
        if last > first:
            job = around.other[_draw_integer(generator, first, last)]
            walk.kicked[job] = 1
            _enqueue(walk, job)


@inner
def _better_of_two(walk: Walk, generator: np.random.Generator) -> int:
    """Return a size of kick: of two at random the one with more gains per step."""
    one = _draw_integer(generator, 1, _LARGEST_KICK + 1)
    other = _draw_integer(generator, 1, _LARGEST_KICK + 1)
    if (
        walk.kicks.gains[one] * walk.kicks.spent[other]
        >= walk.kicks.gains[other] * walk.kicks.spent[one]
    ):
        return int(one)
    return int(other)


@inner
def _enqueue_neighbours(walk: Walk, around: Neighbours, job: int) -> None:
    for entry in range(around.ptr[job], around.ptr[job + 1]):
        _enqueue(walk, around.other[entry])


@inner
def _enqueue(walk: Walk, job: int) -> None:
    if walk.queued[job]:
        return
    walk.queued[job] = 1
    tail = walk.counters[HEAD] + walk.counters[WAITING]
    walk.ring[tail % walk.ring.shape[0]] = job
    walk.counters[WAITING] += 1


@inner
def _dequeue(walk: Walk) -> int:
    job: int = walk.ring[walk.counters[HEAD]]
    walk.counters[HEAD] = (walk.counters[HEAD] + 1) % walk.ring.shape[0]
    walk.counters[WAITING] -= 1
    walk.queued[job] = 0
    return job


@inner
def _draw_integer(generator: np.random.Generator, first: int, end: int) -> int:
    """Return a random integer of ``[first, end)``; numba's ``integers`` would allocate."""
    return first + int(generator.random() * (end - first))
