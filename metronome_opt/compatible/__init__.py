"""Compatible jobs: jobs that can keep slots without contention.

The solvers of `fit` are loaded when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    FitDecision,
    Kept,
    PeriodChoice,
    Reason,
    Refutation,
    at_periods,
    largest_set,
    least_stretch,
)

if TYPE_CHECKING:
    from metronome_opt.compatible.solvers import SOLVERS, FitSolver, decide, solve_choices

__all__ = [
    "SOLVERS",
    "Choices",
    "Chosen",
    "FitDecision",
    "FitSolver",
    "Kept",
    "PeriodChoice",
    "Reason",
    "Refutation",
    "at_periods",
    "decide",
    "largest_set",
    "least_stretch",
    "solve_choices",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("metronome_opt.compatible.solvers"), name)
