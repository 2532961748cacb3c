"""Minimum cost of a link, or of three jobs, for each difference between the offsets of two jobs.

What jobs cost on a link depends only on the differences ``offset_j - offset_i`` of pairs, each
modulo the greatest common divisor g of their periods. A function of such a difference is an array
of g entries. Beside its contention a link here carries one for each pair of its jobs (see
`cost_shifting`), and the *min-marginal* of a pair is the minimum of the sum by its difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from metronome_opt.compiling import inner, kernel
from metronome_opt.solvers.kernels.arrays import minimum_of
from metronome_opt.solvers.kernels.compiled_instance import DemandState, Ints
from metronome_opt.solvers.kernels.jobs import ADD, REMOVE, put_use, score_use


class LinkUsers(NamedTuple):
    """The users of a link in the order in which they are placed, the first one at offset 0."""

    job: Ints
    use: Ints
    domain: Ints  # number of offsets that are no rotations of one another
    divisor: Ints  # of the periods of two users, shape (users, users)


@kernel
def link_marginals(
    state: DemandState,
    users: LinkUsers,
    cost: Ints,
    marginal: Ints,
    first: int,
    last: int,
    levels: Ints,
    added: Ints,
) -> int:
    """Lower `marginal` to what is found with the second user at offsets from `first` to `last`.

    Parameters
    ----------
    state
        Without placed jobs; left so.
    cost
        Scaled cost of users a < b by the difference of their offsets, shape (users, users, g).
    marginal
        In and out, likewise. Before the first call all entries are equal: nothing above is asked
        for. Those of no pair stay so.
    first, last
        Without effect on a link of two users.
    levels, added
        Scratch, shapes (4, users) and (users, the largest domain).

    Returns
    -------
    int
        How often a user was scored.
    """
    count = users.job.shape[0]
    cap = marginal[0, 0, 0]  # of no pair: as it was before the first call
    offset, at, spent, rest = levels[0], levels[1], levels[2], levels[3]
    spent[1] = _score(state, users, cost, offset, 0, 0, added[0])
    put_use(state, users.job[0], users.use[0], 0, ADD)
    level, at[1], scored = 1, first, 0
    rest[1] = _enter(state, users, cost, offset, 1, added)
    scored += count
    while level > 0:
        if level == count - 1:
            _note(users, offset, spent[level], added[level], marginal, cap)
            level -= 1
            if level > 0:
                put_use(state, users.job[level], users.use[level], offset[level], REMOVE)
            continue
        limit = cap - spent[level] - rest[level]
        stop = last if level == 1 else users.domain[level]
        o = at[level]
        while o < stop and added[level, o] >= limit:
            o += 1
        if o >= stop:
            level -= 1
            if level > 0:
                put_use(state, users.job[level], users.use[level], offset[level], REMOVE)
            continue
        offset[level], at[level] = o, o + 1
        spent[level + 1] = spent[level] + added[level, o]
        put_use(state, users.job[level], users.use[level], o, ADD)
        level += 1
        at[level] = 0
        rest[level] = _enter(state, users, cost, offset, level, added)
        scored += count - level
    put_use(state, users.job[0], users.use[0], 0, REMOVE)
    return int(scored)


@inner
def _enter(
    state: DemandState, users: LinkUsers, cost: Ints, offset: Ints, level: int, added: Ints
) -> int:
    """Score the user of a level; return what those after it add at least, costs of pairs too."""
    rest = 0
    for later in range(level + 1, users.job.shape[0]):
        rest += _score(state, users, cost, offset, level, later, added[later])
        for between in range(level, later):
            rest += minimum_of(cost[between, later, : users.divisor[between, later]])
    _score(state, users, cost, offset, level, level, added[level])
    return rest


@inner
def _score(
    state: DemandState,
    users: LinkUsers,
    cost: Ints,
    offset: Ints,
    placed: int,
    user: int,
    added: Ints,
) -> int:
    """Compute what a user adds beside the first `placed` ones by its offset; return the minimum."""
    domain = users.domain[user]
    job = users.job[user]
    period = state.tables.jobs[job]["period"]
    scores = state.work[:period]
    score_use(state, job, users.use[user], scores)
    for o in range(domain):
        added[o] = scores[o]
    for other in range(placed):
        divisor = users.divisor[other, user]
        shift = offset[other] % divisor
        pair = cost[other, user]
        for begin in range(0, domain, divisor):
            for o in range(shift):
                added[begin + o] += pair[divisor - shift + o]
            for o in range(shift, divisor):
                added[begin + o] += pair[o - shift]
    return minimum_of(added[:domain])


@inner
def _note(
    users: LinkUsers,
    offset: Ints,
    spent: int,
    added: Ints,
    marginal: Ints,
    cap: int,
) -> None:
    """Lower the marginals to what the last user adds at each offset, beside all others."""
    user = users.job.shape[0] - 1
    domain = users.domain[user]
    minimum = spent + minimum_of(added[:domain])
    if minimum >= cap:
        return
    for other in range(user):
        for before in range(other):
            d = (offset[other] - offset[before]) % users.divisor[before, other]
            marginal[before, other, d] = min(marginal[before, other, d], minimum)
        divisor = users.divisor[other, user]
        shift = offset[other] % divisor
        pair = marginal[other, user]
        for begin in range(0, domain, divisor):
            for o in range(shift):
                d = divisor - shift + o
                pair[d] = min(pair[d], spent + added[begin + o])
            for o in range(shift, divisor):
                d = o - shift
                pair[d] = min(pair[d], spent + added[begin + o])


@kernel
def triangle_marginals(one: Ints, two: Ints, three: Ints, domains: Ints, marginals: Ints) -> int:
    """Compute the min-marginals of the costs of three pairs of jobs; return the minimum.

    Parameters
    ----------
    one, two, three
        Costs of the first and second, first and third, second and third job by their differences.
    domains
        Number of offsets of the second and third job beside the first at 0.
    marginals
        Out, shape (3, g).
    """
    marginals[:] = np.iinfo(np.int64).max
    g1, g2, g3 = one.shape[0], two.shape[0], three.shape[0]
    for second in range(domains[0]):
        d1 = second % g1
        row = np.iinfo(np.int64).max
        for third in range(domains[1]):
            d2, d3 = third % g2, (third - second) % g3
            value = one[d1] + two[d2] + three[d3]
            row = min(row, value)
            marginals[1, d2] = min(marginals[1, d2], value)
            marginals[2, d3] = min(marginals[2, d3], value)
        marginals[0, d1] = min(marginals[0, d1], row)
    return minimum_of(marginals[0, :g1])
