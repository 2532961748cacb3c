"""Free a few jobs and place them optimally, given all the others: an exact large neighbourhood.

Depth-first branch and bound. What a job adds to the contention never falls as others are placed
(supermodularity), so what is placed plus, for every other free job, the least it would add now is a
lower bound. The job that costs most at its best offset is placed next, cheapest offsets first. For
a handful of jobs this beats the machinery of `grow`, which pays off for whole blocks.

All jobs must be scaled alike: compile with `common_scale`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metronome_opt.kernels.compiling import inner, kernel
from metronome_opt.kernels.jobs import put_job, scored
from metronome_opt.kernels.tables import Ints, State

_DEPTH, _LEAST, _COUNT = range(3)
_TO_EXPAND = -1


class Release(NamedTuple):
    """Where the search for the best offsets of some jobs stands."""

    # How many jobs are placed, -1 when the search is done; what all the jobs add in the best way
    # known, scaled; how many jobs there are.
    counters: Ints
    job: Ints  # those that are placed come first
    best: Ints  # per job of the instance, its offset in the best way known
    offset: Ints  # per placed job
    base: Ints  # per depth, what is placed above adds
    rest: Ints  # per depth, what those that wait add at least
    choice: Ints  # per depth the offsets to try, cheapest first
    added: Ints  # per depth, what each of them adds
    following: Ints  # per depth, which comes next; -1 before they are made


def room_for(size: int, jobs: int, longest: int) -> Release:
    """Return memory to release up to `size` of so many jobs, of periods up to `longest`."""

    def table(*shape: int) -> Ints:
        return np.zeros(shape, dtype=np.int64)

    return Release(
        counters=table(3),
        job=table(size),
        best=table(jobs),
        offset=table(size),
        base=table(size + 1),
        rest=table(size + 1),
        choice=table(size + 1, longest),
        added=table(size + 1, longest),
        following=table(size + 1),
    )


def is_done(release: Release) -> bool:
    """Return whether the best way is known."""
    return bool(release.counters[_DEPTH] < 0)


@kernel
def blames(state: State, offsets: Ints, jobs: Ints) -> Ints:
    """Return what each job of a schedule adds to the contention, given all the others."""
    found = np.empty(jobs.shape[0], np.int64)
    for position in range(jobs.shape[0]):
        job = jobs[position]
        put_job(state, job, offsets[job], -1)
        cost, _ = scored(state, job)
        put_job(state, job, offsets[job], 1)
        found[position] = cost[offsets[job]]
    return found


@kernel
def start_release(state: State, offsets: Ints, members: Ints, release: Release) -> None:
    """Take `members` out of a schedule; how they were is the best way known."""
    total = np.int64(0)
    for position in range(members.shape[0]):
        job = members[position]
        put_job(state, job, offsets[job], -1)
        cost, _ = scored(state, job)
        total += cost[offsets[job]]
        release.job[position] = job
        release.best[job] = offsets[job]
    release.counters[_DEPTH] = 0
    release.counters[_LEAST] = total
    release.counters[_COUNT] = members.shape[0]
    release.base[0] = 0
    release.following[0] = _TO_EXPAND


@kernel
def end_release(state: State, offsets: Ints, release: Release) -> None:
    """Put the jobs back, each where it is best."""
    for position in range(max(0, release.counters[_DEPTH])):
        put_job(state, release.job[position], release.offset[position], -1)
    for position in range(release.counters[_COUNT]):
        job = release.job[position]
        offsets[job] = release.best[job]
        put_job(state, job, offsets[job], 1)


@kernel
def try_offsets(state: State, release: Release, nodes: int) -> int:
    """Go on with the search until it is done, by `nodes` nodes at most; return how many it took."""
    counters = release.counters
    taken = 0
    while counters[_DEPTH] >= 0 and taken < nodes:
        depth = counters[_DEPTH]
        if release.following[depth] == _TO_EXPAND:
            taken += 1
            _expand(state, release)
            continue
        entry = release.following[depth]
        job = release.job[depth]
        if entry < state.tables.jobs[job]["period"]:
            value = release.base[depth] + release.added[depth, entry]
            if value + release.rest[depth] < counters[_LEAST]:
                release.following[depth] += 1
                release.offset[depth] = release.choice[depth, entry]
                put_job(state, job, release.offset[depth], 1)
                counters[_DEPTH] = depth + 1
                release.base[depth + 1] = value
                release.following[depth + 1] = _TO_EXPAND
                continue
        _go_up(state, release)
    return taken


@inner
def _go_up(state: State, release: Release) -> None:
    release.counters[_DEPTH] -= 1
    depth = release.counters[_DEPTH]
    if depth >= 0:
        put_job(state, release.job[depth], release.offset[depth], -1)


@inner
def _expand(state: State, release: Release) -> None:
    """Bound a node; choose the job to place, or go back up if it cannot be better than the best."""
    counters = release.counters
    depth = counters[_DEPTH]
    total = release.base[depth]
    chosen, most = -1, np.int64(-1)
    for position in range(depth, counters[_COUNT]):
        _, least = scored(state, release.job[position])
        total += least
        if total >= counters[_LEAST]:
            _go_up(state, release)
            return
        if least > most:
            chosen, most = position, np.int64(least)
    if chosen < 0:
        counters[_LEAST] = total
        for position in range(depth):
            release.best[release.job[position]] = release.offset[position]
        _go_up(state, release)
        return
    job = release.job[chosen]
    release.job[chosen] = release.job[depth]
    release.job[depth] = job
    cost, _ = scored(state, job)
    ranked = np.argsort(cost, kind="mergesort")
    release.choice[depth, : cost.shape[0]] = ranked
    release.added[depth, : cost.shape[0]] = cost[ranked]
    release.rest[depth] = total - release.base[depth] - most
    release.following[depth] = 0
