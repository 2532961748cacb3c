"""Entry to fronts: check the arguments once, pick a driver by the objectives, run it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.allocation.arguments import (
    find_source,
    naming_problem,
    place_jobs,
    warm_up_for_places,
    weights_of,
)
from metronome_opt.allocation.solving import (
    notes_on,
    proof_notes,
    refuse_gated,
    refuse_terms,
    run_slowdown,
    state_places,
)
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import MeanWeights, are_simulated
from metronome_opt.problem.result import Result
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.solvers.arguments import Exact, check_numbers, interrupt_stops
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import find_solver

if TYPE_CHECKING:
    from metronome_opt.solvers.multiobjective.front import Front, FrontEvent

DEFAULT_FRONT_LIMIT = 600.0


def pareto(
    problem: Instance | PlacedInstance | Scenario | str | Path,
    objectives: Sequence[str] = ("contention", "latency"),
    *,
    time_limit: float | None = DEFAULT_FRONT_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    network: str | None = None,
    max_loss: Exact | None = None,
    cushion_slots: int = 0,
    callback: Callable[[FrontEvent], bool | None] | None = None,
    sharing: str | None = None,
) -> Front:
    """Find the non-dominated schedules for two objectives.

    Parameters
    ----------
    problem
        As for `solve`. Places are chosen anew for every point of slowdown and delay.
    objectives
        Slowdown and delay; or two of contention, latency, wait, moves and stretch. Jobs are
        stretched only with ``stretch`` among these, or for slowdown.
    time_limit
        Seconds; None for no limit. The points found by then are returned, `complete` says if these
        are all. For slowdown and delay some weighted sums are minimised, in equal parts of it.
    seed, workers
        As for `solve`.
    network, max_loss, cushion_slots, sharing
        As for `solve`; `max_loss` for slowdown and delay alone.
    callback
        Notified of every part, choice of periods or weighted sum that is done; returns True to
        stop.

    Raises
    ------
    InputError
        If an argument makes no sense, or the objectives have no front.
    """
    network = network or sharing
    source = find_source(problem, network)
    check_numbers(time_limit, seed, workers)
    if not are_simulated(objectives):
        from metronome_opt.solvers.multiobjective.pareto import pareto as find_front

        refuse_terms(max_loss=max_loss)
        refuse_gated(network)
        warm_up_for_places(source)
        budget = Budget(time_limit)
        with interrupt_stops(budget), naming_problem(problem):
            placed = place_jobs(source, budget, seed=seed)
        front = find_front(
            placed.instance,
            objectives,
            time_limit=budget.remaining,
            seed=seed,
            workers=workers,
            cushion_slots=cushion_slots,
            callback=callback,
        )
        notes = (*notes_on(placed), *proof_notes(placed), *front.notes)
        points = tuple(state_places(point, placed, network) for point in front.points)
        return replace(front, points=points, notes=notes)
    from metronome_opt.allocation.slots.front import NAMES, slowdown_front
    from metronome_opt.allocation.slots.solve import warm_up_engine

    if tuple(objectives) != NAMES:
        raise InputError(f"objectives: a front of what is simulated is one of {', '.join(NAMES)}")
    warm_up_engine()
    budget = Budget(time_limit)
    auto, threads = find_solver("auto"), workers or os.cpu_count() or 1

    def minimise(levels: MeanWeights, part: Budget) -> Result:
        return run_slowdown(
            problem,
            source,
            auto,
            part,
            levels=levels,
            seed=seed,
            threads=threads,
            cushion_slots=cushion_slots,
            network=network,
            max_loss=max_loss,
            names=NAMES,
        )

    with interrupt_stops(budget):
        return slowdown_front(weights_of(source), minimise, budget, callback)
