"""Solvers of allocation by name."""

from __future__ import annotations

from metronome_opt.errors import InputError, quote
from metronome_opt.solvers.registry import Solver

_JOINT_MODEL = "metronome_opt.allocation.joint_model:place_by_model"

ALLOCATION_SOLVERS = {
    solver.name: solver
    for solver in (
        Solver(
            "auto",
            "places by costs of pairs and by simulation, then gated jobs, periods and offsets",
            "metronome_opt.allocation.scenario_search:allocate",
        ),
        Solver(
            "greedy",
            "nearest places, one job after the other, then the rotation heuristic",
            "metronome_opt.allocation.greedy:rotate_greedily",
            seeded=False,
        ),
        Solver("cpsat", "places by a joint model; then as auto", _JOINT_MODEL, ("ortools",)),
        Solver("milp", "places by the joint model with HiGHS", _JOINT_MODEL, ("scipy",)),
    )
}


def load_backend(solver: Solver) -> None:
    """Load what solves a joint model, which no time limit counts."""
    from metronome_opt.allocation.slots.milp import import_milp
    from metronome_opt.solvers.imports import import_cp_model

    loads = {"cpsat": import_cp_model, "milp": import_milp}
    loads.get(solver.name, object)()


def find_allocation_solver(name: str) -> Solver:
    """Return a solver by name.

    Raises
    ------
    InputError
        If the name is not known; it lists them all.
    """
    if name not in ALLOCATION_SOLVERS:
        raise InputError(
            f"solver: {quote(name)} is not known; choose from {', '.join(ALLOCATION_SOLVERS)}"
        )
    return ALLOCATION_SOLVERS[name]
