"""Link sharing among bursts by progressive filling, one priority class after the other.

A link whose bursts together stay within its capacity at their own rates delays no job. On the other
links, a burst that begins or ends changes the rates of bursts that it meets, and so on from link to
link, but seldom far: only jobs whose rates do change are considered, with their links.
"""

from __future__ import annotations

import math

from metronome_opt.compiling import inner
from metronome_opt.engine.fluid.state import EngineState, put_event

ROUNDING = 1e-12
"""Sums of rates that fill a link to the last bit are not taken for more than it carries."""

STEPS = 16
"""Steps in which shares grow over the volume of an iteration, where they grow."""

# The share of a burst that rounding may leave over when it ends.
_NOTHING = 1e-12


@inner
def is_over(state: EngineState, link: int) -> bool:
    """Return whether the bursts on a link would need more than its capacity."""
    row = state.links[link]
    over: bool = row.demand > row.capacity * (1.0 + ROUNDING)
    return over


@inner
def own_rate(state: EngineState, job: int) -> float:
    """Return the fastest that a flow of a job may send in its burst."""
    row = state.jobs[job]
    rate: float = state.segments[row.first_segment + row.segment].rate
    return rate


@inner
def still_left(state: EngineState, job: int) -> float:
    """Return what each flow of a burst has still to send, in Mbit/s * ms."""
    row = state.jobs[job]
    left: float = row.left - max(row.rate, 0.0) * (state.clock[0].now - row.since)
    return left


@inner
def grow(state: EngineState, job: int) -> None:
    """Increase the share of a burst to that of what its iteration has sent."""
    clock, row = state.clock[0], state.jobs[job]
    segment = state.segments[row.first_segment + row.segment]
    end = segment.before + segment.volume
    step = state.segments[row.first_segment + row.segments - 1].before / STEPS
    row.step = max(row.step, int((end - still_left(state, job)) / step))
    row.share = row.base * (clock.slope * (row.step + 0.5) / STEPS + clock.intercept)
    row.left_then = end - (row.step + 1) * step


@inner
def _set_rate(state: EngineState, job: int, rate: float) -> None:
    """Set the rate of a burst from now on."""
    row = state.jobs[job]
    grows = state.clock[0].slope != 0.0
    if row.rate == rate and not grows:
        return
    now = state.clock[0].now
    if row.rate > 0.0:
        row.left = max(0.0, row.left - row.rate * (now - row.since))
    row.since = now
    row.rate = rate
    row.growing = 0
    nothing = _NOTHING * state.segments[row.first_segment + row.segment].volume
    if row.left <= nothing:
        row.key = now  # it ends now, even if another job takes the link at this moment
    else:
        row.key = now + row.left / rate if rate > 0.0 else math.inf
        # The share of a burst that no link holds back changes no rate.
        if grows and row.held_by >= 0 and rate > 0.0 and row.left_then > nothing:
            row.growing = 1
            row.key = now + max(0.0, row.left - row.left_then) / rate
    put_event(state.heap, state.clock, state.jobs, job)
    _note_rate(state, job, rate)


@inner
def _note_rate(state: EngineState, job: int, rate: float) -> None:
    """Write a new rate into the trace of the links that are watched."""
    clock = state.clock
    row = state.jobs[job]
    for use in range(row.first_use, row.first_use + row.uses):
        if state.links[state.uses[use].link].watched:
            record = state.trace[clock[0].traced]
            record.time = clock[0].now
            record.use = use
            record.rate = rate
            clock[0].traced += 1


@inner
def _fill(state: EngineState, begin: int, end: int) -> None:
    """Raise the offers of one class together until links or own rates stop them.

    References
    ----------
    D. Bertsekas, R. Gallager, "Data Networks", 2nd edition, section 6.5.2.
    """
    touched = _touch(state, begin, end)
    while begin < end:
        touched, level = _min_level(state, touched)
        before = begin
        begin = _settle_own(state, begin, end, level)
        if begin == before:
            begin = _settle_held(state, begin, end, touched, level)


@inner
def _touch(state: EngineState, begin: int, end: int) -> int:
    """Withdraw the offers of a class and open its contended links; return their number."""
    jobs, links, uses, members = state.jobs, state.links, state.uses, state.members
    for i in range(begin, end):
        jobs[members[i]].offer = -1.0
    state.clock[0].mark += 1
    mark = state.clock[0].mark
    touched = 0
    for i in range(begin, end):
        row = jobs[members[i]]
        for use in range(row.first_use, row.first_use + row.uses):
            link = uses[use].link
            if links[link].stamp != mark and is_over(state, link):
                links[link].stamp = mark
                state.touched[touched] = link
                touched += 1
                _open(state, link, row.rank)
    return touched


@inner
def _open(state: EngineState, link: int, rank: int) -> None:
    """Compute what a link has left for the members of a class."""
    row = state.links[link]
    row.left = row.capacity
    row.weight = 0.0
    row.open = 0
    use = row.head
    while use >= 0:
        job = state.jobs[state.uses[use].job]
        flows = state.uses[use].flows
        if job.stamp == state.clock[0].stamp:
            if job.rank == rank:
                row.weight += flows * job.share
                row.open += 1
            elif job.rank > rank:
                row.left -= flows * job.offer
        elif job.rank >= rank:
            row.left -= flows * job.rate
        use = state.uses[use].next
    if row.left < row.capacity * ROUNDING:
        row.left = 0.0  # what rounding left of nothing


@inner
def _min_level(state: EngineState, touched: int) -> tuple[int, float]:
    """Drop links without open jobs; return the number of others, and the level that fills one."""
    level = math.inf
    kept = 0
    for i in range(touched):
        link = state.touched[i]
        row = state.links[link]
        if row.open > 0:
            state.touched[kept] = link
            kept += 1
            level = min(level, max(row.left, 0.0) / row.weight)
    return kept, level


@inner
def _settle_own(state: EngineState, begin: int, end: int, level: float) -> int:
    """Offer their own rates to jobs that want no more; return where the others begin."""
    members = state.members
    for i in range(begin, end):
        job = members[i]
        row = state.jobs[job]
        own = own_rate(state, job)
        if own <= level * row.share:
            _settle(state, job, own, -1)
            members[i], members[begin] = members[begin], job
            begin += 1
    return begin


@inner
def _settle_held(state: EngineState, begin: int, end: int, touched: int, level: float) -> int:
    """Offer the level to all jobs on links that it fills; return where the others begin."""
    jobs, members = state.jobs, state.members
    rank = jobs[members[begin]].rank
    for i in range(touched):
        link = state.touched[i]
        row = state.links[link]
        # Some jobs on it may be settled by now; that leaves the level as it is.
        if row.open > 0 and max(row.left, 0.0) <= level * row.weight * (1.0 + ROUNDING):
            use = row.head
            while use >= 0:
                job = state.uses[use].job
                other = jobs[job]
                is_open = other.stamp == state.clock[0].stamp and other.offer < 0.0
                if is_open and other.rank == rank:
                    _settle(state, job, level * other.share, link)
                use = state.uses[use].next
    for i in range(begin, end):
        job = members[i]
        if jobs[job].offer >= 0.0:
            members[i], members[begin] = members[begin], job
            begin += 1
    return begin


@inner
def _settle(state: EngineState, job: int, rate: float, held_by: int) -> None:
    """Offer a job its rate, and subtract it from its links."""
    row = state.jobs[job]
    row.offer = rate
    row.held_by = held_by
    mark = state.clock[0].mark
    for use in range(row.first_use, row.first_use + row.uses):
        link = state.links[state.uses[use].link]
        if link.stamp == mark:
            flows = state.uses[use].flows
            link.left -= flows * rate
            link.weight -= flows * row.share
            link.open -= 1


_MIN_RANK, _MAX_RANK = -(2**62), 2**62  # beyond all ranks


@inner
def _join(state: EngineState, job: int, count: int) -> int:
    """Make a sending job a member, whose rate is computed again; return the number of members.

    Members have the stamp of the clock.
    """
    row = state.jobs[job]
    if row.stamp == state.clock[0].stamp:
        return count
    row.stamp = state.clock[0].stamp
    state.members[count] = job
    return count + 1


@inner
def _join_held(state: EngineState, link: int, count: int) -> int:
    """Make members of all jobs that a link holds back; return the number of members."""
    use = state.links[link].head
    while use >= 0:
        job = state.uses[use].job
        if state.jobs[job].held_by == link:
            count = _join(state, job, count)
        use = state.uses[use].next
    return count


@inner
def _share_out(state: EngineState, count: int) -> None:
    """Set the rates of the first `count` members, and of the bursts that this concerns.

    All other bursts keep their rates, as long as these are max-min fair: every burst slower than it
    may be has a link that is full and on which no burst of its class has more. A burst that loses
    this link, or has more than a member whose link it is, becomes a member too.
    """
    jobs, members = state.jobs, state.members
    while True:
        if state.clock[0].slope != 0.0:
            for i in range(count):
                grow(state, members[i])
        done = 0
        while done < count:
            begin = done
            done = _next_class(state, begin, count)
            _fill(state, begin, done)
        before = count
        count = _concerned(state, count)
        if count == before:
            break
    for i in range(count):
        _set_rate(state, members[i], jobs[members[i]].offer)


@inner
def _next_class(state: EngineState, begin: int, count: int) -> int:
    """Move the members of the highest rank from `begin` on to the front; return their end."""
    jobs, members = state.jobs, state.members
    highest = jobs[members[begin]].rank
    for i in range(begin + 1, count):
        highest = max(highest, jobs[members[i]].rank)
    end = begin
    for i in range(begin, count):
        if jobs[members[i]].rank == highest:
            members[i], members[end] = members[end], members[i]
            end += 1
    return end


@inner
def _concerned(state: EngineState, count: int) -> int:
    """Make members of all jobs whose rates do not fit the offers; return the number of members."""
    jobs, links, uses, members = state.jobs, state.links, state.uses, state.members
    state.clock[0].mark += 1
    mark = state.clock[0].mark
    for i in range(count):
        row = jobs[members[i]]
        for use in range(row.first_use, row.first_use + row.uses):
            link = uses[use].link
            if links[link].stamp != mark and is_over(state, link):
                links[link].stamp = mark
                count = _concerned_on(state, link, count)
    return count


@inner
def _concerned_on(state: EngineState, link: int, count: int) -> int:
    """Do so on one link, from the highest class down."""
    jobs, uses = state.jobs, state.uses
    stamp = state.clock[0].stamp
    capacity = state.links[link].capacity
    total = 0.0
    rank = _MAX_RANK
    while rank != _MIN_RANK:
        below = _MIN_RANK
        most_kept, most = 0.0, 0.0  # of jobs that are no members, and of all
        least_kept, least = (
            math.inf,
            math.inf,
        )  # of jobs that the link holds back: no members, members
        use = state.links[link].head
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
            count = _join_beyond(state, link, count, rank, lost, limit)
        rank = below
    return count


@inner
def _join_beyond(
    state: EngineState, link: int, count: int, rank: int, lost: float, limit: float
) -> int:
    """Make members of jobs that the link held back but has `lost`, and of jobs above `limit`."""
    jobs, uses = state.jobs, state.uses
    use = state.links[link].head
    while use >= 0:
        job = uses[use].job
        row = jobs[job]
        if row.rank == rank and row.stamp != state.clock[0].stamp:
            rate = row.rate / row.share
            if rate > limit or (row.held_by == link and rate < lost):
                count = _join(state, job, count)
        use = uses[use].next
    return count


@inner
def begin_burst(state: EngineState, job: int) -> None:
    """Begin the burst of a job on all its links."""
    links, uses = state.links, state.uses
    row = state.jobs[job]
    own = own_rate(state, job)
    contended = False
    for use in range(row.first_use, row.first_use + row.uses):
        link = uses[use].link
        links[link].demand += uses[use].flows * own
        head = links[link].head
        uses[use].next = head
        uses[use].prev = -1
        if head >= 0:
            uses[head].prev = use
        links[link].head = use
        links[link].active += 1
        if is_over(state, link):
            contended = True
    if not contended:
        _set_rate(state, job, own)
        return
    share_around(state, job)


@inner
def share_around(state: EngineState, job: int) -> None:
    """Compute the rates of a burst and of the bursts that its links hold back."""
    row = state.jobs[job]
    state.clock[0].stamp += 1
    count = _join(state, job, 0)
    for use in range(row.first_use, row.first_use + row.uses):
        count = _join_held(state, state.uses[use].link, count)
    _share_out(state, count)


@inner
def end_burst(state: EngineState, job: int) -> None:
    """Remove a burst from its links, and share what it leaves among the others."""
    clock, jobs, links, uses = state.clock, state.jobs, state.links, state.uses
    row = jobs[job]
    own = own_rate(state, job)
    row.rate = 0.0
    row.left = 0.0
    _note_rate(state, job, 0.0)
    clock[0].stamp += 1
    count = 0
    for use in range(row.first_use, row.first_use + row.uses):
        link = uses[use].link
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
    for use in range(row.first_use, row.first_use + row.uses):
        count = _join_held(state, uses[use].link, count)
    if count:
        _share_out(state, count)
