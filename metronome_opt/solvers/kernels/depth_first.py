"""Depth-first search for offsets without contention.

A job may go where it adds no contention, which `score_job` says for all its offsets at once. The
job that has fewest such offsets comes next, so that a dead end is seen early. Offsets where a burst
touches what is there already are tried first, since they leave the others most room. Of schedules
that are rotations of one another only one is tried: with L the least common multiple of the periods
placed so far on the links that hang together, job j needs only offsets below gcd(T_j, L)
(`presolve.orbits`). L may be huge; gcd(T_j, L) is the least common multiple of all gcd(T_j, T_i).
An offset that failed is not tried again for another job that is alike.

First fit comes before it: each job in turn goes where it leaves the most to the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.arrays import copy_entries
from metronome_opt.solvers.kernels.compiled_instance import CompiledInstance, DemandState, Ints
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, put_job, scored

FOUND = 0
REFUTED = 1
EXHAUSTED = 2


class DepthFirstState(NamedTuple):
    """State of the search, which can be left and resumed."""

    state: DemandState
    depth: Ints  # how many jobs are placed beyond those that are fixed, shape (1,)
    order: Ints  # the job at each depth
    offsets: Ints  # of each job, -1 for one that is not placed
    candidates: Ints  # per depth, the offsets to try
    tried: Ints  # per depth, how many of them have been
    most: Ints  # per depth, how many there are
    feasible: Ints  # per depth and job, how many offsets it has left, -1 for one that is placed
    domain: Ints  # per depth and job, below what its offsets need to be tried
    component: Ints  # of each job
    alike: Ints  # of each job, equal where jobs are
    starts: Ints  # whether offsets of a residue need to be tried, modulo the shape


def start_search(
    compiled: CompiledInstance, component: Ints, domain: Ints, alike: Ints, starts: Ints
) -> DepthFirstState:
    """Return a search that has placed the fixed jobs, and has counted no feasible offsets.

    Parameters
    ----------
    component
        For each free job, the number of the component that it is rotated with.
    domain
        For each free job, the greatest common divisor of its period and of what its component may
        be rotated by.
    alike, starts
        As of `DepthFirstState`.
    """
    jobs = compiled.instance.jobs
    count, longest = len(jobs), max(job.period for job in jobs)
    search = DepthFirstState(
        state=compiled.empty(),
        depth=np.zeros(1, dtype=np.int64),
        order=np.full(count + 1, -1, dtype=np.int64),
        offsets=np.full(count, -1, dtype=np.int64),
        candidates=np.zeros((count + 1, longest), dtype=np.int64),
        tried=np.zeros(count + 1, dtype=np.int64),
        most=np.full(count + 1, -1, dtype=np.int64),
        feasible=np.zeros((count + 1, count), dtype=np.int64),
        domain=np.tile(domain, (count + 1, 1)),
        component=component,
        alike=alike,
        starts=starts,
    )
    for index, job in enumerate(jobs):
        if job.fixed_offset is not None:
            search.offsets[index] = job.fixed_offset
            put_job(search.state, index, job.fixed_offset, ADD)
    return search


@kernel
def search_depth_first(search: DepthFirstState, nodes: int) -> int:
    """Go on for so many placements; return FOUND, REFUTED or EXHAUSTED.

    The offsets are those of `search` if they are found.
    """
    depth = search.depth[0]
    while True:
        if search.most[depth] < 0:
            job = _tightest(search.feasible[depth])
            if job < 0:
                search.depth[0] = depth
                return FOUND
            search.order[depth] = job
            _list_candidates(search, depth, job)
        job = search.order[depth]
        if search.tried[depth] == search.most[depth]:
            search.most[depth] = -1
            if depth == 0:
                return REFUTED
            depth -= 1
            _take(search, depth)
            continue
        if nodes == 0:
            search.depth[0] = depth
            return EXHAUSTED
        nodes -= 1
        offset = search.candidates[depth, search.tried[depth]]
        search.tried[depth] += 1
        search.offsets[job] = offset
        put_job(search.state, job, offset, ADD)
        if _look_ahead(search, depth, job):
            depth += 1
            search.most[depth] = -1
        else:
            _take(search, depth)


@inner
def _take(search: DepthFirstState, depth: int) -> None:
    """Take away the job that was placed at a depth."""
    job = search.order[depth]
    put_job(search.state, job, search.offsets[job], REMOVE)
    search.offsets[job] = -1


@inner
def _tightest(feasible: Ints) -> int:
    """Return the job with the fewest offsets left; -1 if all are placed."""
    best = -1
    for job in range(feasible.shape[0]):
        if feasible[job] >= 0 and (best < 0 or feasible[job] < feasible[best]):
            best = job
    return best


@inner
def _list_candidates(search: DepthFirstState, depth: int, job: int) -> None:
    """List the offsets that a job may take, those where it touches others first."""
    cost, _ = scored(search.state, job)
    for above in range(depth):
        if search.alike[search.order[above]] == search.alike[job]:
            for failed in search.candidates[above, : search.tried[above] - 1]:
                if failed < cost.shape[0]:
                    cost[failed] = 1
    count = 0
    for touching in (True, False):
        for o in range(search.domain[depth, job]):
            if cost[o] == 0 and search.starts[o % search.starts.shape[0]]:
                touches = cost[o - 1] != 0 or cost[(o + 1) % cost.shape[0]] != 0
                if touches == touching:
                    search.candidates[depth, count] = o
                    count += 1
    search.tried[depth], search.most[depth] = 0, count


@inner
def _look_ahead(search: DepthFirstState, depth: int, job: int) -> bool:
    """Count the offsets that are left to the jobs that one meets; return whether all have some."""
    jobs = search.state.tables.jobs
    feasible, domain = search.feasible[depth + 1], search.domain[depth + 1]
    copy_entries(search.feasible[depth], feasible)
    copy_entries(search.domain[depth], domain)
    feasible[job] = -1
    for other in range(feasible.shape[0]):
        if feasible[other] < 0:
            continue
        if search.component[other] == search.component[job]:
            common = np.gcd(jobs[other]["period"], jobs[job]["period"])
            domain[other] = np.lcm(domain[other], common)
        if _meet(search.state, job, other):
            feasible[other] = count_feasible(search, other)
            if feasible[other] == 0:
                return False
    return True


@inner
def _meet(state: DemandState, one: int, other: int) -> bool:
    jobs, uses = state.tables.jobs, state.tables.uses
    for use in range(jobs[one]["first_use"], jobs[one]["end_use"]):
        for theirs in range(jobs[other]["first_use"], jobs[other]["end_use"]):
            if uses[use]["link"] == uses[theirs]["link"]:
                return True
    return False


@kernel
def count_feasible(search: DepthFirstState, job: int) -> int:
    """Return at how many offsets a job adds no contention to what is placed, -1 if it is itself."""
    if search.offsets[job] >= 0:
        return -1
    cost, minimum = scored(search.state, job)
    if minimum > 0:
        return 0
    count, modulus = 0, search.starts.shape[0]
    for begin in range(0, cost.shape[0], modulus):
        for residue in range(modulus):
            count += cost[begin + residue] == 0 and search.starts[residue] == 1
    return count


@kernel
def fill(state: DemandState, order: Ints, first: int, end: int, modulus: int, offsets: Ints) -> int:
    """Place the jobs ``order[first:end]`` without contention; return how many of all are placed.

    Each goes to an offset of the lowest residue by `modulus`, and of those to the first one. So
    bursts of long periods stand one behind the other where a burst of the shortest period could.

    Parameters
    ----------
    state, offsets
        In and out: what is placed; offsets by job.
    order, first, end
        Job indices, and the part of them to place.
    modulus
        Of the residues; 1 for the first offset.

    Returns
    -------
    int
        The position in the order of the first job that could not be placed, or `end`.
    """
    for place in range(first, end):
        job = order[place]
        cost, minimum = scored(state, job)
        if minimum > 0:
            return place
        best = -1
        for o in range(cost.shape[0]):
            if cost[o] == 0 and (best < 0 or o % modulus < best % modulus):
                best = o
        offsets[job] = best
        put_job(state, job, best, ADD)
    return end
