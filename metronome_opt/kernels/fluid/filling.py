"""Progressive filling: rates of jobs of one class, raised together until links are full."""

from __future__ import annotations

import math

from numba import njit

from metronome_opt.kernels.fluid.rates import ROUNDING, is_over, own_rate
from metronome_opt.kernels.fluid.world import World


@njit(cache=True, nogil=True)
def fill(world: World, begin: int, end: int) -> None:
    """Raise the offers of one class together until links or own rates stop them.

    References
    ----------
    D. Bertsekas, R. Gallager, "Data Networks", 2nd edition, section 6.5.2.
    """
    touched = _touch(world, begin, end)
    while begin < end:
        touched, level = _least_level(world, touched)
        before = begin
        begin = _settle_own(world, begin, end, level)
        if begin == before:
            begin = _settle_held(world, begin, end, touched, level)


@njit(cache=True, nogil=True)
def _touch(world: World, begin: int, end: int) -> int:
    """Withdraw the offers of a class and open the links that it meets on; return how many."""
    jobs, links, uses, members = world.jobs, world.links, world.uses, world.members
    for i in range(begin, end):
        jobs[members[i]].offer = -1.0
    world.clock[0].mark += 1
    mark = world.clock[0].mark
    touched = 0
    for i in range(begin, end):
        row = jobs[members[i]]
        for use in range(row.first_use, row.first_use + row.uses):
            link = uses[use].link
            if links[link].stamp != mark and is_over(world, link):
                links[link].stamp = mark
                world.touched[touched] = link
                touched += 1
                _open(world, link, row.rank)
    return touched


@njit(cache=True, nogil=True)
def _open(world: World, link: int, rank: int) -> None:
    """Find out what a link has left for the members of a class."""
    row = world.links[link]
    row.left = row.capacity
    row.weight = 0.0
    row.open = 0
    use = row.head
    while use >= 0:
        job = world.jobs[world.uses[use].job]
        flows = world.uses[use].flows
        if job.stamp == world.clock[0].stamp:
            if job.rank == rank:
                row.weight += flows * job.share
                row.open += 1
            elif job.rank > rank:
                row.left -= flows * job.offer
        elif job.rank >= rank:
            row.left -= flows * job.rate
        use = world.uses[use].next
    if row.left < row.capacity * ROUNDING:
        row.left = 0.0  # what rounding left of nothing


@njit(cache=True, nogil=True)
def _least_level(world: World, touched: int) -> tuple[int, float]:
    """Drop links that nobody waits at; return how many are left and at what level one is full."""
    level = math.inf
    kept = 0
    for i in range(touched):
        link = world.touched[i]
        row = world.links[link]
        if row.open > 0:
            world.touched[kept] = link
            kept += 1
            level = min(level, max(row.left, 0.0) / row.weight)
    return kept, level


@njit(cache=True, nogil=True)
def _settle_own(world: World, begin: int, end: int, level: float) -> int:
    """Offer their own rates to those that want no more; return where the others begin."""
    members = world.members
    for i in range(begin, end):
        job = members[i]
        row = world.jobs[job]
        own = own_rate(world, job)
        if own <= level * row.share:
            _settle(world, job, own, -1)
            members[i], members[begin] = members[begin], job
            begin += 1
    return begin


@njit(cache=True, nogil=True)
def _settle_held(world: World, begin: int, end: int, touched: int, level: float) -> int:
    """Offer the level to all on links that are full at it; return where the others begin."""
    jobs, members = world.jobs, world.members
    rank = jobs[members[begin]].rank
    for i in range(touched):
        link = world.touched[i]
        row = world.links[link]
        # Of those that meet on it some may be settled by now; that leaves the level as it is.
        if row.open > 0 and max(row.left, 0.0) <= level * row.weight * (1.0 + ROUNDING):
            use = row.head
            while use >= 0:
                job = world.uses[use].job
                if _is_open(world, job, rank):
                    _settle(world, job, level * jobs[job].share, link)
                use = world.uses[use].next
    for i in range(begin, end):
        job = members[i]
        if jobs[job].offer >= 0.0:
            members[i], members[begin] = members[begin], job
            begin += 1
    return begin


@njit(cache=True, nogil=True)
def _is_open(world: World, job: int, rank: int) -> bool:
    row = world.jobs[job]
    waits: bool = row.rank == rank and row.offer < 0.0 and row.stamp == world.clock[0].stamp
    return waits


@njit(cache=True, nogil=True)
def _settle(world: World, job: int, rate: float, held_by: int) -> None:
    """Offer a job its rate and take it off its links."""
    row = world.jobs[job]
    row.offer = rate
    row.held_by = held_by
    mark = world.clock[0].mark
    for use in range(row.first_use, row.first_use + row.uses):
        link = world.links[world.uses[use].link]
        if link.stamp == mark:
            flows = world.uses[use].flows
            link.left -= flows * rate
            link.weight -= flows * row.share
            link.open -= 1
