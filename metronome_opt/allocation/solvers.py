"""Solvers of allocation by name."""

from __future__ import annotations

from metronome_opt.solvers.registry import Solver

_PLACES = "metronome_opt.allocation.joint_model:place_by_model"

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
            "metronome_opt.allocation.slots.greedy:rotate_greedily",
            seeded=False,
        ),
        Solver("cpsat", "places by a joint model; then as auto", _PLACES, ("ortools",)),
        Solver("milp", "places by the joint model with HiGHS", _PLACES, ("scipy",)),
    )
}
