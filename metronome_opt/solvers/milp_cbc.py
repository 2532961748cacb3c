"""CBC for the MILP: its log gives the bound, its solution file the rest, both read strictly."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from metronome_opt.errors import MissingBackendError, SolverError
from metronome_opt.solvers.backends import import_pulp
from metronome_opt.solvers.milp_problem import MilpProblem
from metronome_opt.solvers.process import run_process
from metronome_opt.solvers.search import Search

_SOURCE = "milp (CBC)"
_NO_SCHEDULE = ("Infeasible", "Integer infeasible")


def solve(search: Search, model: MilpProblem) -> None:
    """Solve `model` within the time that is left, reporting to `search`."""
    program = _program()
    bound: float | None = None
    last = "no output"

    def on_line(line: str) -> None:
        nonlocal bound, last
        last = line.strip() or last
        if line.startswith("Lower bound:"):
            bound = float(line.split()[-1])

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.write(folder / "rotation.mps")
        search.built()
        if search.stopped:
            return
        _, told = run_process(search, _command(program, search), folder, on_line)
        solution = folder / "rotation.sol"
        text = solution.read_text() if solution.exists() else None
    if text is None:
        if told:
            return
        raise SolverError(f"CBC wrote no solution: {last}")
    _read(search, model, text, bound)


def _command(program: str, search: Search) -> list[str]:
    command = [program, "rotation.mps", "-timeMode", "elapsed", "-ratio", "0"]
    if search.remaining is not None:
        command += ["-sec", f"{search.remaining:.3f}"]
    if search.workers > 1:
        command += ["-threads", str(search.workers)]
    command += ["-randomCbcSeed", str(search.seed % 2**31 or 1)]
    return [*command, "-solve", "-printingOptions", "all", "-solution", "rotation.sol"]


def _read(search: Search, model: MilpProblem, text: str, bound: float | None) -> None:
    head, *rows = text.splitlines()
    status = head.split(" - ")[0].strip()
    if status == "Optimal" or (status.startswith("Stopped on") and "no integer" not in status):
        values = {}
        for row in rows:
            _, name, value, *_ = row.replace("**", "").split()
            values[name] = float(value)
        search.offer(model.offsets(values), _SOURCE)
    elif model.cutoff is not None and status in _NO_SCHEDULE:
        model.settle(search, None, _SOURCE)
        return
    elif not status.startswith("Stopped on"):
        raise SolverError(f"CBC ends with {head!r}, which no rotation problem can be")
    if status == "Optimal":
        model.settle(search, float(head.split()[-1]), _SOURCE)
        return
    search.out_of_time()
    if bound is not None and (proved := model.bound(bound)) is not None:
        search.raise_bound(proved, _SOURCE)


def _program() -> str:
    bundled = getattr(import_pulp().PULP_CBC_CMD, "pulp_cbc_path", None)
    program = bundled if bundled and Path(bundled).exists() else shutil.which("cbc")
    if program is None:
        raise MissingBackendError(
            "solver milp-cbc needs CBC, which is not installed: pip install 'pulp<4', or coinor-cbc"
        )
    return str(program)
