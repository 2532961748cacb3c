"""Compatible jobs: which can keep slots without ever asking a link for more than it carries."""

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
