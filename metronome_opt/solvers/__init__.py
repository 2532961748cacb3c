"""One file per solver, all with one signature; `solve` picks one by name."""

from metronome_opt.solvers.registry import SOLVERS, Solver, find_solver
from metronome_opt.solvers.search import Callback, Search
from metronome_opt.solvers.solve import DEFAULT_TIME_LIMIT, MAX_WORKERS, solve

__all__ = [
    "DEFAULT_TIME_LIMIT",
    "MAX_WORKERS",
    "SOLVERS",
    "Callback",
    "Search",
    "Solver",
    "find_solver",
    "solve",
]
