"""Verification: every number of a schedule, from the definitions, in exact arithmetic.

It shares no code with solvers and kernels.
"""

from metronome_opt.verify.evaluation import Violation, evaluate
from metronome_opt.verify.iterations import check_instance
from metronome_opt.verify.places import check_paths, check_places
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
