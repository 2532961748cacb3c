"""Simulations: iteration times, completion times and utilisation of schedules and policies."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metronome_opt.engine.conditions import Conditions
    from metronome_opt.simulation.policies import POLICIES
    from metronome_opt.simulation.result import SimulationResult
    from metronome_opt.simulation.run import simulate, simulate_schedule

__all__ = ["POLICIES", "Conditions", "SimulationResult", "simulate", "simulate_schedule"]

_HOMES = {
    "POLICIES": f"{__name__}.policies",
    "Conditions": "metronome_opt.engine.conditions",
    "SimulationResult": f"{__name__}.result",
    "simulate_schedule": f"{__name__}.run",
    "simulate": f"{__name__}.run",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: names of policies do without the kernels."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
