"""Exact Pareto fronts of two objectives, or what time allowed of them.

The ends of a front, the optima of the two orders of its objectives, are found first. Where they are
one and the same there is nothing else. Otherwise the instance is decomposed into groups that can be
decided separately (`GroupFront`), each between its share of both ends. The front of the whole is
the non-dominated part of the Minkowski sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION, STRETCH, check_names, traffic
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers.arguments import Arguments, Goal, make_schedule
from metronome_opt.solvers.multiobjective.front import (
    Candidate,
    Front,
    FrontEvent,
    Interval,
    Row,
    add_intervals,
    minkowski,
    nondominated,
)
from metronome_opt.solvers.multiobjective.group_front import GroupFront
from metronome_opt.solvers.multiobjective.group_search import group
from metronome_opt.solvers.multiobjective.offsets import solve_offsets
from metronome_opt.solvers.multiobjective.stretching import front_stretched
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.solvers.registry import LAYERED
from metronome_opt.solvers.run import SolverRun
from metronome_opt.verify import evaluate

_IN_FRONTS = (*LAYERED, STRETCH)
_END = 0.5  # of the time that is left, at most, for an end of a front

Callback = Callable[[FrontEvent], bool | None]


def find_front(arguments: Arguments, names: tuple[str, ...], callback: Callback | None) -> Front:
    """Find the non-dominated schedules for two objectives.

    Parameters
    ----------
    arguments
        Of the run; its goal does not count.
    names
        The objectives, as `check_front` returns them.
    callback
        Called after every part; returns True to stop.

    Returns
    -------
    Front
        Points with values as `verify` computes them.
    """
    instance, budget = arguments.instance, arguments.budget
    cushion_slots = arguments.cushion_slots
    rows: Sequence[Row]
    intervals: tuple[Interval, ...]
    if STRETCH in names:
        rows, complete = front_stretched(arguments, names, callback)
        intervals = () if complete else (Interval(None, None),)
    else:
        extended = replace(arguments, instance=extend_bursts(instance, cushion_slots))
        offsets, intervals = _front(extended, names, callback)
        rows = [(by_job, {}) for by_job in offsets]
        complete = not intervals
    # The values are those that `verify` computes.
    evaluated = [evaluate(instance, *row, cushion_slots=cushion_slots).objectives for row in rows]
    kept = nondominated(
        Candidate(tuple(values[name] or Fraction(0) for name in names), (row, values))
        for values, row in zip(evaluated, rows, strict=True)
    )
    bound = kept[0].values[0] if complete else None
    points = []
    for candidate in kept:
        (offsets, stretch), values = candidate.parts
        first = values[names[0]]
        points.append(
            make_schedule(
                arguments,
                offsets,
                stretch,
                {names[0]: first, **values},
                bound,
                proved=first == bound,
                cushion_slots=cushion_slots,
            )
        )
    return Front(
        instance,
        names,
        tuple(points),
        complete,
        StopReason.PROVED if complete else budget.stop,
        budget.elapsed,
        _notes(names[0], intervals),
        intervals,
    )


def _notes(name: str, intervals: Sequence[Interval]) -> tuple[str, ...]:
    if not intervals:
        return ()
    where = " and ".join(interval.describe(name) for interval in intervals)
    return (f"the front may have more points {where}: not all was proved in time",)


def check_front(instance: Instance, objectives: Sequence[str]) -> tuple[str, ...]:
    """Return the objectives of a front.

    Raises
    ------
    InputError
        If they have none, with the alternative.
    """
    names = check_names(objectives)
    if len(names) != 2:
        raise InputError(
            f"objectives: a front has two objectives, got {len(names)}; for one, or more in an "
            "order, use solve"
        )
    if CUSHION in names:
        raise InputError(
            "objectives: a front has no cushion; choose a cushion by cushion_slots, a front for "
            "each, or use solve with cushion in an order"
        )
    if other := [name for name in names if name not in _IN_FRONTS]:
        raise InputError(
            f"objectives: {other[0]} has no front; choose two of {', '.join(_IN_FRONTS)}, or use "
            "solve with it in an order"
        )
    instance.check_hyperperiods(may_stretch=True)
    if instance.needs_stretch and STRETCH not in names:
        raise InputError(
            "objectives: hyperperiods are above the limit unless jobs are stretched; name stretch "
            "as one of the two"
        )
    return names


def _front(
    arguments: Arguments, names: tuple[str, ...], callback: Callback | None
) -> tuple[list[dict[str, int]], tuple[Interval, ...]]:
    """Return the schedules of a front, by job name, and where more may be missing."""
    instance, whole = arguments.instance, arguments.budget
    ends: list[dict[str, int]] = []
    proved: list[bool] = []
    for order in (names, names[::-1]):
        end, is_best = _end(arguments, order, _END)
        values = evaluate(instance, end).objectives
        ends.append(end)
        proved.append(is_best)
        if order == names and is_best and not values[names[1]]:  # nothing is better in either
            return ends, ()
        if order == names and whole.stopped:
            return ends, (Interval(values[names[0]] if is_best else None, None),)
    search = SolverRun(
        instance,
        time_limit=whole.remaining,
        seed=arguments.seed,
        threads=arguments.threads,
        parent=whole,
    )
    every, join = group(search, traffic(instance), names)
    if not every:
        return ends[:1], ()
    groups = [
        GroupFront(costs, names, [tuple(end[job.name] for job in costs.group.jobs) for end in ends])
        for costs in every
    ]

    def notify(current: GroupFront, closed: Sequence[Candidate]) -> None:
        done = sum(part.done for part in groups)
        points = sum(len(part.points) for part in groups if part.done or part is current)
        values = tuple(point.values for point in closed)
        event = FrontEvent(whole.elapsed, done, len(groups), points, values)
        if callback is not None and callback(event):
            whole.end(StopReason.RULE)

    # What is left of the time goes to the large ones.
    for part in sorted(groups, key=lambda part: len(part.costs.group.jobs)):
        part.search(partial(notify, part))
    points = minkowski([part.points for part in groups])
    rows = [join([part for part, _ in point.parts]) for point in points]
    for number, name in enumerate(names):
        if not (proved[number] or whole.stopped):  # now that there is time
            end, is_best = _end(arguments, (name,), 1)
            rows.append(end)
            value = evaluate(instance, end).objectives[name]
            proved[number] = is_best and value == min(point.values[number] for point in points)
    return rows, add_intervals([part.intervals(proved) for part in groups])


def _end(arguments: Arguments, order: tuple[str, ...], share: float) -> tuple[dict[str, int], bool]:
    """Return the schedule at an end, and whether no other is better in the first objective.

    Those that are as good in it, and better in the other one, are between the ends.
    """
    budget = arguments.budget.fraction(share)
    end = solve_offsets(replace(arguments, budget=budget, goal=Goal(order)))
    if end.stop is StopReason.INTERRUPTED:
        arguments.budget.interrupt()
    value = evaluate(arguments.instance, end.offsets).objectives[order[0]]
    return end.offsets, end.levels[0].proved and end.levels[0].value == value
