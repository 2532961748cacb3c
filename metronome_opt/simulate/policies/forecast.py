"""What a plan would bring, by letting the claims run: a policy asks the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Runner, Slot
from metronome_opt.simulate.state import State

_ITERATIONS = 12  # of the slowest job, at least

Start = tuple[float, Slot | None]
"""When a job is to begin its next iteration, in ms, and the slot that it keeps from then on."""


def forecast(
    state: State,
    members: Sequence[int],
    *,
    plan: Mapping[int, Start] | None = None,
    bursts: int = 0,
) -> dict[int, float]:
    """Return how many times as long as with a network of its own the iterations of each job take.

    Parameters
    ----------
    members
        Jobs that run; nobody else is looked at.
    plan
        For jobs that are to begin otherwise than they are going to.
    bursts
        How many bursts of all jobs together to look ahead, about.
    """
    plan = plan or {}
    placed = [state.running[index] for index in members]
    runners = [
        Runner(
            each.job.name,
            each.job.claimed(each.placement.rate),
            each.job.work.priority,
            None,
            len(each.placement.links),
        )
        for each in placed
    ]
    links = dict.fromkeys(link for each in placed for link in each.placement.links)
    engine = Engine(
        {link: state.machines.capacities[link] for link in links}, runners, sharing=state.sharing
    )
    starts = [plan.get(index) or state.next_start(index) for index in members]
    first = min(start for start, _ in starts)
    groups: dict[int, int] = {}  # those of the forecast are numbered anew
    for number, (each, (start, slot)) in enumerate(zip(placed, starts, strict=True)):
        if slot is not None:
            slot = replace(slot, group=groups.setdefault(slot.group, len(groups)))
        engine.enter(number, each.placement.links, at=start - first, slot=slot)
    alone = [runner.pattern.alone_ms for runner in runners]
    length = max(_ITERATIONS * max(alone), bursts / sum(1 / time for time in alone))
    engine.run(max(start for start, _ in starts) - first + length)
    return {
        index: engine.mean_time(number)
        / runners[number].pattern.alone_ms
        * each.job.slowness(each.placement.rate)
        for number, (index, each) in enumerate(zip(members, placed, strict=True))
    }
