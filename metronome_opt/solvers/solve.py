"""Solvers of contention, and the checks that every `solve` has in common."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral, Rational, Real
from types import FrameType
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import (
    InputError,
    MissingBackendError,
    SolverError,
    quote,
    reason,
)
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.plugins import describe_failure, find_versions
from metronome_opt.result import CustomSolverError, Result, Stop
from metronome_opt.schedule import Schedule, Status
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import Run, Solver, find_solver
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.solvers.search import Search
    from metronome_opt.stopping import StoppingRule

Exact = str | int | Fraction
DEFAULT_TIME_LIMIT = 60.0
MAX_WORKERS = 256
_UNSHIFTED = "unshifted"
NEED_FEW_KERNELS = ("unshifted", "random", "greedy", "cassini")
_MAX_JUDGING = 0.5  # of the time limit
_ANY_TIME = 1e-9  # enough for a greedy schedule
_MANY_LINKS = 1000
_SAMPLE = 50  # one of so many links
_MAX_DIGITS = 40  # of an exact number


@dataclass(frozen=True)
class Arguments:
    """Checked arguments of a run that minimises one or several objectives.

    Attributes
    ----------
    budget
        Its time; the run may end it.
    workers
        Threads of the back end.
    callback
        Receives every new incumbent and bound.
    start
        A schedule to begin with.
    """

    instance: Instance
    solver: Solver
    budget: Budget
    seed: int = 0
    workers: int = 1
    callback: StoppingRule | None = None
    start: Schedule | None = None


def solve_contention(arguments: Arguments) -> Result:
    """Choose an offset for every job such that contention is minimal.

    Returns
    -------
    Result
        Always with a schedule: the rotation problem is never infeasible. A schedule that was found
        before a solver failed is kept; with a note on the failure, or `Budget.failure` if the
        solver is the user's.

    Raises
    ------
    InputError, MissingBackendError
        If the solver cannot do what is asked, or its back end is not installed.
    SolverError
        If the solver fails before it has found anything; a `CustomSolverError` if it is the user's.
    """
    from metronome_opt.solvers.search import Search  # with compiled kernels: only where it is used

    instance, solver, budget = arguments.instance, arguments.solver, arguments.budget
    start = arguments.start
    if start is not None and any(start.stretch.values()):
        raise InputError("start: stretches jobs, which this solver does not; name one without")
    seconds = budget.remaining
    if seconds is not None:
        seconds -= min(_judging_s(instance), _MAX_JUDGING * seconds)
        seconds = max(seconds, _ANY_TIME if budget.had_time else 0.0)
    search = Search(
        instance,
        time_limit=seconds,
        seed=arguments.seed,
        workers=arguments.workers,
        callback=arguments.callback,
        parent=budget,
        name=solver.name,
    )
    run = solver.load()
    try:
        _run(solver, run, search, start)
    except KeyboardInterrupt:
        search.interrupt()
    except MemoryError as error:
        search.notes.append(f"stopped: {reason(error)}")
    except (Exception, SystemExit) as error:
        found = search.found_by not in ("", _UNSHIFTED)
        if solver.is_own:
            if not (found and isinstance(error, SolverError)):
                raise
            search.notes.append(f"stopped by an error: {error}")
        elif found:
            search.fail(error)
        elif isinstance(error, InputError | MissingBackendError):  # a refusal, not a fault
            raise
        else:
            raise custom_solver_error(solver, error) from error
    return _result(arguments, search)


def _run(solver: Solver, run: Run, search: Search, start: Schedule | None) -> None:
    jobs = search.instance.jobs
    if solver.exact:
        search.raise_to_loads()
    if start is not None:
        search.offer([start.offsets[job.name] for job in jobs], "start")
    run(search)
    if search.bound is not None and not solver.is_own:
        search.offer([job.unshifted for job in jobs], _UNSHIFTED)  # may refute the bound


def custom_solver_error(
    solver: Solver, error: BaseException, result: Result | None = None
) -> CustomSolverError:
    """Return the error to raise, from what a solver of the user's raised."""
    text = f"solver {solver.name} failed ({describe_failure(error)})"
    failure = CustomSolverError(str(error) if isinstance(error, SolverError) else text)
    failure.result = result
    return failure


@cache
def load_kernels(solver: Solver) -> None:
    """Load, or compile, the kernels of a solver, which no time limit counts."""
    from metronome_opt.solvers.search import Search

    needs_few = solver.name in NEED_FEW_KERNELS
    run = (solver if needs_few else find_solver("auto")).load()
    run(Search(warm_up_instance(), time_limit=None, seed=0, workers=1, rounds=1))


def warm_up_instance() -> Instance:
    """Return three jobs on two links that fit two by two: all kernels have something to do."""
    burst = Phase(start=0, length=3, rate=60)
    jobs = tuple(
        Job(name=name, period=8, phases=(burst,), links={"l": 1, "m": 1}, weight=weight)
        for name, weight in (("a", 1), ("b", 1), ("c", 2))
    )
    links = (Link(name="l", capacity=100), Link(name="m", capacity=119))
    return Instance(name="warm-up", slot_ms=1, links=links, jobs=jobs)


def _judging_s(instance: Instance) -> float:
    """Estimate the seconds that the judge will take, by a sample of the links.

    Twice that, since it asks for the cushion of links without contention as well.
    """
    if len(instance.links) < _MANY_LINKS:
        return 0.0
    from metronome_opt.presolve.blocks import restrict

    sample = restrict(instance, {link.name for link in instance.links[::_SAMPLE]})
    began = time.perf_counter()
    evaluate(sample, sample.unshifted)
    return 2 * _SAMPLE * (time.perf_counter() - began)


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
        if search.stop is Stop.INTERRUPTED:
            previous(number, frame)
        search.interrupt()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def check_instance(instance: object) -> None:
    """Refuse a problem that is no instance.

    Raises
    ------
    InputError
        With what to pass instead.
    """
    if not isinstance(instance, Instance):
        raise InputError(
            f"instance: must be an Instance, got {type(instance).__name__}; "
            "of a Problem, which `load` returns, pass `problem.instance`"
        )


def check_numbers(
    time_limit: float | None, seed: int, workers: int | None, name: str = "workers"
) -> None:
    """Refuse values that are no time limit, seed or number of workers, by its name.

    Raises
    ------
    InputError
        With the name, the value and what it must be.
    """
    for which, number in (("seed", seed), (name, workers)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, Integral)):
            raise InputError(f"{which}: must be an integer, got {quote(number)}")
    known = time_limit is None or isinstance(time_limit, Real)
    if not known or (time_limit is not None and not 0 <= time_limit < math.inf):
        raise InputError(
            f"time limit: must be a number of seconds from 0 on, got {quote(time_limit)}"
        )
    if seed < 0:
        raise InputError(f"seed: must be at least 0, got {seed}")
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"{name}: must be from 1 to {MAX_WORKERS}, got {workers}")


def exact(place: str, value: Exact) -> Fraction:
    """Return a number as it is given: ``3``, ``"1/3"``, ``"0.05"`` or ``"5%"``.

    Raises
    ------
    InputError
        If it is none, or a float, which is not exact.
    """
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


def check_reserve(instance: Instance, cushion_slots: int) -> None:
    """Refuse what is no reserve for the bursts of an instance.

    Raises
    ------
    InputError
        If it is negative, not an integer, or longer than any burst can grow.
    """
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


def check_start(instance: Instance, start: object, *, patterns: bool = False) -> None:
    """Refuse a start that is no schedule of an instance, whose jobs may have other `patterns`.

    Raises
    ------
    InputError
        With the job and the offset that do not fit.
    """
    if start is None:
        return
    if not isinstance(start, Schedule):
        raise InputError(
            f"start: must be a Schedule, got {type(start).__name__}; of a Result pass its schedule"
        )
    odd = sorted(set(start.offsets) ^ {job.name for job in instance.jobs})
    if odd:
        raise InputError(
            f"start: {quote(odd[0])} is a job of only one of schedule and instance; they must agree"
        )
    if start.patterns and not patterns:
        raise InputError("start: jobs have other patterns than their own; this is for slowdown")
    for job in instance.at_patterns(start.patterns).jobs:
        offset, period = start.offsets[job.name], job.period + start.stretch.get(job.name, 0)
        if offset >= period or job.fixed_offset not in (None, offset):
            must = "below the period" if offset >= period else "the fixed offset"
            value = period if offset >= period else job.fixed_offset
            raise InputError(
                f"start: {quote(job.name)} begins at {offset}; must be {must}, {value}"
            )


def _result(arguments: Arguments, search: Search) -> Result:
    instance, name = arguments.instance, arguments.solver.name
    if search.best is None:
        search.offer([job.unshifted for job in instance.jobs], _UNSHIFTED)
    offsets = search.named() or {}
    evaluation = evaluate(instance, offsets)
    stop, notes = search.stop, list(search.notes)
    if name != _UNSHIFTED and search.found_by == _UNSHIFTED and stop is not Stop.PROVED:
        notes.append(f"{name} found no better schedule ({stop}): all jobs start when ready")
    schedule = make_schedule(
        arguments, offsets, {}, evaluation.objectives, search.bound, proved=search.proved
    )
    return Result(
        instance=instance,
        schedule=schedule,
        stop=stop,
        judged=evaluation,
        build_s=search.build_s,
        solve_s=schedule.runtime_s - search.build_s,
        trajectory=tuple(search.trajectory),
        notes=tuple(notes),
    )


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
    offsets, stretch
        By job name; without stretch where left out.
    objectives
        As they are stated, that of the bound first.
    proved
        Whether it is optimal.
    stated
        Further fields of the schedule.
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
