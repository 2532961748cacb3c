"""Instances written for other solvers: LP, MPS and CP-SAT's text format.

The objective of such a file is an integer; the file says what contention it stands for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance

# How a line of words is written in a format: the MILP in CPLEX LP and free MPS, and the CP-SAT
# model as `sat_runner --input` reads it.
_COMMENTS = {"lp": "\\* {} *\\", "mps": "* {}", "cpsat": "# {}"}
_ANY = 2**62  # contention


def export_text(instance: Instance, format_: str) -> str:
    """Return the rotation problem of `instance` as ``lp``, ``mps`` or ``cpsat``.

    Raises
    ------
    InputError
        If the format is not known or its numbers cannot hold the instance.
    """
    if format_ not in _COMMENTS:
        known = ", ".join(_COMMENTS)
        raise InputError(f"format: {quote(format_)} is not known; choose from {known}")
    from metronome_opt.solvers.cost_network.tables import build
    from metronome_opt.solvers.programs import CpsatProgram, MilpProgram
    from metronome_opt.solvers.run import SolverRun
    from metronome_opt.solvers.strong_form import StrongForm

    search = SolverRun(instance, time_limit=None, seed=0, threads=1)
    network = build(search, limit=_ANY, rotations_are_equal=False, has_tables=False)
    form = StrongForm(network, (), search)
    is_cpsat = format_ == "cpsat"
    program = CpsatProgram(form) if is_cpsat else MilpProgram(form)
    form.state(program)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rotation.{'pbtxt' if is_cpsat else format_}"
        program.write(path)
        text = path.read_text(encoding="utf-8")
    stated = _COMMENTS[format_].format(f"contention = objective * {form.scale}")
    return f"{stated}\n{text}"
