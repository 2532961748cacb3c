"""Depth-first branch and bound over the offsets of a block, in a form that can be left and resumed.

For a partial assignment P the contention K(P) plus, for every job that is not placed, the least it
would add to P alone is a lower bound: unserved bandwidth is convex and increasing in demand, so
what a job adds never falls as others are placed (supermodularity). One pass of the sliding window
gives all of these. The job that is branched on is the one that costs most at its best offset; its
offsets are tried cheapest first, and the first that reaches the incumbent ends them all.

Costs are scaled to the least common multiple of the block's hyperperiods: compile with
`common_scale`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metronome_opt.kernels.jobs import put_job, score_job
from metronome_opt.kernels.tables import Compiled, Ints, Tables

Bools = NDArray[np.bool_]
_DEPTH, _NODES, _DONE, _INCUMBENT = range(4)
_TO_EXPAND = -1


class Tree(NamedTuple):
    """Where the search stands: at a node of some depth d, where ``job[:d]`` are placed.

    Attributes
    ----------
    counters
        Depth, nodes expanded, whether the tree is done, value of the incumbent.
    job, offset
        What is placed, per depth.
    base
        Scaled contention of what is placed above, per depth.
    rest
        Per depth, the bound of the jobs that are neither placed above nor branched on there.
    choice, added
        Offsets to try and what they add, cheapest first, shape (jobs + 1, longest period).
    choices, following
        How many choices there are per depth, and which comes next; -1 before they are made.
    best
        Offset per job of the incumbent.
    open
        Per job, whether it is to be placed.
    order
        Per job, what decides between jobs whose best offsets cost the same: larger first.
    turn
        Per depth, the least common multiple of the periods placed above; 0 where a fixed job
        forbids rotating everything.
    """

    counters: Ints
    job: Ints
    offset: Ints
    base: Ints
    rest: Ints
    choice: Ints
    added: Ints
    choices: Ints
    following: Ints
    best: Ints
    open: Ints
    order: Ints
    turn: Ints


def start_tree(
    compiled: Compiled,
    offsets: Ints,
    value: int,
    placed: int,
    order: Ints,
    free: Bools | None = None,
) -> Tree:
    """Return the tree at its root.

    Parameters
    ----------
    offsets, value
        A complete schedule and its scaled contention: the incumbent.
    placed
        The scaled contention of the jobs that are not free, alone.
    order
        See `Tree`.
    free
        Per job, whether it is to be placed; None for all that are not fixed.
    """
    jobs = compiled.instance.jobs
    depths = len(jobs) + 1
    longest = max(job.period for job in jobs)
    if free is None:
        free = np.array([job.fixed_offset is None for job in jobs], dtype=np.bool_)
    tree = Tree(
        counters=np.array([0, 0, 0, value], dtype=np.int64),
        job=np.full(depths, -1, dtype=np.int64),
        offset=np.zeros(depths, dtype=np.int64),
        base=np.zeros(depths, dtype=np.int64),
        rest=np.zeros(depths, dtype=np.int64),
        choice=np.zeros((depths, longest), dtype=np.int64),
        added=np.zeros((depths, longest), dtype=np.int64),
        choices=np.zeros(depths, dtype=np.int64),
        following=np.full(depths, _TO_EXPAND, dtype=np.int64),
        best=np.array(offsets, dtype=np.int64),
        open=free.astype(np.int64),
        order=order,
        turn=np.zeros(depths, dtype=np.int64),
    )
    tree.base[0] = placed
    tree.turn[0] = 1 if free.all() else 0
    return tree


def is_done(tree: Tree) -> bool:
    """Return whether the incumbent is proved."""
    return bool(tree.counters[_DONE])


def incumbent(tree: Tree) -> int:
    """Return the scaled value of the incumbent."""
    return int(tree.counters[_INCUMBENT])


def dual_bound(tree: Tree) -> int:
    """Return a scaled lower bound of every schedule that has not been looked at, or is the best."""
    bound = incumbent(tree)
    if is_done(tree):
        return bound
    for depth in range(int(tree.counters[_DEPTH]) + 1):
        following = int(tree.following[depth])
        if following == _TO_EXPAND:
            above = depth - 1
            last = int(tree.following[above]) - 1 if depth else 0
            here = (
                int(tree.base[above] + tree.added[above, last] + tree.rest[above])
                if depth
                else int(tree.base[0])
            )
            bound = min(bound, here)
        elif following < tree.choices[depth]:
            next_cost = tree.base[depth] + tree.added[depth, following] + tree.rest[depth]
            bound = min(bound, int(next_cost))
    return bound


@njit(cache=True, nogil=True)
def grow(tables: Tables, demand: Ints, tree: Tree, work: Ints, budget: int) -> None:
    """Expand up to `budget` nodes, or until the tree is done.

    Parameters
    ----------
    demand
        In and out: the layered demand of the fixed jobs and of what the tree has placed.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    counters = tree.counters
    target = counters[_NODES] + budget
    while counters[_DONE] == 0 and counters[_NODES] < target:
        depth = counters[_DEPTH]
        if tree.following[depth] == _TO_EXPAND:
            counters[_NODES] += 1
            _expand(tables, demand, tree, work)
            continue
        entry = tree.following[depth]
        job = tree.job[depth]
        if entry < tree.choices[depth]:
            value = tree.base[depth] + tree.added[depth, entry]
            if value + tree.rest[depth] < counters[_INCUMBENT]:
                tree.following[depth] += 1
                tree.offset[depth] = tree.choice[depth, entry]
                put_job(tables, demand, job, tree.offset[depth], 1)
                tree.open[job] = 0
                counters[_DEPTH] = depth + 1
                tree.base[depth + 1] = value
                tree.following[depth + 1] = _TO_EXPAND
                if tree.turn[depth] > 0:
                    tree.turn[depth + 1] = _lcm(tree.turn[depth], tables.period[job])
                else:
                    tree.turn[depth + 1] = 0
                continue
        _go_up(tables, demand, tree)


@njit(cache=True, nogil=True)
def _go_up(tables: Tables, demand: Ints, tree: Tree) -> None:
    depth = tree.counters[_DEPTH]
    if depth == 0:
        tree.counters[_DONE] = 1
        return
    above = depth - 1
    job = tree.job[above]
    put_job(tables, demand, job, tree.offset[above], -1)
    tree.open[job] = 1
    tree.counters[_DEPTH] = above


@njit(cache=True, nogil=True)
def _expand(tables: Tables, demand: Ints, tree: Tree, work: Ints) -> None:
    """Bound a node; make its choices, or go back up if it cannot be better than the incumbent."""
    depth = tree.counters[_DEPTH]
    base = tree.base[depth]
    total = base
    chosen = -1
    most = np.int64(-1)
    for job in range(tree.open.shape[0]):
        if tree.open[job] == 0:
            continue
        cost, domain = _score(tables, demand, tree, job, work)
        least = cost[:domain].min()
        total += least
        if total >= tree.counters[_INCUMBENT]:
            tree.following[depth] = 0
            tree.choices[depth] = 0
            return
        if chosen < 0 or least > most or (least == most and tree.order[job] > tree.order[chosen]):
            chosen, most = job, least
    tree.following[depth] = 0
    tree.choices[depth] = 0
    if chosen < 0:
        tree.counters[_INCUMBENT] = base
        for above in range(depth):
            tree.best[tree.job[above]] = tree.offset[above]
        return
    cost, domain = _score(tables, demand, tree, chosen, work)
    tree.job[depth] = chosen
    tree.rest[depth] = total - base - most
    ranked = np.argsort(cost[:domain], kind="mergesort")
    for entry in range(domain):
        tree.choice[depth, entry] = ranked[entry]
        tree.added[depth, entry] = cost[ranked[entry]]
    tree.choices[depth] = domain


@njit(cache=True, nogil=True)
def _score(tables: Tables, demand: Ints, tree: Tree, job: int, work: Ints) -> tuple[Ints, int]:
    """Return what a job adds at its offsets, and how many of them have to be looked at.

    Rotating everything by the common multiple of the placed periods leaves what is placed where it
    is, so offsets that differ by its common divisor with the job's own period are alike.
    """
    period = tables.period[job]
    cost = work[:period]
    score_job(tables, demand, job, cost, work[period:])
    turn = tree.turn[tree.counters[_DEPTH]]
    return cost, _gcd(turn, period) if turn > 0 else period


@njit(cache=True, nogil=True)
def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@njit(cache=True, nogil=True)
def _lcm(a: int, b: int) -> int:
    return a // _gcd(a, b) * b
