"""Depth-first branch and bound: go through a `Tree`, as far as a budget of nodes allows.

The children of a node are either all offsets of one job, or contacts (see `conditional`): some job
that is not placed abuts on one that is. For these the jobs are ranked, and a child that places a
job says that no job of lower rank abuts on anything placed so far. Such a job may abut only on what
is placed later, and the offsets at which it would abut on what is placed now are closed to it.

Of all these ways the one is taken whose subtrees promise to be smallest: a subtree shrinks
exponentially with the share of the gap that its bound has closed, as foreseen and, by pseudocosts,
beyond: to `exp(-sharpness)` if the whole gap is closed.

Interchangeable jobs, alike in everything, could change places: only the first that is not placed is
branched on, they share a rank, and what an earlier child has tried for the one is closed to the
others (`bounding` sees to that).
"""

from __future__ import annotations

import numpy as np

from metronome_opt.kernels.bounding import add_up, bound_links, domain_of, take_out
from metronome_opt.kernels.compiling import inner, kernel
from metronome_opt.kernels.conditional import Contacts, Users
from metronome_opt.kernels.jobs import put_job, score_use
from metronome_opt.kernels.tables import Ints, Tables
from metronome_opt.kernels.tree import (
    ABUTS,
    CLOSED,
    DEPTH,
    DONE,
    FIXED,
    INCUMBENT,
    NODES,
    NONE,
    TO_EXPAND,
    Groups,
    Tree,
)


@inner
def branch(
    tables: Tables,
    contacts: Contacts,
    tree: Tree,
    total: int,
    least: Ints,
    reduced_total: int,
    reduced_least: Ints,
) -> None:
    """Make the children of a node that its bound does not end.

    Parameters
    ----------
    total, least
        Lower bound of the node, and what each job adds to it.
    reduced_total, reduced_least
        The same without what is taken out; -1 if nothing is.
    """
    depth = tree.counters[DEPTH]
    jobs = tree.position.shape[0]
    tree.bound[depth] = max(total, reduced_total)
    goes_on = _goes_on(contacts, tree)
    abutting = np.zeros(jobs, np.int64)
    contact_size = 0.0
    narrow, narrow_size = -1, np.inf
    for job in range(jobs):
        if not _is_candidate(contacts, tree, job, goes_on):
            continue
        domain = domain_of(tables, contacts, tree, job)
        _bound_offsets(
            tree,
            job,
            domain,
            total - least[job],
            reduced_total - reduced_least[job],
            reduced_total >= 0,
        )
        size, abutting_size, abutting[job] = _sizes(tree, job, domain)
        contact_size += abutting_size
        if narrow < 0 or size < narrow_size:
            narrow, narrow_size = job, size
    tree.rank[depth] = 0
    tree.children[depth] = 0
    fits = abutting.sum() <= tree.child_job.shape[1]
    if goes_on and fits and contact_size < narrow_size:
        ranked = np.argsort(abutting, kind="mergesort")
        for rank in range(jobs):
            tree.rank[depth, ranked[rank]] = rank
        for job in range(jobs):
            if _has_open_alike(tree, job):
                tree.rank[depth, job] = tree.rank[depth, tree.alike[job]]
        for job in range(jobs):
            if abutting[job] > 0:
                _add_children(tree, job, domain_of(tables, contacts, tree, job), True)
    else:
        _add_children(tree, narrow, domain_of(tables, contacts, tree, narrow), False)
    _sort_children(tree)


@inner
def _goes_on(contacts: Contacts, tree: Tree) -> bool:
    """Return whether some job is left that could abut on placed ones, now or later."""
    left = False
    for job in range(tree.position.shape[0]):
        left |= _is_candidate(contacts, tree, job, True)
    return left


@inner
def _is_candidate(contacts: Contacts, tree: Tree, job: int, goes_on: bool) -> bool:
    """Return whether a job can be branched on: while one component goes on, no other begins."""
    if tree.position[job] >= 0 or tree.alone[job] or _has_open_alike(tree, job):
        return False
    begun: bool = tree.touched[tree.counters[DEPTH], contacts.component[job]] > 0
    return begun or not goes_on


@inner
def _has_open_alike(tree: Tree, job: int) -> bool:
    """Return whether an interchangeable job before it is not placed either."""
    alike = tree.alike[job]
    open_alike: bool = alike >= 0 and tree.position[alike] < 0
    return open_alike


@inner
def _bound_offsets(
    tree: Tree, job: int, domain: int, rest: int, reduced_rest: int, reduced: bool
) -> None:
    """Turn what a job adds at each offset into the bound of the child that places it there."""
    for o in range(domain):
        if tree.mark[job, o] == CLOSED:
            tree.cost[job, o] = NONE
            continue
        bound = rest + tree.cost[job, o]
        if reduced:
            bound = max(bound, reduced_rest + tree.reduced[job, o])
        tree.cost[job, o] = bound


@inner
def _sizes(tree: Tree, job: int, domain: int) -> tuple[float, float, int]:
    """Return the expected size of the subtrees of a job's offsets, of its contacts, their count."""
    limit = tree.counters[INCUMBENT]
    bound = tree.bound[tree.counters[DEPTH]]
    pseudocosts = tree.pseudocosts.gain[job] / tree.pseudocosts.tries[job]
    size, abutting_size, abutting = 0.0, 0.0, 0
    for o in range(domain):
        if tree.cost[job, o] < limit:
            closed = (tree.cost[job, o] - bound) / (limit - bound) + pseudocosts
            below = np.exp(-tree.sharpness[0] * closed)
            size += below
            if tree.mark[job, o] == ABUTS:
                abutting_size += below
                abutting += 1
    return size, abutting_size, abutting


@inner
def _add_children(tree: Tree, job: int, domain: int, contacts_only: bool) -> None:
    depth = tree.counters[DEPTH]
    made = tree.children[depth]
    for o in range(domain):
        if tree.cost[job, o] >= tree.counters[INCUMBENT]:
            continue
        if contacts_only and tree.mark[job, o] != ABUTS:
            continue
        tree.child_job[depth, made] = job
        tree.child_offset[depth, made] = o
        tree.child_bound[depth, made] = tree.cost[job, o]
        made += 1
    tree.children[depth] = made


@inner
def _sort_children(tree: Tree) -> None:
    depth = tree.counters[DEPTH]
    made = tree.children[depth]
    order = np.argsort(tree.child_bound[depth, :made], kind="mergesort")
    tree.child_bound[depth, :made] = tree.child_bound[depth, :made][order]
    tree.child_job[depth, :made] = tree.child_job[depth, :made][order]
    tree.child_offset[depth, :made] = tree.child_offset[depth, :made][order]


@kernel
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


@inner
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


@inner
def _is_decided(tree: Tree) -> bool:
    """Return whether no two of the jobs that are left share a link: each has its best offset."""
    for job in range(tree.position.shape[0]):
        if tree.position[job] < 0 and not tree.alone[job]:
            return False
    return True


@inner
def _keep(tree: Tree, at: Ints, value: int) -> None:
    """Take what is placed, and the best offsets of the rest, for the new incumbent."""
    tree.counters[INCUMBENT] = value
    for number in range(tree.counters[FIXED] + tree.counters[DEPTH]):
        tree.best[tree.placed[number]] = tree.offset[number]
    for job in range(tree.position.shape[0]):
        if tree.position[job] < 0:
            tree.best[job] = at[job]


@inner
def _learn(tree: Tree, bound: int) -> None:
    """Note how much of the gap above was closed beyond what was foreseen."""
    above = tree.counters[DEPTH] - 1
    job = tree.placed[tree.counters[FIXED] + above]
    foreseen = tree.child_bound[above, tree.following[above] - 1]
    gap = max(1, tree.counters[INCUMBENT] - tree.bound[above])
    gained = (min(bound, tree.counters[INCUMBENT]) - foreseen) / gap
    tree.pseudocosts.gain[job] += min(1.0, max(0.0, gained))
    tree.pseudocosts.tries[job] += 1.0


@inner
def _go_down(
    tables: Tables, contacts: Contacts, demand: Ints, tree: Tree, child: int, work: Ints
) -> None:
    """Place the job of a child, and see what the others now add."""
    depth = tree.counters[DEPTH]
    below = depth + 1
    number = tree.counters[FIXED] + depth
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


@inner
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


@inner
def _go_up(tables: Tables, demand: Ints, tree: Tree) -> None:
    depth = tree.counters[DEPTH]
    if depth == 0:
        tree.counters[DONE] = 1
        return
    number = tree.counters[FIXED] + depth - 1
    job = tree.placed[number]
    put_job(tables, demand, job, tree.offset[number], -1)
    tree.position[job] = -1
    tree.counters[DEPTH] = depth - 1
