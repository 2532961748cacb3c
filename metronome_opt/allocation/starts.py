"""Where a job runs and when it starts: now, or after the next jobs have left.

Placements are priced now and after each of the next departures, as `occupancy` prices them, with
the wait until then. The cheapest start is taken. A job that has waited may cost more now, by a part
of its wait, so that no job waits for ever. Of several jobs one after the other is decided, and the
places of those that start now are chosen anew together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from metronome_opt.allocation.assign import assign
from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.occupancy import Occupancy, Placed, Start
from metronome_opt.scenario.network import Placement
from metronome_opt.solvers.budget import Budget

_ROUNDS = 15  # of the search for places, for each job that starts


class Decision(NamedTuple):
    """The decision about a job that waits.

    Attributes
    ----------
    start
        The best start; None if there is no room even when the next jobs have left.
    now
        The best of those that are possible now; None if there is no room.
    """

    start: Start | None
    now: Start | None

    @property
    def placement(self) -> Placement | None:
        """The placement of a job that starts now; None if it waits."""
        return None if self.start is None or self.start.after_ms else self.start.placement


class Waiting(NamedTuple):
    """A job that waits for a place, for so long by now."""

    job: Demand
    waited_ms: float = 0.0


class Patience(NamedTuple):
    """Limits of waiting.

    Attributes
    ----------
    departures
        Number of the next departures that a job may wait for.
    ageing
        The share of its wait that it may cost more to start now.
    """

    departures: int = 8
    ageing: float = 0.05


PATIENCE = Patience()


def decide_starts(
    waiting: Sequence[Waiting],
    occupancy: Occupancy,
    seed: int = 0,
    patience: Patience = PATIENCE,
) -> Mapping[str, Decision]:
    """Decide which jobs start now, and where.

    Parameters
    ----------
    waiting
        The most urgent ones first.
    occupancy
        The jobs that run.
    patience
        Limits of waiting.

    Returns
    -------
    Mapping
        The decision about each job, by name.
    """
    decisions: dict[str, Decision] = {}
    with_starts = occupancy.copy()
    starting: list[Demand] = []
    for job, waited_ms in waiting:
        decision = decide_start(job, with_starts, waited_ms, patience)
        decisions[job.name] = decision
        if decision.placement is not None:
            with_starts.add(Placed(job, decision.placement))
            starting.append(job)
    if len(starting) > 1 and occupancy.candidates > 1:
        better, left = assign(starting, occupancy, Budget(), seed, _ROUNDS)
        if not left:
            for job in starting:
                placement = better.remove(job.name).placement
                start = better.start(job, placement)
                better.add(Placed(job, placement))
                decisions[job.name] = Decision(start, start)
    return decisions


def decide_start(
    job: Demand, occupancy: Occupancy, waited_ms: float = 0.0, patience: Patience = PATIENCE
) -> Decision:
    """Decide when and where a job starts.

    Parameters
    ----------
    job
        Waits, for `waited_ms` so far.
    occupancy
        The jobs that run.
    """
    now = occupancy.best(job)
    best = now = None if now is None else occupancy.exchanged(job, now)
    limit = math.inf if now is None else now.cost - patience.ageing * job.worth * waited_ms
    later = occupancy.copy()
    leaving = sorted(occupancy.placed.values(), key=lambda each: each.job.expected_ms)
    for each in leaving[: patience.departures]:
        after = each.job.expected_ms
        if job.worth * after >= limit:
            break
        later.remove(each.job.name)
        found = later.best(job, after, limit)
        if found is not None:
            best, limit = found, found.cost
    return Decision(best, now)
