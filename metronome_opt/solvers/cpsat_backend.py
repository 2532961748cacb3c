"""OR-Tools CP-SAT, in this process or in one of its own, with incumbents and bounds as they come.

A process of its own takes a third of a second to start. What crashes in it, or runs out of memory,
leaves this one with what was found so far.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from metronome_opt.errors import MissingBackendError, SolverError
from metronome_opt.solvers.backends import import_cp_model
from metronome_opt.solvers.cpsat_process import set_parameters
from metronome_opt.solvers.process import how_it_ended, program, run_process
from metronome_opt.solvers.search import Search, run_interruptibly

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_SOURCE = "cpsat"
_NOT_INSTALLED = 3


class Problem(Protocol):
    """A CP-SAT model of an instance."""

    @property
    def model(self) -> cp_model.CpModel:
        """Minimises an integer."""

    @property
    def scale(self) -> Fraction:
        """``contention = objective * scale``."""

    @property
    def cutoff(self) -> int | None:
        """If only schedules of a lesser objective are asked for; there may be none."""

    def offsets(self, chosen: Callable[[int], bool]) -> Sequence[int]:
        """Return the schedule in which the variables, by index, for which that holds are 1."""


def optimise(
    search: Search,
    problem: Problem,
    subsolvers: Sequence[str] = (),
    *,
    isolated: bool = False,
    memory_mb: int | None = None,
) -> None:
    """Solve a model within the time that is left, reporting to `search`.

    Parameters
    ----------
    subsolvers
        What CP-SAT's workers do, by its own names; what it thinks best if there are none.
    isolated
        Whether CP-SAT runs in a process of its own.
    memory_mb
        What such a process may use, in MB; None for no limit.

    Raises
    ------
    SolverError
        If CP-SAT fails, or says what is not understood.
    """
    parameters: dict[str, Any] = {
        "num_workers": search.workers,
        "random_seed": search.seed % 2**31,
        "subsolvers": list(subsolvers),
    }
    reader = _Reader(search, problem)
    if isolated:
        _run_isolated(search, problem, parameters, memory_mb, reader)
    else:
        _run_here(search, problem, parameters, reader)


class _Reader:
    """Takes what CP-SAT tells: solutions, bounds, and how it ended."""

    def __init__(self, search: Search, problem: Problem) -> None:
        self._search = search
        self._problem = problem

    def solution(self, chosen: Callable[[int], bool]) -> Fraction:
        return self._search.offer(self._problem.offsets(chosen), _SOURCE)

    def bound(self, native: float) -> None:
        """Take a floating-point bound of the objective, which is an integer at every schedule."""
        if not math.isfinite(native):
            return
        units = max(0, math.ceil(native - 1e-6 - abs(native) * 1e-12))
        if self._problem.cutoff is not None:
            units = min(units, self._problem.cutoff)
        self._search.raise_bound(units * self._problem.scale, _SOURCE)

    def end(
        self, status: str, objective: float, bound: float, chosen: Callable[[int], bool]
    ) -> None:
        """Take the final status, by its name in CP-SAT."""
        scale, cutoff = self._problem.scale, self._problem.cutoff
        if status == "OPTIMAL":
            value = self.solution(chosen)
            # The native value is a double, the check as exact as that allows.
            if abs(value - Fraction(objective) * scale) > max(scale / 2, value / 10**9):
                raise SolverError(f"CP-SAT states {objective}, the offsets give {value}")
            self._search.raise_bound(value, _SOURCE)
        elif status == "INFEASIBLE" and cutoff is not None:
            self._search.raise_bound(cutoff * scale, _SOURCE)
        elif status in ("FEASIBLE", "UNKNOWN"):
            self._search.out_of_time()
            self.bound(bound)
        else:
            raise SolverError(f"CP-SAT ends with status {status}, not understood")


# ---------------------------------------------------------------- in this process


def _run_here(
    search: Search, problem: Problem, parameters: dict[str, Any], reader: _Reader
) -> None:
    cp = import_cp_model()
    solver = cp.CpSolver()
    set_parameters(solver.parameters, {**parameters, "catch_sigint_signal": False})
    if search.remaining is not None:
        solver.parameters.max_time_in_seconds = search.remaining

    class Watch(cp.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
        def on_solution_callback(self) -> None:
            solution = self.response_proto.solution
            reader.solution(lambda index: bool(solution[index]))

    solver.best_bound_callback = reader.bound
    ended: list[Any] = []
    run_interruptibly(
        search, lambda: ended.append(solver.solve(problem.model, Watch())), solver.stop_search
    )
    solution = solver.response_proto.solution
    reader.end(
        solver.status_name(ended[0]),
        solver.objective_value,
        solver.best_objective_bound,
        lambda index: bool(solution[index]),
    )


# ---------------------------------------------------------------- in a process of its own


def _run_isolated(
    search: Search,
    problem: Problem,
    parameters: dict[str, Any],
    memory_mb: int | None,
    reader: _Reader,
) -> None:
    listener = _Listener(reader)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not problem.model.export_to_file(str(folder / "rotation.pbtxt")):
            raise SolverError("CP-SAT could not write its model")
        deadline = None if search.remaining is None else time.monotonic() + search.remaining
        options = {"parameters": parameters, "deadline": deadline, "memory_mb": memory_mb}
        command = [*program("cpsat_process.py"), "rotation.pbtxt", json.dumps(options)]
        exit_status, told = run_process(search, command, folder, listener)
    if exit_status == _NOT_INSTALLED and not told:  # a signal may break into the import
        raise MissingBackendError(
            "solver cpsat needs OR-Tools, which is not installed: pip install ortools"
        )
    listener.finish(exit_status, told)


class _Listener:
    """Takes the lines of `cpsat_process`."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._chosen: frozenset[int] = frozenset()
        self._final: dict[str, Any] | None = None
        self._last = "no output"

    def __call__(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._last = line.strip() or self._last
            return
        if "solution" in message:
            self._chosen = frozenset(message["solution"])
            self._reader.solution(self._chosen.__contains__)
        elif "status" in message:
            self._final = message
        else:
            self._reader.bound(message["bound"])

    def finish(self, exit_status: int, told: bool) -> None:
        """Take the end; one without a status is an error, unless the process was told to stop."""
        if self._final is not None:
            final = self._final
            self._reader.end(
                final["status"], final["objective"], final["bound"], self._chosen.__contains__
            )
        elif not told:
            raise SolverError(f"CP-SAT ends with {how_it_ended(exit_status)}: {self._last}")
