"""Where a job runs and when it starts: now, or after the next jobs have left.

Placements are priced now and after each of the next departures, as `occupancy` prices them, with
the wait until then. The cheapest start is taken. A job that has waited may cost more now, by a part
of its wait, so that no job waits for ever.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.occupancy import Occupancy, Start
from metronome_opt.scenario.network import Placement

_DEPARTURES = 8  # that a job may wait for
_AGEING = 0.05  # of the time that a job has waited


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


def decide_start(job: Demand, occupancy: Occupancy, waited_ms: float = 0.0) -> Decision:
    """Decide when and where a job starts.

    Parameters
    ----------
    job
        Waits, for `waited_ms` so far.
    occupancy
        The jobs that run.
    """
    best = now = occupancy.best(job)
    limit = math.inf if now is None else now.cost - _AGEING * job.worth * waited_ms
    later = occupancy.copy()
    leaving = sorted(occupancy.placed.values(), key=lambda each: each.job.expected_ms)
    for each in leaving[:_DEPARTURES]:
        after = each.job.expected_ms
        if job.worth * after >= limit:
            break
        later.remove(each.job.name)
        found = later.best(job, after, limit)
        if found is not None:
            best, limit = found, found.cost
    return Decision(best, now)
