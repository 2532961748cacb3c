"""The children of a node.

Either all offsets of one job, or contacts (see `contacts`): some job that is not placed abuts on
one that is. For these the jobs are ranked, and a child that places a job says that no job of lower
rank abuts on anything placed so far. Such a job may abut only on what is placed later, and the
offsets at which it would abut on what is placed now are closed to it.

Of all these ways the one is taken whose subtrees promise to be smallest: a subtree shrinks
exponentially with the share of the gap that its bound has closed, as foreseen and, by experience,
beyond: to `exp(-sharpness)` if the whole gap is closed.

Twins, jobs that are alike in everything, could change places: only the first that is not placed is
branched on, they share a rank, and what an earlier child has tried for the one is closed to the
others (`bounding` sees to that).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from metronome_opt.kernels.bounding import domain_of
from metronome_opt.kernels.contacts import Contacts
from metronome_opt.kernels.tables import Ints, Tables
from metronome_opt.kernels.tree import ABUTS, CLOSED, DEPTH, INCUMBENT, NONE, Tree


@njit(cache=True, nogil=True)
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
            if _has_open_twin(tree, job):
                tree.rank[depth, job] = tree.rank[depth, tree.twin[job]]
        for job in range(jobs):
            if abutting[job] > 0:
                _add_children(tree, job, domain_of(tables, contacts, tree, job), True)
    else:
        _add_children(tree, narrow, domain_of(tables, contacts, tree, narrow), False)
    _sort_children(tree)


@njit(cache=True, nogil=True)
def _goes_on(contacts: Contacts, tree: Tree) -> bool:
    """Return whether some job is left that could abut on placed ones, now or later."""
    left = False
    for job in range(tree.position.shape[0]):
        left |= _is_candidate(contacts, tree, job, True)
    return left


@njit(cache=True, nogil=True)
def _is_candidate(contacts: Contacts, tree: Tree, job: int, goes_on: bool) -> bool:
    """Return whether a job can be branched on: while one component goes on, no other begins."""
    if tree.position[job] >= 0 or tree.alone[job] or _has_open_twin(tree, job):
        return False
    begun: bool = tree.touched[tree.counters[DEPTH], contacts.component[job]] > 0
    return begun or not goes_on


@njit(cache=True, nogil=True)
def _has_open_twin(tree: Tree, job: int) -> bool:
    """Return whether a twin before the job is not placed either."""
    twin = tree.twin[job]
    open_twin: bool = twin >= 0 and tree.position[twin] < 0
    return open_twin


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _sizes(tree: Tree, job: int, domain: int) -> tuple[float, float, int]:
    """Return the expected size of the subtrees of a job's offsets, of its contacts, their count."""
    limit = tree.counters[INCUMBENT]
    bound = tree.bound[tree.counters[DEPTH]]
    experience = tree.experience.gain[job] / tree.experience.tries[job]
    size, abutting_size, abutting = 0.0, 0.0, 0
    for o in range(domain):
        if tree.cost[job, o] < limit:
            closed = (tree.cost[job, o] - bound) / (limit - bound) + experience
            below = np.exp(-tree.sharpness[0] * closed)
            size += below
            if tree.mark[job, o] == ABUTS:
                abutting_size += below
                abutting += 1
    return size, abutting_size, abutting


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _sort_children(tree: Tree) -> None:
    depth = tree.counters[DEPTH]
    made = tree.children[depth]
    order = np.argsort(tree.child_bound[depth, :made], kind="mergesort")
    tree.child_bound[depth, :made] = tree.child_bound[depth, :made][order]
    tree.child_job[depth, :made] = tree.child_job[depth, :made][order]
    tree.child_offset[depth, :made] = tree.child_offset[depth, :made][order]
