"""The driver of `allocate`: choose placements, then windows, and state both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.allocation.arguments import naming_problem
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import SLOWDOWN, MeanWeights
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.solvers.arguments import Arguments
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import Solver, find_solver

if TYPE_CHECKING:
    from metronome_opt.allocation.slots.plan import Plan
    from metronome_opt.allocation.slots.plan_search import SlotSearchOptions

_AT_PLACES = "bound and proof are of these nodes; on other nodes less may be possible"
_BOUNDS = "proved: no windows bring the slowdown below {:.4f} on these nodes; other nodes may"
_WAITING = "slowdowns are of running jobs; those wait whose GPUs times priority are fewest in all"


def load_allocation(solver: Solver) -> None:
    """Load what a solver of allocation uses, which no time limit counts."""
    from metronome_opt.allocation.slots.solve import warm_up_engine
    from metronome_opt.solvers.contention import load_kernels

    import_module("scipy.optimize")  # of bounds
    warm_up_engine()
    load_kernels(find_solver("greedy"))
    solver.import_packages()


def allocate_jobs(
    problem: object,
    source: PlacedInstance | Scenario,
    solver: Solver,
    budget: Budget,
    options: SlotSearchOptions,
    **terms: Any,
) -> Result:
    """Return the better of the results of ``greedy`` and of another solver of allocation.

    Parameters are those of `allocate_once`. The result is that of ``greedy`` if it is proved, if
    time is over, or if the other is worse.

    Raises
    ------
    InputError
        If jobs do not fit their nodes, the cluster or its links.
    """
    from metronome_opt.allocation.slots.greedy import rotate_greedily

    run = partial(allocate_once, problem, source, solver, budget, options, **terms)
    baseline = run(places_by="greedy", plan=rotate_greedily)
    if solver.name == "greedy" or baseline.stop_reason is StopReason.PROVED or budget.stopped:
        return baseline
    result = run(places_by=solver.name)
    if _is_better(baseline, result, options.mean_weights):
        schedule = baseline.schedule.model_copy(update={"runtime_s": result.schedule.runtime_s})
        notes = (*baseline.notes, f"{solver.name} found nothing better than greedy")
        return replace(baseline, schedule=schedule, stop_reason=result.stop_reason, notes=notes)
    trajectory = (*baseline.trajectory, *result.trajectory)
    near_ms = baseline.schedule.before_ms or {}
    before_ms = {name: near_ms[name] for name in result.offsets if name in near_ms}
    schedule = result.schedule.model_copy(update={"before_ms": before_ms or None})
    return replace(result, schedule=schedule, trajectory=trajectory)


def _is_better(new: Result, old: Result, mean_weights: MeanWeights | None) -> bool:
    """Return whether means of simulated slowdowns are better, of results with the same jobs."""
    from metronome_opt.allocation.slots.evaluator import is_better
    from metronome_opt.allocation.slots.simulator import weight_rows

    if new.schedule.expected_ms is None or set(new.offsets) != set(old.offsets):
        return False
    if old.schedule.expected_ms is None:
        return True
    means = []
    for result in (new, old):
        instance, times = result.instance, result.schedule.expected_ms or {}
        slowdowns = [float(times[j.name] / (j.period * instance.slot_ms)) for j in instance.jobs]
        means.append((weight_rows(instance, mean_weights) @ slowdowns).tolist())
    return is_better(means[0], means[1])


def allocate_once(
    problem: object,
    source: PlacedInstance | Scenario,
    solver: Solver,
    budget: Budget,
    options: SlotSearchOptions,
    *,
    seed: int,
    names: Sequence[str],
    places_by: str = "auto",
    plan: Callable[[Instance, Budget], Plan] | None = None,
    iterations: Mapping[str, float] | None = None,
) -> Result:
    """Place the jobs of a problem that have no nodes, then choose their windows.

    Parameters
    ----------
    problem, source
        As the user names it, and as it was read.
    options
        Limits of plans, and weights in the means that are minimised.
    names
        Objectives that `are_simulated`.
    places_by
        The solver of allocation that decides placements.
    plan
        Returns the one plan that is tried instead of a search.
    iterations
        The number of iterations of each job, for completion.
    """
    from metronome_opt.allocation.scenario_search import allocate
    from metronome_opt.allocation.slots.solve import solve_slowdown

    with naming_problem(problem):
        if isinstance(source, Scenario):
            placed, found = allocate(source, budget, solver=places_by, seed=seed, options=options)
        else:
            placed, found = source, None
    instance = placed.instance
    if iterations:
        best = {job.name: instance.best_ms(job) for job in instance.jobs}
        lives = {name: float(iterations[name] * ms) for name, ms in best.items()}
        options = replace(options, lives_ms=lives)
    result = solve_slowdown(
        Arguments(instance, solver, budget, seed, options.threads, budget.note),
        options,
        names=names,
        found=found,
        only=plan,
    )
    return state_allocation(result, placed, options.network)


def state_allocation(result: Result, placed: PlacedInstance, network: str | None) -> Result:
    """Return a result that states where jobs run, if that was chosen, and on which network.

    Its bound of slowdown holds at any placement then: no job is faster than at its best one.

    Parameters
    ----------
    network
        How links are shared, if that was asked for; None for as the problem says.
    """
    schedule = state_places(result.schedule, placed, network)
    at_places, notes = schedule.lower_bound, (*result.notes, *notes_on(placed))
    if placed.places is None or schedule.primary_objective != SLOWDOWN or at_places is None:
        notes = (*notes, *(() if placed.places is None else (_AT_PLACES,)))
        return replace(result, schedule=schedule, notes=notes)
    value = schedule.objectives[SLOWDOWN]
    # In finite replications chance may bring the value below the bound.
    bound = min(Fraction(1), at_places if value is None else value)
    is_best = value == bound and not schedule.waiting
    changes: dict[str, object] = {"lower_bound": bound}
    if schedule.status in (Status.OPTIMAL, Status.FEASIBLE):
        changes["status"] = Status.OPTIMAL if is_best else Status.FEASIBLE
    levels = tuple(replace(level, proved=level.proved and is_best) for level in result.levels)
    stop = result.stop_reason
    if stop is StopReason.PROVED and not is_best:
        stop = StopReason.FINISHED
    return replace(
        result,
        pool=placed.pool,
        schedule=schedule.model_copy(update=changes),
        levels=levels,
        stop_reason=stop,
        notes=(*notes, *([_BOUNDS.format(float(at_places))] if at_places > bound else [])),
    )


def state_places(schedule: Schedule, placed: PlacedInstance, network: str | None) -> Schedule:
    """Return a schedule that states network and paths, and the placements if they were chosen."""
    schedule = schedule.model_copy(update={"network": network, "paths": placed.paths or None})
    if placed.places is None:
        return schedule
    return schedule.model_copy(update={"places": placed.places, "waiting": placed.waiting})


def notes_on(placed: PlacedInstance) -> tuple[str, ...]:
    """Return remarks on placements that were chosen."""
    waiting = [_WAITING] if placed.waiting else []
    return (*([placed.comparison] if placed.comparison else []), *waiting)
