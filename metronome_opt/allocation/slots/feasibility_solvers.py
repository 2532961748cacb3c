"""Entry to problems of compatible jobs, and the registry of their solvers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from metronome_opt.allocation.slots import feasibility_models
from metronome_opt.allocation.slots.feasibility import FeasibilityTest, core
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
    at_periods,
)
from metronome_opt.allocation.slots.greedy import greedy
from metronome_opt.allocation.slots.job_selection import CpsatMaster, MilpMaster, select_gated_jobs
from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.arguments import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    check_reserve,
    interrupt_stops,
    warm_up_instance,
)
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.imports import import_cp_model


@dataclass(frozen=True)
class FeasibilitySolver:
    """A solver of compatible problems.

    Attributes
    ----------
    summary
        One line for help texts.
    master
        Proposes the jobs to leave out; None if the solver proves nothing.
    load
        Imports its back end.
    """

    name: str
    summary: str
    master: type[CpsatMaster | MilpMaster] | None = None
    load: Callable[[], object] = object


def check_feasibility(
    instance: Instance,
    *,
    drop: bool = False,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
) -> FeasibilityResult:
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
    task = FeasibilityProblem(instance, cushion_slots, Budget(time_limit), seed, cores)
    with interrupt_stops(task.budget):
        if chosen.master is None:
            offsets = greedy(task)
            everything = len(offsets) == len(periods)
            fit = (
                FeasibilityResult(offsets, task.weight_without(offsets))
                if drop or everything
                else FeasibilityResult()
            )
        else:
            fit = select_gated_jobs(task, chosen.master) if drop else _decide(task, periods)
        return replace(fit, stop=task.budget.stop)


def _decide(task: FeasibilityProblem, periods: dict[str, int]) -> FeasibilityResult:
    decider = FeasibilityTest(task)
    decision = decider.decide(periods)
    if decision.refutation is not None:
        # What is known is not to wait for what can be left out of it.
        refutation = core(decision.refutation, FeasibilityTest(task, quick=True).decide)
        proved = refutation.reason is not Reason.HYPERPERIOD
        return FeasibilityResult(bound=None if proved else 0, refutations=(refutation,))
    return (
        FeasibilityResult() if decision.offsets is None else FeasibilityResult(decision.offsets, 0)
    )


@cache
def _load_kernels() -> None:
    task = FeasibilityProblem(warm_up_instance())
    greedy(task)
    FeasibilityTest(task, quick=True).decide(dict.fromkeys("abc", 8))


_ALL = (
    FeasibilitySolver("auto", "as cpsat", CpsatMaster, import_cp_model),
    FeasibilitySolver("cpsat", "CP-SAT chooses, searches refute", CpsatMaster, import_cp_model),
    FeasibilitySolver(
        "milp", "HiGHS chooses, searches refute", MilpMaster, feasibility_models.import_milp
    ),
    FeasibilitySolver("greedy", "heaviest first, each where it fits"),
)
SOLVERS = {solver.name: solver for solver in _ALL}
