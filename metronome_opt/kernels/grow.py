"""Depth-first branch and bound: go through a `Tree`, as far as a budget of nodes allows."""

from __future__ import annotations

import numpy as np
from numba import njit

from metronome_opt.kernels.bounding import add_up, bound_links, take_out
from metronome_opt.kernels.branching import branch
from metronome_opt.kernels.conditional import Users, score_use
from metronome_opt.kernels.contacts import Contacts
from metronome_opt.kernels.jobs import put_job
from metronome_opt.kernels.tables import Ints, Tables
from metronome_opt.kernels.tree import (
    DEPTH,
    DONE,
    GROUND,
    INCUMBENT,
    NODES,
    TO_EXPAND,
    Groups,
    Tree,
)


@njit(cache=True, nogil=True)
def grow(
    tables: Tables,
    contacts: Contacts,
    users: Users,
    groups: Groups,
    demand: Ints,
    tree: Tree,
    work: Ints,
    budget: int,
) -> None:
    """Expand up to `budget` nodes, or until the tree is done.

    Parameters
    ----------
    demand
        In and out: the layered demand of what is placed.
    work
        Scratch, shape (5 T,) or longer for the longest period T.
    """
    counters = tree.counters
    target = counters[NODES] + budget
    while counters[DONE] == 0 and counters[NODES] < target:
        depth = counters[DEPTH]
        child = tree.following[depth]
        if child == TO_EXPAND:
            counters[NODES] += 1
            tree.following[depth] = 0
            tree.children[depth] = 0
            bound = _expand(tables, contacts, users, groups, demand, tree, work)
            if depth > 0:
                _learn(tree, bound)
        elif child < tree.children[depth] and tree.child_bound[depth, child] < counters[INCUMBENT]:
            tree.following[depth] += 1
            _go_down(tables, contacts, demand, tree, child, work)
        else:
            _go_up(tables, demand, tree)


@njit(cache=True, nogil=True)
def _expand(
    tables: Tables,
    contacts: Contacts,
    users: Users,
    groups: Groups,
    demand: Ints,
    tree: Tree,
    work: Ints,
) -> int:
    """Bound a node and make its children, none if it cannot be better; return its bound."""
    jobs = tree.position.shape[0]
    at, least = np.zeros(jobs, np.int64), np.zeros(jobs, np.int64)
    total = add_up(tables, contacts, tree, at, least)
    if total >= tree.counters[INCUMBENT]:
        return total
    if _is_decided(tree):
        _keep(tree, at, total)
        return total
    bound_links(tables, contacts, users, demand, tree, work)
    reduced_least = np.zeros(jobs, np.int64)
    reduced_total = take_out(tables, contacts, groups, tree, at, total, reduced_least)
    if reduced_total < tree.counters[INCUMBENT]:
        branch(tables, contacts, tree, total, least, reduced_total, reduced_least)
    return max(total, reduced_total)


@njit(cache=True, nogil=True)
def _is_decided(tree: Tree) -> bool:
    """Return whether no two of the jobs that are left share a link: each has its best offset."""
    for job in range(tree.position.shape[0]):
        if tree.position[job] < 0 and not tree.alone[job]:
            return False
    return True


@njit(cache=True, nogil=True)
def _keep(tree: Tree, at: Ints, value: int) -> None:
    """Take what is placed, and the best offsets of the rest, for the new incumbent."""
    tree.counters[INCUMBENT] = value
    for number in range(tree.counters[GROUND] + tree.counters[DEPTH]):
        tree.best[tree.placed[number]] = tree.offset[number]
    for job in range(tree.position.shape[0]):
        if tree.position[job] < 0:
            tree.best[job] = at[job]


@njit(cache=True, nogil=True)
def _learn(tree: Tree, bound: int) -> None:
    """Note how much of the gap above was closed beyond what was foreseen."""
    above = tree.counters[DEPTH] - 1
    job = tree.placed[tree.counters[GROUND] + above]
    foreseen = tree.child_bound[above, tree.following[above] - 1]
    gap = max(1, tree.counters[INCUMBENT] - tree.bound[above])
    gained = (min(bound, tree.counters[INCUMBENT]) - foreseen) / gap
    tree.experience.gain[job] += min(1.0, max(0.0, gained))
    tree.experience.tries[job] += 1.0


@njit(cache=True, nogil=True)
def _go_down(
    tables: Tables, contacts: Contacts, demand: Ints, tree: Tree, child: int, work: Ints
) -> None:
    """Place the job of a child, and see what the others now add."""
    depth = tree.counters[DEPTH]
    below = depth + 1
    number = tree.counters[GROUND] + depth
    job, offset = tree.child_job[depth, child], tree.child_offset[depth, child]
    tree.counters[DEPTH] = below
    tree.following[below] = TO_EXPAND
    tree.placed[number], tree.offset[number] = job, offset
    tree.position[job] = number
    tree.turn[below] = np.lcm(tree.turn[depth], tables.period[job])
    tree.touched[below] = tree.touched[depth]
    tree.touched[below, contacts.component[job]] += 1
    tree.base[below] = tree.base[depth]
    for use in range(tables.use_ptr[job], tables.use_ptr[job + 1]):
        tree.base[below, tables.use_link[use]] += tree.vector[tree.where[depth, use], offset]
    put_job(tables, demand, job, offset, 1)
    tree.where[below] = tree.where[depth]
    tree.top[below] = tree.top[depth]
    for other in range(tree.position.shape[0]):
        tree.since[below, other] = tree.since[depth, other]
        if tree.position[other] < 0:
            if tree.rank[depth, other] < tree.rank[depth, job]:
                tree.since[below, other] = number
            _score_again(tables, demand, tree, job, other, work)


@njit(cache=True, nogil=True)
def _score_again(
    tables: Tables, demand: Ints, tree: Tree, placed: int, job: int, work: Ints
) -> None:
    """Compute what a job adds to the links on which another has just been placed."""
    depth = tree.counters[DEPTH]
    for use in range(tables.use_ptr[job], tables.use_ptr[job + 1]):
        for theirs in range(tables.use_ptr[placed], tables.use_ptr[placed + 1]):
            if tables.use_link[theirs] == tables.use_link[use]:
                top = tree.top[depth]
                row = tree.vector[top, : tables.period[job]]
                score_use(tables, demand, job, use, row, work)
                tree.where[depth, use] = top
                tree.top[depth] = top + 1


@njit(cache=True, nogil=True)
def _go_up(tables: Tables, demand: Ints, tree: Tree) -> None:
    depth = tree.counters[DEPTH]
    if depth == 0:
        tree.counters[DONE] = 1
        return
    number = tree.counters[GROUND] + depth - 1
    job = tree.placed[number]
    put_job(tables, demand, job, tree.offset[number], -1)
    tree.position[job] = -1
    tree.counters[DEPTH] = depth - 1
