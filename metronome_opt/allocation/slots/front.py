"""Fronts of slowdown and delay: weighted sums of both, minimised one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metronome_opt.errors import InputError
from metronome_opt.problem.objectives import DELAY, SLOWDOWN, MeanWeights
from metronome_opt.problem.result import Result
from metronome_opt.problem.schedule import Schedule
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.multiobjective.front import (
    Candidate,
    Front,
    FrontEvent,
    Values,
    nondominated,
)

NAMES = (SLOWDOWN, DELAY)
_SUMS = 5


def slowdown_front(
    weights: Mapping[str, int],
    minimise: Callable[[MeanWeights, Budget], Result],
    budget: Budget,
    callback: Callable[[FrontEvent], bool | None] | None = None,
) -> Front:
    """Return the non-dominated schedules among those of some weighted sums.

    Parameters
    ----------
    weights
        Weights of the jobs.
    minimise
        Returns a schedule of small means of slowdowns, given weights in these, within a budget.
    callback
        Notified of every sum that is minimised; returns True to stop.

    Raises
    ------
    InputError
        If the time is too short to simulate.
    """
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1)
    total, count = sum(weights.values()), len(weights)
    points: dict[Values, Schedule] = {}
    waiting: tuple[str, ...] = ()
    for part in range(_SUMS):
        of_slowdown, of_delay = (_SUMS - 1 - part) * count, part * total  # normalised
        mixed = {name: of_slowdown * weight + of_delay for name, weight in weights.items()}
        result = minimise((mixed,), budget.fraction(1 / (_SUMS - part)))
        slowdown, delay = (result.schedule.objectives[name] for name in NAMES)
        waiting = result.schedule.waiting if part == 0 else waiting
        # Values of other jobs are no values of the front.
        are_equal = waiting == result.schedule.waiting
        if slowdown is not None and delay is not None and are_equal:
            points[slowdown, delay] = result.schedule
        event = FrontEvent(budget.elapsed, part + 1, _SUMS, len(points))
        if budget.stopped or (callback is not None and callback(event)):
            break
    if not points:
        raise InputError(
            f"time limit: too short to simulate the jobs in {_SUMS} parts of it; give {_SUMS} "
            "times as long as `allocate` needs"
        )
    kept = nondominated(Candidate(values, ()) for values in points)
    return Front(
        result.instance,
        NAMES,
        tuple(points[point.values] for point in kept),
        complete=False,
        stop=budget.stop,
        runtime_s=budget.elapsed,
        notes=(
            f"the front may have more points: {_SUMS} weighted sums were minimised",
            f"simulated, network {result.schedule.network or result.instance.network}",
        ),
    )
