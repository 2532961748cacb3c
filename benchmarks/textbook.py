"""The time-indexed models as one writes them down first, to compare with.

They are solvers of a benchmark: ``--solvers auto,benchmarks/textbook.py:cpsat``.
"""

from __future__ import annotations

from metronome_opt.problem.result import StopReason
from metronome_opt.solvers import greedy
from metronome_opt.solvers.backends import solve_cpsat, solve_highs
from metronome_opt.solvers.export.textbook import TimeIndexed
from metronome_opt.solvers.programs import CpsatProgram, MilpProgram
from metronome_opt.solvers.run import SolverRun


def cpsat(search: SolverRun) -> None:
    """Solve the time-indexed CP-SAT model."""
    greedy.unshifted(search)
    form = TimeIndexed(search.compiled)
    program = CpsatProgram(form)
    form.state(program, lambda: search.stopped)
    if _in_time(search):
        solve_cpsat(search, program)


def milp(search: SolverRun) -> None:
    """Solve the time-indexed MILP with HiGHS."""
    greedy.unshifted(search)
    form = TimeIndexed(search.compiled)
    program = MilpProgram(form)
    form.state(program, lambda: search.stopped)
    # Writing it for its back end takes about as long as making it did.
    late = search.remaining is not None and search.remaining < search.elapsed
    if _in_time(search) and not late:
        solve_highs(search, program)


def _in_time(search: SolverRun) -> bool:
    search.built()
    if search.stopped:
        search.end(StopReason.TIME_LIMIT)
    return not search.stopped
