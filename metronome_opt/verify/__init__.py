"""Verification: every number of a schedule, from the definitions, in exact arithmetic.

No code is shared with a solver or a kernel.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.verify.evaluation import Violation, evaluate

if TYPE_CHECKING:
    from metronome_opt.verify.iterations import check_instance
    from metronome_opt.verify.paths import check_paths
    from metronome_opt.verify.places import check_places
    from metronome_opt.verify.statements import comparable_part, verify_schedule

__all__ = [
    "Violation",
    "check_instance",
    "check_paths",
    "check_places",
    "comparable_part",
    "evaluate",
    "verify_schedule",
]

_MODULES = {"check_instance": "iterations", "check_paths": "paths", "check_places": "places"}


def __getattr__(name: str) -> Any:
    """Load the checks of schedules when they are used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name, "statements")
    return getattr(import_module(f"metronome_opt.verify.{module}"), name)
