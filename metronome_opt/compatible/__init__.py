"""Compatible jobs: which can keep slots without ever asking a link for more than it carries."""

from metronome_opt.compatible.choices import (
    Choice,
    Choices,
    Chosen,
    Decision,
    Kept,
    Reason,
    Refutation,
    at_periods,
    largest_set,
    least_stretch,
)
from metronome_opt.compatible.solvers import SOLVERS, Solver, decide, solve_choices

__all__ = [
    "SOLVERS",
    "Choice",
    "Choices",
    "Chosen",
    "Decision",
    "Kept",
    "Reason",
    "Refutation",
    "Solver",
    "at_periods",
    "decide",
    "largest_set",
    "least_stretch",
    "solve_choices",
]
