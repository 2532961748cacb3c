"""Minimise objectives other than slowdown: in order or as a sum, at given or stretched periods."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.problem.objectives import CONTENTION
from metronome_opt.problem.result import Level, Result, StopReason
from metronome_opt.problem.schedule import OBJECTIVES
from metronome_opt.solvers.arguments import Arguments, Goal, make_schedule
from metronome_opt.solvers.contention import Solution, solve_contention
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.verify import evaluate


def solve_goal(arguments: Arguments) -> Result:
    """Choose an offset, and where stretch is an objective idle time, for every job.

    Returns
    -------
    Result
        Always with a schedule; `levels` has the value of each objective and what is proved of it.

    Raises
    ------
    InputError
        If a weighted sum is asked for while jobs are stretched.
    """
    instance, goal = arguments.instance, arguments.goal
    stretchable = any(job.max_stretch for job in instance.jobs)
    stretching = ("stretch" in goal.objectives and stretchable) or instance.needs_stretch
    if not stretching and not arguments.cushion_slots and goal == Goal((CONTENTION,)):
        return _result(arguments, solve_contention(arguments))
    if arguments.warm_start is not None:
        raise InputError("warm_start: is for contention alone without a cushion")
    # Not needed for contention alone.
    from metronome_opt.solvers.multiobjective.offsets import solve_offsets
    from metronome_opt.solvers.multiobjective.stretching import solve_stretched

    if stretching:
        solution = solve_stretched(arguments)
    else:
        extended = replace(arguments, instance=extend_bursts(instance, arguments.cushion_slots))
        solution = solve_offsets(extended)
        if "stretch" in goal.objectives and not goal.coefficients:  # no job can be stretched
            place = goal.objectives.index("stretch")
            solution.levels.insert(place, Level("stretch", Fraction(0), proved=True))
            solution.bound = solution.bound if place else Fraction(0)
    return _result(arguments, solution)


def _result(arguments: Arguments, solution: Solution) -> Result:
    """Return the result, with all values computed by `evaluate`."""
    instance, cushion_slots = arguments.instance, arguments.cushion_slots
    evaluation = evaluate(instance, solution.offsets, solution.stretch, cushion_slots=cushion_slots)
    values = evaluation.objectives
    interrupted = arguments.budget.stop is StopReason.INTERRUPTED  # perhaps a moment ago
    # A schedule states the six objectives, that of the bound first; the levels have the others.
    optimised = solution.levels[0].name if solution.levels else arguments.goal.objectives[0]
    bound = solution.bound if optimised in OBJECTIVES else None
    first = next(n for n in (optimised, *arguments.goal.objectives, *OBJECTIVES) if n in OBJECTIVES)
    proved = bool(solution.levels) and all(level.proved for level in solution.levels)
    schedule = make_schedule(
        arguments,
        solution.offsets,
        solution.stretch,
        {first: values[first], **values},
        bound,
        proved=proved and bound is not None and bound == values[first],
        cushion_slots=cushion_slots,
    )
    return Result(
        instance=instance,
        schedule=schedule,
        stop_reason=StopReason.INTERRUPTED if interrupted else solution.stop,
        evaluation=evaluation,
        build_s=solution.build_s,
        solve_s=max(0.0, schedule.runtime_s - solution.build_s),
        trajectory=solution.trajectory,
        notes=tuple(solution.notes),
        levels=tuple(solution.levels),
    )
