"""Lower bound of a node: of all schedules with the placed jobs at their offsets.

For a partial assignment P the contention K(P) plus, for every job that is not placed, the least it
would add to P alone is a lower bound: unserved bandwidth is convex and increasing in demand, so
what a job adds never falls as others are placed (supermodularity).

A link by itself may be known to cost more than that: its own optimum, given what is placed on it,
or the optimum of a group of links. Any disjoint links and groups can be taken out of the sum above
and replaced by their own bounds. The better of both counts.
"""

from __future__ import annotations

import numpy as np

from metronome_opt.kernels.compiling import inner
from metronome_opt.kernels.conditional import min_addition
from metronome_opt.kernels.tables import Ints
from metronome_opt.kernels.tree import ABUTS, CLOSED, NONE, Groups, Marks, Tree, TreeSearch

_MAX_OPEN = 3  # jobs to be placed on a link whose own optimum is worth computing


@inner
def add_up(search: TreeSearch, at: Ints, least: Ints) -> int:
    """Return the supermodular bound; `NONE` if some job has nowhere to go.

    `at` and `least` become, per job that is not placed, its cheapest offset and what it adds there.
    They are complete only if the bound is below the incumbent.
    """
    tree = search.tree
    total: int = tree.base[tree.counters[0]["depth"]].sum()
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] >= 0:
            continue
        domain = domain_of(search, job)
        tree.jobs[job]["alone"] = _is_alone(tree, job)
        _mark(search, job, domain)
        _sum_uses(search, job, domain)
        at[job], least[job] = _least(tree.cost[job], tree.mark[job], domain)
        if at[job] < 0:
            return NONE
        total += least[job]
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
def _least(cost: Ints, mark: Marks, domain: int) -> tuple[int, int]:
    """Return the cheapest offset that is not closed and its cost; -1 if all are closed."""
    at = -1
    least: int = NONE
    for o in range(domain):
        if mark[o] != CLOSED and cost[o] < least:
            at, least = o, cost[o]
    return at, least


@inner
def bound_links(search: TreeSearch) -> None:
    """Bound the links of the job that was placed last, each alone, where few jobs are open."""
    tree, tables, users = search.tree, search.state.tables, search.users
    depth = tree.counters[0]["depth"]
    if depth == 0:
        return
    tree.own[depth] = tree.own[depth - 1]
    if tables.links.shape[0] == 1:
        return  # the link alone is what is being searched
    offset = np.full(tree.jobs.shape[0], -1, np.int64)
    for number in range(tree.counters[0]["fixed"] + depth):
        offset[tree.placed[number]["job"]] = tree.placed[number]["offset"]
    job = tree.placed[tree.counters[0]["fixed"] + depth - 1]["job"]
    for use in range(tables.jobs[job]["first_use"], tables.jobs[job]["end_use"]):
        link = tables.uses[use]["link"]
        open_jobs = 0
        for user in range(users.ptr[link], users.ptr[link + 1]):
            open_jobs += offset[users.job[user]] < 0
        if users.nameable[link] and 2 <= open_jobs <= _MAX_OPEN:
            added = min_addition(search.state, search.contacts, users, offset, link)
            tree.own[depth, link] = max(tree.own[depth, link], tree.base[depth, link] + added)


@inner
def take_out(search: TreeSearch, at: Ints, total: int, least: Ints) -> int:
    """Return the bound with the links and groups taken out of which more is known; -1 if none is.

    `at` and `total` are what `add_up` found. `least` becomes what each job that is not placed adds
    at least to the links that stay, where ``tree.reduced`` is its cost.
    """
    tree, groups = search.tree, search.groups
    if _hoped(search, at) <= total:
        return -1
    bound = _cover(groups, tree)
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] < 0:
            _reduce(search, job, domain_of(search, job))
    for group in range(groups.bound.shape[0]):
        if tree.covered[group] == group:
            _give_back(search, group)
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] < 0:
            domain = domain_of(search, job)
            least[job] = _least(tree.reduced[job], tree.mark[job], domain)[1]
            bound += least[job]
    return bound


@inner
def _reduce(search: TreeSearch, job: int, domain: int) -> None:
    """Compute what a job adds to the links that are not taken out."""
    tree, tables = search.tree, search.state.tables
    reduced = tree.reduced[job]
    reduced[:domain] = tree.cost[job, :domain]
    for use in range(tables.jobs[job]["first_use"], tables.jobs[job]["end_use"]):
        if tree.covered[tables.uses[use]["link"]] >= 0:
            vector = tree.vector[tree.where[tree.counters[0]["depth"], use]]
            for o in range(domain):
                reduced[o] -= vector[o]


@inner
def _give_back(search: TreeSearch, group: int) -> None:
    """Let one job feel again what it adds to a group that is taken out, beyond the group's bound.

    The group costs at least its own bound, and at least what is placed, plus what this job adds at
    its offset, plus what the others add at least.
    """
    tree = search.tree
    depth = tree.counters[0]["depth"]
    total = 0
    for link in range(search.state.tables.links.shape[0]):
        if tree.covered[link] == group:
            total += tree.base[depth, link]
    jobs = tree.jobs.shape[0]
    least = np.full(jobs, -1, np.int64)
    for job in range(jobs):
        if tree.jobs[job]["position"] < 0 and _sum_group(search, job, group):
            domain = domain_of(search, job)
            least[job] = _least(tree.share[job], tree.mark[job], domain)[1]
            total += least[job]
    chosen, most = -1, 0
    for job in range(jobs):
        if least[job] >= 0:
            beyond = total - least[job] - tree.worth[group]
            domain = domain_of(search, job)
            gain = np.maximum(tree.share[job, :domain] + beyond, 0).sum()
            if gain > most:
                chosen, most = job, gain
    if chosen >= 0:
        beyond = total - least[chosen] - tree.worth[group]
        domain = domain_of(search, chosen)
        tree.reduced[chosen, :domain] += np.maximum(tree.share[chosen, :domain] + beyond, 0)


@inner
def _sum_group(search: TreeSearch, job: int, group: int) -> bool:
    """Add up what a job adds to the links of a group, in ``tree.share``; False if it is on none."""
    tree, tables = search.tree, search.state.tables
    found = False
    domain = domain_of(search, job)
    share = tree.share[job]
    for use in range(tables.jobs[job]["first_use"], tables.jobs[job]["end_use"]):
        if tree.covered[tables.uses[use]["link"]] == group:
            vector = tree.vector[tree.where[tree.counters[0]["depth"], use]]
            if not found:
                share[:domain] = vector[:domain]
            else:
                for o in range(domain):
                    share[o] += vector[o]
            found = True
    return found


@inner
def _hoped(search: TreeSearch, at: Ints) -> int:
    """Mark the groups whose own bound is better than what their parts add up to; return the sum."""
    tree, groups, tables = search.tree, search.groups, search.state.tables
    depth = tree.counters[0]["depth"]
    links = tables.links.shape[0]
    value = np.zeros(groups.bound.shape[0], np.int64)
    value[:links] = tree.base[depth]
    for job in range(tree.jobs.shape[0]):
        if tree.jobs[job]["position"] < 0:
            for use in range(tables.jobs[job]["first_use"], tables.jobs[job]["end_use"]):
                value[tables.uses[use]["link"]] += tree.vector[tree.where[depth, use], at[job]]
    for group in range(groups.bound.shape[0]):
        if group < links:
            tree.worth[group] = max(groups.bound[group], tree.own[depth, group])
        else:
            tree.worth[group] = groups.bound[group]
            value[group] = value[groups.first[group]] + value[groups.second[group]]
        tree.taken[group] = tree.worth[group] > value[group]
        value[group] = max(value[group], tree.worth[group])
    total = 0
    for group in groups.top:
        total += value[group]
    return total


@inner
def _cover(groups: Groups, tree: Tree) -> int:
    """Take groups out, the outer ones first; return their bounds and the contention of the rest."""
    tree.covered[:] = -1
    bound = 0
    for group in range(groups.bound.shape[0] - 1, -1, -1):
        if tree.taken[group] and tree.covered[group] < 0:
            bound += tree.worth[group]
            tree.covered[group] = group
        if groups.first[group] >= 0:
            tree.covered[groups.first[group]] = tree.covered[group]
            tree.covered[groups.second[group]] = tree.covered[group]
        elif tree.covered[group] < 0:
            bound += tree.base[tree.counters[0]["depth"], group]
    return bound
