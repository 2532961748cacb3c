"""Contacts of bursts, and a lower bound of what unplaced jobs add to the cost of a link.

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
comes up again and again with the same relative offsets, so what was found is remembered. Long
periods have so many offsets that one question could take minutes, in which the clock is not
read. So it is given up after so much work, and that bound is the answer.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import networkx as nx
import numpy as np

from metronome_opt.instance import Job
from metronome_opt.kernels.compiling import inner
from metronome_opt.kernels.jobs import ADD, REMOVE, put_use, score_use
from metronome_opt.kernels.tables import Compiled, DemandState, Ints, Rows


class Contacts(NamedTuple):
    """The contacts of all ordered pairs of jobs that share a link that can be overloaded."""

    ptr: Ints  # ``ptr[j]:ptr[j + 1]`` are the entries of job j in the two that follow
    other: Ints  # job
    modulus: Ints  # the gcd of the two periods
    difference_ptr: Ints  # per entry, where its differences are
    difference: Ints  # ``offset_j - offset_other`` modulo `modulus`
    component: Ints  # per job, which part of the graph of possible contacts it belongs to


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


_MAX_WORK = 2**22  # entries of demand to go through for one question, some 10 ms
_REMEMBERED = 2**16
_LARGEST_KEY = 2**62
_NONE = 2**62


class Users(NamedTuple):
    """Users of each link, and a cache of minimum additions to links with some jobs placed."""

    ptr: Ints  # ``ptr[l]:ptr[l + 1]`` are the entries of link l in the two that follow
    job: Ints
    use: Ints  # the number of its use, see `Tables`
    # Per link, whether one number can tell the relative offsets of its jobs, all of which abut on
    # each other somewhere.
    nameable: Ints
    key: Ints  # which question was answered
    value: Ints  # and how


def users_of(compiled: Compiled, contacts: Contacts) -> Users:
    """Return the users of the links of an instance, with an empty memory."""
    tables = compiled.tables
    by_link: list[list[tuple[int, int]]] = [[] for _ in compiled.links]
    for job in range(len(compiled.instance.jobs)):
        for use in range(tables.jobs["first_use"][job], tables.jobs["end_use"][job]):
            by_link[tables.uses["link"][use]].append((job, use))
    nameable = []
    steady = contacts.ptr[1:] == contacts.ptr[:-1]  # jobs that abut on nothing
    for users in by_link:
        names = _LARGEST_KEY if any(steady[job] for job, _ in users) else len(by_link)
        for job, _ in users:
            names *= int(tables.jobs["period"][job]) + 1
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
def min_addition(
    state: DemandState, contacts: Contacts, users: Users, offset: Ints, link: int
) -> int:
    """Return the least that the jobs whose `offset` is -1 add to a link, scaled.

    It is less, and still a lower bound, where finding it takes too long.
    """
    jobs = state.tables.jobs
    key = _key(jobs, users, offset, link)
    entry = (key * np.int64(0x9E3779B97F4A7C1)) >> 20 & (users.key.shape[0] - 1)
    known: int = users.value[entry]
    if users.key[entry] == key:
        return known
    local = np.full(offset.shape[0], -1, np.int64)
    rotation = 1
    for user in range(users.ptr[link], users.ptr[link + 1]):
        job = users.job[user]
        local[job] = offset[job]
        if offset[job] >= 0:
            rotation = np.lcm(rotation, jobs[job]["period"])
    least = _search(state, contacts, users, local, link, rotation)
    users.key[entry], users.value[entry] = key, least
    return least


@inner
def _key(jobs: Rows, users: Users, offset: Ints, link: int) -> int:
    """Return a number for the link, the jobs placed on it and how they are shifted."""
    key = np.int64(0)
    reference = np.int64(-1)
    for entry in range(users.ptr[link], users.ptr[link + 1]):
        job = users.job[entry]
        period = jobs[job]["period"]
        key *= period + 1
        if offset[job] >= 0:
            if reference < 0:
                reference = offset[job]
            key += 1 + (offset[job] - reference) % period
    name: int = key * (users.ptr.shape[0] - 1) + link
    return name


class _Levels(NamedTuple):
    """The state of the search per level, that is, per number of jobs placed by it."""

    first: int  # of the users of the link
    offset: Ints  # per job, -1 for those that are open
    cost: Ints  # what each open user adds at each offset, shape (levels, users, longest period)
    least: Ints  # at its best one, shape (levels, users)
    added: Ints  # so far
    rotation: Ints  # least common multiple of the periods of what is placed
    user: Ints  # which is tried next
    at: Ints  # at which offset


@inner
def _search(
    state: DemandState, contacts: Contacts, users: Users, offset: Ints, link: int, rotation: int
) -> int:
    """Return the least that the open jobs of a link add to it, by depth-first search.

    After `_MAX_WORK`, what they add each by itself.

    A loop, not a recursion: compiled recursive functions do not survive being kept on disk.
    """
    jobs = state.tables.jobs
    first, count = users.ptr[link], users.ptr[link + 1] - users.ptr[link]
    longest = 0
    open_jobs = 0
    for user in range(first, first + count):
        longest = max(longest, jobs[users.job[user]]["period"])
        open_jobs += offset[users.job[user]] < 0
    levels = _Levels(
        first,
        offset,
        np.empty((open_jobs, count, longest), np.int64),
        np.zeros((open_jobs, count), np.int64),
        np.zeros(open_jobs, np.int64),
        np.full(open_jobs, rotation),
        np.zeros(open_jobs, np.int64),
        np.zeros(open_jobs, np.int64),
    )
    best = _NONE
    level = 0
    floor = _score_open(state, users, levels, level)
    if open_jobs == 1:
        return floor
    scores = _MAX_WORK // (
        state.tables.links[link]["hyperperiod"] * state.tables.links[link]["layers"]
    )
    while level >= 0:
        if scores <= 0:
            while level > 0:
                level -= 1
                _put(state, users, levels, level, REMOVE)
            return floor
        if not _advance(jobs, contacts, users, levels, level, best):
            level -= 1
            if level >= 0:
                _put(state, users, levels, level, REMOVE)
            continue
        user, o = levels.user[level], levels.at[level] - 1
        _put(state, users, levels, level, ADD)
        below = level + 1
        levels.added[below] = levels.added[level] + levels.cost[level, user, o]
        levels.rotation[below] = np.lcm(
            levels.rotation[level], jobs[users.job[first + user]]["period"]
        )
        scores -= open_jobs - below
        total = _score_open(state, users, levels, below)
        if below == open_jobs - 1:
            best = min(best, levels.added[below] + total)
        if below == open_jobs - 1 or levels.added[below] + total >= best:
            _put(state, users, levels, level, REMOVE)
            continue
        levels.user[below], levels.at[below] = 0, 0
        level = below
    return best


@inner
def _score_open(state: DemandState, users: Users, levels: _Levels, level: int) -> int:
    """Score the open users of a link; return what they add at least, each by itself."""
    total = 0
    for user in range(levels.least.shape[1]):
        job = users.job[levels.first + user]
        if levels.offset[job] < 0:
            cost = levels.cost[level, user, : state.tables.jobs[job]["period"]]
            least = score_use(state, job, users.use[levels.first + user], cost)
            levels.least[level, user] = least
            total += least
        else:
            levels.least[level, user] = 0
    return total


@inner
def _advance(
    jobs: Rows, contacts: Contacts, users: Users, levels: _Levels, level: int, best: int
) -> bool:
    """Find the next user and offset to try: a contact that may lead below `best`."""
    total = levels.added[level] + levels.least[level].sum()
    while levels.user[level] < levels.least.shape[1]:
        user = levels.user[level]
        job = users.job[levels.first + user]
        if levels.offset[job] < 0:
            rest = total - levels.least[level, user]
            for o in range(levels.at[level], np.gcd(levels.rotation[level], jobs[job]["period"])):
                may_win = levels.cost[level, user, o] + rest < best
                if may_win and _abuts(contacts, levels.offset, job, o):
                    levels.at[level] = o + 1
                    return True
        levels.user[level] += 1
        levels.at[level] = 0
    return False


@inner
def _put(state: DemandState, users: Users, levels: _Levels, level: int, sign: int) -> None:
    """Place what is tried at a level, or take it away."""
    user = levels.first + levels.user[level]
    job, o = users.job[user], levels.at[level] - 1
    put_use(state, job, users.use[user], o, sign)
    levels.offset[job] = o if sign > 0 else -1


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
