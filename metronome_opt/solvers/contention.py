"""Driver of the solvers of contention: run one, keep what it finds, state what it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from metronome_opt.errors import InputError, MissingBackendError, SolverError, describe_error
from metronome_opt.plugins import describe_failure
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import CONTENTION
from metronome_opt.problem.result import CustomSolverError, Level, ProgressEvent, Result, StopReason
from metronome_opt.problem.schedule import Schedule
from metronome_opt.solvers.arguments import Arguments, warm_up_instance
from metronome_opt.solvers.registry import Solver, SolverFunction, find_solver
from metronome_opt.verify import evaluate

if TYPE_CHECKING:
    from metronome_opt.solvers.run import SolverRun

NEED_FEW_KERNELS = ("unshifted", "random", "greedy", "cassini")
_UNSHIFTED = "unshifted"
_MAX_EVALUATION = 0.5  # of the time limit
_ANY_TIME = 1e-9  # enough for a greedy schedule
_MANY_LINKS = 1000
_SAMPLE = 50  # one link of this number


@dataclass
class Solution:
    """A schedule by job name and its levels, before verification; the bound is of the first one."""

    offsets: dict[str, int]
    stretch: dict[str, int] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=list)
    bound: Fraction | None = None
    stop: StopReason = StopReason.FINISHED
    build_s: float = 0.0
    trajectory: tuple[ProgressEvent, ...] = ()
    notes: list[str] = field(default_factory=list)


def solve_contention(arguments: Arguments) -> Solution:
    """Choose an offset for every job such that contention is minimal.

    Returns
    -------
    Solution
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
    from metronome_opt.solvers.run import SolverRun  # with compiled kernels: only where it is used

    instance, solver, budget = arguments.instance, arguments.solver, arguments.budget
    start = arguments.warm_start
    if start is not None and any(start.stretch.values()):
        raise InputError("warm_start: stretches jobs, which this solver does not; name one without")
    seconds = budget.remaining
    if seconds is not None:
        seconds -= min(_evaluation_s(instance), _MAX_EVALUATION * seconds)
        seconds = max(seconds, _ANY_TIME if budget.had_time else 0.0)
    search = SolverRun(
        instance,
        time_limit=seconds,
        seed=arguments.seed,
        threads=arguments.threads,
        callback=arguments.callback,
        parent=budget,
        name=solver.name,
        pool=arguments.pool,
    )
    run = solver.load()
    try:
        _run(solver, run, search, start)
    except KeyboardInterrupt:
        search.interrupt()
    except MemoryError as error:
        search.notes.append(f"stopped: {describe_error(error)}")
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
    return _solution(search, solver.name)


def _run(solver: Solver, run: SolverFunction, search: SolverRun, start: Schedule | None) -> None:
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
    """Return the error to raise for a solver of the user's.

    Parameters
    ----------
    solver, error
        The solver, and what it raised.
    result
        What it had found, if anything.

    Returns
    -------
    CustomSolverError
        With the result; its cause is to be set.
    """
    text = f"solver {solver.name} failed ({describe_failure(error)})"
    failure = CustomSolverError(str(error) if isinstance(error, SolverError) else text)
    failure.result = result
    return failure


@cache
def load_kernels(solver: Solver) -> None:
    """Load, or compile, the kernels of a solver, which no time limit counts."""
    from metronome_opt.solvers.run import SolverRun

    needs_few = solver.name in NEED_FEW_KERNELS
    run = (solver if needs_few else find_solver("auto")).load()
    run(SolverRun(warm_up_instance(), time_limit=None, seed=0, threads=1, rounds=1))
    if not needs_few:
        from metronome_opt.solvers.cost_shifting import load_marginals

        load_marginals(SolverRun(warm_up_instance(), time_limit=None, seed=0, threads=1))


def _evaluation_s(instance: Instance) -> float:
    """Estimate the seconds that the evaluation will take, by a sample of the links.

    Twice that, since it asks for the cushion of links without contention as well.
    """
    if len(instance.links) < _MANY_LINKS:
        return 0.0
    from metronome_opt.solvers.presolve.blocks import restrict

    sample = restrict(instance, {link.name for link in instance.links[::_SAMPLE]})
    began = time.perf_counter()
    evaluate(sample, sample.unshifted)
    return 2 * _SAMPLE * (time.perf_counter() - began)


def _solution(search: SolverRun, name: str) -> Solution:
    if search.best is None:
        search.offer([job.unshifted for job in search.instance.jobs], _UNSHIFTED)
    stop, notes = search.stop, list(search.notes)
    if name != _UNSHIFTED and search.found_by == _UNSHIFTED and stop is not StopReason.PROVED:
        notes.append(f"{name} found no better schedule ({stop}): all jobs start when ready")
    return Solution(
        search.offsets_by_job() or {},
        levels=[Level(CONTENTION, search.incumbent, search.proved)],
        bound=search.bound,
        stop=stop,
        build_s=search.build_s,
        trajectory=tuple(search.trajectory),
        notes=notes,
    )
