"""One file per solver, all with one signature; `metronome_opt.solve` picks one by name.

What a solver needs, compiled kernels first of all, is loaded when it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.solvers.registry import SOLVERS, Solver, find_solver
from metronome_opt.solvers.solve import DEFAULT_TIME_LIMIT, MAX_WORKERS

if TYPE_CHECKING:
    from metronome_opt.solvers.search import Callback, Search

__all__ = [
    "DEFAULT_TIME_LIMIT",
    "MAX_WORKERS",
    "SOLVERS",
    "Callback",
    "Search",
    "Solver",
    "find_solver",
]


def __getattr__(name: str) -> Any:
    if name in ("Callback", "Search"):
        return getattr(import_module("metronome_opt.solvers.search"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
