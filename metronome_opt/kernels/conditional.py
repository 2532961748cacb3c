"""What the jobs of one link that are not placed must add to it, given those that are.

That is a small problem of its own: the best offsets on this link alone, by contacts (see
`contacts`), cut short by the supermodular bound. It comes up again and again with the same relative
offsets, so what was found is remembered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from metronome_opt.kernels.contacts import Contacts
from metronome_opt.kernels.sliding import add_multiple, add_windows, fold
from metronome_opt.kernels.tables import Compiled, Ints, Tables

_REMEMBERED = 2**16
_LARGEST_KEY = 2**62
_NONE = 2**62


class Users(NamedTuple):
    """Who uses each link, and what is known of links on which some jobs are placed.

    Attributes
    ----------
    ptr
        ``ptr[l]:ptr[l + 1]`` are the entries of link l in the two arrays that follow.
    job, use
        A job on the link and the number of its use, see `Tables`.
    nameable
        Per link, whether one number can tell the relative offsets of its jobs, all of which abut
        on each other somewhere.
    key, value
        A memory of fixed size: which question was answered, and how.
    """

    ptr: Ints
    job: Ints
    use: Ints
    nameable: Ints
    key: Ints
    value: Ints


def users_of(compiled: Compiled, contacts: Contacts) -> Users:
    """Return the users of the links of an instance, with an empty memory."""
    tables = compiled.tables
    by_link: list[list[tuple[int, int]]] = [[] for _ in compiled.links]
    for job in range(len(compiled.instance.jobs)):
        for use in range(tables.use_ptr[job], tables.use_ptr[job + 1]):
            by_link[tables.use_link[use]].append((job, use))
    nameable = []
    steady = contacts.ptr[1:] == contacts.ptr[:-1]  # jobs that abut on nothing
    for users in by_link:
        names = _LARGEST_KEY if any(steady[job] for job, _ in users) else len(by_link)
        for job, _ in users:
            names *= int(tables.period[job]) + 1
        nameable.append(names < _LARGEST_KEY)
    pairs = np.array([pair for users in by_link for pair in users], dtype=np.int64).reshape(-1, 2)
    return Users(
        ptr=np.concatenate(([0], np.cumsum([len(users) for users in by_link]))).astype(np.int64),
        job=np.ascontiguousarray(pairs[:, 0]),
        use=np.ascontiguousarray(pairs[:, 1]),
        nameable=np.array(nameable, dtype=np.int64),
        key=np.full(_REMEMBERED, -1, dtype=np.int64),
        value=np.zeros(_REMEMBERED, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def score_use(tables: Tables, demand: Ints, job: int, use: int, cost: Ints, work: Ints) -> int:
    """Compute what a job adds to one of its links at every offset; return the least.

    Parameters
    ----------
    cost
        Out, shape (T,), scaled.
    work
        Scratch, shape (4 T,) or longer.
    """
    period = tables.period[job]
    priced = work[:period]
    folded = work[period : 2 * period]
    prefix = work[2 * period : 4 * period]
    link = tables.use_link[use]
    hyperperiod = tables.hyperperiod[link]
    cost[:] = 0
    least = 0
    for p in range(tables.phase_ptr[job], tables.phase_ptr[job + 1]):
        priced[:] = 0
        rate = tables.use_flows[use] * tables.phase_rate[p]
        for layer in range(tables.use_layers[use]):
            begin = tables.base[link] + layer * hyperperiod
            fold(demand[begin : begin + hyperperiod], tables.capacity[link], rate, folded)
            price = tables.price[tables.layer_ptr[link] + layer]
            add_multiple(tables.use_scale[use] * price, folded, priced)
        least = add_windows(priced, tables.phase_start[p], tables.phase_length[p], 1, prefix, cost)
    return least


@njit(cache=True, nogil=True)
def put_use(tables: Tables, demand: Ints, job: int, use: int, offset: int, sign: int) -> None:
    """Add (`sign` 1) or take away (-1) the demand of a job on one of its links."""
    period = tables.period[job]
    link = tables.use_link[use]
    hyperperiod = tables.hyperperiod[link]
    for p in range(tables.phase_ptr[job], tables.phase_ptr[job + 1]):
        amount = sign * tables.use_flows[use] * tables.phase_rate[p]
        first = (offset + tables.phase_start[p]) % period
        straight = min(tables.phase_length[p], period - first)
        wrapped = tables.phase_length[p] - straight
        for layer in range(tables.use_layers[use]):
            block = tables.base[link] + layer * hyperperiod
            for begin in range(block, block + hyperperiod, period):
                for t in range(begin + first, begin + first + straight):
                    demand[t] += amount
                for t in range(begin, begin + wrapped):
                    demand[t] += amount


@njit(cache=True, nogil=True)
def least_addition(
    tables: Tables,
    contacts: Contacts,
    users: Users,
    demand: Ints,
    offset: Ints,
    link: int,
    work: Ints,
) -> int:
    """Return the least that the jobs without an offset add to a link, scaled.

    Parameters
    ----------
    demand
        Of the jobs that have one; left as it was.
    offset
        Per job, its offset or -1.
    """
    key = _key(tables, users, offset, link)
    entry = (key * np.int64(0x9E3779B97F4A7C1)) >> 20 & (users.key.shape[0] - 1)
    known: int = users.value[entry]
    if users.key[entry] == key:
        return known
    local = np.full(offset.shape[0], -1, np.int64)
    turn = 1
    for user in range(users.ptr[link], users.ptr[link + 1]):
        job = users.job[user]
        local[job] = offset[job]
        if offset[job] >= 0:
            turn = lcm(turn, tables.period[job])
    least = _search(tables, contacts, users, demand, local, link, turn, _NONE, work)
    users.key[entry], users.value[entry] = key, least
    return least


@njit(cache=True, nogil=True)
def _key(tables: Tables, users: Users, offset: Ints, link: int) -> int:
    """Return a number for the link, who is placed on it and how they are shifted."""
    key = np.int64(0)
    reference = np.int64(-1)
    for entry in range(users.ptr[link], users.ptr[link + 1]):
        job = users.job[entry]
        key *= tables.period[job] + 1
        if offset[job] >= 0:
            if reference < 0:
                reference = offset[job]
            key += 1 + (offset[job] - reference) % tables.period[job]
    name: int = key * (users.ptr.shape[0] - 1) + link
    return name


@njit(cache=True, nogil=True)
def _search(
    tables: Tables,
    contacts: Contacts,
    users: Users,
    demand: Ints,
    offset: Ints,
    link: int,
    turn: int,
    limit: int,
    work: Ints,
) -> int:
    """Return the least that the open jobs of a link add to it, if that is below `limit`."""
    first, last = users.ptr[link], users.ptr[link + 1]
    longest = 0
    for entry in range(first, last):
        longest = max(longest, tables.period[users.job[entry]])
    cost = np.empty((last - first, longest), np.int64)
    least = np.zeros(last - first, np.int64)
    total = 0
    open_jobs = 0
    for entry in range(first, last):
        job = users.job[entry]
        if offset[job] < 0:
            row = cost[entry - first, : tables.period[job]]
            least[entry - first] = score_use(tables, demand, job, users.use[entry], row, work)
            total += least[entry - first]
            open_jobs += 1
    if open_jobs <= 1 or total >= limit:
        return total if total < limit else limit
    for entry in range(first, last):
        job = users.job[entry]
        if offset[job] >= 0:
            continue
        use = users.use[entry]
        rest = total - least[entry - first]
        for o in range(gcd(turn, tables.period[job])):
            added = cost[entry - first, o]
            if added + rest >= limit or not _abuts(contacts, offset, job, o):
                continue
            offset[job] = o
            put_use(tables, demand, job, use, o, 1)
            wider = lcm(turn, tables.period[job])
            below = _search(
                tables, contacts, users, demand, offset, link, wider, limit - added, work
            )
            put_use(tables, demand, job, use, o, -1)
            offset[job] = -1
            limit = min(limit, added + below)
    return limit


@njit(cache=True, nogil=True)
def _abuts(contacts: Contacts, offset: Ints, job: int, o: int) -> bool:
    """Return whether a job at an offset abuts on one that has one."""
    for entry in range(contacts.ptr[job], contacts.ptr[job + 1]):
        other = offset[contacts.other[entry]]
        if other >= 0:
            modulus = contacts.modulus[entry]
            shift = (o - other) % modulus
            for d in range(contacts.difference_ptr[entry], contacts.difference_ptr[entry + 1]):
                if contacts.difference[d] == shift:
                    return True
    return False


@njit(cache=True, nogil=True)
def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


@njit(cache=True, nogil=True)
def lcm(a: int, b: int) -> int:
    """Return the least common multiple."""
    return a // gcd(a, b) * b
