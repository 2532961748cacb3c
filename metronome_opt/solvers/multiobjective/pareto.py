"""Exact Pareto fronts of two objectives, or what time allowed of them.

The ends of a front, the optima of the two orders of its objectives, are found first. Where they are
one and the same there is nothing else. Otherwise the instance is decomposed into groups that can be
decided separately. Of a group, too, the front lies between its share of both ends: single jobs are
moved as long as that gives new points, and `Nondominated` finds what is missing, or proves that
nothing is. The front of the whole is the non-dominated part of the Minkowski sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CUSHION, STRETCH, check_names, traffic
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers.arguments import Arguments, Goal, make_schedule
from metronome_opt.solvers.kernels.compiled_instance import Ints, TooLargeError
from metronome_opt.solvers.multiobjective.costs import Costs, Offsets, SumRun
from metronome_opt.solvers.multiobjective.front import (
    Candidate,
    Front,
    FrontEvent,
    Row,
    minkowski,
    nondominated,
)
from metronome_opt.solvers.multiobjective.group_search import group
from metronome_opt.solvers.multiobjective.nondominated import Archive, Nondominated
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
    if STRETCH in names:
        rows, complete = front_stretched(arguments, names, callback)
    else:
        extended = replace(arguments, instance=extend_bursts(instance, cushion_slots))
        offsets, complete = _front(extended, names, callback)
        rows = [(by_job, {}) for by_job in offsets]
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
        () if complete else ("the front may have more points: not all was proved in time",),
    )


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
) -> tuple[list[dict[str, int]], bool]:
    """Return the schedules of a front, by job name, and whether it is proved complete."""
    instance, whole = arguments.instance, arguments.budget
    ends = []
    proved = True
    for order in (names, names[::-1]):
        end = solve_offsets(replace(arguments, budget=whole.fraction(_END), goal=Goal(order)))
        if end.stop is StopReason.INTERRUPTED:
            whole.interrupt()
        ends.append(end.offsets)
        proved = proved and all(level.proved for level in end.levels)
        if order == names and proved:
            second = evaluate(instance, end.offsets).objectives[names[1]]
            if not second:  # nothing is better in either
                break
        if order == names and whole.stopped:
            proved = False
            break
    search = SolverRun(
        instance,
        time_limit=whole.remaining,
        seed=arguments.seed,
        threads=arguments.threads,
        parent=whole,
    )
    every, join = group(search, traffic(instance), names)
    if not every:
        return ends[:1], True
    fronts: dict[int, list[Candidate]] = {}
    # What is left of the time goes to the large ones.
    for number in sorted(range(len(every)), key=lambda n: len(every[n].group.jobs)):
        costs = every[number]
        parts = [tuple(end[job.name] for job in costs.group.jobs) for end in ends]
        points, complete = _between(costs, names, parts)
        proved = proved and complete
        fronts[number] = nondominated(
            Candidate(
                tuple(costs.units(name, offsets) * costs.steps[name] for name in names),
                ((costs.offsets_by_job(offsets), {}),),
            )
            for offsets in points
        )
        event = FrontEvent(whole.elapsed, len(fronts), len(every), sum(map(len, fronts.values())))
        if callback is not None and callback(event):
            whole.end(StopReason.RULE)
    whole_front = minkowski([fronts[number] for number in range(len(every))])
    return [join([part for part, _ in point.parts]) for point in whole_front], proved


def _between(
    costs: Costs, names: Sequence[str], ends: Sequence[Offsets]
) -> tuple[Sequence[Offsets], bool]:
    """Return the front of a group from its ends on, and whether nothing is missing."""

    def values(offsets: Offsets) -> tuple[int, int]:
        return costs.units(names[0], offsets), costs.units(names[1], offsets)

    if len(set(map(values, ends))) == 1:
        return ends[:1], True
    # Nothing between the ends is worse than at the other end.
    limits = [max(column) for column in zip(*map(values, ends), strict=True)]
    try:
        pairs = zip(names, limits, strict=True)
        networks = [SumRun(costs, {name: 1}, limit).network() for name, limit in pairs]
        archive = Archive((networks[0].limit, networks[1].limit))
        for offsets in ends:
            archive.add(values(offsets), offsets)
        _improve(costs, names, archive)
        proved = Nondominated(costs.search, archive).run(networks)
    except (TooLargeError, MemoryError):
        return ends, False
    return [offsets for _, offsets in archive.points], proved


def _improve(costs: Costs, names: Sequence[str], archive: Archive) -> None:
    """Move single jobs of known schedules, as long as that gives new points."""
    seen: set[Offsets] = set()
    free = [n for n, job in enumerate(costs.group.jobs) if job.fixed_offset is None]
    while todo := [known for _, known in archive.points if known not in seen]:
        for offsets in todo:
            seen.add(offsets)
            for job in free:
                if costs.search.stopped:
                    return
                around = costs.around(offsets, job)
                rows: Ints = np.stack([around[name] for name in names], axis=1)
                for offset in np.flatnonzero(archive.promising(rows)):
                    moved = (*offsets[:job], int(offset), *offsets[job + 1 :])
                    archive.add((int(rows[offset, 0]), int(rows[offset, 1])), moved)
