"""The one entry to compatible problems, and the solvers that it knows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from metronome_opt.compatible import local, models
from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    FitDecision,
    FitTask,
    Offer,
    PeriodChoice,
    cheapest_first,
    largest_set,
)
from metronome_opt.compatible.choose import MilpMaster, choose
from metronome_opt.compatible.decider import Decider, core, search_offsets
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance, Job
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.imports import import_cp_model
from metronome_opt.solvers.solve import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    interrupt_stops,
    warm_up_instance,
)

_ROUNDS = 20  # for each job, of local search without a gain, before something exact goes on
_SHARE = 0.1  # of the time, for these

Periods = Mapping[str, int]


@dataclass(frozen=True)
class FitSolver:
    """A solver of compatible problems.

    Attributes
    ----------
    summary
        One line for help texts.
    choose
        Finds the cheapest choices at which jobs fit.
    decide
        Decides whether jobs fit at some periods.
    load
        Imports its back end.
    exact
        Whether it proves what it says, given time.
    """

    name: str
    summary: str
    choose: Callable[[FitTask, Choices], Chosen]
    decide: Callable[[FitTask, Periods], FitDecision]
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
    callback: Offer | None = None,
) -> Chosen:
    """Find the cheapest choices at which jobs fit.

    Parameters
    ----------
    choices
        Of all jobs of the instance; `largest_set` and `least_stretch` make them.
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
    callback
        Notified of every better answer.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    chosen = _loaded(solver)
    task = _task(instance, time_limit, seed, workers, cushion_slots, callback)
    asked = _checked(instance, choices)
    with interrupt_stops(task.budget):
        return replace(chosen.choose(task, asked), stop=task.budget.stop)


def decide(
    instance: Instance,
    *,
    periods: Periods | None = None,
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
    _refuse_unknown(instance, periods)
    for name, period in periods.items():
        _check_period(instance, instance.job(name), period, "periods")
    with interrupt_stops(task.budget):
        decision = chosen.decide(task, periods)
        if decision.refutation is not None:
            minimal = core(decision.refutation, lambda fewer: chosen.decide(task, fewer))
            decision = FitDecision(refutation=minimal)
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
    local.place_all(task, largest_set(task.instance))
    Decider(task).decide(dict.fromkeys("abc", 8))


def _task(
    instance: Instance,
    time_limit: float | None,
    seed: int,
    workers: int | None,
    cushion_slots: int,
    callback: Offer | None = None,
) -> FitTask:
    check_instance(instance)
    check_numbers(time_limit, seed, workers)
    if isinstance(cushion_slots, bool) or not isinstance(cushion_slots, int):
        raise InputError(f"cushion_slots: must be an integer, got {quote(cushion_slots)}")
    if cushion_slots < 0:
        raise InputError(f"cushion_slots: must be at least 0, got {quote(cushion_slots)}")
    cores = workers or os.cpu_count() or 1
    return FitTask(instance, cushion_slots, Budget(time_limit), seed, cores, callback)


def _checked(instance: Instance, choices: Choices) -> Choices:
    """Return the choices of every job of an instance, the cheapest first."""
    _refuse_unknown(instance, choices)
    for job in instance.jobs:
        if not choices.get(job.name):
            raise InputError(f"choices.{job.name}: empty; every job needs a choice")
        for choice in choices[job.name]:
            if choice.cost < 0:
                raise InputError(
                    f"choices.{job.name}: costs must be at least 0, got {quote(str(choice.cost))}"
                )
            if choice.period is not None:
                _check_period(instance, job, choice.period, "choices")
    return {job.name: cheapest_first(choices[job.name]) for job in instance.jobs}


def _refuse_unknown(instance: Instance, named: Iterable[str]) -> None:
    """Refuse names of no job."""
    known = {job.name for job in instance.jobs}
    for name in named:
        if name not in known:
            raise InputError(f"jobs: there is no {quote(name)} in {instance.name}")


def _check_period(instance: Instance, job: Job, period: int, field: str) -> None:
    """Refuse a period that a job cannot keep."""
    if not job.period <= period <= instance.hyperperiod_limit:
        raise InputError(
            f"{field}.{job.name}: periods must be from {job.period} to "
            f"{instance.hyperperiod_limit}, got {quote(period)}"
        )


def _auto(task: FitTask, choices: Choices) -> Chosen:
    rounds = _ROUNDS * len(task.instance.jobs)
    start = local.improve(task, choices, rounds=rounds, share=_SHARE)
    return choose(task, choices, _settling(task), start)


def _cpsat(task: FitTask, choices: Choices) -> Chosen:
    return choose(task, choices, _settling(task), local.place_all(task, choices))


def _milp(task: FitTask, choices: Choices) -> Chosen:
    start = local.place_all(task, choices)
    return choose(task, choices, Decider(task), start, propose=MilpMaster)


def _greedy(task: FitTask, periods: Periods) -> FitDecision:
    """Decide by choosing where jobs have no choice: those not named run freely."""
    jobs = task.instance.jobs
    choices = {job.name: (PeriodChoice(periods.get(job.name), Fraction(0)),) for job in jobs}
    kept = local.place_all(task, choices).kept
    return FitDecision() if kept is None else FitDecision(offsets=kept.offsets)


def _settling(task: FitTask) -> Decider:
    """Return a decider that hands to CP-SAT what the search does not decide soon."""
    return Decider(
        task,
        lambda block: models.settle(task, block) or search_offsets(block, task.budget),
    )


_ALL = (
    FitSolver(
        "auto",
        "local search, then CP-SAT chooses, and search and intervals refute",
        _auto,
        lambda task, periods: _settling(task).decide(periods),
        import_cp_model,
    ),
    FitSolver(
        "cpsat",
        "the same from greedy; or intervals in CP-SAT alone",
        _cpsat,
        models.decide_cpsat,
        import_cp_model,
    ),
    FitSolver(
        "milp",
        "HiGHS chooses, the search refutes",
        _milp,
        lambda task, periods: Decider(task).decide(periods),
        models.import_milp,
    ),
    FitSolver(
        "greedy",
        "heaviest first, each where it fits",
        local.place_all,
        _greedy,
        exact=False,
    ),
)
SOLVERS = {solver.name: solver for solver in _ALL}
