"""The textbook time-indexed model as a file for other solvers: LP, MPS and CP-SAT's text format.

The objective of such a file is an integer; the head of the file says what contention it stands for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from metronome_opt.instance import Instance
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.solvers.models import textbook
from metronome_opt.solvers.programs import CpsatProgram, MilpProgram


def to_lp(instance: Instance) -> str:
    """Return the MILP in CPLEX LP format."""
    scale, text = _written(instance, MilpProgram, "lp")
    return f"\\* {scale} *\\\n{text}"


def to_mps(instance: Instance) -> str:
    """Return the MILP in free MPS format."""
    scale, text = _written(instance, MilpProgram, "mps")
    return f"* {scale}\n{text}"


def to_cpsat(instance: Instance) -> str:
    """Return the CP-SAT model as a text protocol buffer, as ``sat_runner --input`` reads it."""
    scale, text = _written(instance, CpsatProgram, "pbtxt")
    return f"# {scale}\n{text}"


def _written(
    instance: Instance, kind: type[CpsatProgram | MilpProgram], ending: str
) -> tuple[str, str]:
    """Return a line that says what the objective stands for, and the model."""
    program = textbook(compile_instance(instance), kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rotation.{ending}"
        program.write(path)
        return f"contention = objective * {program.scale}", path.read_text(encoding="utf-8")
