"""Entry to all solvers: check the arguments once, pick a driver by the objective, run it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metronome_opt.allocation.arguments import (
    find_limits,
    find_names,
    find_source,
    hyperperiod_of,
    naming_problem,
    place_jobs,
    read_problem,
    warm_up_for_places,
    weights_of,
)
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import (
    COMPLETION,
    SLOWDOWN,
    JobObjective,
    MeanWeights,
    are_simulated,
    simulated_levels,
)
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.problem.stopping import StoppingRule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import PlacedInstance, read_source
from metronome_opt.solvers.arguments import (
    DEFAULT_TIME_LIMIT,
    Arguments,
    Exact,
    check_numbers,
    check_reserve,
    check_start,
    interrupt_stops,
)
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import SOLVERS, Solver, SolverFunction, find_solver

if TYPE_CHECKING:
    from metronome_opt.allocation.slots.plan import Plan


_AT_PLACES = "bound and proof hold at the places that were chosen; others may be better"
_BOUNDS = (
    "the lower bound holds at any places: no job is faster than at its best one; at these places "
    "it is {:.4f}, whatever slots jobs have"
)
_WAITING = "jobs wait: the sum of their weights times GPUs is minimised before the slowdown"


def load(path: str | Path) -> PlacedInstance:
    """Read an instance or a scenario, whichever the file says it is.

    Jobs that do not say where they run are at the nearest places.

    Parameters
    ----------
    path
        The file, or the name of a scenario that comes with the package, such as ``paper-24``.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return at_nearest(read_source(path), path)


def at_nearest(source: Scenario | Instance, path: str | Path) -> PlacedInstance:
    """Return what `load` returns of a file with this scenario or instance."""
    with naming_problem(path):
        return place_jobs(read_problem(source), Budget(0.0))


def solve(
    problem: Instance | PlacedInstance | Scenario | str | Path,
    solver: str | SolverFunction | Solver = "auto",
    objective: str | JobObjective | Sequence[str | JobObjective] | Mapping[str, Exact] = SLOWDOWN,
    *,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    stop: StoppingRule | Sequence[StoppingRule] = (),
    seed: int = 0,
    workers: int | None = None,
    start: Schedule | None = None,
    cushion_slots: int = 0,
    stretch_limit: Exact | None = None,
    network: str | None = None,
    max_loss: Exact | None = None,
    sharing: str | None = None,
) -> Result:
    """Choose for every job when it may burst.

    The slowdown is the weighted mean of iteration time over the best iteration that a job can have
    in the empty cluster, as the jobs are simulated on the network of their cluster, with computing
    times that vary by their jitter. No job is made slower than with no job gated by more than 2 %,
    or `max_loss`.

    Parameters
    ----------
    problem
        An instance, what `load` returns, a scenario, a file, or the name of a shipped scenario.
        Jobs of a scenario that do not say where they run are placed for slowdown, whatever the
        objective; in what `load` returns all have places.
    solver
        A name of `metronome_opt.SOLVERS`, or a function of one `metronome_opt.solvers.Search`.
    objective
        A name, or a `JobObjective`; or several, most important first, each with the earlier ones
        held at their values; or exact weights by name, for a sum of objectives that are each
        divided by their natural size (`metronome_opt.problem.objectives.normal`). ``"all"`` stands
        for contention, stretch, latency, cushion, wait, moves. Every solver minimises contention or
        latency, ``auto`` all objectives. What is simulated is not mixed with others: ``slowdown``,
        or ``completion``, the weighted mean time until jobs leave, where a scenario states their
        iterations; or ``strict``, the slowdown of the jobs of the largest weight, then of the next;
        ``delay`` may come second, the mean time by which iterations are longer than periods, all
        jobs alike. Jobs are stretched only if ``stretch`` is among the objectives, or if
        hyperperiods are too long without, or, for slowdown, as far as it pays.
    time_limit
        Seconds, model building and judging included, loading of kernels not; None for no limit.
        The best schedule is returned.
    stop
        Further rules that end the run, see `metronome_opt.problem.stopping`: objects such as
        ``MaxIterations(100)``, or any function of an `Event` that returns True to stop. A
        ``MaxRuntime`` takes the place of the time limit.
    seed
        For everything that is random.
    workers
        Threads; None for one per core. Repeatable is a run with one worker and without a time
        limit, or with one so generous that no part of it uses up its share.
    start
        A schedule to begin with, of an earlier call or another instance with the same jobs. For
        slowdown it is tried first, for contention alone nothing worse is returned.
    cushion_slots
        A reserve: bursts may be longer by so many slots without disturbing one another. All values
        of the result are those of the longer bursts.
    stretch_limit
        For slowdown: the share of its period by which a gated job may be stretched at most, and no
        further than a `max_stretch` above 0: ``"20%"``, or an exact number; 0 for no stretch. If
        left out, jobs are stretched as far as it pays.
    network
        How the network shares links, ``fair``, ``tcp``, ``weighted`` or ``strict`` by priority; or,
        for slowdown, ``gated``, where gated jobs are served first. None for what the problem says.
        Places and slots are chosen, and times stated, for this network alone.
    max_loss
        For slowdown: the share by which a job may be slower than with no job gated, ``"5%"`` or an
        exact number; 2 % if left out.
    sharing
        The former name of `network`.

    Returns
    -------
    Result
        Always with a schedule. Ctrl-C returns the best one so far, with `stop` saying so.

    Raises
    ------
    InputError
        If an argument makes no sense, or the solver cannot minimise the objective.
    MissingBackendError
        If the solver's back end is not installed; the text says what to install.
    SolverError
        If the solver fails before it has a schedule; a `CustomSolverError`, with what it had found
        as `result`, if one of your own raises.
    """
    network = network or sharing
    source = find_source(problem, network)
    chosen = find_solver(solver)
    time_limit, watch = find_limits(time_limit, stop)
    check_numbers(time_limit, seed, workers)
    names, weights = find_names(objective)
    threads = workers or os.cpu_count() or 1
    # A run loads its own driver alone; what is loaded before the budget starts is not counted.
    if are_simulated(names):
        from metronome_opt.allocation.slots.solve import warm_up_engine

        _check_solver(chosen)
        if time_limit != 0:
            warm_up_engine()
        budget = Budget(time_limit, watch=watch)
        with interrupt_stops(budget):
            return run_slowdown(
                problem,
                source,
                chosen,
                budget,
                levels=simulated_levels(names, weights_of(source)),
                seed=seed,
                threads=threads,
                start=start,
                network=network,
                stretch_limit=stretch_limit,
                max_loss=max_loss,
                names=names,
                cushion_slots=cushion_slots,
            )
    refuse_terms(stretch_limit=stretch_limit, max_loss=max_loss)
    refuse_gated(network)
    from metronome_opt.solvers.contention import custom_solver_error, load_kernels
    from metronome_opt.solvers.multiobjective.goals import check_able, make_goal
    from metronome_opt.solvers.multiobjective.solve import solve_goal

    goal = make_goal(names, weights)
    if time_limit != 0:
        load_kernels(chosen)
        warm_up_for_places(source)
    budget = Budget(time_limit, watch=watch)
    with interrupt_stops(budget):
        with naming_problem(problem):
            placed = place_jobs(source, budget, seed=seed)
        instance = placed.instance
        check_start(instance, start)
        check_reserve(instance, cushion_slots)
        instance.check_hyperperiods(may_stretch=True)
        check_able(chosen, goal, stretching=instance.needs_stretch)
        arguments = Arguments(instance, chosen, budget, seed, threads, budget.note, start)
        result = solve_goal(arguments, goal=goal, cushion_slots=cushion_slots)
    found = _with_places(result, placed, network)
    if budget.failure is not None:
        raise custom_solver_error(chosen, budget.failure, found) from budget.failure
    return found


def run_slowdown(
    problem: object,
    source: PlacedInstance | Scenario,
    solver: Solver,
    budget: Budget,
    *,
    levels: MeanWeights,
    seed: int,
    threads: int,
    places_by: str = "auto",
    plan: Callable[[Instance, Budget], Plan] | None = None,
    start: Schedule | None = None,
    cushion_slots: int = 0,
    network: str | None = None,
    stretch_limit: Exact | None = None,
    max_loss: Exact | None = None,
    **terms: Any,
) -> Result:
    """Place the jobs of a problem that have no places, then choose slots there.

    Parameters
    ----------
    problem, source
        As the user names it, and as it was read.
    levels
        Weights in the means that are minimised.
    places_by
        The solver of allocation that decides places.
    plan
        Returns the one plan that is tried instead of a search.
    terms
        Further arguments of `solve_slowdown`.
    """
    from metronome_opt.allocation.slots.evaluator import MAX_LOSS
    from metronome_opt.allocation.slots.solve import share, solve_slowdown

    limits: dict[str, Any] = {
        "stretch_limit": share("stretch_limit", stretch_limit),
        "max_loss": share("max_loss", max_loss, MAX_LOSS),
    }
    with naming_problem(problem):
        placed = place_jobs(
            source,
            budget,
            seed=seed,
            levels=levels,
            solver=places_by,
            threads=threads,
            **limits,
        )
    instance = placed.instance
    check_start(instance, start, patterns=True)
    check_reserve(instance, cushion_slots)
    result = solve_slowdown(
        Arguments(instance, solver, budget, seed, threads, budget.note, start),
        cushion_slots=cushion_slots,
        network=network,
        hyperperiod=hyperperiod_of(source),
        levels=levels,
        only=plan and plan(instance, budget),
        lives_ms=_lives_ms(placed) if COMPLETION in terms.get("names", ()) else None,
        **limits,
        **terms,
    )
    return _with_places(result, placed, network)


def _lives_ms(placed: PlacedInstance) -> Mapping[str, float]:
    """Return how long each job runs at its best iteration, in ms."""
    specs = {entry.traffic.job.name: entry.traffic.job for entry in placed.traffic}
    lives = {}
    for index, job in enumerate(placed.instance.jobs):
        iterations = specs[job.name].iterations if job.name in specs else None
        if iterations is None:
            raise InputError(
                f"jobs[{index}]: {job.name}: its number of iterations is not known, which "
                "completion needs; state it in the scenario, or minimise slowdown"
            )
        lives[job.name] = float(iterations * placed.instance.best_ms(job))
    return lives


def _with_places(result: Result, placed: PlacedInstance, network: str | None) -> Result:
    """Return a result that states where jobs run, if that was chosen, and on which network.

    Its bound of slowdown holds at any places then: no job is faster than at its best one.
    """
    schedule = state_places(result.schedule, placed, network)
    at_places, notes = schedule.lower_bound, (*result.notes, *notes_on(placed))
    if placed.places is None or schedule.first != SLOWDOWN or at_places is None:
        notes = (*notes, *proof_notes(placed))
        return replace(result, schedule=schedule, notes=notes)
    value = schedule.objectives[SLOWDOWN]
    # In finite replications chance may bring the value below the bound, and so may other patterns.
    bound = min(Fraction(1), at_places if value is None else value)
    is_best = value == bound and not schedule.waiting
    changes: dict[str, object] = {"lower_bound": bound}
    if schedule.status in (Status.OPTIMAL, Status.FEASIBLE):
        changes["status"] = Status.OPTIMAL if is_best else Status.FEASIBLE
    levels = tuple(replace(level, proved=level.proved and is_best) for level in result.levels)
    stop = StopReason.FINISHED if result.stop is StopReason.PROVED and not is_best else result.stop
    return replace(
        result,
        pool=placed.pool,
        schedule=schedule.model_copy(update=changes),
        levels=levels,
        stop=stop,
        notes=(*notes, *([] if is_best else [_BOUNDS.format(float(at_places))])),
    )


def state_places(schedule: Schedule, placed: PlacedInstance, network: str | None) -> Schedule:
    """Return a schedule that states network and paths, and the places if they were chosen."""
    schedule = schedule.model_copy(update={"network": network, "paths": placed.paths or None})
    if placed.places is None:
        return schedule
    return schedule.model_copy(update={"places": placed.places, "waiting": placed.waiting})


def notes_on(placed: PlacedInstance) -> tuple[str, ...]:
    """Return remarks on places that were chosen."""
    waiting = [_WAITING] if placed.waiting else []
    return (*([placed.comparison] if placed.comparison else []), *waiting)


def proof_notes(placed: PlacedInstance) -> tuple[str, ...]:
    """Return what proofs hold for, where places were chosen."""
    return () if placed.places is None else (_AT_PLACES,)


def refuse_gated(network: str | None) -> None:
    """Refuse a network on which gated jobs go first, for other objectives than slowdown."""
    if network == "gated":
        raise InputError("network: gated is for slowdown alone; name another, or leave it out")


def refuse_terms(**terms: Exact | None) -> None:
    """Refuse terms of slowdown for other objectives."""
    for name, value in terms.items():
        if value:
            raise InputError(f"{name}: is for slowdown alone; leave it out")


def _check_solver(solver: Solver) -> None:
    if SLOWDOWN not in solver.objectives:
        able = ", ".join(each.name for each in SOLVERS.values() if SLOWDOWN in each.objectives)
        raise InputError(
            f"{solver.name} does not minimise slowdown; name an objective: "
            f"{', '.join(solver.objectives)} (solvers of slowdown: {able})"
        )
