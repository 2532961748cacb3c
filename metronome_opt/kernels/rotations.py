"""The best rotations of the jobs of one link, out of a few given ones each, by branch and bound.

The bound is the supermodular one: what is placed, plus the least that every other job would add to
it alone. The job that would add most is placed next, its rotations are tried cheapest first and,
among equally cheap ones, least first. The search can be left and resumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metronome_opt.kernels.compiling import inner, kernel
from metronome_opt.kernels.jobs import put_job, scored
from metronome_opt.kernels.tables import Ints, State

_DEPTH, _NODES, _DONE, _INCUMBENT = range(4)
_NO_INCUMBENT = 2**62  # as its value, above all others
_UNSEEN = -1


class Rotations(NamedTuple):
    """Where the search stands: at a node of some depth d, where ``job[:d]`` are placed."""

    counters: Ints  # depth, nodes expanded, whether it is done, scaled value of the incumbent
    allowed: Ints  # the rotations of each job, ascending, in slots, shape (jobs, most)
    number: Ints  # how many each job has
    # Per depth, the least number of slots by which everything can be rotated such that what is
    # placed stays where it is and what is not keeps its rotations.
    turn: Ints
    job: Ints  # per depth, what is placed there
    offset: Ints  # and where
    base: Ints  # scaled cost of what is placed above
    rest: Ints  # bound of what is placed neither above nor there
    choice: Ints  # per depth, the rotations to try, cheapest first
    added: Ints  # what they add
    choices: Ints  # how many there are
    following: Ints  # which comes next; -1 before they are known
    open: Ints  # per job, whether it is to be placed
    best: Ints  # offset per job of the incumbent, which the first nodes find, one more than jobs


def start_rotations(
    allowed: Sequence[Sequence[int]], offsets: Sequence[int], turn: int
) -> Rotations:
    """Return a search that has not begun.

    Parameters
    ----------
    allowed
        The rotations of each job, ascending; none for a job that is not to be placed.
    offsets
        Where the jobs that are not to be placed stand; the others' are not looked at.
    turn
        A number of slots by which all free jobs can be rotated such that the rotations stay those
        that are allowed and nothing changes for the jobs that do not move.
    """
    jobs = len(allowed)
    most = max(1, *(len(each) for each in allowed))
    table = np.zeros((jobs, most), dtype=np.int64)
    for index, each in enumerate(allowed):
        table[index, : len(each)] = each
    number = np.array([len(each) for each in allowed], dtype=np.int64)
    depths = jobs + 1
    return Rotations(
        counters=np.array([0, 0, 0, _NO_INCUMBENT], dtype=np.int64),
        allowed=table,
        number=number,
        turn=np.full(depths, turn, dtype=np.int64),
        job=np.full(depths, -1, dtype=np.int64),
        offset=np.zeros(depths, dtype=np.int64),
        base=np.zeros(depths, dtype=np.int64),
        rest=np.zeros(depths, dtype=np.int64),
        choice=np.zeros((depths, most), dtype=np.int64),
        added=np.zeros((depths, most), dtype=np.int64),
        choices=np.zeros(depths, dtype=np.int64),
        following=np.full(depths, _UNSEEN, dtype=np.int64),
        open=(number > 0).astype(np.int64),
        best=np.array(offsets, dtype=np.int64),
    )


def is_done(search: Rotations) -> bool:
    """Return whether the incumbent is proved to be the best."""
    return bool(search.counters[_DONE])


@kernel
def rotate(state: State, search: Rotations, budget: int) -> None:
    """Expand up to `budget` nodes, or until the search is done.

    Parameters
    ----------
    state
        In and out: the jobs that are not to be placed, and what is placed.
    """
    counters = search.counters
    target = counters[_NODES] + budget
    while counters[_DONE] == 0 and counters[_NODES] < target:
        depth = counters[_DEPTH]
        if search.following[depth] == _UNSEEN:
            counters[_NODES] += 1
            _expand(state, search)
            continue
        entry = search.following[depth]
        if entry < search.choices[depth]:
            value = search.base[depth] + search.added[depth, entry]
            # Sorted by cost: where one cannot be better than the incumbent, those after it cannot.
            if value + search.rest[depth] < counters[_INCUMBENT]:
                search.following[depth] = entry + 1
                _go_down(state, search, search.choice[depth, entry], value)
                continue
        _go_up(state, search)


@inner
def _go_down(state: State, search: Rotations, offset: int, value: int) -> None:
    depth = search.counters[_DEPTH]
    job = search.job[depth]
    put_job(state, job, offset, 1)
    search.open[job] = 0
    search.offset[depth] = offset
    search.turn[depth + 1] = np.lcm(search.turn[depth], state.tables.jobs[job]["period"])
    search.base[depth + 1] = value
    search.following[depth + 1] = _UNSEEN
    search.counters[_DEPTH] = depth + 1


@inner
def _go_up(state: State, search: Rotations) -> None:
    depth = search.counters[_DEPTH]
    if depth == 0:
        search.counters[_DONE] = 1
        return
    job = search.job[depth - 1]
    put_job(state, job, search.offset[depth - 1], -1)
    search.open[job] = 1
    search.counters[_DEPTH] = depth - 1


@inner
def _expand(state: State, search: Rotations) -> None:
    """Bound a node and make its choices: none if it cannot be better than the incumbent."""
    depth = search.counters[_DEPTH]
    added = search.added[depth]
    total = search.base[depth]
    search.following[depth] = 0
    search.choices[depth] = 0
    chosen, most = -1, np.int64(-1)
    for job in range(search.open.shape[0]):
        if search.open[job] == 0:
            continue
        cost, _ = scored(state, job)
        rotations = _different(search, depth, job, cost.shape[0])
        least = cost[rotations[0]]
        for offset in rotations:
            least = min(least, cost[offset])
        total += least
        if total >= search.counters[_INCUMBENT]:
            return
        if least > most:
            chosen, most = job, least
            for entry in range(rotations.shape[0]):
                added[entry] = cost[rotations[entry]]
    if chosen < 0:
        search.counters[_INCUMBENT] = search.base[depth]
        for above in range(depth):
            search.best[search.job[above]] = search.offset[above]
        return
    rotations = _different(search, depth, chosen, state.tables.jobs[chosen]["period"])
    ranked = np.argsort(added[: rotations.shape[0]], kind="mergesort")
    search.choice[depth, : ranked.shape[0]] = rotations[ranked]
    added[: ranked.shape[0]] = added[ranked]
    search.choices[depth] = ranked.shape[0]
    search.rest[depth] = total - search.base[depth] - most
    search.job[depth] = chosen


@inner
def _different(search: Rotations, depth: int, job: int, period: int) -> Ints:
    """Return the rotations of a job of which none leads to another by rotating everything."""
    domain = np.gcd(search.turn[depth], period)
    count = np.searchsorted(search.allowed[job, : search.number[job]], domain)
    return search.allowed[job, :count]
