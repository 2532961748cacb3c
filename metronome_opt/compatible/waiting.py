"""Calls that hold their thread for long, and clocks that end meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from metronome_opt.errors import SolverError
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.deadline import Deadline

T = TypeVar("T")


def finish(clock: Deadline, work: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Return what a call returns; told to end by `cancel` once the clock is over.

    Parameters
    ----------
    cancel
        Makes `work` return soon; may be called more than once.
    """
    call = _Call(work)
    while not call.done.wait(0.05):
        if clock.over:
            cancel()
    return call.result()


def finish_or_leave(clock: Deadline, work: Callable[[], T]) -> T | None:
    """Return what a call returns, or None once the clock is over: it goes on without us."""
    call = _Call(work)
    while not call.done.wait(0.05):
        if clock.over:
            return None
    return call.result()


def run_cpsat(model: Any, clock: Deadline, seed: int, workers: int) -> tuple[Any, str]:
    """Let CP-SAT solve a model until the clock is over; return the solver and its status.

    Raises
    ------
    SolverError
        If the status is none of OPTIMAL, FEASIBLE, INFEASIBLE and UNKNOWN.
    """
    solver = import_cp_model().CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.catch_sigint_signal = False
    if clock.remaining is not None:
        solver.parameters.max_time_in_seconds = clock.remaining
    ended = finish(clock, lambda: solver.solve(model), solver.stop_search)
    status = str(solver.status_name(ended))
    if status not in ("OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"):
        raise SolverError(f"CP-SAT ends with status {status}")
    return solver, status


class _Call(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.done = threading.Event()
        self._work = work
        self._results: list[T] = []
        self._failures: list[BaseException] = []
        threading.Thread(target=self._run, daemon=True).start()

    def result(self) -> T:
        """Return what the call returned, or raise what it raised."""
        if self._failures:
            raise self._failures[0]
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._failures.append(error)
        finally:
            self.done.set()
