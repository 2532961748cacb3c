"""The one entry to all solvers of contention, and what every `solve` has in common."""

from __future__ import annotations

import math
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral, Real
from types import FrameType
from typing import TYPE_CHECKING

from metronome_opt.errors import InputError, SolverError, quote, reason
from metronome_opt.instance import Instance, Job, Link, Phase
from metronome_opt.result import Result, Stop
from metronome_opt.schedule import Schedule, Status
from metronome_opt.solvers.budget import Stoppable
from metronome_opt.solvers.registry import Run, Solver, find_solver
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.solvers.search import Callback, Search

DEFAULT_TIME_LIMIT = 60.0
MAX_WORKERS = 256
_UNSHIFTED = "unshifted"
NEED_FEW_KERNELS = ("unshifted", "random", "greedy", "cassini")
_MOST_JUDGING = 0.5  # of the time limit
_MANY_LINKS = 1000
_SAMPLE = 50  # one of so many links


def solve(
    instance: Instance,
    solver: str | Run | Solver = "auto",
    *,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    callback: Callback | None = None,
    start: Schedule | None = None,
) -> Result:
    """Choose an offset for every job such that contention is least.

    Parameters
    ----------
    instance
        The problem.
    solver
        A name of `metronome_opt.SOLVERS`, or a function of one `Search`.
    time_limit
        Seconds, model building and judging included, loading of kernels not; None for no limit.
        The best schedule found is returned.
    seed
        For everything that is random.
    workers
        Threads of the back end; None for one per core. Repeatable is a run with one worker and
        without a time limit, or with one so generous that no part of it uses up its share.
    callback
        Told of every new incumbent and bound, from whatever thread finds it; returns True to stop.
    start
        A schedule to begin with: what is found is never worse.

    Returns
    -------
    Result
        Always with a schedule: the rotation problem is never infeasible. Ctrl-C returns what was
        found, with `stop` saying so.

    Raises
    ------
    InputError
        If an argument makes no sense or the solver cannot do what is asked.
    MissingBackendError
        If the solver's back end is not installed; the text says what to install.
    SolverError
        If the solver fails before it has found anything.
    """
    from metronome_opt.solvers.search import Search  # with compiled kernels: only where it is used

    check_instance(instance)
    chosen = find_solver(solver)
    check_numbers(time_limit, seed, workers)
    check_start(instance, start)
    if start is not None and any(start.stretch.values()):
        raise InputError("start: stretches jobs, which this solver does not; name one without")
    run = chosen.load()
    if time_limit:
        load_kernels(chosen)
        time_limit -= min(_judging_s(instance), _MOST_JUDGING * time_limit)
    search = Search(
        instance,
        time_limit=time_limit,
        seed=seed,
        workers=workers or os.cpu_count() or 1,
        callback=callback,
        name=chosen.name,
    )
    with interrupt_stops(search):
        try:
            if chosen.exact:
                search.raise_to_loads()
            if start is not None:
                search.offer([start.offsets[job.name] for job in instance.jobs], "start")
            run(search)
        except KeyboardInterrupt:
            search.interrupt()
        except MemoryError as error:
            search.notes.append(f"stopped: {reason(error)}")
        except SolverError as error:
            if search.found_by in ("", _UNSHIFTED):
                raise
            search.notes.append(f"stopped by an error: {error}")
        return _result(search, chosen)


@cache
def load_kernels(solver: Solver) -> None:
    """Load, or compile, what no time limit should count."""
    from metronome_opt.solvers.search import Search

    needs_few = solver.name in NEED_FEW_KERNELS
    run = (solver if needs_few else find_solver("auto")).load()
    run(Search(crowd(), time_limit=None, seed=0, workers=1, rounds=1))


def crowd() -> Instance:
    """Return three jobs on two links that fit two by two: all kernels have something to do."""
    burst = Phase(start=0, length=3, rate=60)
    jobs = tuple(
        Job(name=name, period=8, phases=(burst,), links={"l": 1, "m": 1}, weight=weight)
        for name, weight in (("a", 1), ("b", 1), ("c", 2))
    )
    links = (Link(name="l", capacity=100), Link(name="m", capacity=119))
    return Instance(name="crowd", slot_ms=1, links=links, jobs=jobs)


def _judging_s(instance: Instance) -> float:
    """Return about how many seconds the judge will take, by what it takes for some of many links.

    Twice that, since it asks for the cushion of links without contention as well.
    """
    if len(instance.links) < _MANY_LINKS:
        return 0.0
    from metronome_opt.presolve import restrict

    sample = restrict(instance, {link.name for link in instance.links[::_SAMPLE]})
    began = time.perf_counter()
    evaluate(sample, sample.unshifted)
    return 2 * _SAMPLE * (time.perf_counter() - began)


@contextmanager
def interrupt_stops(search: Stoppable) -> Iterator[None]:
    """Let the first Ctrl-C ask the search to stop, and only the next one break in.

    A KeyboardInterrupt is lost where it cannot be raised, in a callback of a compiler, say; and
    where it can, it may tear what it meets. A flag is neither lost nor in the way.
    """
    previous = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not callable(previous):  # someone else's business, or ignored
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
    """Refuse what is no instance.

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


def check_numbers(time_limit: float | None, seed: int, workers: int | None) -> None:
    """Refuse what is no time limit, seed or number of workers.

    Raises
    ------
    InputError
        With the name, the value and what it must be.
    """
    for name, number in (("seed", seed), ("workers", workers)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, Integral)):
            raise InputError(f"{name}: must be an integer, got {quote(number)}")
    known = time_limit is None or isinstance(time_limit, Real)
    if not known or (time_limit is not None and not 0 <= time_limit < math.inf):
        raise InputError(
            f"time limit: must be a number of seconds from 0 on, got {quote(time_limit)}"
        )
    if seed < 0:
        raise InputError(f"seed: must be at least 0, got {seed}")
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"workers: must be from 1 to {MAX_WORKERS}, got {workers}")


def check_start(instance: Instance, start: object) -> None:
    """Refuse what is no schedule of an instance.

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
    for job in instance.jobs:
        offset, period = start.offsets[job.name], job.period + start.stretch.get(job.name, 0)
        if offset >= period or job.fixed_offset not in (None, offset):
            must = "below the period" if offset >= period else "the fixed offset"
            value = period if offset >= period else job.fixed_offset
            raise InputError(
                f"start: {quote(job.name)} begins at {offset}; must be {must}, {value}"
            )


def _result(search: Search, solver: Solver) -> Result:
    instance = search.instance
    if search.best is None:
        search.offer([job.unshifted for job in instance.jobs], _UNSHIFTED)
    offsets = search.named() or {}
    stretch = dict.fromkeys(offsets, 0)
    evaluation = evaluate(instance, offsets, stretch)
    stop, runtime = search.stop, search.elapsed
    notes = list(search.notes)
    if solver.name != _UNSHIFTED and search.found_by == _UNSHIFTED and stop is not Stop.PROVED:
        notes.append(
            f"{solver.name} found no better schedule ({stop}): everybody starts when ready"
        )
    schedule = Schedule(
        instance=instance.name,
        offsets=offsets,
        stretch=stretch,
        status=Status.OPTIMAL if search.proved else Status.FEASIBLE,
        objectives=evaluation.objectives,
        lower_bound=search.bound,
        solver=solver.name,
        seed=search.seed,
        runtime_s=round(runtime, 6),
        versions=versions_of(solver),
    )
    return Result(
        instance=instance,
        schedule=schedule,
        stop=stop,
        evaluation=evaluation,
        build_s=search.build_s,
        solve_s=runtime - search.build_s,
        trajectory=tuple(search.trajectory),
        notes=tuple(notes),
        blocks=tuple(search.blocks),
    )


def versions_of(solver: Solver) -> dict[str, str]:
    """Return the versions that a schedule of a solver depends on."""
    versions = {"python": platform.python_version()}
    for name in ("metronome-opt", "numpy", "numba", *solver.packages):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
