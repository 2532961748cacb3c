"""Simulations of what a schedule brings: iteration times, completion times, utilisation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metronome_opt.simulate.conditions import Conditions
    from metronome_opt.simulate.measures import Run
    from metronome_opt.simulate.policies import POLICIES
    from metronome_opt.simulate.run import play, simulate

__all__ = ["POLICIES", "Conditions", "Run", "play", "simulate"]

_HOMES = {
    "POLICIES": "policies",
    "Conditions": "conditions",
    "Run": "measures",
    "play": "run",
    "simulate": "run",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: names of policies do without the kernels."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
