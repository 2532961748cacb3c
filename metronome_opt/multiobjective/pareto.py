"""Pareto fronts of two or three objectives, exact wherever time allows, and said so where not."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.front import (
    Candidate,
    Front,
    FrontEvent,
    FrontMemory,
    Row,
    minkowski,
    nondominated,
)
from metronome_opt.multiobjective.goals import Exact, Goal, Run, check_reserve, make_goal
from metronome_opt.multiobjective.partfronts import front_at_periods
from metronome_opt.multiobjective.periods import count_choices, price_of
from metronome_opt.multiobjective.stretchbounds import StretchBounds
from metronome_opt.multiobjective.stretching import Comparison, keeps_to_limit, solve_stretched
from metronome_opt.objectives import (
    BY_NAME,
    CUSHION,
    STRETCH,
    as_stated,
    check_names,
    find_objective,
    to_minimise,
    traffic,
)
from metronome_opt.presolve.components import components
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
_MAX_CHOICES = 5000
"""Of stretches of jobs that share links, all of which are looked at for a front."""
_SHARES = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100))
_ENDS = 0.4  # of the time, for the ends of a front


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
    exactly (`partfronts`), and the front of the whole is the
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
        if STRETCH in names or instance.needs_stretch:
            rows, complete = _front_stretched(
                instance, names, run, cushion_slots, approximate, callback
            )
        else:
            longer = lengthen(instance, cushion_slots)
            schedules, complete = front_at_periods(
                longer, names, run, approximate=approximate, memory=memory, callback=callback
            )
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


# ------------------------------------------------------------------ with stretches


def _front_stretched(
    instance: Instance,
    names: Sequence[str],
    run: Run,
    cushion_slots: int,
    approximate: bool,
    callback: Callable[[FrontEvent], bool | None] | None,
) -> tuple[list[Row], bool]:
    """Return offsets and stretches of the front, and whether it is proved complete.

    All choices of periods are looked at, the cheapest first, but for those that bounds show to be
    no better than what is known. Where there are too many, only the best schedules of some weighted
    sums are found, and the front is said to be incomplete. Stretch is one of the values whether it
    is named or not; the callback is told of every choice of periods.
    """
    comparison = Comparison(lengthen(instance, cushion_slots), cushion_slots, tuple(names), {})
    parts = (instance,) if CUSHION in names else components(instance)
    fronts = []
    complete = True
    for part in sorted(parts, key=count_choices):
        found, whole = _front_of(part, comparison, run, approximate, callback)
        fronts.append(found)
        complete = complete and whole
    rows = [
        (
            {name: slot for offsets, _ in each.parts for name, slot in offsets.items()},
            {name: slots for _, stretch in each.parts for name, slots in stretch.items()},
        )
        for each in minkowski(names, fronts)
    ]
    return rows, complete


def _front_of(
    part: Instance,
    comparison: Comparison,
    run: Run,
    approximate: bool,
    callback: Callable[[FrontEvent], bool | None] | None,
) -> tuple[list[Candidate], bool]:
    """Return the front of jobs that share links, and whether nothing is missing."""
    first, *others = names = comparison.names
    orders = [make_goal(order) for order in (names, (*others, first))]
    if count_choices(part) > _MAX_CHOICES:
        sums = [
            make_goal([], weights={first: share, **dict.fromkeys(others, 1 - share)})
            for share in _SHARES
        ]
        return nondominated(_sampled(part, comparison, run, [*orders, *sums])), False
    # The ends first: they show much of what is between to be hopeless.
    found = nondominated(_sampled(part, comparison, run, orders, share=_ENDS))
    bounds = StretchBounds(part, stopped=lambda: run.budget.stopped)
    every = [
        slots
        for slots in itertools.product(*(range(job.max_stretch + 1) for job in part.jobs))
        if keeps_to_limit(part, slots)
    ]
    choices = [dict(zip((job.name for job in part.jobs), slots, strict=True)) for slots in every]
    complete = True
    for number, stretch in enumerate(sorted(choices, key=lambda each: price_of(part, each))):
        event = FrontEvent(run.budget.elapsed, number, len(choices), len(found))
        if callback is not None and callback(event):
            run.budget.end(Stop.RULE)
        if run.budget.stopped:
            return found, False
        contention = bounds.lower_bound([(slots, slots) for slots in stretch.values()])
        low = comparison.lower_bounds(contention, price_of(part, stretch))
        if any(all(map(Fraction.__le__, each.values, low)) for each in found):
            continue
        there = comparison.at_periods(part, stretch)
        rest = [name for name in names if name != STRETCH]
        base = traffic(comparison.original)
        schedules, whole = front_at_periods(there, rest, run, base=base, approximate=approximate)
        complete = complete and whole
        found = nondominated(
            [*found, *(_candidate(part, comparison, offsets, stretch) for offsets in schedules)]
        )
    return found, complete


def _candidate(
    part: Instance,
    comparison: Comparison,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
) -> Candidate:
    row = (dict(offsets), dict(stretch))
    return Candidate(comparison.values(part, offsets, stretch), (row,))


def _sampled(
    part: Instance,
    comparison: Comparison,
    run: Run,
    goals: Sequence[Goal],
    share: float = 1.0,
) -> list[Candidate]:
    """Return the best schedules for some goals, in a share of the time that is left."""
    found: list[Candidate] = []
    each_s = run.budget.fraction(share / len(goals)).remaining
    for goal in goals:
        if found and run.budget.stopped:
            break
        mine = replace(run, goal=goal, budget=run.budget.child(each_s))
        best = solve_stretched(part, mine, comparison.reserve)
        found.append(_candidate(part, comparison, best.offsets, best.stretch))
    return found
