"""Verification: every number of a schedule, from the definitions, in exact arithmetic.

No code is shared with a solver or a kernel.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from metronome_opt.verify.evaluation import Evaluation, LinkReport, Violation, evaluate

if TYPE_CHECKING:
    from metronome_opt.verify.statements import check, comparable_part

__all__ = ["Evaluation", "LinkReport", "Violation", "check", "comparable_part", "evaluate"]


def __getattr__(name: str) -> Any:
    """Load the check of stated values when it is used."""
    if name not in ("check", "comparable_part"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("metronome_opt.verify.statements"), name)
