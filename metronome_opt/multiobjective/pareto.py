"""Pareto fronts of two or three objectives, exact wherever time allows, and said so where not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import (
    Candidate,
    Front,
    FrontEvent,
    FrontMemory,
    Row,
    nondominated,
)
from metronome_opt.multiobjective.goals import Exact, Run, check_reserve, make_goal
from metronome_opt.multiobjective.objectives import (
    BY_NAME,
    as_stated,
    check_names,
    find_objective,
    to_minimise,
)
from metronome_opt.multiobjective.partfronts import PartFronts
from metronome_opt.multiobjective.stretching import front_stretched
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Stop
from metronome_opt.schedule import OBJECTIVES, Schedule, Status
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import find_solver
from metronome_opt.solvers.solve import (
    check_instance,
    check_numbers,
    interrupt_stops,
    versions_of,
)
from metronome_opt.verify import evaluate

DEFAULT_TIME_LIMIT = 600.0


def pareto(
    instance: Instance,
    objectives: Sequence[str] = ("contention", "latency"),
    *,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    epsilon: Mapping[str, Exact] | None = None,
    cushion_slots: int = 0,
    approximate: bool = False,
    memory: FrontMemory | None = None,
    callback: Callable[[FrontEvent], bool | None] | None = None,
) -> Front:
    """Find the schedules of which none is as good as another in all of some objectives.

    The instance is taken apart as far as the objectives allow; the fronts of the parts are found
    exactly by an epsilon-constraint search (`groupfront`), and the front of the whole is the
    non-dominated part of their Minkowski sum.

    Parameters
    ----------
    objectives
        Two of them, or three on small instances. With ``stretch`` among them jobs are stretched.
    time_limit
        Seconds; None for no limit. What was found is returned, `complete` says if that is all.
    seed, workers
        As `solve` has them.
    epsilon
        The most that objectives may come to, by name; of a cushion the least.
    cushion_slots
        A reserve, as `solve` has it.
    approximate
        Take a front of three objectives as far as it is found in time, however large it is.
    memory
        Where fronts of parts are kept, to go on after an interruption; unused where jobs are
        stretched.
    callback
        Told whenever a part is done, or a choice of periods; returns True to stop.

    Raises
    ------
    InputError
        If an argument makes no sense, epsilon leaves nothing, or three objectives have too many
        schedules.
    """
    check_instance(instance)
    check_numbers(time_limit, seed, workers)
    names = check_names(objectives)
    if added := [name for name in names if name not in BY_NAME]:
        raise InputError(
            f"objectives: {added[0]} is another package's, which has no place in the schedules of "
            "a front; use solve"
        )
    if not 2 <= len(names) <= 3:
        raise InputError(
            f"objectives: a front has two or three objectives, got {len(names)}; "
            "for one, or more in an order, use solve"
        )
    limits = make_goal(names, epsilon=epsilon).epsilon
    for name in limits:
        if name not in names:
            raise InputError(
                f"epsilon: {name} is not on the axes; the objectives are {', '.join(names)}"
            )
    check_reserve(instance, cushion_slots)
    run = Run(
        goal=make_goal(names),
        solver="auto",
        budget=Budget(time_limit),
        seed=seed,
        workers=workers or os.cpu_count() or 1,
    )
    rows: Sequence[Row]
    with interrupt_stops(run.budget):
        if "stretch" in names or instance.needs_stretch:
            rows, complete = front_stretched(
                instance, names, run, cushion_slots, approximate=approximate, callback=callback
            )
        else:
            longer = lengthen(instance, cushion_slots)
            parts = PartFronts(longer, names, run, approximate, memory, callback)
            schedules, complete = parts.front()
            rows = [(offsets, {}) for offsets in schedules]
    # The judge computes the values.
    candidates = []
    for row in rows:
        values = evaluate(instance, *row, longer=cushion_slots).objectives
        costs = tuple(to_minimise(name, values[name]) for name in names)
        candidates.append(Candidate(costs, (row,)))
    whole = nondominated(candidates)
    kept = [each for each in whole if _is_within(names, each, limits)]
    if whole and not kept and complete:
        raise InputError(_out_of_reach(names, whole, limits))
    bound = kept[0].values[0] if kept and complete and kept[0] is whole[0] else None
    stop = Stop.PROVED if complete else run.budget.stop
    points = tuple(_schedule(instance, names[0], each, bound, run, cushion_slots) for each in kept)
    notes = () if complete else ("the front may have more points: not all was proved in time",)
    return Front(instance, names, points, complete, stop, run.budget.elapsed, notes)


def _out_of_reach(
    names: Sequence[str], whole: Sequence[Candidate], limits: Mapping[str, Fraction]
) -> str:
    """Return why no schedule keeps to some limits."""
    for name, limit in limits.items():
        least = min(each.values[names.index(name)] for each in whole)
        if least > to_minimise(name, limit):
            remedy = "lower" if find_objective(name).maximised else "raise"
            return (
                f"epsilon: no schedule has a {name} of {limit}; the best possible is "
                f"{as_stated(name, least)}, {remedy} it"
            )
    wanted = ", ".join(f"{name}={limit}" for name, limit in limits.items())
    return f"epsilon: no schedule keeps to {wanted} together; loosen one of them"


def _is_within(names: Sequence[str], candidate: Candidate, limits: Mapping[str, Fraction]) -> bool:
    return all(
        value <= to_minimise(name, limits[name])
        for name, value in zip(names, candidate.values, strict=True)
        if name in limits
    )


def _schedule(
    instance: Instance,
    first: str,
    candidate: Candidate,
    bound: Fraction | None,
    run: Run,
    cushion_slots: int,
) -> Schedule:
    offsets, stretch = candidate.parts[0]
    values = evaluate(instance, offsets, stretch, longer=cushion_slots).objectives
    stated = None if bound is None else as_stated(first, bound)
    return Schedule(
        instance=instance.name,
        offsets={job.name: offsets[job.name] for job in instance.jobs},
        stretch={job.name: stretch.get(job.name, 0) for job in instance.jobs},
        status=Status.OPTIMAL
        if stated is not None and stated == values[first]
        else Status.FEASIBLE,
        objectives={name: values[name] for name in dict.fromkeys((first, *OBJECTIVES))},
        lower_bound=stated,
        solver="auto",
        seed=run.seed,
        runtime_s=round(run.budget.elapsed, 6),
        versions=versions_of(find_solver("auto")),
        cushion_slots=cushion_slots,
    )
