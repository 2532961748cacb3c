"""Registry of the solvers; modules and plug-ins are imported on use.

A solver is a function of one `SolverRun`. Other packages add theirs as entry points:

    [project.entry-points."metronome_opt.solvers"]
    toy = "toy_package.module:function"

It is then known by that name here, to `solve`, on the command line and in benchmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metronome_opt.errors import InputError, quote
from metronome_opt.plugins import load_plugin, plugins
from metronome_opt.problem.schedule import OBJECTIVES

if TYPE_CHECKING:
    from metronome_opt.solvers.run import SolverRun

LAYERED = ("contention", "latency")
"""Contention, and what is contention if all weights are 1."""

GROUP = "metronome_opt.solvers"
"""The entry points that are solvers."""

SolverFunction = Callable[["SolverRun"], object]


@dataclass(frozen=True)
class Solver:
    """Entry in the solver registry.

    Attributes
    ----------
    summary
        One line for help texts.
    where
        Its function, ``module:name``, or the function itself.
    packages
        Distributions whose versions belong into its schedules.
    objectives
        The objectives that it can optimise.
    holds
        The objectives that it can hold at their minimum while it optimises further ones.
    exact
        Whether it proves optimality, given time.
    seeded
        Whether the seed changes what it does; a benchmark runs the others once.
    distributes
        Whether subtrees of its proofs can be searched by an executor.
    """

    name: str
    summary: str
    where: str | SolverFunction
    packages: tuple[str, ...] = ()
    objectives: tuple[str, ...] = LAYERED
    holds: tuple[str, ...] = LAYERED
    exact: bool = False
    seeded: bool = True
    distributes: bool = False

    def load(self) -> SolverFunction:
        """Import the solver's module and return its function; a plug-in may have none."""
        if callable(self.where):
            return self.where
        if ".py:" in self.where:
            return _load_from_file(self.where)
        point = EntryPoint(self.name, self.where, GROUP)
        function: SolverFunction = point.load() if self.is_own else load_plugin(point, "solver")
        return function

    def import_packages(self) -> None:
        """Import the packages that it needs, which no time limit counts.

        Raises
        ------
        MissingBackendError
            If one of them is not installed.
        """
        from metronome_opt.solvers.imports import IMPORTS

        for package in self.packages:
            if package in IMPORTS:
                IMPORTS[package]()

    @property
    def is_own(self) -> bool:
        """True for a solver of this package, not a plug-in or a function."""
        return self in _OWN


def _own(name: str, summary: str, where: str, *packages: str, **abilities: Any) -> Solver:
    return Solver(name, summary, f"{GROUP}.{where}", packages, **abilities)


_OWN = (
    _own(
        "auto",
        "presolve and blocks; local search, branch and bound and elimination",
        "auto:run",
        objectives=("slowdown", *OBJECTIVES),
        holds=OBJECTIVES,
        exact=True,
        distributes=True,
    ),
    _own("unshifted", "all jobs start when ready", "greedy:unshifted", holds=(), seeded=False),
    _own("random", "one random offset per job", "greedy:draw", holds=()),
    _own(
        "greedy",
        "highest weight first, every job at its cheapest offset",
        "greedy:run",
        seeded=False,
    ),
    _own(
        "cassini",
        "best rotations of each link in 5-degree steps, joined breadth-first; knows no weights",
        "cassini:run",
        holds=(),
        seeded=False,
    ),
    _own("local", "annealing and iterated local search", "local:run"),
    _own(
        "cpsat",
        "CP-SAT model on offsets cut down, block by block",
        "strong_form:run_cpsat",
        "ortools",
        exact=True,
    ),
    _own("milp", "the same as MILP, HiGHS", "strong_form:run_highs", "pulp", "highspy", exact=True),
    _own(
        "toulbar2",
        "toulbar2 on tables of the links cut down, block by block",
        "toulbar2:run",
        "pytoulbar2",
        exact=True,
    ),
    _own(
        "branch-bound",
        "depth-first by contacts, links first, then groups of them",
        "auto:run_branch_bound",
        exact=True,
    ),
    _own(
        "elimination",
        "tables of the links, jobs eliminated one by one; for sparse blocks",
        "distributed:run",
        exact=True,
        distributes=True,
    ),
)


def _plugged_in(point: EntryPoint) -> Solver:
    packages = (point.dist.name,) if point.dist else ()
    return Solver(point.name, f"plug-in, {point.value}", point.value, packages, holds=())


_PLUGINS = (_plugged_in(point) for point in plugins(GROUP).values())
# Of two solvers of one name the last is taken: ours.
SOLVERS = {solver.name: solver for solver in (*_OWN, *_PLUGINS, *_OWN)}


def find_solver(
    solver: str | SolverFunction | Solver, known: Mapping[str, Solver] = SOLVERS
) -> Solver:
    """Return a solver by name or by ``file.py:function``, or made of a function of one `SolverRun`.

    Functions and files are solvers of contention, not of other tables of `known` ones.

    Raises
    ------
    InputError
        If the name is not known, or a function where none can be used; it lists all names.
    """
    if known is SOLVERS:
        if isinstance(solver, Solver):
            return solver
        if callable(solver):
            name = getattr(solver, "__name__", type(solver).__name__)
            return Solver(name, "a function", solver, holds=())
        if isinstance(solver, str) and ".py:" in solver:
            _load_from_file(solver)
            return Solver(solver, "a function", str(Path(solver).resolve()), holds=())
    if not isinstance(solver, str) or solver not in known:
        raise InputError(f"solver: {quote(solver)} is not known; choose from {', '.join(known)}")
    return known[solver]


def _load_from_file(name: str) -> SolverFunction:
    """Return the function that ``file.py:function`` names."""
    path, _, function = name.rpartition(":")
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise InputError(f"solver: {quote(name)}: there is no file {quote(path)}")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"solver: {quote(name)}: the file fails ({quote(reason)})") from None
    run: SolverFunction | None = getattr(module, function, None)
    if not callable(run):
        raise InputError(f"solver: {quote(name)}: {path} has no function {quote(function)}")
    return run
