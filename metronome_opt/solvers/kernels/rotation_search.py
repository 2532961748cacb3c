"""Exact branch and bound over the rotations of a few jobs.

Depth-first branch and bound. What a job adds to the contention never falls as others are placed
(supermodularity), so what is placed plus, for every other job, the minimum it would add now is a
lower bound. The job that costs most at its best rotation is placed next, cheapest rotations first.

A job may take rotations that are given. Of those that lead to one another by rotating everything
only one is tried: where everything can be rotated by so many slots that what is placed stays where
it is, a job needs only rotations below the greatest common divisor of that number and its period.

All jobs must be scaled alike: compile with `common_scale`, or a single link.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.compiled_instance import DemandState, Ints
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, put_job, scored

_DEPTH, _MINIMUM, _COUNT = range(3)
_TO_EXPAND = -1
_NOTHING_KNOWN = 2**62  # as what is added in the best way known, above all others


class RotationSearch(NamedTuple):
    """State of the search for the best rotations of some jobs."""

    # How many jobs are placed, -1 when the search is done; what all the jobs add in the best way
    # known, scaled; how many jobs there are.
    counters: Ints
    job: Ints  # those that are placed come first
    best: Ints  # per job of the instance, its offset in the best way known
    offset: Ints  # per placed job
    base: Ints  # per depth, what is placed above adds
    rest: Ints  # per depth, what those that wait add at least
    choice: Ints  # per depth the rotations to try, cheapest first
    added: Ints  # per depth, what each of them adds
    choices: Ints  # per depth, how many there are
    following: Ints  # per depth, which comes next; -1 before they are made
    rotation: Ints  # per depth, the minimum number of slots by which everything can be rotated
    allowed: Ints  # rotations of each job of the instance, ascending, shape (jobs, longest)
    number: Ints  # how many each job has


def start_rotations(
    allowed: Sequence[Sequence[int]], offsets: Sequence[int], rotation: int
) -> RotationSearch:
    """Return a search for rotations; the first nodes find some, one node more than jobs.

    Parameters
    ----------
    allowed
        The rotations of each job, ascending; none for a job that is not to be placed.
    offsets
        Where the jobs that are not to be placed stand; the others' are not looked at.
    rotation
        A number of slots by which all free jobs can be rotated such that the rotations stay those
        that are allowed and nothing changes for the jobs that do not move.
    """
    free = [job for job, each in enumerate(allowed) if each]
    size, longest = len(free), max(1, *map(len, allowed))

    def table(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    search = RotationSearch(
        counters=table(3),
        job=table(size),
        best=table(len(allowed)),
        offset=table(size),
        base=table(size + 1),
        rest=table(size + 1),
        choice=table(size + 1, longest),
        added=table(size + 1, longest),
        choices=table(size + 1),
        following=table(size + 1),
        rotation=table(size + 1),
        allowed=np.array(
            [[*each, *[0] * (longest - len(each))] for each in allowed], dtype=np.int64
        ),
        number=np.array([len(each) for each in allowed], dtype=np.int64),
    )
    search.counters[:] = (0, _NOTHING_KNOWN, size)
    search.job[:], search.best[:] = free, offsets
    search.rotation[0], search.following[0] = rotation, _TO_EXPAND
    return search


def is_done(search: RotationSearch) -> bool:
    """Return whether the best way is known."""
    return bool(search.counters[_DEPTH] < 0)


@kernel
def try_offsets(state: DemandState, search: RotationSearch, nodes: int) -> int:
    """Go on with the search until it is done, by `nodes` nodes at most; return how many it took.

    The state is that of all other jobs and of what is placed.
    """
    counters = search.counters
    taken = 0
    while counters[_DEPTH] >= 0 and taken < nodes:
        depth = counters[_DEPTH]
        entry = search.following[depth]
        if entry == _TO_EXPAND:
            taken += 1
            _expand(state, search)
            continue
        if entry < search.choices[depth]:
            value = search.base[depth] + search.added[depth, entry]
            # Sorted by cost: where one cannot be better than the best, those after it cannot.
            if value + search.rest[depth] < counters[_MINIMUM]:
                search.following[depth] = entry + 1
                _go_down(state, search, search.choice[depth, entry], value)
                continue
        _go_up(state, search)
    return taken


@inner
def _go_down(state: DemandState, search: RotationSearch, offset: int, value: int) -> None:
    depth = search.counters[_DEPTH]
    job = search.job[depth]
    search.offset[depth] = offset
    put_job(state, job, offset, ADD)
    search.counters[_DEPTH] = depth + 1
    search.base[depth + 1] = value
    search.following[depth + 1] = _TO_EXPAND
    search.rotation[depth + 1] = np.lcm(search.rotation[depth], state.tables.jobs[job]["period"])


@inner
def _go_up(state: DemandState, search: RotationSearch) -> None:
    depth = search.counters[_DEPTH]
    # Among equals the first job is chosen: so those that wait are in their order again.
    for position in range(depth, search.counters[_COUNT] - 1):
        one, other = search.job[position], search.job[position + 1]
        search.job[position], search.job[position + 1] = min(one, other), max(one, other)
    search.counters[_DEPTH] = depth - 1
    if depth > 0:
        put_job(state, search.job[depth - 1], search.offset[depth - 1], REMOVE)


@inner
def _expand(state: DemandState, search: RotationSearch) -> None:
    """Bound a node; choose the job to place, or go back up if it cannot be better than the best."""
    counters = search.counters
    depth = counters[_DEPTH]
    total = search.base[depth]
    chosen, maximum = -1, np.int64(-1)
    for position in range(depth, counters[_COUNT]):
        job = search.job[position]
        cost, _ = scored(state, job)
        rotations = _different(search, depth, job, cost.shape[0])
        minimum = cost[rotations[0]]
        for offset in rotations:
            minimum = min(minimum, cost[offset])
        total += minimum
        if total >= counters[_MINIMUM]:
            _go_up(state, search)
            return
        if minimum > maximum:
            chosen, maximum = position, np.int64(minimum)
    if chosen < 0:
        counters[_MINIMUM] = total
        for position in range(depth):
            search.best[search.job[position]] = search.offset[position]
        _go_up(state, search)
        return
    _choose(search, depth, chosen)
    cost, _ = scored(state, search.job[depth])
    rotations = _different(search, depth, search.job[depth], cost.shape[0])
    cost = cost[rotations]
    ranked = np.argsort(cost, kind="mergesort")
    search.choice[depth, : ranked.shape[0]] = rotations[ranked]
    search.added[depth, : ranked.shape[0]] = cost[ranked]
    search.choices[depth] = ranked.shape[0]
    search.rest[depth] = total - search.base[depth] - maximum
    search.following[depth] = 0


@inner
def _choose(search: RotationSearch, depth: int, chosen: int) -> None:
    """Let the job that waits at a position be the next to be placed."""
    job = search.job[chosen]
    for position in range(chosen, depth, -1):  # the others keep their order
        search.job[position] = search.job[position - 1]
    search.job[depth] = job


@inner
def _different(search: RotationSearch, depth: int, job: int, period: int) -> Ints:
    """Return the rotations of a job of which none leads to another by rotating everything."""
    domain = np.gcd(search.rotation[depth], period)
    count = np.searchsorted(search.allowed[job, : search.number[job]], domain)
    return search.allowed[job, :count]
