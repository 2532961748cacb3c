"""Which solvers there are, what each can do, and where it lives; back ends are imported on use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from metronome_opt.errors import InputError, show
from metronome_opt.schedule import OBJECTIVES
from metronome_opt.solvers.search import Search

LAYERED = ("contention", "latency")
"""Contention, and what is contention if all weights are 1."""


@dataclass(frozen=True)
class Solver:
    """A solver as the registry knows it.

    Attributes
    ----------
    name
        What users call it.
    summary
        One line for help texts.
    module, function
        Where it lives, below `metronome_opt.solvers`; a function of one `Search`.
    packages
        Distributions whose versions belong into its schedules.
    objectives
        The objectives that it can optimise.
    holds
        The objectives that it can hold at their least while it optimises further ones.
    limits
        Whether it can hold an objective at another value than its least.
    exact
        Whether it proves optimality, given time.
    seeded
        Whether the seed changes what it does; a benchmark runs the others once.
    """

    name: str
    summary: str
    module: str
    function: str = "run"
    packages: tuple[str, ...] = ()
    objectives: tuple[str, ...] = LAYERED
    holds: tuple[str, ...] = LAYERED
    limits: bool = False
    exact: bool = False
    seeded: bool = True

    def load(self) -> Callable[[Search], None]:
        """Import the solver's module and return its function."""
        module = import_module(f"metronome_opt.solvers.{self.module}")
        function: Callable[[Search], None] = getattr(module, self.function)
        return function


_ALL = (
    Solver(
        "auto",
        "presolve and blocks; local search, branch and bound and elimination",
        "auto",
        objectives=OBJECTIVES,
        holds=OBJECTIVES,
        limits=True,
        exact=True,
    ),
    Solver("unshifted", "everybody starts when ready", "unshifted", holds=(), seeded=False),
    Solver("random", "one random offset per job", "random", holds=()),
    Solver("greedy", "heaviest first, each job to its cheapest offset", "greedy", seeded=False),
    Solver(
        "cassini",
        "best rotations of each link in 5-degree steps, joined breadth-first; knows no weights",
        "cassini",
        holds=(),
        seeded=False,
    ),
    Solver("local", "annealing, recombination and iterated local search", "local"),
    Solver(
        "cpsat",
        "CP-SAT model on offsets cut down, block by block",
        "cpsat",
        packages=("ortools",),
        exact=True,
    ),
    Solver(
        "cpsat-textbook",
        "textbook time-indexed CP-SAT model",
        "cpsat_textbook",
        packages=("ortools",),
        exact=True,
    ),
    Solver("milp", "the same as MILP, HiGHS", "milp", "run_highs", ("pulp", "highspy"), exact=True),
    Solver("milp-cbc", "the same as MILP, CBC", "milp", "run_cbc", ("pulp",), exact=True),
    Solver(
        "milp-textbook",
        "textbook time-indexed MILP, HiGHS",
        "milp_textbook",
        packages=("pulp", "highspy"),
        exact=True,
    ),
    Solver(
        "branch-bound",
        "depth-first by contacts, links first, then groups of them",
        "branch_bound",
        exact=True,
    ),
    Solver(
        "elimination",
        "tables of the links, jobs eliminated one by one; for sparse blocks",
        "elimination",
        exact=True,
    ),
    Solver("exhaustive", "every combination of offsets", "exhaustive", exact=True, seeded=False),
)
SOLVERS = {solver.name: solver for solver in _ALL}


def find_solver(name: str) -> Solver:
    """Return the solver called `name`; an unknown name is an `InputError` that lists them all."""
    if name not in SOLVERS:
        raise InputError(f"solver: {show(name)} is not known; choose from {', '.join(SOLVERS)}")
    return SOLVERS[name]
