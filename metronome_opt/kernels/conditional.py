"""Contacts, and what the jobs of one link that are not placed must add to it.

Shift some of the jobs rigidly against the others. The contention is piecewise linear in the shift,
and, unserved bandwidth being convex and increasing in demand, it bends upwards only where the end
of a burst of the one meets the beginning of a burst of the other on a common link: there alone can
a minimum be that is not also reached on both sides. Moving on in a direction that does no harm
therefore ends where two bursts abut. So there is an optimal schedule in which the jobs hang
together by such contacts, all of them, as far as contacts are possible at all; where they are not,
the shift does not matter. A *contact* of jobs i and j is a difference ``offset_j - offset_i``
modulo the gcd of their periods at which this happens.

What the open jobs of one link must add to it, given those that are placed, is a small problem of
its own: the best offsets on this link alone, by contacts, cut short by the supermodular bound. It
comes up again and again with the same relative offsets, so what was found is remembered.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import networkx as nx
import numpy as np

from metronome_opt.instance import Job
from metronome_opt.kernels.compiling import inner
from metronome_opt.kernels.jobs import put_use, score_use
from metronome_opt.kernels.tables import Compiled, Ints, Tables


class Contacts(NamedTuple):
    """The contacts of all ordered pairs of jobs that share a link that can be overloaded.

    Attributes
    ----------
    ptr
        ``ptr[j]:ptr[j + 1]`` are the entries of job j, in the two arrays that follow.
    other, modulus
        The other job, the gcd of the two periods.
    difference_ptr, difference
        Per entry, the differences ``offset_j - offset_other`` modulo `modulus`.
    component
        Per job, which part of the graph of possible contacts it belongs to.
    """

    ptr: Ints
    other: Ints
    modulus: Ints
    difference_ptr: Ints
    difference: Ints
    component: Ints


def contacts_of(compiled: Compiled) -> Contacts:
    """Return the contacts of an instance."""
    jobs = compiled.instance.jobs
    edges = [_edges(job) for job in jobs]
    graph = nx.empty_graph(len(jobs))
    ptr, other, modulus, difference_ptr, difference = [0], [], [], [0], []
    for j, others in enumerate(compiled.sharing()):
        for i in others:
            divisor = math.gcd(jobs[i].period, jobs[j].period)
            found = _differences(edges[i], edges[j], divisor)
            if not found:
                continue
            graph.add_edge(i, j)
            other.append(i)
            modulus.append(divisor)
            difference += found
            difference_ptr.append(len(difference))
        ptr.append(len(other))
    component = np.zeros(len(jobs), dtype=np.int64)
    for number, members in enumerate(nx.connected_components(graph)):
        component[list(members)] = number
    return Contacts(
        ptr=np.array(ptr, dtype=np.int64),
        other=np.array(other, dtype=np.int64),
        modulus=np.array(modulus, dtype=np.int64),
        difference_ptr=np.array(difference_ptr, dtype=np.int64),
        difference=np.array(difference, dtype=np.int64),
        component=component,
    )


def _edges(job: Job) -> tuple[set[int], set[int]]:
    """Return the slots of the period at which the rate goes up, and at which it goes down."""
    rate = dict.fromkeys((mark for phase in job.phases for mark in (phase.start, phase.end)), 0)
    rate = {mark % job.period: 0 for mark in rate}
    for phase in job.phases:
        for mark in rate:
            if phase.start <= mark < phase.end:
                rate[mark] += phase.rate
    marks = sorted(rate)
    steps = [*pairwise(marks), (marks[-1], marks[0])]
    up = {after for before, after in steps if rate[after] > rate[before]}
    down = {after for before, after in steps if rate[after] < rate[before]}
    return up, down


def _differences(
    first: tuple[set[int], set[int]], second: tuple[set[int], set[int]], divisor: int
) -> list[int]:
    """Return at which shifts of the second against the first an end meets a beginning."""
    (up, down), (my_up, my_down) = first, second
    meets = {(theirs - mine) % divisor for theirs in up for mine in my_down}
    meets |= {(theirs - mine) % divisor for theirs in down for mine in my_up}
    return sorted(meets)


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


@inner
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
            turn = np.lcm(turn, tables.period[job])
    least = _search(tables, contacts, users, demand, local, link, turn, work)
    users.key[entry], users.value[entry] = key, least
    return least


@inner
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


class _Levels(NamedTuple):
    """The state of the search per level, that is, per number of jobs placed by it.

    Attributes
    ----------
    cost, least
        What each open user adds at each offset, and at its best one; shape (levels, users, ...).
    added
        What has been added so far.
    turn
        Least common multiple of the periods of what is placed.
    user, at
        Which user is tried next, at which offset.
    """

    cost: Ints
    least: Ints
    added: Ints
    turn: Ints
    user: Ints
    at: Ints


@inner
def _search(
    tables: Tables,
    contacts: Contacts,
    users: Users,
    demand: Ints,
    offset: Ints,
    link: int,
    turn: int,
    work: Ints,
) -> int:
    """Return the least that the open jobs of a link add to it, by depth-first search.

    A loop, not a recursion: compiled recursive functions do not survive being kept on disk.
    """
    first, count = users.ptr[link], users.ptr[link + 1] - users.ptr[link]
    longest = 0
    open_jobs = 0
    for user in range(first, first + count):
        longest = max(longest, tables.period[users.job[user]])
        open_jobs += offset[users.job[user]] < 0
    levels = _Levels(
        np.empty((open_jobs, count, longest), np.int64),
        np.zeros((open_jobs, count), np.int64),
        np.zeros(open_jobs, np.int64),
        np.full(open_jobs, turn),
        np.zeros(open_jobs, np.int64),
        np.zeros(open_jobs, np.int64),
    )
    best = _NONE
    level = 0
    total = _score_open(tables, users, demand, offset, link, levels, level, work)
    if open_jobs == 1:
        return total
    while level >= 0:
        if not _advance(tables, contacts, users, offset, link, levels, level, best):
            level -= 1
            if level >= 0:
                _take_away(tables, users, demand, offset, link, levels, level)
            continue
        user = levels.user[level]
        job, o = users.job[first + user], levels.at[level] - 1
        offset[job] = o
        put_use(tables, demand, job, users.use[first + user], o, 1)
        below = level + 1
        levels.added[below] = levels.added[level] + levels.cost[level, user, o]
        levels.turn[below] = np.lcm(levels.turn[level], tables.period[job])
        total = _score_open(tables, users, demand, offset, link, levels, below, work)
        if below == open_jobs - 1:
            best = min(best, levels.added[below] + total)
        if below == open_jobs - 1 or levels.added[below] + total >= best:
            _take_away(tables, users, demand, offset, link, levels, level)
            continue
        levels.user[below], levels.at[below] = 0, 0
        level = below
    return best


@inner
def _score_open(
    tables: Tables,
    users: Users,
    demand: Ints,
    offset: Ints,
    link: int,
    levels: _Levels,
    level: int,
    work: Ints,
) -> int:
    """Score the open users of a link; return what they add at least, each by itself."""
    first = users.ptr[link]
    total = 0
    for user in range(users.ptr[link + 1] - first):
        job = users.job[first + user]
        if offset[job] < 0:
            cost = levels.cost[level, user, : tables.period[job]]
            least = score_use(tables, demand, job, users.use[first + user], cost, work)
            levels.least[level, user] = least
            total += least
        else:
            levels.least[level, user] = 0
    return total


@inner
def _advance(
    tables: Tables,
    contacts: Contacts,
    users: Users,
    offset: Ints,
    link: int,
    levels: _Levels,
    level: int,
    best: int,
) -> bool:
    """Find the next user and offset to try: a contact that may lead below `best`."""
    first = users.ptr[link]
    total = levels.added[level] + levels.least[level].sum()
    while levels.user[level] < users.ptr[link + 1] - first:
        user = levels.user[level]
        job = users.job[first + user]
        if offset[job] < 0:
            rest = total - levels.least[level, user]
            for o in range(levels.at[level], np.gcd(levels.turn[level], tables.period[job])):
                may_win = levels.cost[level, user, o] + rest < best
                if may_win and _abuts(contacts, offset, job, o):
                    levels.at[level] = o + 1
                    return True
        levels.user[level] += 1
        levels.at[level] = 0
    return False


@inner
def _take_away(
    tables: Tables,
    users: Users,
    demand: Ints,
    offset: Ints,
    link: int,
    levels: _Levels,
    level: int,
) -> None:
    """Take away what was placed at a level."""
    user = users.ptr[link] + levels.user[level]
    job = users.job[user]
    put_use(tables, demand, job, users.use[user], levels.at[level] - 1, -1)
    offset[job] = -1


@inner
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
