"""Who gets how much of the links: progressive filling, one priority class after the other.

A link whose bursts together stay within its capacity at their own rates never holds anybody up. On
the others, a burst that begins or ends changes the rates of those that it meets, and so on from
link to link, but seldom far: only jobs whose rates do change are looked at, with their links.
"""

from __future__ import annotations

import math

from numba import njit

from metronome_opt.kernels.fluid.filling import fill
from metronome_opt.kernels.fluid.rates import ROUNDING, is_over, set_rate
from metronome_opt.kernels.fluid.world import World

_LOWEST, _NO_RANK = -(2**62), 2**62


@njit(cache=True, nogil=True)
def join(world: World, job: int, count: int) -> int:
    """Make a sending job a member, one of those whose rates are shared out anew.

    Parameters
    ----------
    count
        How many members there are.

    Returns
    -------
    int
        How many there are now; they carry the stamp of the clock.
    """
    row = world.jobs[job]
    if row.stamp == world.clock[0].stamp:
        return count
    row.stamp = world.clock[0].stamp
    world.members[count] = job
    return count + 1


@njit(cache=True, nogil=True)
def join_held(world: World, link: int, count: int) -> int:
    """Make members of all that a link holds back; return how many members there are."""
    use = world.links[link].head
    while use >= 0:
        job = world.uses[use].job
        if world.jobs[job].held_by == link:
            count = join(world, job, count)
        use = world.uses[use].next
    return count


@njit(cache=True, nogil=True)
def share_out(world: World, count: int) -> None:
    """Give the first `count` members, and whoever that concerns, their rates.

    All others keep theirs, as long as that is what they would get if everything were shared out
    anew: rates are max-min fair if, and only if, everybody who is slower than he may be has a link
    that is full and on which nobody of his class has more. Whoever loses that link, or has more
    than a member whose link it is, becomes a member too.
    """
    jobs, members = world.jobs, world.members
    while True:
        done = 0
        while done < count:
            begin = done
            done = _next_class(world, begin, count)
            fill(world, begin, done)
        before = count
        count = _concerned(world, count)
        if count == before:
            break
    for i in range(count):
        set_rate(world, members[i], jobs[members[i]].offer)


@njit(cache=True, nogil=True)
def _next_class(world: World, begin: int, count: int) -> int:
    """Bring the members of the highest rank from `begin` on to the front; return their end."""
    jobs, members = world.jobs, world.members
    highest = jobs[members[begin]].rank
    for i in range(begin + 1, count):
        highest = max(highest, jobs[members[i]].rank)
    end = begin
    for i in range(begin, count):
        if jobs[members[i]].rank == highest:
            members[i], members[end] = members[end], members[i]
            end += 1
    return end


@njit(cache=True, nogil=True)
def _concerned(world: World, count: int) -> int:
    """Make members of all that do not have the right rate beside what is offered."""
    jobs, links, uses, members = world.jobs, world.links, world.uses, world.members
    world.clock[0].mark += 1
    mark = world.clock[0].mark
    for i in range(count):
        row = jobs[members[i]]
        for use in range(row.first_use, row.first_use + row.uses):
            link = uses[use].link
            if links[link].stamp != mark and is_over(world, link):
                links[link].stamp = mark
                count = _concerned_on(world, link, count)
    return count


@njit(cache=True, nogil=True)
def _concerned_on(world: World, link: int, count: int) -> int:
    """Do so on one link, from the highest class down."""
    jobs, uses = world.jobs, world.uses
    stamp = world.clock[0].stamp
    capacity = world.links[link].capacity
    total = 0.0
    rank = _highest_below(world, link, _NO_RANK)
    while rank != _LOWEST:
        below = _LOWEST
        most_kept, most = 0.0, 0.0  # of those that are no members, and of all
        least_kept, least = math.inf, math.inf  # the same of those that the link holds back
        use = world.links[link].head
        while use >= 0:
            row = jobs[uses[use].job]
            if row.rank == rank:
                member = row.stamp == stamp
                rate = row.offer if member else row.rate
                total += uses[use].flows * rate
                rate /= row.share
                most = max(most, rate)
                if not member:
                    most_kept = max(most_kept, rate)
                if row.held_by == link:
                    if member:
                        least = min(least, rate)
                    else:
                        least_kept = min(least_kept, rate)
            elif row.rank < rank:
                below = max(below, row.rank)
            use = uses[use].next
        full = total >= capacity * (1.0 - ROUNDING)
        excess = total > capacity * (1.0 + ROUNDING)
        lost = most * (1.0 - ROUNDING) if full else math.inf
        limit = -1.0 if excess else least * (1.0 + ROUNDING)
        if most_kept > limit or least_kept < lost:
            count = _join_beyond(world, link, count, rank, lost, limit)
        rank = below
    return count


@njit(cache=True, nogil=True)
def _join_beyond(world: World, link: int, count: int, rank: int, lost: float, limit: float) -> int:
    """Make members of whom the link held back but has `lost`, and of who has more than `limit`."""
    jobs, uses = world.jobs, world.uses
    use = world.links[link].head
    while use >= 0:
        job = uses[use].job
        row = jobs[job]
        if row.rank == rank and row.stamp != world.clock[0].stamp:
            rate = row.rate / row.share
            if rate > limit or (row.held_by == link and rate < lost):
                count = join(world, job, count)
        use = uses[use].next
    return count


@njit(cache=True, nogil=True)
def _highest_below(world: World, link: int, limit: int) -> int:
    """Return the highest rank below `limit` on a link."""
    highest = _LOWEST
    use = world.links[link].head
    while use >= 0:
        rank = world.jobs[world.uses[use].job].rank
        if rank < limit:
            highest = max(highest, rank)
        use = world.uses[use].next
    return highest
