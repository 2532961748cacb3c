"""`solve` for tests of what minimises contention."""

from __future__ import annotations

from typing import Any

import metronome_opt
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import Result


def solve(
    instance: Instance, solver: Any = "auto", objective: Any = "contention", **options: Any
) -> Result:
    """Minimise contention, unless another objective is named."""
    return metronome_opt.solve(instance, solver, objective, **options)
