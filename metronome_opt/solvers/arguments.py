"""What the drivers of all objectives share: arguments and their checks, Ctrl-C, schedules."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Rational, Real
from types import FrameType
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import InputError, quote
from metronome_opt.plugins import find_versions
from metronome_opt.pools import Pool
from metronome_opt.problem.instance import Instance, Job, Link, Phase
from metronome_opt.problem.objectives import (
    CONTENTION,
    CUSHION,
    DEFAULT_ORDER,
    SLOWDOWN,
    STRETCH,
    check_names,
)
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import SOLVERS, Solver

if TYPE_CHECKING:
    from metronome_opt.problem.stopping import StoppingRule

Exact = str | int | Fraction
DEFAULT_TIME_LIMIT = 60.0
MAX_THREADS = 256
_MAX_SECONDS = 10**9
_MAX_DIGITS = 40  # of an exact number


@dataclass(frozen=True)
class Goal:
    """Objectives in an order; with coefficients the sum of them, each divided by its `normal`."""

    objectives: tuple[str, ...]
    coefficients: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True)
class Arguments:
    """Checked arguments of a driver.

    Attributes
    ----------
    callback
        Receives every new incumbent and bound.
    goal
        What is minimised, if it is not simulated.
    cushion_slots
        Slots by which bursts are extended.
    pool
        Where subtrees of proofs are searched; None for this process alone.
    """

    instance: Instance
    solver: Solver
    budget: Budget
    seed: int = 0
    threads: int = 1
    callback: StoppingRule | None = None
    warm_start: Schedule | None = None
    goal: Goal = Goal((CONTENTION,))
    cushion_slots: int = 0
    pool: Pool | None = None


def warm_up_instance() -> Instance:
    """Return three jobs on two links that fit two by two: all kernels have something to do."""
    burst = Phase(start=0, length=3, rate=60)
    jobs = tuple(
        Job(name=name, period=8, phases=(burst,), links={"l": 1, "m": 1}, weight=weight)
        for name, weight in (("a", 1), ("b", 1), ("c", 2))
    )
    links = (Link(name="l", capacity=100), Link(name="m", capacity=119))
    return Instance(name="warm-up", slot_ms=1, links=links, jobs=jobs)


@contextmanager
def interrupt_stops(search: Budget) -> Iterator[None]:
    """Let the first Ctrl-C ask the search to stop, and only the next one break in.

    A KeyboardInterrupt is lost where it cannot be raised, in a callback of a compiler, say; and
    where it can, it may tear what it meets. A flag is neither lost nor in the way.
    """
    previous = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not callable(previous):  # handled elsewhere, or ignored
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if search.stop is StopReason.INTERRUPTED:
            previous(number, frame)
        search.interrupt()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def check_instance(instance: object) -> None:
    """Refuse a problem that is no instance, with what to pass instead."""
    if not isinstance(instance, Instance):
        raise InputError(
            f"instance: must be an Instance, got {type(instance).__name__}; "
            "of a PlacedInstance, which `load` returns, pass its `instance`"
        )


def check_numbers(time_limit: float | None, seed: int, threads: int | None) -> None:
    """Refuse values that are no time limit, seed or number of threads.

    Parameters
    ----------
    time_limit
        Seconds; None for no limit.
    seed
        Random seed, from 0 on.
    threads
        None for one per core.

    Raises
    ------
    InputError
        With the name, the value and what it must be.
    """
    for name, number in (("seed", seed), ("threads", 1 if threads is None else threads)):
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise InputError(f"{name}: must be an integer, got {quote(number)}")
    is_number = isinstance(time_limit, Real) and not isinstance(time_limit, bool)
    if time_limit is not None and not (is_number and 0 <= time_limit <= _MAX_SECONDS):
        raise InputError(
            f"time limit: must be a number of seconds from 0 to 1e9, got {quote(time_limit)}"
        )
    if seed < 0:
        raise InputError(f"seed: must be at least 0, got {seed}")
    if threads is not None and not 1 <= threads <= MAX_THREADS:
        raise InputError(f"threads: must be from 1 to {MAX_THREADS}, got {threads}")


def exact(place: str, value: Exact) -> Fraction:
    """Return a number as it is given: ``3``, ``"1/3"``, ``"0.05"`` or ``"5%"``; refuse a float."""
    number: Fraction | None = None
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _MAX_DIGITS or len(text.lower().partition("e")[2]) > 3:
            raise InputError(
                f"{place}: {quote(text)} is too long; write a number of {_MAX_DIGITS} digits "
                "or fewer"
            )
        with suppress(ValueError, ZeroDivisionError):
            share = 100 if text.endswith("%") else 1
            number = Fraction(text.removesuffix("%").strip()) / share
    elif isinstance(value, Rational) and not isinstance(value, bool):
        number = Fraction(value)
    if number is None:
        raise InputError(
            f"{place}: must be an exact number such as 3, '1/3', '0.05' or '5%', got {quote(value)}"
        )
    if max(abs(number.numerator), number.denominator) >= 10**_MAX_DIGITS:
        raise InputError(
            f"{place}: must have {_MAX_DIGITS} digits or fewer above and below the line"
        )
    return number


def check_share(name: str, value: Exact | None) -> Fraction | None:
    """Return a limit as an exact number, None for None; refuse a negative one."""
    limit = None if value is None else exact(name, value)
    if limit is not None and limit < 0:
        raise InputError(f"{name}: must be at least 0, got {quote(str(value))}")
    return limit


def make_goal(objectives: Sequence[str], weights: Mapping[str, Exact] | None = None) -> Goal:
    """Return objectives in an order, or a weighted sum; refuse what makes no sense."""
    coefficients = {}
    for name, weight in (weights or {}).items():
        check_names([name], "weights")
        coefficients[name] = exact(f"weights.{name}", weight)
        if coefficients[name] < 0:
            raise InputError(f"weights.{name}: must not be negative, got {quote(str(weight))}")
    if coefficients and not any(coefficients.values()):
        raise InputError("weights: all are 0; give a positive one to what matters")
    if odd := [name for name in (CUSHION, STRETCH) if name in coefficients]:
        raise InputError(
            f"weights: {odd[0]} has no place in a sum; give objectives in an order instead"
        )
    if coefficients:
        return Goal(tuple(coefficients), coefficients)
    return Goal(DEFAULT_ORDER if list(objectives) == ["all"] else check_names(objectives))


def check_able(solver: Solver, goal: Goal, *, stretching: bool) -> None:
    """Refuse a goal that a solver cannot minimise.

    Parameters
    ----------
    solver, goal
        What is asked for.
    stretching
        Whether jobs have to be stretched, asked for or not.

    Raises
    ------
    InputError
        With the solvers that can.
    """
    if _can(solver, goal, stretching):
        return
    able = [other.name for other in SOLVERS.values() if _can(other, goal, stretching)]
    wish = ", ".join(dict.fromkeys((*goal.objectives, *(["stretch"] if stretching else []))))
    raise InputError(
        f"objectives: {wish}: solver {solver.name} cannot; it optimises "
        f"{', '.join(solver.objectives)}"
        f"{' and holds ' + ', '.join(solver.holds) if solver.holds else ' alone'}; "
        f"those that can: {', '.join(able) or 'none'}"
    )


def _can(solver: Solver, goal: Goal, stretching: bool) -> bool:
    held = () if goal.coefficients else goal.objectives[:-1]
    if SLOWDOWN in solver.objectives:  # it minimises all there are, those of other packages too
        return True
    return (
        set(goal.objectives) <= set(solver.objectives)
        and set(held) <= set(solver.holds)
        and not stretching
    )


def check_executor(solver: Solver, goal: Goal, executor: object, cushion_slots: int) -> None:
    """Refuse an executor for a solver, or for objectives, whose proofs have no tasks."""
    if executor is None:
        return
    able = [other.name for other in SOLVERS.values() if other.distributes]
    if not solver.distributes:
        raise InputError(
            f"executor: solver {solver.name} runs in this process alone; omit it, or take "
            f"{' or '.join(able)}"
        )
    if goal != Goal((CONTENTION,)) or cushion_slots:
        raise InputError("executor: is for contention alone without a cushion; omit it")


def check_reserve(instance: Instance, cushion_slots: int) -> None:
    """Refuse a cushion that is negative, no integer, or more than any burst can grow."""
    if isinstance(cushion_slots, bool) or not isinstance(cushion_slots, int) or cushion_slots < 0:
        raise InputError(
            f"cushion_slots: must be a number of slots from 0 on, got {quote(cushion_slots)}"
        )
    longest = max(job.period + job.max_stretch for job in instance.jobs)
    if cushion_slots > longest:
        raise InputError(
            f"cushion_slots: {quote(cushion_slots)} is more than any burst can grow; the longest "
            f"period is {longest} slots"
        )


def check_start(instance: Instance, start: object) -> None:
    """Refuse a start that is no schedule of an instance, with the job that does not fit."""
    if start is None:
        return
    if not isinstance(start, Schedule):
        raise InputError(
            f"warm_start: must be a Schedule, got {type(start).__name__}; of a Result pass its "
            "schedule"
        )
    odd = sorted(set(start.offsets) ^ {job.name for job in instance.jobs})
    if odd:
        raise InputError(
            f"warm_start: {quote(odd[0])} is a job of only one of schedule and instance; they must "
            "agree"
        )
    for job in instance.jobs:
        offset, period = start.offsets[job.name], job.period + start.stretch.get(job.name, 0)
        if offset >= period:
            must = f"below the period, {period}"
        elif job.fixed_offset not in (None, offset):
            must = f"the fixed offset, {job.fixed_offset}"
        else:
            continue
        raise InputError(f"warm_start: {quote(job.name)} begins at {offset}; must be {must}")


def make_schedule(
    arguments: Arguments,
    offsets: Mapping[str, int],
    stretch: Mapping[str, int],
    objectives: Mapping[str, Fraction | None],
    bound: Fraction | None,
    *,
    proved: bool,
    **stated: Any,
) -> Schedule:
    """Return the schedule of a run that ends now.

    Parameters
    ----------
    arguments
        Arguments of the run.
    offsets, stretch
        Slots by job name; no stretch where omitted.
    objectives
        As they are stated, that of the bound first.
    bound
        Bound of the first objective.
    proved
        Whether it is optimal.
    stated
        Further fields of the schedule.

    Returns
    -------
    Schedule
        With the time and the versions of packages.
    """
    instance, solver = arguments.instance, arguments.solver
    return Schedule(
        instance=instance.name,
        offsets={job.name: offsets[job.name] for job in instance.jobs},
        stretch={job.name: stretch.get(job.name, 0) for job in instance.jobs},
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        objectives=dict(objectives),
        lower_bound=bound,
        solver=solver.name,
        seed=arguments.seed,
        runtime_s=round(arguments.budget.elapsed, 6),
        versions=find_versions(solver.packages),
        **stated,
    )
