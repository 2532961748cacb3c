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
from metronome_opt.kernels.jobs import put_job, score_job, score_placed
from metronome_opt.kernels.tables import Ints, Tables

_DEPTH, _LEAST, _COUNT = range(3)
_TO_EXPAND = -1


class Release(NamedTuple):
    """Where the search for the best offsets of some jobs stands.

    Attributes
    ----------
    counters
        How many jobs are placed, -1 when the search is done; what all the jobs add in the best way
        known, scaled; how many jobs there are.
    job
        The jobs; those that are placed come first.
    best
        Per job of the instance, its offset in the best way known; only those in `job` count.
    offset
        Per placed job, its offset.
    base, rest
        Per depth, what is placed above adds; what those that wait add at least.
    choice, added
        Per depth the offsets to try and what each adds, cheapest first.
    following
        Per depth, which comes next; -1 before they are made.
    """

    counters: Ints
    job: Ints
    best: Ints
    offset: Ints
    base: Ints
    rest: Ints
    choice: Ints
    added: Ints
    following: Ints


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
def blames(tables: Tables, demand: Ints, offsets: Ints, jobs: Ints, work: Ints) -> Ints:
    """Return what each job adds to the contention, given all the others.

    Parameters
    ----------
    demand, offsets
        A schedule and its layered demand; left as they are.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    found = np.empty(jobs.shape[0], np.int64)
    for position in range(jobs.shape[0]):
        job = jobs[position]
        period = tables.period[job]
        cost = work[:period]
        score_placed(tables, demand, job, offsets[job], cost, work[period:])
        found[position] = cost[offsets[job]]
    return found


@kernel
def start_release(
    tables: Tables, demand: Ints, offsets: Ints, members: Ints, release: Release, work: Ints
) -> None:
    """Take `members` out of the demand; how they were is the best way known.

    Parameters
    ----------
    demand
        In: of all jobs at `offsets`. Out: of the others.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    total = np.int64(0)
    for position in range(members.shape[0]):
        job = members[position]
        period = tables.period[job]
        cost = work[:period]
        put_job(tables, demand, job, offsets[job], -1)
        score_job(tables, demand, job, cost, work[period:])
        total += cost[offsets[job]]
        release.job[position] = job
        release.best[job] = offsets[job]
    release.counters[_DEPTH] = 0
    release.counters[_LEAST] = total
    release.counters[_COUNT] = members.shape[0]
    release.base[0] = 0
    release.following[0] = _TO_EXPAND


@kernel
def end_release(tables: Tables, demand: Ints, offsets: Ints, release: Release) -> None:
    """Put the jobs back, each where it is best."""
    for position in range(max(0, release.counters[_DEPTH])):
        put_job(tables, demand, release.job[position], release.offset[position], -1)
    for position in range(release.counters[_COUNT]):
        job = release.job[position]
        offsets[job] = release.best[job]
        put_job(tables, demand, job, offsets[job], 1)


@kernel
def try_offsets(tables: Tables, demand: Ints, release: Release, nodes: int, work: Ints) -> int:
    """Go on with the search until it is done, by `nodes` nodes at most; return how many it took.

    Parameters
    ----------
    demand
        In and out: of what is not in the release, and of what it has placed.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    counters = release.counters
    taken = 0
    while counters[_DEPTH] >= 0 and taken < nodes:
        depth = counters[_DEPTH]
        if release.following[depth] == _TO_EXPAND:
            taken += 1
            _expand(tables, demand, release, work)
            continue
        entry = release.following[depth]
        job = release.job[depth]
        if entry < tables.period[job]:
            value = release.base[depth] + release.added[depth, entry]
            if value + release.rest[depth] < counters[_LEAST]:
                release.following[depth] += 1
                release.offset[depth] = release.choice[depth, entry]
                put_job(tables, demand, job, release.offset[depth], 1)
                counters[_DEPTH] = depth + 1
                release.base[depth + 1] = value
                release.following[depth + 1] = _TO_EXPAND
                continue
        _go_up(tables, demand, release)
    return taken


@inner
def _go_up(tables: Tables, demand: Ints, release: Release) -> None:
    release.counters[_DEPTH] -= 1
    depth = release.counters[_DEPTH]
    if depth >= 0:
        put_job(tables, demand, release.job[depth], release.offset[depth], -1)


@inner
def _expand(tables: Tables, demand: Ints, release: Release, work: Ints) -> None:
    """Bound a node; choose the job to place, or go back up if it cannot be better than the best."""
    counters = release.counters
    depth = counters[_DEPTH]
    total = release.base[depth]
    chosen, most = -1, np.int64(-1)
    for position in range(depth, counters[_COUNT]):
        job = release.job[position]
        period = tables.period[job]
        least = score_job(tables, demand, job, work[:period], work[period:])
        total += least
        if total >= counters[_LEAST]:
            _go_up(tables, demand, release)
            return
        if least > most:
            chosen, most = position, np.int64(least)
    if chosen < 0:
        counters[_LEAST] = total
        for position in range(depth):
            release.best[release.job[position]] = release.offset[position]
        _go_up(tables, demand, release)
        return
    job = release.job[chosen]
    release.job[chosen] = release.job[depth]
    release.job[depth] = job
    period = tables.period[job]
    cost = work[:period]
    score_job(tables, demand, job, cost, work[period:])
    ranked = np.argsort(cost, kind="mergesort")
    release.choice[depth, :period] = ranked
    release.added[depth, :period] = cost[ranked]
    release.rest[depth] = total - release.base[depth] - most
    release.following[depth] = 0
