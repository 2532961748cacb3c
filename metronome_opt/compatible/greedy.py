"""Heaviest first, each job to its cheapest choice that fits beside those that are placed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from metronome_opt.compatible.choices import Choices, costs_of, least_cost
from metronome_opt.compatible.choose import Chosen
from metronome_opt.compatible.placed import Placed
from metronome_opt.instance import Instance, Job
from metronome_opt.kernels.sliding import roomiest_offset
from metronome_opt.kernels.tables import Ints
from metronome_opt.solvers.deadline import Deadline

Pick = Callable[[Job, Ints], int]
"""Picks one of the offsets that cost nothing."""


def choose(
    instance: Instance, choices: Choices, clock: Deadline, *, cushion_slots: int = 0
) -> Chosen:
    """Place each job at its roomiest offset; nothing is found if some job has no choice left."""
    placed = Placed(instance, cushion_slots)
    stranded = fill(placed, choices, heaviest_first(instance, choices), clock)
    least = least_cost(choices)
    if stranded:
        return Chosen(None, None, least)
    kept, costs = placed.schedule, costs_of(choices)
    cost = sum((costs[name][kept.periods.get(name)] for name in costs), Fraction(0))
    return Chosen(kept, cost, least)


def fill(
    placed: Placed,
    choices: Choices,
    names: Iterable[str],
    clock: Deadline,
    pick: Pick | None = None,
) -> list[str]:
    """Place some jobs, one after the other; return those that have no choice left.

    Parameters
    ----------
    choices
        The cheapest first.
    pick
        Picks offsets, the roomiest if left out.
    """
    stranded = []
    for name in names:
        for choice in choices[name]:
            if choice.period is None:
                break
            cost = None if clock.over else placed.costs(name, choice.period)
            if cost is not None:
                job = placed.instance.job(name)
                placed.put(name, choice.period, (pick or roomiest)(job, cost))
                break
        else:
            stranded.append(name)
    return stranded


def roomiest(job: Job, cost: Ints) -> int:
    """Return the offset with the most room on either side."""
    return int(roomiest_offset(cost, job.ready % len(cost))[0])


def heaviest_first(instance: Instance, choices: Choices) -> list[str]:
    """Return the jobs by what their dearest choice costs, then by traffic, largest first."""

    def key(job: Job) -> tuple[Fraction, Fraction]:
        traffic = Fraction(sum(job.links.values()) * job.volume, job.period)
        return -max(choice.cost for choice in choices[job.name]), -traffic

    return [job.name for job in sorted(instance.jobs, key=key)]
