"""One file per solver, all with one signature; `metronome_opt.solve` picks one by name.

What is asked for is loaded when it is used: children import single modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metronome_opt.solvers.registry import SOLVERS
    from metronome_opt.solvers.run import SolverRun

__all__ = ["SOLVERS", "SolverRun"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = "registry" if name == "SOLVERS" else "run"
        return getattr(import_module(f"metronome_opt.solvers.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
