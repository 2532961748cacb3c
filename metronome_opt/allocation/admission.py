"""Where a job runs and when it starts: now, or after some of the next jobs have left.

The nearest placement now is the incumbent. Where jobs slow one another down there, others and later
starts of lower cost are compared with it by rollouts, and another one is taken only if it is
surely better. Costs are those of `occupancy`. Jobs are decided about one after the other, the most
urgent one first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from metronome_opt.allocation.occupancy import Occupancy, StartOption
from metronome_opt.allocation.request import JobRequest, PlacedJob
from metronome_opt.allocation.rollout import MIN_SAVING, Arrivals, best_start
from metronome_opt.allocation.start_options import (
    candidate_starts,
    cheapest,
    exchange_nodes,
    nearest_placement,
)
from metronome_opt.scenario.flows import Placement

_MAX_PLACES, _MAX_DEPARTURES = 2, 2  # choices that are compared with the nearest placement now
_MAX_WAIT = 20  # costs of a start, after which a job starts
_MAX_LEAVING = 4  # next departures after which placements are compared


class AdmissionDecision(NamedTuple):
    """The decision about a waiting job."""

    # the start that was chosen; None if there is no room even when the next jobs have left
    start: StartOption | None
    now: StartOption | None  # the nearest placement now; None if there is no room

    @property
    def placement(self) -> Placement | None:
        """The placement of a job that starts now; None if it waits."""
        return None if self.start is None or self.start.after_ms else self.start.placement


class QueuedJob(NamedTuple):
    """A job that waits, and for how long it has waited."""

    job: JobRequest
    waited_ms: float = 0.0


def decide_admissions(
    waiting: Sequence[QueuedJob],
    occupancy: Occupancy,
    arrivals: Arrivals,
    seed: int = 0,
    *,
    may_wait: bool = True,
) -> Mapping[str, AdmissionDecision]:
    """Decide which jobs start now, and where.

    Parameters
    ----------
    waiting
        The waiting jobs, the most urgent ones first.
    occupancy
        The jobs that run.
    arrivals
        The jobs seen so far, with the waiting ones.
    may_wait
        Whether a job may wait although there is room. No job does for ever: after a wait of 20
        times what the nearest placement now costs it starts there.

    Returns
    -------
    Mapping
        The decision about each job, by name.
    """
    decisions: dict[str, AdmissionDecision] = {}
    with_starts = occupancy.copy()
    held = list[JobRequest]()
    for index, (job, waited_ms) in enumerate(waiting):
        now = start = _nearest(job, with_starts)
        if now is None:
            start = next(_later(job, with_starts), None)
        elif now.cost > MIN_SAVING * job.cost_weight * job.expected_ms:
            others = held, [queued.job for queued in waiting[index + 1 :]]
            allows_waiting = may_wait and job.cost_weight * waited_ms < _MAX_WAIT * now.cost
            choices = _choices(job, with_starts, now, may_wait=allows_waiting)
            if len(choices) > 1:
                terms = (job, with_starts, others, arrivals, seed)
                start = best_start(choices, *terms, may_wait=may_wait)
        decisions[job.name] = decision = AdmissionDecision(start, now)
        if decision.placement is not None:
            with_starts.add(PlacedJob(job, decision.placement))
        elif now is not None:
            held.append(job)
    return decisions


def _nearest(job: JobRequest, occupancy: Occupancy) -> StartOption | None:
    placement = nearest_placement(occupancy, job) if occupancy.resources.may_hold(job) else None
    return None if placement is None else occupancy.start(job, placement)


def _choices(
    job: JobRequest, occupancy: Occupancy, now: StartOption, *, may_wait: bool
) -> list[StartOption]:
    """Return the nearest placement now, and starts of lowest cost among those that cost less."""
    least = now.cost - MIN_SAVING * job.cost_weight * job.expected_ms
    later = _later(job, occupancy, least) if may_wait else ()
    choices = [now]
    for starts, most in ((_places(job, occupancy), _MAX_PLACES), (later, _MAX_DEPARTURES)):
        cheaper = (start for start in starts if start.cost < least)
        choices += sorted(cheaper, key=lambda start: start.cost)[:most]
    return choices


def _places(job: JobRequest, occupancy: Occupancy) -> list[StartOption]:
    """Return the starts of a job now at its candidate placements, and the best after exchanges."""
    if occupancy.candidates == 1:
        return []
    starts = candidate_starts(occupancy, job)
    best = min(starts, key=lambda start: start.cost, default=None)
    exchanged = [] if best is None else [exchange_nodes(occupancy, job, best)]
    return [*starts, *(start for start in exchanged if start is not best)]


def _later(job: JobRequest, occupancy: Occupancy, limit: float = math.inf) -> Iterator[StartOption]:
    """Yield the cheapest starts after the next departures, as long as waits cost less than that."""
    later = occupancy.copy()
    leaving = sorted(occupancy.placed.values(), key=lambda placed_job: placed_job.job.expected_ms)
    for leaving_job in leaving[:_MAX_LEAVING]:
        name, after_ms = leaving_job.job.name, leaving_job.job.expected_ms
        if job.cost_weight * after_ms >= limit:
            return
        later.remove(name)
        if later.resources.may_hold(job):
            start = cheapest(candidate_starts(later, job, after_ms))
            if start is not None:
                yield start._replace(waits_for=name)
