"""Entry to problems of compatible jobs, and the registry of their solvers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from metronome_opt.compatible import local, models
from metronome_opt.compatible.choose import CpsatMaster, MilpMaster, choose
from metronome_opt.compatible.decider import Decider, core
from metronome_opt.compatible.problem import Fit, FitTask, at_periods
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
    drop
        Finds jobs of the minimum weight without which the others fit.
    load
        Imports its back end.
    exact
        Whether it proves what it says, given time.
    """

    name: str
    summary: str
    drop: Callable[[FitTask], Fit]
    load: Callable[[], object] = object
    exact: bool = True


def find_fit(
    instance: Instance,
    *,
    drop: bool = False,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
) -> Fit:
    """Decide whether all jobs fit at their periods, or which ones to leave out so that they do.

    Parameters
    ----------
    drop
        Whether jobs may be left out, at the cost of their weight.
    solver
        A name of `SOLVERS`; those that are not exact find offsets or nothing.
    time_limit
        Seconds; None for no limit. What is found by then is returned, at Ctrl-C as well.
    seed
        For everything that is random.
    workers
        Threads of the back end; None for one per core.
    cushion_slots
        By how many slots bursts are longer.

    Returns
    -------
    Fit
        Without `drop` all jobs are gated or none is, and its refutation names no job that can be
        left out, as far as there was time.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    if solver not in SOLVERS:
        raise InputError(f"solver: {quote(solver)} is not known; choose from {', '.join(SOLVERS)}")
    chosen = SOLVERS[solver]
    chosen.load()
    _load_kernels()
    check_instance(instance)
    check_numbers(time_limit, seed, workers)
    check_reserve(instance, cushion_slots)
    periods = {job.name: job.period for job in instance.jobs}
    if not drop:  # all jobs count the same
        instance = at_periods(instance, periods)
    cores = workers or os.cpu_count() or 1
    task = FitTask(instance, cushion_slots, Budget(time_limit), seed, cores)
    with interrupt_stops(task.budget):
        if drop:
            fit = chosen.drop(task)
        elif chosen.exact:
            fit = _decide(task, periods)
        else:
            fit = chosen.drop(task)
            fit = Fit(fit.offsets, 0) if fit.cost == 0 else Fit()
        return replace(fit, stop=task.budget.stop)


def _decide(task: FitTask, periods: dict[str, int]) -> Fit:
    decider = Decider(task)
    decision = decider.decide(periods)
    if decision.refutation is not None:
        return Fit(bound=None, refutations=(core(decision.refutation, decider.decide),))
    return Fit() if decision.offsets is None else Fit(decision.offsets, 0)


@cache
def _load_kernels() -> None:
    task = FitTask(warm_up_instance())
    local.improve(task, rounds=0)
    Decider(task, quick=True).decide(dict.fromkeys("abc", 8))


def _greedy(task: FitTask) -> Fit:
    return local.improve(task, rounds=0)


def _auto(task: FitTask) -> Fit:
    rounds = _ROUNDS * len(task.instance.jobs)
    return choose(task, local.improve(task, rounds=rounds, share=_SHARE), CpsatMaster)


def _cpsat(task: FitTask) -> Fit:
    return choose(task, _greedy(task), CpsatMaster)


def _milp(task: FitTask) -> Fit:
    return choose(task, _greedy(task), MilpMaster)


_ALL = (
    FitSolver("auto", "local search, then as cpsat", _auto, import_cp_model),
    FitSolver("cpsat", "CP-SAT chooses, searches refute", _cpsat, import_cp_model),
    FitSolver("milp", "HiGHS chooses, searches refute", _milp, models.import_milp),
    FitSolver("greedy", "heaviest first, each where it fits", _greedy, exact=False),
)
SOLVERS = {solver.name: solver for solver in _ALL}
