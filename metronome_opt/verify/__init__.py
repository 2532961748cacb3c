"""The judge: every number of a schedule, from the definitions, in exact arithmetic.

Nothing here is shared with a solver or a kernel, and nothing is clever.
"""

from __future__ import annotations

from metronome_opt.verify.evaluation import Evaluation, Falsehood, LinkReport, evaluate
from metronome_opt.verify.statements import check

__all__ = ["Evaluation", "Falsehood", "LinkReport", "check", "evaluate"]
