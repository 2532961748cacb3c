"""OR-Tools and PuLP, imported on demand, and CP-SAT in this process.

OR-Tools and highspy each bring a shared library called libhighs, of different versions; whichever
is loaded second in a process cannot find its symbols. PuLP imports highspy by itself, and takes a
failure for its absence, which does no harm here: HiGHS runs in a process of its own. OR-Tools
would be lost. So OR-Tools always comes first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from metronome_opt.errors import MissingBackendError
from metronome_opt.solvers.budget import Budget, run_interruptibly

NO_CPSAT = ("cpsat needs OR-Tools", "ortools")
NO_TOULBAR2 = ("toulbar2 needs pytoulbar2", "'metronome-opt[toulbar2]'")


def import_cp_model() -> Any:
    """Return OR-Tools' `cp_model`."""
    try:
        from ortools.sat.python import cp_model
    except ModuleNotFoundError:
        raise missing(*NO_CPSAT) from None
    except ImportError as error:
        raise MissingBackendError(
            f"solver cpsat needs OR-Tools, which does not load ({error}); if highspy or pulp were "
            "imported in this process, import ortools.sat.python.cp_model before them"
        ) from None
    return cp_model


def import_pulp() -> Any:
    """Return PuLP."""
    with contextlib.suppress(MissingBackendError):
        import_cp_model()
    try:
        import pulp
    except ImportError:
        raise missing("milp needs PuLP", "pulp") from None
    return pulp


def find_toulbar2() -> None:
    """Raise an error if pytoulbar2 is not installed; it is imported by a process of its own."""
    if find_spec("pytoulbar2") is None:
        raise missing(*NO_TOULBAR2)


IMPORTS: Mapping[str, Callable[[], Any]] = {
    "ortools": import_cp_model,
    "pulp": import_pulp,
    "pytoulbar2": find_toulbar2,
    "scipy": partial(import_module, "scipy.optimize"),
}
"""By the package that a back end comes with."""


def missing(what: str, package: str) -> MissingBackendError:
    """Return the error of a back end that is not installed."""
    return MissingBackendError(f"solver {what}, which is not installed: pip install {package}")


def run_cpsat(model: Any, run: Budget, parameters: Mapping[str, Any]) -> tuple[Any, str]:
    """Let CP-SAT solve a model in this process until the run is stopped.

    Parameters
    ----------
    model, parameters
        Of CP-SAT, by their native names.
    run
        Its time limits the search.

    Returns
    -------
    tuple
        The solver and the name of its status.
    """
    solver = cpsat_solver(run, parameters)
    ended = run_interruptibly(run, lambda: solver.solve(model), solver.stop_search)
    return solver, str(solver.status_name(ended))


def cpsat_solver(run: Budget, parameters: Mapping[str, Any]) -> Any:
    """Return CP-SAT's solver with some parameters and the time that is left."""
    solver = import_cp_model().CpSolver()
    chosen = {**parameters, "catch_sigint_signal": False}
    if run.remaining is not None:
        chosen["max_time_in_seconds"] = run.remaining
    for name, value in chosen.items():
        setattr(solver.parameters, name, value)
    return solver
