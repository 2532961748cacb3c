"""One file per solver, all with one signature; `metronome_opt.solve` picks one by name.

What a solver needs, compiled kernels first of all, is loaded when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metronome_opt.solvers.registry import SOLVERS

if TYPE_CHECKING:
    from metronome_opt.solvers.run import SolverRun

__all__ = ["SOLVERS", "SolverRun"]


def __getattr__(name: str) -> Any:
    if name == "SolverRun":
        from metronome_opt.solvers import run

        return run.SolverRun
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
