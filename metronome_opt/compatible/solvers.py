"""Entry to problems of compatible jobs, and the registry of their solvers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from metronome_opt.compatible import local, models
from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    FitDecision,
    FitTask,
    PeriodChoice,
    largest_set,
)
from metronome_opt.compatible.choose import MilpMaster, choose
from metronome_opt.compatible.decider import Decider, core
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.imports import import_cp_model
from metronome_opt.solvers.solve import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    check_reserve,
    interrupt_stops,
    warm_up_instance,
)

_ROUNDS = 20  # for each job, of local search without a gain, before something exact goes on
_SHARE = 0.1  # of the time, for these


@dataclass(frozen=True)
class FitSolver:
    """A solver of compatible problems.

    Attributes
    ----------
    summary
        One line for help texts.
    choose
        Finds the cheapest choices at which jobs fit.
    load
        Imports its back end.
    exact
        Whether it proves what it says, given time.
    """

    name: str
    summary: str
    choose: Callable[[FitTask, Choices], Chosen]
    load: Callable[[], object] = object
    exact: bool = True


def solve_choices(
    instance: Instance,
    choices: Choices,
    *,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
) -> Chosen:
    """Find the cheapest choices at which jobs fit.

    Parameters
    ----------
    choices
        Of all jobs, the cheapest first; `largest_set` and `least_stretch` make them.
    solver
        A name of `SOLVERS`.
    time_limit
        Seconds; None for no limit. What is found by then is returned, at Ctrl-C as well.
    seed
        For everything that is random.
    workers
        Threads of the back end; None for one per core.
    cushion_slots
        By how many slots bursts are longer.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    chosen = _loaded(solver)
    task = _task(instance, time_limit, seed, workers, cushion_slots)
    with interrupt_stops(task.budget):
        return replace(chosen.choose(task, choices), stop=task.budget.stop)


def decide(
    instance: Instance,
    *,
    periods: Mapping[str, int] | None = None,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
) -> FitDecision:
    """Decide whether jobs fit at some periods.

    Parameters
    ----------
    periods
        Of the jobs that keep slots; all at their own if left out.
    solver
        A name of `SOLVERS`; those that are not exact find offsets or nothing.

    Returns
    -------
    FitDecision
        Its refutation names no job that can be left out, as far as there was time.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    chosen = _loaded(solver)
    task = _task(instance, time_limit, seed, workers, cushion_slots)
    if periods is None:
        periods = {job.name: job.period for job in instance.jobs}
    with interrupt_stops(task.budget):
        if not chosen.exact:  # the others run freely
            free = {job.name: (PeriodChoice(None, Fraction(0)),) for job in instance.jobs}
            kept = {name: (PeriodChoice(period, Fraction(0)),) for name, period in periods.items()}
            placed = chosen.choose(task, {**free, **kept}).kept
            return FitDecision(placed.offsets if placed else None, stop=task.budget.stop)
        decider = Decider(task)
        decision = decider.decide(periods)
        if decision.refutation is not None:
            decision = FitDecision(refutation=core(decision.refutation, decider.decide))
        return replace(decision, stop=task.budget.stop)


def _loaded(name: str) -> FitSolver:
    """Return the solver called `name`, with all loaded that no clock should count."""
    if name not in SOLVERS:
        raise InputError(f"solver: {quote(name)} is not known; choose from {', '.join(SOLVERS)}")
    SOLVERS[name].load()
    _load_kernels()
    return SOLVERS[name]


@cache
def _load_kernels() -> None:
    task = FitTask(warm_up_instance())
    local.improve(task, largest_set(task.instance), rounds=0)
    Decider(task, quick=True).decide(dict.fromkeys("abc", 8))


def _task(
    instance: Instance,
    time_limit: float | None,
    seed: int,
    workers: int | None,
    cushion_slots: int,
) -> FitTask:
    check_instance(instance)
    check_numbers(time_limit, seed, workers)
    check_reserve(instance, cushion_slots)
    cores = workers or os.cpu_count() or 1
    return FitTask(instance, cushion_slots, Budget(time_limit), seed, cores)


def _auto(task: FitTask, choices: Choices) -> Chosen:
    rounds = _ROUNDS * len(task.instance.jobs)
    start = local.improve(task, choices, rounds=rounds, share=_SHARE)
    return choose(task, choices, Decider(task), start)


def _greedy(task: FitTask, choices: Choices) -> Chosen:
    return local.improve(task, choices, rounds=0)


def _cpsat(task: FitTask, choices: Choices) -> Chosen:
    return choose(task, choices, Decider(task), _greedy(task, choices))


def _milp(task: FitTask, choices: Choices) -> Chosen:
    return choose(task, choices, Decider(task), _greedy(task, choices), propose=MilpMaster)


_ALL = (
    FitSolver("auto", "local search, then as cpsat", _auto, import_cp_model),
    FitSolver("cpsat", "CP-SAT chooses; searches and intervals refute", _cpsat, import_cp_model),
    FitSolver("milp", "HiGHS chooses, searches refute", _milp, models.import_milp),
    FitSolver("greedy", "heaviest first, each where it fits", _greedy, exact=False),
)
SOLVERS = {solver.name: solver for solver in _ALL}
