"""Instances written for other solvers: LP, MPS, CP-SAT's text format and toulbar2's CFN.

The objective of such a file is an integer; the file says what contention it stands for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from metronome_opt.errors import InputError, quote
from metronome_opt.problem.instance import Instance

# How a line of words is written in a format: the MILP in CPLEX LP and free MPS, and the CP-SAT
# model as `sat_runner --input` reads it.
_COMMENTS = {"lp": "\\* {} *\\", "mps": "* {}", "cpsat": "# {}", "cfn": "# {}"}
_MAX_CELLS = 2**24  # of all tables of a CFN
_ANY = 2**62  # contention


def export_text(instance: Instance, format_: str) -> str:
    """Return the rotation problem of `instance` as ``lp``, ``mps``, ``cpsat`` or ``cfn``.

    In the last, one job of those that are rotated together has offset 0.

    Raises
    ------
    InputError
        If the format is not known, or its numbers or tables cannot hold the instance.
    """
    if format_ not in _COMMENTS:
        known = ", ".join(_COMMENTS)
        raise InputError(f"format: {quote(format_)} is not known; choose from {known}")
    from metronome_opt.solvers.cost_network.cfn import cfn_text
    from metronome_opt.solvers.cost_network.tables import build, tabulate
    from metronome_opt.solvers.kernels.compiled_instance import TooLargeError
    from metronome_opt.solvers.programs import CpsatProgram, MilpProgram
    from metronome_opt.solvers.run import SolverRun
    from metronome_opt.solvers.strong_form import StrongForm

    search = SolverRun(instance, time_limit=None, seed=0, threads=1)
    is_cfn = format_ == "cfn"
    network = build(search, limit=_ANY, rotations_are_equal=is_cfn, has_tables=False)
    if is_cfn:
        cells = [network.cells(cost) for cost in network.costs]
        if sum(cells) > _MAX_CELLS:
            link = network.compiled.links[cells.index(max(cells))].name
            raise TooLargeError(
                f"format cfn: the tables of {instance.name} have {sum(cells)} cells, more than "
                f"{_MAX_CELLS}, that of link {quote(link)} {max(cells)}; use lp, mps or cpsat, or "
                "coarser slots"
            )
        for position in range(len(cells)):
            network = tabulate(search, network, position)
        stated = _COMMENTS[format_].format(f"contention = objective * {network.scale}")
        return f"{stated}\n{cfn_text(network)}"
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
