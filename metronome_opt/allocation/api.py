"""Entry to the solvers of allocation: where jobs run, and when they send."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from metronome_opt.allocation.arguments import find_limits, find_names, find_source, weights_of
from metronome_opt.allocation.greedy import rotate_greedily
from metronome_opt.allocation.slots.evaluator import is_better
from metronome_opt.allocation.slots.simulator import Values, mean_weights
from metronome_opt.allocation.slots.solve import warm_up_engine
from metronome_opt.allocation.solvers import find_allocation_solver, load_backend
from metronome_opt.allocation.solving import run_slowdown
from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import (
    SLOWDOWN,
    JobObjective,
    MeanWeights,
    are_simulated,
    simulated_levels,
)
from metronome_opt.problem.result import Result, StopReason
from metronome_opt.problem.stopping import StoppingRule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.solvers.arguments import (
    DEFAULT_TIME_LIMIT,
    Exact,
    check_numbers,
    interrupt_stops,
)
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.contention import load_kernels
from metronome_opt.solvers.registry import find_solver


def allocate(
    scenario: Instance | PlacedInstance | Scenario | str | Path,
    solver: str = "auto",
    objective: str | JobObjective | Sequence[str | JobObjective] = SLOWDOWN,
    *,
    network: str | None = None,
    stretch_limit: Exact | None = None,
    max_loss: Exact | None = None,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    stop: StoppingRule | Sequence[StoppingRule] = (),
    seed: int = 0,
    threads: int | None = None,
) -> Result:
    """Choose where jobs run, which are gated, at which periods and when they send.

    The slowdown is that of `solve`. Fewer waiting jobs, by weight times GPUs, come before it.

    Parameters
    ----------
    scenario
        As the problem of `solve`. Where all jobs have places, those are kept.
    solver
        ``greedy``: the nearest placement of one job after the other, then the rotation heuristic;
        groups of jobs that gain by it are gated. ``cpsat`` and ``milp``: the placements of least
        cost in a joint model of all jobs, which CP-SAT or HiGHS solves; `Result.pool` has the cost
        and its bound. Slots there are chosen as by ``auto``, which decides places by the same costs
        and by simulations. Nothing worse than by ``greedy`` is returned.
    objective
        ``slowdown`` or ``strict``, alone or with ``delay`` after it, or ``completion``.
    network, stretch_limit, time_limit, stop, seed
        As of `solve`.
    max_loss
        As of `solve`.
    threads
        Its `workers`.

    Returns
    -------
    Result
        Its bound is one of the slowdown at any places; at places that were stated, one at these.

    Raises
    ------
    InputError
        If an argument makes no sense, or as of `load`.
    MissingBackendError
        If the solver's back end is not installed; the text says what to install.
    """
    source = find_source(scenario, network)
    chosen = find_allocation_solver(solver)
    time_limit, watch = find_limits(time_limit, stop)
    check_numbers(time_limit, seed, threads, "threads")
    names, _ = find_names(objective)
    if not are_simulated(names):
        raise InputError(
            f"objective: must be slowdown, strict or completion, got "
            f"{','.join(names) or quote(objective)}; `solve` minimises others at given places"
        )
    if time_limit != 0:
        warm_up_engine()
        load_kernels(find_solver("greedy"))
        load_backend(chosen)
    levels = simulated_levels(names, weights_of(source))
    budget = Budget(time_limit, watch=watch)
    run = partial(
        run_slowdown,
        scenario,
        source,
        chosen,
        budget,
        levels=levels,
        seed=seed,
        threads=threads or os.cpu_count() or 1,
        network=network,
        stretch_limit=stretch_limit,
        max_loss=max_loss,
        names=names,
    )
    with interrupt_stops(budget):
        baseline = run(places_by="greedy", plan=rotate_greedily)
        if solver == "greedy" or baseline.stop is StopReason.PROVED or budget.stopped:
            return baseline
        result = run(places_by=solver)
    if _is_better(baseline, result, levels):
        schedule = baseline.schedule.model_copy(update={"runtime_s": result.schedule.runtime_s})
        notes = (*baseline.notes, f"{solver} found nothing better than greedy")
        return replace(baseline, schedule=schedule, stop=result.stop, notes=notes)
    return replace(result, trajectory=(*baseline.trajectory, *result.trajectory))


def _is_better(new: Result, old: Result, levels: MeanWeights) -> bool:
    """Return whether a result is better than another one, by means of simulated slowdowns.

    One that was not simulated is not. Nor is one whose jobs are others.
    """
    if new.schedule.expected_ms is None or set(new.offsets) != set(old.offsets):
        return False
    if old.schedule.expected_ms is None:
        return True
    return is_better(_means(new, levels), _means(old, levels))


def _means(result: Result, levels: MeanWeights) -> Values:
    instance, schedule = result.instance, result.schedule
    times = schedule.expected_ms or {}
    periods = {job.name: job.period * instance.slot_ms for job in instance.jobs}
    slowdowns = [float(times[name] / period) for name, period in periods.items()]
    return tuple((mean_weights(instance, levels) @ slowdowns).tolist())
