"""Minimise objectives other than slowdown: in order or as a sum, at given or stretched periods."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError, counted
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.goals import Goal, Request, Solution, make_goal
from metronome_opt.presolve.extend import extend_bursts
from metronome_opt.result import Level, Result
from metronome_opt.schedule import OBJECTIVES, Schedule, Status
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.solve import Arguments, solve_contention, versions_of
from metronome_opt.verify import evaluate


def solve_goal(arguments: Arguments, budget: Budget, *, goal: Goal, cushion_slots: int) -> Result:
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
    instance = arguments.instance
    stretchable = any(job.max_stretch for job in instance.jobs)
    stretching = ("stretch" in goal.objectives and stretchable) or instance.needs_stretch
    if not stretching and not cushion_slots and goal == make_goal(["contention"]):
        return _single(instance, solve_contention(arguments, budget))
    if arguments.start is not None:
        raise InputError("start: is for slowdown, or for contention alone without a reserve")
    run = Request(
        goal=goal,
        solver=arguments.solver,
        budget=budget,
        seed=arguments.seed,
        workers=arguments.workers,
        callback=arguments.callback,
    )
    # Not needed for contention alone.
    from metronome_opt.multiobjective.offsets import solve_offsets
    from metronome_opt.multiobjective.stretching import solve_stretched

    if stretching:
        found = solve_stretched(instance, run, cushion_slots)
    else:
        found = solve_offsets(extend_bursts(instance, cushion_slots), run)
        if "stretch" in goal.objectives and not goal.prices:  # no job can be stretched
            place = goal.objectives.index("stretch")
            found.levels.insert(place, Level("stretch", Fraction(0), proved=True))
            found.bound = found.bound if place else Fraction(0)
    return _result(arguments, found, run, cushion_slots)


def _single(instance: Instance, result: Result) -> Result:
    """Return the result of a solver of contention with its one level."""
    level = Level("contention", result.objective, result.status is Status.OPTIMAL)
    return replace(result, levels=(level,), notes=(*result.notes, *_unused(instance)))


def _unused(instance: Instance) -> list[str]:
    """Return a note where jobs could be stretched and are not."""
    count = sum(job.max_stretch > 0 for job in instance.jobs)
    if not count:
        return []
    text = (
        f"periods are kept, though {counted(count, 'job')} may be stretched: "
        "name stretch among the objectives to use it"
    )
    return [text]


def _result(arguments: Arguments, found: Solution, run: Request, cushion_slots: int) -> Result:
    """Return the result, every value of it computed by the judge."""
    instance = arguments.instance
    stretch = {job.name: found.stretch.get(job.name, 0) for job in instance.jobs}
    offsets = {job.name: found.offsets[job.name] for job in instance.jobs}
    runtime = run.budget.elapsed
    evaluation = evaluate(instance, offsets, stretch, longer=cushion_slots)
    # A schedule states the six objectives, that of the bound first; the levels have the others.
    optimised = found.levels[0].name if found.levels else run.goal.objectives[0]
    bound = found.bound if optimised in OBJECTIVES else None
    first = next(n for n in (optimised, *run.goal.objectives, *OBJECTIVES) if n in OBJECTIVES)
    order = dict.fromkeys((first, *OBJECTIVES))
    proved = bool(found.levels) and all(level.proved for level in found.levels)
    met = bound is not None and bound == evaluation.objectives[first]
    schedule = Schedule(
        instance=instance.name,
        offsets=offsets,
        stretch=stretch,
        status=Status.OPTIMAL if proved and met else Status.FEASIBLE,
        objectives={name: evaluation.objectives[name] for name in order},
        lower_bound=bound,
        solver=arguments.solver.name,
        seed=run.seed,
        runtime_s=round(runtime, 6),
        versions=versions_of(arguments.solver),
        cushion_slots=cushion_slots,
    )
    notes = list(found.notes)
    if not any(stretch.values()) and "stretch" not in run.goal.objectives:
        notes += _unused(instance)
    return Result(
        instance=instance,
        schedule=schedule,
        stop=found.stop,
        evaluation=evaluation,
        build_s=found.build_s,
        solve_s=max(0.0, runtime - found.build_s),
        trajectory=found.trajectory,
        notes=tuple(notes),
        blocks=found.blocks,
        levels=tuple(found.levels),
    )
