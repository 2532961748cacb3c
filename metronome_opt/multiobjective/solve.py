"""The entry to everything: one objective or several, at the periods as they are or stretched."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.multiobjective.goals import (
    Exact,
    Goal,
    Request,
    Solution,
    check_reserve,
    make_goal,
)
from metronome_opt.multiobjective.objectives import BY_NAME
from metronome_opt.multiobjective.offsets import solve_offsets
from metronome_opt.multiobjective.stretching import solve_stretched
from metronome_opt.presolve.lengthen import lengthen
from metronome_opt.result import Level, Result
from metronome_opt.schedule import OBJECTIVES, Schedule, Status
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import SOLVERS, Solver, find_solver
from metronome_opt.solvers.search import Callback
from metronome_opt.solvers.solve import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    versions_of,
)
from metronome_opt.solvers.solve import solve as solve_contention
from metronome_opt.verify import evaluate


def solve(
    instance: Instance,
    solver: str | Solver = "auto",
    *,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    objectives: Sequence[str] = ("contention",),
    tolerance: Mapping[str, Exact] | None = None,
    weights: Mapping[str, Exact] | None = None,
    epsilon: Mapping[str, Exact] | None = None,
    strict: bool = False,
    cushion_slots: int = 0,
    callback: Callback | None = None,
    start: Schedule | None = None,
) -> Result:
    """Choose an offset, and where stretch is an objective idle time, for every job.

    Parameters
    ----------
    instance
        The problem.
    solver
        A name of `metronome_opt.SOLVERS`. All optimise contention, or latency, or one after the
        other; ``auto`` knows the other objectives as well.
    time_limit
        Seconds for everything; None for no limit. The best schedule found is returned.
    seed
        For everything that is random.
    workers
        Threads of the back end; None for one per core. Repeatable is a run with one worker and
        without a time limit, or with one so generous that no part of it uses up its share.
    objectives
        What to optimise, most important first: each with the earlier ones held at what they came
        to. ``["all"]`` stands for contention, stretch, latency, cushion, wait, moves. Jobs are
        stretched only if ``stretch`` is among them, or if hyperperiods are too long without.
    tolerance
        By what share of it an objective may become worse for the sake of the later ones, by name:
        ``{"contention": "5%"}``.
    weights
        Instead of `objectives`: exact weights of a sum of objectives, each divided by its natural
        size (see `multiobjective.objectives.normal`).
    epsilon
        The most that objectives may come to, by name; of a cushion the least.
    strict
        Whether priority is strict: least unserved bandwidth of the heaviest jobs first, then of
        those of the next weight, and so on, where contention weighs them against each other.
    cushion_slots
        A reserve: every burst is lengthened by so many slots before anything is solved. All values
        of the result are those of the longer bursts.
    callback
        Told of every new incumbent and bound, from whatever thread finds it; returns True to stop.
    start
        A schedule to begin with, for contention alone: what is found is never worse.

    Returns
    -------
    Result
        Always with a schedule; `levels` says what each objective came to and what is proved of it.
        Ctrl-C returns what was found, with `stop` saying so.

    Raises
    ------
    InputError
        If an argument makes no sense, the solver cannot do what is asked, epsilon is less than
        what is possible, or tolerance, epsilon or strict are asked for while jobs are stretched.
    MissingBackendError
        If the solver's back end is not installed; the text says what to install.
    SolverError
        If nothing within epsilon was found in time.
    """
    check_instance(instance)
    chosen = find_solver(solver)
    check_numbers(time_limit, seed, workers)
    goal = make_goal(objectives, tolerance, weights, epsilon, strict=strict)
    _check_able(chosen, goal, stretching=instance.needs_stretch)
    check_reserve(instance, cushion_slots)
    able = any(job.max_stretch for job in instance.jobs)
    stretching = ("stretch" in goal.names and able) or instance.needs_stretch
    if not stretching and not cushion_slots and goal == make_goal(["contention"]):
        result = solve_contention(
            instance,
            solver,
            time_limit=time_limit,
            seed=seed,
            workers=workers,
            callback=callback,
            start=start,
        )
        return _single(instance, result)
    if start is not None:
        raise InputError("start: is for slowdown, or for contention alone without a reserve")
    run = Request(
        goal=goal,
        solver=solver,
        budget=Budget(time_limit),
        seed=seed,
        workers=workers or os.cpu_count() or 1,
        callback=callback,
    )
    if stretching:
        found = solve_stretched(instance, run, cushion_slots)
    else:
        found = solve_offsets(lengthen(instance, cushion_slots), run)
        if "stretch" in goal.objectives and not goal.prices:  # nobody can be stretched
            place = goal.objectives.index("stretch")
            found.levels.insert(place, Level("stretch", Fraction(0), proved=True))
            found.bound = found.bound if place else Fraction(0)
    return _result(instance, found, run, cushion_slots)


def _check_able(solver: Solver, goal: Goal, *, stretching: bool) -> None:
    """Refuse a goal that a solver cannot reach for, and name those that can.

    `stretching` says whether jobs have to be stretched, asked for or not.
    """
    if _can(solver, goal, stretching):
        return
    able = [each.name for each in SOLVERS.values() if _can(each, goal, stretching)]
    wish = ", ".join(dict.fromkeys((*goal.names, *(["stretch"] if stretching else []))))
    extra = [
        word
        for word, given in (
            ("tolerance", goal.tolerance),
            ("epsilon", goal.epsilon),
            ("strict", goal.strict),
        )
        if given
    ]
    raise InputError(
        f"objectives: {wish}{' with ' + ' and '.join(extra) if extra else ''}: solver "
        f"{solver.name} cannot; it optimises {', '.join(solver.objectives)}"
        f"{' and holds ' + ', '.join(solver.holds) if solver.holds else ' alone'}; "
        f"those that can: {', '.join(able) or 'none'}"
    )


def _can(solver: Solver, goal: Goal, stretching: bool) -> bool:
    held = () if goal.prices else goal.objectives if goal.strict else goal.objectives[:-1]
    added = [name for name in goal.names if name not in BY_NAME]
    return (
        set(goal.names) <= {*solver.objectives, *added}
        and ("stretch" in solver.objectives or not stretching)
        and set(held) <= {*solver.holds, *added}
        # What holds costs at any value knows costs of any kind.
        and (solver.limits or not (goal.tolerance or goal.epsilon or added))
    )


def _single(instance: Instance, result: Result) -> Result:
    """Return the result of a solver of contention with its one level."""
    level = Level("contention", result.objective, result.status is Status.OPTIMAL)
    return replace(result, levels=(level,), notes=(*result.notes, *_unused(instance)))


def _unused(instance: Instance) -> list[str]:
    """Return what to say where jobs could be stretched and are not."""
    count = sum(job.max_stretch > 0 for job in instance.jobs)
    if not count:
        return []
    text = (
        f"periods are kept, though {count} job{'s' * (count > 1)} may be stretched: "
        "name stretch among the objectives to use it"
    )
    return [text]


def _result(instance: Instance, found: Solution, run: Request, cushion_slots: int) -> Result:
    """Let the judge compute every value of what was found."""
    stretch = {job.name: found.stretch.get(job.name, 0) for job in instance.jobs}
    offsets = {job.name: found.offsets[job.name] for job in instance.jobs}
    runtime = run.budget.elapsed
    evaluation = evaluate(instance, offsets, stretch, longer=cushion_slots)
    # A schedule states the six objectives, that of the bound first; others are in the levels alone.
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
        solver=find_solver(run.solver).name,
        seed=run.seed,
        runtime_s=round(runtime, 6),
        versions=versions_of(find_solver(run.solver)),
        cushion_slots=cushion_slots,
    )
    notes = list(found.notes)
    if not any(stretch.values()) and "stretch" not in run.goal.names:
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
