"""Bursts begin and end on all links of a job at once, and links come to carry more or less."""

from __future__ import annotations

from metronome_opt.kernels.compiling import inner, kernel
from metronome_opt.kernels.fluid.sharing import (
    is_over,
    join,
    join_held,
    note_rate,
    own_rate,
    set_rate,
    share_out,
)
from metronome_opt.kernels.fluid.world import World


@inner
def begin_burst(world: World, job: int) -> None:
    """Let a job send on all its links."""
    clock, jobs, links, uses = world.clock, world.jobs, world.links, world.uses
    row = jobs[job]
    own = own_rate(world, job)
    now = clock[0].now
    row.held_by = -1
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
    count = join(world, job, 0)
    for use in range(row.first_use, row.first_use + row.uses):
        count = join_held(world, uses[use].link, count)
    share_out(world, count)


@inner
def end_burst(world: World, job: int) -> None:
    """Take a burst off its links and give what it leaves to the others."""
    clock, jobs, links, uses = world.clock, world.jobs, world.links, world.uses
    row = jobs[job]
    own = own_rate(world, job)
    now = clock[0].now
    row.rate = 0.0
    row.left = 0.0
    note_rate(world, job, 0.0)
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
    for use in range(row.first_use, row.first_use + row.uses):
        count = join_held(world, uses[use].link, count)
    if count:
        share_out(world, count)


@kernel
def change_capacity(world: World, link: int, capacity: float) -> None:
    """Let a link carry more or less from now on."""
    clock, links, uses = world.clock, world.links, world.uses
    now = clock[0].now
    was_over = is_over(world, link)
    links[link].capacity = capacity
    over = is_over(world, link)
    if over and not was_over:
        links[link].over_since = now
    if was_over and not over:
        links[link].over += now - links[link].over_since
    clock[0].stamp += 1
    count = 0
    use = links[link].head
    while use >= 0:
        count = join(world, uses[use].job, count)
        use = uses[use].next
    if count:
        share_out(world, count)
