"""The judge: every number of a schedule, from the definitions, in exact arithmetic.

Nothing here is shared with a solver or a kernel, and nothing is clever.
"""

from __future__ import annotations

from metronome_opt.verify.evaluation import Evaluation, LinkReport, Violation, evaluate
from metronome_opt.verify.statements import check, comparable_part

__all__ = ["Evaluation", "LinkReport", "Violation", "check", "comparable_part", "evaluate"]
