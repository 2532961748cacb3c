"""Back ends, run here or as programs, with incumbents and bounds as they come.

A process of its own takes a third of a second to start. What crashes in it, or runs out of memory,
leaves this one with what was found so far.
"""

from __future__ import annotations

import math
import pickle
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metronome_opt.child import Task, run_child
from metronome_opt.errors import SolverError
from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import back_end_tasks
from metronome_opt.solvers.budget import run_interruptibly
from metronome_opt.solvers.imports import NO_CPSAT, NO_TOULBAR2, cpsat_solver, missing
from metronome_opt.solvers.run import SolverRun

if TYPE_CHECKING:
    from metronome_opt.solvers.programs import CpsatProgram, Form, MilpProgram, Program
    from metronome_opt.solvers.toulbar2 import CfnProgram

_GRACE_S = 1.5  # between SIGINT and SIGKILL


def solve_cpsat(
    search: SolverRun,
    program: CpsatProgram,
    subsolvers: Sequence[str] = (),
    *,
    isolated: bool = False,
) -> None:
    """Solve a program with CP-SAT within the time that is left, reporting to `search`.

    Parameters
    ----------
    subsolvers
        What CP-SAT's threads do, by its own names; what it thinks best if there are none.
    isolated
        Whether CP-SAT runs in a process of its own.

    Raises
    ------
    SolverError
        If CP-SAT fails, or says what is not understood.
    """
    parameters: dict[str, Any] = {
        "num_workers": search.threads,
        "random_seed": search.seed % 2**31,
    }
    reader = _Reader(search, program, program.form, "cpsat", "CP-SAT", NO_CPSAT, exact=True)
    if isolated:
        parameters["subsolvers"] = list(subsolvers)
        _run_isolated(reader, back_end_tasks.run_cpsat, "rotation.pbtxt", parameters)
        return
    search.built()
    solver = cpsat_solver(search, parameters)
    solver.parameters.subsolvers.extend(subsolvers)
    run_interruptibly(
        search,
        lambda: back_end_tasks.solve_cpsat(solver, program.model, reader.take),
        solver.stop_search,
    )


def solve_highs(search: SolverRun, program: MilpProgram) -> None:
    """Solve a program with HiGHS within the time that is left, reporting to `search`."""
    parameters: dict[str, float] = {
        "threads": search.threads,
        "random_seed": search.seed % 2**31,
        "mip_rel_gap": 0.0,
    }
    if program.form.cutoff is not None:
        parameters["mip_abs_gap"] = 0.99  # the objective is an integer at every schedule
    needed = ("milp needs HiGHS", "highspy")
    reader = _Reader(search, program, program.form, "milp (HiGHS)", "HiGHS", needed, exact=False)
    _run_isolated(reader, back_end_tasks.run_highs, "rotation.mps", parameters)


def solve_toulbar2(search: SolverRun, program: CfnProgram) -> None:
    """Solve a network with toulbar2 within the time that is left, reporting to `search`."""
    reader = _Reader(search, program, program, "toulbar2", "toulbar2", NO_TOULBAR2, exact=True)
    _run_isolated(
        reader, back_end_tasks.run_toulbar2, "rotation.cfn", {"seed": search.seed % 2**31}
    )
    if search.bound_by == "toulbar2":
        search.notes.append("the bound is what toulbar2 states, in integers; nothing replays it")


class _Reader:
    """Takes the messages of a back end; `ended` once it has sent its final status."""

    def __init__(
        self,
        search: SolverRun,
        program: Program | CfnProgram,
        form: Form | CfnProgram,
        source: str,
        label: str,
        needed: tuple[str, str],
        *,
        exact: bool,
    ) -> None:
        self.search = search
        self.program = program
        self._form = form
        self.label = label
        self.ended = False
        self._source = source
        self._needed = needed
        self._exact = exact  # whether the back end counts in integers

    def take(
        self,
        *,
        solution: Mapping[str, float] | None = None,
        status: str | None = None,
        objective: float = math.nan,
        bound: float = math.nan,
    ) -> None:
        """Take a message of `back_end_tasks`; a final status that is not known is an error."""
        form = self._form
        if solution is not None:
            self.search.offer(self.program.offsets(solution), self._source)
        elif status is None or (status == "optimal" and self.program.dropped):
            self._bound(bound)
        elif status == "optimal":
            self._settle(Fraction(objective) + form.base)
        elif status == "infeasible" and form.cutoff is not None:
            self._settle(Fraction(form.cutoff))
        elif status == "stopped":
            self.search.end(StopReason.TIME_LIMIT)
            self._bound(bound)
        elif status != "missing":
            raise SolverError(f"{self.label} ends with {status}, which is not understood")
        elif not self.search.stopped:  # a signal may break the import
            raise missing(*self._needed)
        self.ended = status is not None

    def _bound(self, native: float) -> None:
        """Take a floating-point bound; a millionth below an integer it counts as that integer."""
        if math.isfinite(native):
            form = self._form
            tolerance = 1e-6 + abs(native) * (1e-12 if self._exact else 1e-6)
            whole = native if isinstance(native, int) else math.ceil(native - tolerance)
            units = max(0, whole) + form.base
            if form.cutoff is not None:
                units = min(units, form.cutoff)
            self.search.raise_bound(units * form.scale, self._source)

    def _settle(self, units: Fraction) -> None:
        """Take the word of the back end that nothing costs less.

        If it counts in floating point, that is a proof to its tolerances at most, and only if the
        value it states is that of the incumbent, to half a unit.
        """
        search, scale = self.search, self._form.scale
        if search.incumbent is None or search.proved:
            return
        off = abs(units * scale - search.incumbent)
        if self._exact:
            # What is stated is a double, the check as exact as that allows.
            if off > max(scale / 2, search.incumbent / 10**9):
                raise SolverError(
                    f"{self.label} states {units}, the offsets give {search.incumbent / scale}"
                )
            search.raise_bound(search.incumbent, self._source)
        elif off < scale / 2:
            search.raise_bound(search.incumbent, self._source)
            search.notes.append("the proof is one in floating point, to the back end's tolerances")
        else:
            search.notes.append(
                f"{self._source} calls {float(units):g} optimal, its offsets give "
                f"{float(search.incumbent / scale):g}: not taken for a proof"
            )


def _run_isolated(
    reader: _Reader, run: Callable[..., None], file: str, parameters: Mapping[str, Any]
) -> None:
    """Hand a program to a task of `back_end_tasks`; a file's ending says in which format."""
    search = reader.search
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        reader.program.write(path)
        search.built()
        if search.stopped:
            return
        deadline = None if search.remaining is None else time.monotonic() + search.remaining
        asked_at: float | None = None

        def control() -> int | None:
            nonlocal asked_at
            if not search.stopped:
                return None
            if asked_at is None:
                asked_at = time.monotonic()
                return signal.SIGINT
            return signal.SIGKILL if time.monotonic() > asked_at + _GRACE_S else None

        task: Task = partial(run, str(path), parameters, deadline)
        end = run_child(pickle.dumps(task), lambda message: reader.take(**message), control)
    if not (reader.ended or asked_at):
        how = f"{_how_it_ended(end.status)}: {end.last_output or 'no output'}"
        raise SolverError(f"{reader.label} ends with {how}")


def _how_it_ended(exit_status: int) -> str:
    """Return how a process ended that should not have, in words."""
    if exit_status >= 0:
        return f"exit status {exit_status}"
    name = signal.Signals(-exit_status).name
    # The system kills what takes too much; what is refused memory most often aborts.
    return f"signal {name}{' (out of memory?)' if name in ('SIGKILL', 'SIGABRT') else ''}"
