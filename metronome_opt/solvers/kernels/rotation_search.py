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
from metronome_opt.solvers.kernels.arrays import copy_entries, minimum_of, sort_stably
from metronome_opt.solvers.kernels.compiled_instance import DemandState, Ints
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, put_job, scored

_DEPTH, _MINIMUM = range(2)
_TO_EXPAND = -1
_BEYOND = 2**62  # all costs and offsets


class RotationSearch(NamedTuple):
    """State of the search for the best rotations of some jobs."""

    counters: Ints  # placed jobs, -1 when done; what all the jobs add in the best way known, scaled
    best: Ints  # per job of the instance, its offset in the best way known
    offset: Ints  # per job, -1 for one that waits
    job: Ints  # per depth, which is placed there
    base: Ints  # per depth, what is placed above adds
    rest: Ints  # per depth, what those that wait add at least
    choice: Ints  # per depth the rotations to try, cheapest first
    added: Ints  # per depth, what each of them adds
    choices: Ints  # per depth, how many there are
    following: Ints  # per depth, which comes next; -1 before they are made
    rotation: Ints  # per depth, the minimum number of slots by which everything can be rotated
    allowed: Ints  # rotations of each job, ascending, shape (jobs, longest), filled up
    keys: Ints  # scratch: what a job adds at its rotations
    order: Ints  # scratch for sorting
    spare: Ints


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
    jobs, longest = len(allowed), max(1, *map(len, allowed))

    def table(*shape: int) -> Ints:
        return np.zeros((jobs + 1, *shape), dtype=np.int64)

    search = RotationSearch(
        counters=np.array([0, _BEYOND], dtype=np.int64),
        best=np.array(offsets, dtype=np.int64),
        offset=np.array(
            [-1 if row else offset for row, offset in zip(allowed, offsets, strict=True)],
            dtype=np.int64,
        ),
        job=table(),
        base=table(),
        rest=table(),
        choice=table(longest),
        added=table(longest),
        choices=table(),
        following=table(),
        rotation=table(),
        allowed=np.array(
            [[*row, *[_BEYOND] * (longest - len(row))] for row in allowed], dtype=np.int64
        ),
        keys=np.zeros(longest, dtype=np.int64),
        order=np.zeros(longest, dtype=np.int64),
        spare=np.zeros(longest, dtype=np.int64),
    )
    search.rotation[0], search.following[0] = rotation, _TO_EXPAND
    return search


def is_done(search: RotationSearch) -> bool:
    """Return whether the best way is known."""
    return bool(search.counters[_DEPTH] < 0)


@kernel
def try_offsets(state: DemandState, search: RotationSearch, nodes: int) -> None:
    """Go on with the search until it is done, by `nodes` nodes at most.

    The state is that of all other jobs and of what is placed.
    """
    counters = search.counters
    while counters[_DEPTH] >= 0 and nodes > 0:
        depth = counters[_DEPTH]
        entry = search.following[depth]
        if entry == _TO_EXPAND:
            nodes -= 1
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


@inner
def _go_down(state: DemandState, search: RotationSearch, offset: int, value: int) -> None:
    depth = search.counters[_DEPTH]
    job = search.job[depth]
    search.offset[job] = offset
    put_job(state, job, offset, ADD)
    search.counters[_DEPTH] = depth + 1
    search.base[depth + 1] = value
    search.following[depth + 1] = _TO_EXPAND
    search.rotation[depth + 1] = np.lcm(search.rotation[depth], state.tables.jobs[job]["period"])


@inner
def _go_up(state: DemandState, search: RotationSearch) -> None:
    depth = search.counters[_DEPTH] - 1
    search.counters[_DEPTH] = depth
    if depth >= 0:
        job = search.job[depth]
        put_job(state, job, search.offset[job], REMOVE)
        search.offset[job] = -1


@inner
def _expand(state: DemandState, search: RotationSearch) -> None:
    """Bound a node; choose the job to place, or go back up if it cannot be better than the best."""
    counters = search.counters
    depth = counters[_DEPTH]
    total = search.base[depth]
    chosen, maximum = -1, -1
    for job in range(search.offset.shape[0]):
        if search.offset[job] >= 0:
            continue
        minimum = minimum_of(search.keys[: _score(state, search, depth, job)])
        total += minimum
        if total >= counters[_MINIMUM]:
            _go_up(state, search)
            return
        if minimum > maximum:
            chosen, maximum = job, minimum
    if chosen < 0:
        counters[_MINIMUM] = total
        copy_entries(search.offset, search.best)
        _go_up(state, search)
        return
    search.job[depth] = chosen
    count = _score(state, search, depth, chosen)
    sort_stably(search.keys, count, search.order, search.spare)
    for rank in range(count):
        search.choice[depth, rank] = search.allowed[chosen, search.order[rank]]
        search.added[depth, rank] = search.keys[search.order[rank]]
    search.choices[depth] = count
    search.rest[depth] = total - search.base[depth] - maximum
    search.following[depth] = 0


@inner
def _score(state: DemandState, search: RotationSearch, depth: int, job: int) -> int:
    """Write to `keys` what a job adds at its rotations; return how many these are.

    None of them leads to another by rotating everything.
    """
    cost, _ = scored(state, job)
    domain = np.gcd(search.rotation[depth], cost.shape[0])
    count: int = np.searchsorted(search.allowed[job], domain)
    for index in range(count):
        search.keys[index] = cost[search.allowed[job, index]]
    return count
