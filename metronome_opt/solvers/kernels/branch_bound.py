"""Depth-first branch and bound on a `Tree`, within a budget of nodes.

The children of a node are either all offsets of one job, or contacts (see `contacts`): some job
that is not placed abuts on one that is. For these the jobs are ranked, and a child that places a
job says that no job of lower rank abuts on anything placed so far. Such a job may abut only on what
is placed later, and the offsets at which it would abut on what is placed now are closed to it.

Of all these ways the one is taken whose subtrees promise to be smallest: a subtree shrinks
exponentially with the share of the gap that its bound has closed, as foreseen and, by pseudocosts,
beyond: to `exp(-sharpness)` if the whole gap is closed.

Interchangeable jobs, alike in everything, could change places: only the first that is not placed is
branched on, they share a rank, and what an earlier child has tried for the one is closed to the
others.

For a partial assignment P the contention K(P) plus, for every job that is not placed, the minimum
that it would add to P alone is a lower bound: unserved bandwidth is convex and increasing in
demand, so what a job adds never falls as others are placed (supermodularity).
"""

from __future__ import annotations

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.arrays import copy_entries, sort_stably
from metronome_opt.solvers.kernels.compiled_instance import DemandState, Ints
from metronome_opt.solvers.kernels.contacts import Contacts
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, put_job, score_use
from metronome_opt.solvers.kernels.tree import (
    ABUTS,
    CLOSED,
    NONE,
    TO_EXPAND,
    Marks,
    Tree,
    TreeSearch,
)

# ------------------------------------------------------------------ the bound of a node


@inner
def _add_up(search: TreeSearch, at: Ints, minimum: Ints) -> int:
    """Return the supermodular bound; `NONE` if some job has nowhere to go.

    `at` and `minimum` become, per job that is not placed, its cheapest offset and what it adds
    there. They are complete only if the bound is below the incumbent.
    """
    tree = search.tree
    total: int = tree.depths[tree.counters[0]["depth"]]["added"]
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] >= 0:
            continue
        domain = _domain_of(search, job)
        tree.jobs[job]["alone"] = _is_alone(tree, job)
        _mark(search, job, domain)
        _sum_uses(search, job, domain)
        at[job], minimum[job] = _cheapest(tree.cost[job], tree.mark[job], domain)
        if at[job] < 0:
            return NONE
        total += minimum[job]
        if total >= tree.counters[0]["incumbent"]:
            break
    return total


@inner
def _domain_of(search: TreeSearch, job: int) -> int:
    """Return how many offsets of a job are not alike.

    Rotating everything by the common multiple of the placed periods leaves what is placed where it
    is, so offsets that differ by its common divisor with the job's own period are alike.
    """
    tree = search.tree
    depth = tree.counters[0]["depth"]
    if tree.touched[depth, search.contacts.component[job]] == 0:
        return 1  # nothing it could abut on is placed: where it is does not matter
    domain: int = np.gcd(tree.depths[depth]["rotation"], search.state.tables.jobs[job]["period"])
    return domain


@inner
def _is_alone(tree: Tree, job: int) -> bool:
    """Return whether all that a job shares links with is placed: then its best offset is known."""
    for other in tree.sharing[tree.jobs[job]["first_sharing"] : tree.jobs[job]["end_sharing"]]:
        if tree.jobs[other]["position"] < 0:
            return False
    return True


@inner
def _mark(search: TreeSearch, job: int, domain: int) -> None:
    """Mark the offsets at which a job abuts on placed ones, and those that are closed to it."""
    tree, contacts = search.tree, search.contacts
    mark = tree.mark[job]
    mark[:domain] = 0
    if tree.jobs[job]["alone"]:
        return
    since = tree.since[tree.counters[0]["depth"], job]
    for entry in range(contacts.ptr[job], contacts.ptr[job + 1]):
        number = tree.jobs[contacts.other[entry]]["position"]
        if number < 0:
            continue
        modulus = contacts.modulus[entry]
        for d in range(contacts.difference_ptr[entry], contacts.difference_ptr[entry + 1]):
            first = (tree.placed[number]["offset"] + contacts.difference[d]) % modulus
            for o in range(first, domain, modulus):
                if number < since:
                    mark[o] = CLOSED
                elif mark[o] != CLOSED:
                    mark[o] = ABUTS
    _close_to_alike(tree, job, domain, search.state.tables.jobs[job]["period"])


@inner
def _close_to_alike(tree: Tree, job: int, domain: int, period: int) -> None:
    """Close offsets that were tried for a placed job that is alike: they could change places.

    What was tried is meant up to rotations that leave in place what was placed by then.
    """
    fixed = tree.counters[0]["fixed"]
    alike = tree.jobs[job]["alike"]
    while alike >= 0:
        depth = tree.jobs[alike]["position"] - fixed
        if depth >= 0:
            modulus = np.gcd(tree.depths[depth]["rotation"], period)
            for child in range(tree.depths[depth]["following"] - 1):
                if tree.child_job[depth, child] == alike:
                    for o in range(tree.child_offset[depth, child], domain, modulus):
                        tree.mark[job, o] = CLOSED
        alike = tree.jobs[alike]["alike"]


@inner
def _sum_uses(search: TreeSearch, job: int, domain: int) -> None:
    """Add up what a job adds to its links."""
    tree, tables = search.tree, search.state.tables
    cost = tree.cost[job]
    cost[:domain] = 0
    for use in range(tables.jobs[job]["first_use"], tables.jobs[job]["end_use"]):
        vector = tree.vector[tree.where[tree.counters[0]["depth"], use]]
        for o in range(domain):
            cost[o] += vector[o]


@inner
def _cheapest(cost: Ints, mark: Marks, domain: int) -> tuple[int, int]:
    """Return the cheapest offset that is not closed and its cost; -1 if all are closed."""
    at = -1
    minimum: int = NONE
    for o in range(domain):
        if mark[o] != CLOSED and cost[o] < minimum:
            at, minimum = o, cost[o]
    return at, minimum


# ------------------------------------------------------------------ children


@inner
def _branch(search: TreeSearch, total: int, minimum: Ints) -> None:
    """Make the children of a node that its bound does not end.

    `minimum` is what each job adds to the bound of the node, `total`.
    """
    tree, contacts = search.tree, search.contacts
    depth = tree.counters[0]["depth"]
    jobs = tree.jobs.shape[0]
    tree.depths[depth]["bound"] = total
    goes_on = _goes_on(contacts, tree)
    abutting = tree.abutting
    abutting[:] = 0
    contact_size = 0.0
    narrow, narrow_size = -1, np.inf
    for job in range(jobs):
        if not _is_candidate(contacts, tree, job, goes_on):
            continue
        domain = _domain_of(search, job)
        _bound_offsets(tree, job, domain, total - minimum[job])
        size, abutting_size, abutting[job] = _sizes(tree, job, domain)
        contact_size += abutting_size
        if narrow < 0 or size < narrow_size:
            narrow, narrow_size = job, size
    tree.rank[depth] = 0
    tree.depths[depth]["children"] = 0
    fits = abutting.sum() <= tree.child_job.shape[1]
    if goes_on and fits and contact_size < narrow_size:
        sort_stably(abutting, jobs, tree.order, tree.spare)
        for rank in range(jobs):
            tree.rank[depth, tree.order[rank]] = rank
        for job in range(jobs):
            if _has_open_alike(tree, job):
                tree.rank[depth, job] = tree.rank[depth, tree.jobs[job]["alike"]]
        for job in range(jobs):
            if abutting[job] > 0:
                _add_children(tree, job, _domain_of(search, job), True)
    else:
        _add_children(tree, narrow, _domain_of(search, narrow), False)
    _sort_children(tree)


@inner
def _goes_on(contacts: Contacts, tree: Tree) -> bool:
    """Return whether some job is left that could abut on placed ones, now or later."""
    left = False
    for job in range(tree.jobs.shape[0]):
        left |= _is_candidate(contacts, tree, job, True)
    return left


@inner
def _is_candidate(contacts: Contacts, tree: Tree, job: int, goes_on: bool) -> bool:
    """Return whether a job can be branched on: while one component goes on, no other begins."""
    if tree.jobs[job]["position"] >= 0 or tree.jobs[job]["alone"] or _has_open_alike(tree, job):
        return False
    begun: bool = tree.touched[tree.counters[0]["depth"], contacts.component[job]] > 0
    return begun or not goes_on


@inner
def _has_open_alike(tree: Tree, job: int) -> bool:
    """Return whether an interchangeable job before it is not placed either."""
    alike = tree.jobs[job]["alike"]
    open_alike: bool = alike >= 0 and tree.jobs[alike]["position"] < 0
    return open_alike


@inner
def _bound_offsets(tree: Tree, job: int, domain: int, rest: int) -> None:
    """Turn what a job adds at each offset into the bound of the child that places it there."""
    for o in range(domain):
        closed = tree.mark[job, o] == CLOSED
        tree.cost[job, o] = NONE if closed else rest + tree.cost[job, o]


@inner
def _sizes(tree: Tree, job: int, domain: int) -> tuple[float, float, int]:
    """Return the expected size of the subtrees of a job's offsets, of its contacts, their count."""
    limit = tree.counters[0]["incumbent"]
    bound = tree.depths[tree.counters[0]["depth"]]["bound"]
    sharpness = tree.counters[0]["sharpness"]
    pseudocosts = tree.pseudocosts.gain[job] / tree.pseudocosts.tries[job]
    size, abutting_size, abutting = 0.0, 0.0, 0
    for o in range(domain):
        if tree.cost[job, o] < limit:
            closed = (tree.cost[job, o] - bound) / (limit - bound) + pseudocosts
            below = np.exp(-sharpness * closed)
            size += below
            if tree.mark[job, o] == ABUTS:
                abutting_size += below
                abutting += 1
    return size, abutting_size, abutting


@inner
def _add_children(tree: Tree, job: int, domain: int, contacts_only: bool) -> None:
    depth = tree.counters[0]["depth"]
    made = tree.depths[depth]["children"]
    limit = tree.counters[0]["incumbent"]
    for o in range(domain):
        if tree.cost[job, o] >= limit:
            continue
        if contacts_only and tree.mark[job, o] != ABUTS:
            continue
        tree.child_job[depth, made] = job
        tree.child_offset[depth, made] = o
        tree.child_bound[depth, made] = tree.cost[job, o]
        made += 1
    tree.depths[depth]["children"] = made


@inner
def _sort_children(tree: Tree) -> None:
    depth = tree.counters[0]["depth"]
    made = tree.depths[depth]["children"]
    sort_stably(tree.child_bound[depth], made, tree.order, tree.spare)
    for row in (tree.child_bound[depth], tree.child_job[depth], tree.child_offset[depth]):
        for child in range(made):
            tree.spare[child] = row[tree.order[child]]
        for child in range(made):
            row[child] = tree.spare[child]


@kernel
def expand_tree(search: TreeSearch, budget: int) -> None:
    """Expand up to `budget` nodes, or until the tree is done."""
    tree = search.tree
    counters = tree.counters[0]
    target = counters["nodes"] + budget
    while counters["done"] == 0 and counters["nodes"] < target:
        depth = counters["depth"]
        child = tree.depths[depth]["following"]
        if child == TO_EXPAND:
            counters["nodes"] += 1
            tree.depths[depth]["following"] = 0
            tree.depths[depth]["children"] = 0
            bound = _expand(search)
            if depth > 0:
                _learn(tree, bound)
        elif (
            child < tree.depths[depth]["children"]
            and tree.child_bound[depth, child] < counters["incumbent"]
        ):
            tree.depths[depth]["following"] += 1
            _go_down(search, child)
        else:
            _go_up(search)


@inner
def _expand(search: TreeSearch) -> int:
    """Bound a node and make its children, none if it cannot be better; return its bound."""
    tree = search.tree
    at, minimum = tree.at, tree.minimum
    at[:] = 0
    minimum[:] = 0
    total = _add_up(search, at, minimum)
    if total >= tree.counters[0]["incumbent"]:
        return total
    if _is_decided(tree):
        _keep(tree, at, total)
        return total
    _branch(search, total, minimum)
    return total


@inner
def _is_decided(tree: Tree) -> bool:
    """Return whether no two of the jobs that are left share a link: each has its best offset."""
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] < 0 and not tree.jobs[job]["alone"]:
            return False
    return True


@inner
def _keep(tree: Tree, at: Ints, value: int) -> None:
    """Take what is placed, and the best offsets of the rest, for the new incumbent."""
    tree.counters[0]["incumbent"] = value
    for number in range(tree.counters[0]["fixed"] + tree.counters[0]["depth"]):
        tree.jobs[tree.placed[number]["job"]]["best"] = tree.placed[number]["offset"]
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] < 0:
            tree.jobs[job]["best"] = at[job]


@inner
def _learn(tree: Tree, bound: int) -> None:
    """Note how much of the gap above was closed beyond what was foreseen."""
    above = tree.counters[0]["depth"] - 1
    job = tree.placed[tree.counters[0]["fixed"] + above]["job"]
    foreseen = tree.child_bound[above, tree.depths[above]["following"] - 1]
    gap = max(1, tree.counters[0]["incumbent"] - tree.depths[above]["bound"])
    gained = (min(bound, tree.counters[0]["incumbent"]) - foreseen) / gap
    tree.pseudocosts.gain[job] += min(1.0, max(0.0, gained))
    tree.pseudocosts.tries[job] += 1.0


@inner
def _go_down(search: TreeSearch, child: int) -> None:
    """Place the job of a child, and see what the others now add."""
    tables, tree = search.state.tables, search.tree
    depth = tree.counters[0]["depth"]
    below = depth + 1
    number = tree.counters[0]["fixed"] + depth
    job, offset = tree.child_job[depth, child], tree.child_offset[depth, child]
    tree.counters[0]["depth"] = below
    above, here = tree.depths[depth], tree.depths[below]
    here["following"] = TO_EXPAND
    here["rotation"] = np.lcm(above["rotation"], tables.jobs[job]["period"])
    here["top"] = above["top"]
    tree.placed[number]["job"], tree.placed[number]["offset"] = job, offset
    tree.jobs[job]["position"] = number
    copy_entries(tree.touched[depth], tree.touched[below])
    tree.touched[below, search.contacts.component[job]] += 1
    here["added"] = above["added"]
    for use in range(tables.jobs[job]["first_use"], tables.jobs[job]["end_use"]):
        here["added"] += tree.vector[tree.where[depth, use], offset]
    put_job(search.state, job, offset, ADD)
    copy_entries(tree.where[depth], tree.where[below])
    for other in range(tree.jobs.shape[0]):
        tree.since[below, other] = tree.since[depth, other]
        if tree.jobs[other]["position"] < 0:
            if tree.rank[depth, other] < tree.rank[depth, job]:
                tree.since[below, other] = number
            _score_again(search.state, tree, job, other)


@inner
def _score_again(state: DemandState, tree: Tree, placed: int, job: int) -> None:
    """Compute what a job adds to the links on which another has just been placed."""
    jobs, uses = state.tables.jobs, state.tables.uses
    depth = tree.counters[0]["depth"]
    for use in range(jobs[job]["first_use"], jobs[job]["end_use"]):
        for theirs in range(jobs[placed]["first_use"], jobs[placed]["end_use"]):
            if uses[theirs]["link"] == uses[use]["link"]:
                top = tree.depths[depth]["top"]
                score_use(state, job, use, tree.vector[top, : jobs[job]["period"]])
                tree.where[depth, use] = top
                tree.depths[depth]["top"] = top + 1


@inner
def _go_up(search: TreeSearch) -> None:
    tree = search.tree
    depth = tree.counters[0]["depth"]
    if depth == 0:
        tree.counters[0]["done"] = 1
        return
    last = tree.placed[tree.counters[0]["fixed"] + depth - 1]
    put_job(search.state, last["job"], last["offset"], REMOVE)
    tree.jobs[last["job"]]["position"] = -1
    tree.counters[0]["depth"] = depth - 1
