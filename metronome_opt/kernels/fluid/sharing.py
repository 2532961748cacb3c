"""Who gets how much of the links: progressive filling, one priority class after the other.

A link whose bursts together stay within its capacity at their own rates never holds anybody up. So
only jobs that meet on other links, directly or through one another, have to share, and only they
are looked at when a burst begins or ends.
"""

from __future__ import annotations

import math

from numba import njit

from metronome_opt.kernels.fluid import heap
from metronome_opt.kernels.fluid.world import World

# Sums of rates that fill a link to the last bit are not taken for more than it carries.
_ROUNDING = 1e-12
# The share of a burst that rounding may leave over when it ends.
_NOTHING = 1e-12


@njit(cache=True, nogil=True)
def is_over(world: World, link: int) -> bool:
    """Whether the bursts on a link would need more than it carries."""
    row = world.links[link]
    over: bool = row.demand > row.capacity * (1.0 + _ROUNDING)
    return over


@njit(cache=True, nogil=True)
def _own(world: World, job: int) -> float:
    """Return the fastest that a flow of a job may send in its burst."""
    row = world.jobs[job]
    rate: float = world.segments[row.first_segment + row.segment].rate
    return rate


@njit(cache=True, nogil=True)
def gather(world: World, job: int, count: int) -> int:
    """Add a sending job, and all that it has to share links with, to the members.

    Parameters
    ----------
    count
        How many members there are.

    Returns
    -------
    int
        How many there are now; members and touched links carry the stamp of the clock.
    """
    clock, jobs, links, uses = world.clock, world.jobs, world.links, world.uses
    stamp = clock[0].stamp
    if jobs[job].stamp == stamp:
        return count
    jobs[job].stamp = stamp
    world.members[count] = job
    at = count
    count += 1
    while at < count:
        member = world.members[at]
        at += 1
        first = jobs[member].first_use
        for use in range(first, first + jobs[member].uses):
            link = uses[use].link
            if links[link].stamp == stamp or not is_over(world, link):
                continue
            links[link].stamp = stamp
            other = links[link].head
            while other >= 0:
                found = uses[other].job
                if jobs[found].stamp != stamp:
                    jobs[found].stamp = stamp
                    world.members[count] = found
                    count += 1
                other = uses[other].next
    return count


@njit(cache=True, nogil=True)
def share_out(world: World, count: int) -> None:
    """Give the first `count` members their rates, and the events that follow from them.

    Members are complete: nobody else sends on the links that they meet on.
    """
    jobs, links, uses, members = world.jobs, world.links, world.uses, world.members
    stamp = world.clock[0].stamp
    touched = 0
    for i in range(count):
        first = jobs[members[i]].first_use
        for use in range(first, first + jobs[members[i]].uses):
            link = uses[use].link
            # A negative stamp: a link that is being shared out.
            if links[link].stamp == stamp:
                links[link].stamp = -stamp
                links[link].left = links[link].capacity
                world.touched[touched] = link
                touched += 1
    done = 0
    while done < count:
        begin = done
        done = _next_class(world, begin, count)
        _fill(world, begin, done, touched)


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
def _fill(world: World, begin: int, end: int, touched: int) -> None:
    """Raise the rates of one class together until links or own rates stop them.

    References
    ----------
    D. Bertsekas, R. Gallager, "Data Networks", 2nd edition, section 6.5.2.
    """
    links = world.links
    _open(world, begin, end, touched)
    while begin < end:
        level = math.inf
        for i in range(touched):
            link = links[world.touched[i]]
            if link.open > 0:
                level = min(level, max(link.left, 0.0) / link.weight)
        settled = _settle_at_own_rate(world, begin, end, level)
        if settled == begin:
            settled = _settle_at_bottleneck(world, begin, end, level)
        begin = settled


@njit(cache=True, nogil=True)
def _open(world: World, begin: int, end: int, touched: int) -> None:
    """Count on each link the members of a class, none of which has a rate yet."""
    jobs, links, uses, members = world.jobs, world.links, world.uses, world.members
    stamp = -world.clock[0].stamp
    for i in range(touched):
        row = links[world.touched[i]]
        row.weight = 0.0
        row.open = 0
    for i in range(begin, end):
        row = jobs[members[i]]
        for use in range(row.first_use, row.first_use + row.uses):
            link = links[uses[use].link]
            if link.stamp == stamp:
                link.weight += uses[use].flows * row.share
                link.open += 1


@njit(cache=True, nogil=True)
def _settle_at_own_rate(world: World, begin: int, end: int, level: float) -> int:
    """Settle the members that want no more than their share at this level; return the next."""
    jobs, members = world.jobs, world.members
    for i in range(begin, end):
        job = members[i]
        own = _own(world, job)
        if own <= level * jobs[job].share:
            _settle(world, job, own)
            members[i], members[begin] = members[begin], members[i]
            begin += 1
    return begin


@njit(cache=True, nogil=True)
def _settle_at_bottleneck(world: World, begin: int, end: int, level: float) -> int:
    """Settle the members that have a full link at this level; return the next."""
    jobs, members = world.jobs, world.members
    for i in range(begin, end):
        job = members[i]
        if _is_at_bottleneck(world, job, level):
            _settle(world, job, level * jobs[job].share)
            members[i], members[begin] = members[begin], members[i]
            begin += 1
    return begin


@njit(cache=True, nogil=True)
def _is_at_bottleneck(world: World, job: int, level: float) -> bool:
    """Whether a link of the job is full at this level; settled jobs of it do not count."""
    row = world.jobs[job]
    stamp = -world.clock[0].stamp
    for use in range(row.first_use, row.first_use + row.uses):
        link = world.links[world.uses[use].link]
        if link.stamp == stamp and max(link.left, 0.0) <= level * link.weight * (1.0 + _ROUNDING):
            return True
    return False


@njit(cache=True, nogil=True)
def _settle(world: World, job: int, rate: float) -> None:
    """Give a job its rate and take it off its links."""
    row = world.jobs[job]
    stamp = -world.clock[0].stamp
    for use in range(row.first_use, row.first_use + row.uses):
        link = world.links[world.uses[use].link]
        if link.stamp == stamp:
            flows = world.uses[use].flows
            link.left -= flows * rate
            link.weight -= flows * row.share
            link.open -= 1
    set_rate(world, job, rate)


@njit(cache=True, nogil=True)
def set_rate(world: World, job: int, rate: float) -> None:
    """Let a burst go on at another rate from now on."""
    row = world.jobs[job]
    if row.rate == rate:
        return
    now = world.clock[0].now
    if row.rate > 0.0:
        row.left = max(0.0, row.left - row.rate * (now - row.since))
    row.since = now
    row.rate = rate
    if row.left <= _NOTHING * world.segments[row.first_segment + row.segment].volume:
        row.key = now  # it ends now, even if somebody takes the link at this very moment
    else:
        row.key = now + row.left / rate if rate > 0.0 else math.inf
    heap.put(world.heap, world.clock, world.jobs, job)
    _note(world, job, rate)


@njit(cache=True, nogil=True)
def _note(world: World, job: int, rate: float) -> None:
    """Write a new rate into the trace of the links that are watched."""
    clock = world.clock
    row = world.jobs[job]
    for use in range(row.first_use, row.first_use + row.uses):
        if world.links[world.uses[use].link].watched:
            record = world.trace[clock[0].traced]
            record.time = clock[0].now
            record.use = use
            record.rate = rate
            clock[0].traced += 1


@njit(cache=True, nogil=True)
def begin_burst(world: World, job: int) -> None:
    """Let a job send on all its links."""
    clock, jobs, links, uses = world.clock, world.jobs, world.links, world.uses
    row = jobs[job]
    own = _own(world, job)
    now = clock[0].now
    contended = False
    for use in range(row.first_use, row.first_use + row.uses):
        link = uses[use].link
        was_over = is_over(world, link)
        links[link].demand += uses[use].flows * own
        head = links[link].head
        uses[use].next = head
        uses[use].prev = -1
        if head >= 0:
            uses[head].prev = use
        else:
            links[link].busy_since = now
        links[link].head = use
        links[link].active += 1
        if is_over(world, link):
            contended = True
            if not was_over:
                links[link].over_since = now
    if not contended:
        set_rate(world, job, own)
        return
    clock[0].stamp += 1
    share_out(world, gather(world, job, 0))


@njit(cache=True, nogil=True)
def end_burst(world: World, job: int) -> None:
    """Take a burst off its links and give what it leaves to the others."""
    clock, jobs, links, uses = world.clock, world.jobs, world.links, world.uses
    row = jobs[job]
    own = _own(world, job)
    now = clock[0].now
    row.rate = 0.0
    row.left = 0.0
    _note(world, job, 0.0)
    clock[0].stamp += 1
    count = 0
    for use in range(row.first_use, row.first_use + row.uses):
        link = uses[use].link
        was_over = is_over(world, link)
        links[link].demand -= uses[use].flows * own
        after, before = uses[use].next, uses[use].prev
        if after >= 0:
            uses[after].prev = before
        if before >= 0:
            uses[before].next = after
        else:
            links[link].head = after
        links[link].active -= 1
        if links[link].active == 0:
            links[link].demand = 0.0  # no rounding stays behind
            links[link].busy += now - links[link].busy_since
        if was_over and not is_over(world, link):
            links[link].over += now - links[link].over_since
    # Only now: whoever is gathered must see all links as they are.
    for use in range(row.first_use, row.first_use + row.uses):
        other = links[uses[use].link].head
        while other >= 0:
            if jobs[uses[other].job].rate < _own(world, uses[other].job):
                count = gather(world, uses[other].job, count)
            other = uses[other].next
    if count:
        share_out(world, count)
