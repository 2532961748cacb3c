"""Lower bound of a node: of all schedules with the placed jobs at their offsets.

For a partial assignment P the contention K(P) plus, for every job that is not placed, the minimum
that it would add to P alone is a lower bound: unserved bandwidth is convex and increasing in
demand, so what a job adds never falls as others are placed (supermodularity).
"""

from __future__ import annotations

import numpy as np

from metronome_opt.compiling import inner
from metronome_opt.solvers.kernels.compiled_instance import Ints
from metronome_opt.solvers.kernels.tree import ABUTS, CLOSED, NONE, Marks, Tree, TreeSearch


@inner
def add_up(search: TreeSearch, at: Ints, minimum: Ints) -> int:
    """Return the supermodular bound; `NONE` if some job has nowhere to go.

    `at` and `minimum` become, per job that is not placed, its cheapest offset and what it adds
    there. They are complete only if the bound is below the incumbent.
    """
    tree = search.tree
    total: int = tree.depths[tree.counters[0]["depth"]]["added"]
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] >= 0:
            continue
        domain = domain_of(search, job)
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
def domain_of(search: TreeSearch, job: int) -> int:
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
