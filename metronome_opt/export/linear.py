"""The textbook time-indexed model as a file for other solvers: LP, MPS and CP-SAT's text format.

The objective of such a file is an integer; the head of the file says what contention it stands for.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path

from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.solvers.cpsat_textbook import CpsatModel
from metronome_opt.solvers.milp_textbook import MilpModel


def to_lp(instance: Instance) -> str:
    """Return the MILP in CPLEX LP format."""
    model = MilpModel(compile_instance(instance))
    return f"\\* {_scale_line(model.scale)} *\\\n" + _written(model, "lp")


def to_mps(instance: Instance) -> str:
    """Return the MILP in free MPS format."""
    model = MilpModel(compile_instance(instance))
    return f"* {_scale_line(model.scale)}\n" + _written(model, "mps")


def to_cpsat(instance: Instance) -> str:
    """Return the CP-SAT model as a text protocol buffer, as ``sat_runner --input`` reads it."""
    model = CpsatModel(compile_instance(instance))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rotation.pbtxt"
        if not model.model.export_to_file(str(path)):
            raise InputError(f"{instance.name}: CP-SAT could not write its model")
        return f"# {_scale_line(model.scale)}\n" + path.read_text(encoding="utf-8")


def _scale_line(scale: Fraction) -> str:
    return f"contention = objective * {scale}"


def _written(model: MilpModel, kind: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rotation.{kind}"
        write = model.problem.writeLP if kind == "lp" else model.problem.writeMPS
        write(str(path))
        return path.read_text(encoding="utf-8")
