"""HiGHS for the MILP: strict about its status, with incumbents and bounds as they come."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from metronome_opt.errors import MissingBackendError, SolverError
from metronome_opt.solvers.milp_problem import MilpProblem
from metronome_opt.solvers.process import how_it_ended, program, run_process
from metronome_opt.solvers.search import Search

_SOURCE = "milp (HiGHS)"
_NOT_INSTALLED = 3
_NO_SCHEDULE = ("kInfeasible", "kUnboundedOrInfeasible")  # nothing here is unbounded


def solve(search: Search, model: MilpProblem) -> None:
    """Solve `model` within the time that is left, reporting to `search`."""
    reader = _Reader(search, model)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.write(folder / "rotation.mps")
        search.built()
        if search.stopped:
            return
        options: dict[str, float] = {
            "threads": search.workers,
            "random_seed": search.seed % 2**31,
            "mip_rel_gap": 0.0,
        }
        if model.cutoff is not None:
            options["mip_abs_gap"] = 0.99  # the objective is an integer at every schedule
        if search.remaining is not None:
            options["time_limit"] = time.monotonic() + search.remaining
        command = [*program("highs_process.py"), "rotation.mps", json.dumps(options)]
        exit_status, told = run_process(search, command, folder, reader)
    if exit_status == _NOT_INSTALLED and not told:  # a signal may break into the import
        raise MissingBackendError(
            "solver milp needs HiGHS, which is not installed: pip install highspy"
        )
    reader.finish(exit_status, told)


class _Reader:
    """Takes the lines of `highs_process`."""

    def __init__(self, search: Search, model: MilpProblem) -> None:
        self._search = search
        self._model = model
        self._final: dict[str, Any] = {}
        self._last = "no output"

    def __call__(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._last = line
            return
        if "solution" in message:
            self._search.offer(self._model.offsets(message["solution"]), _SOURCE)
        elif "status" in message:
            self._final = message
        else:
            self._raise_bound(message["bound"])

    def finish(self, exit_status: int, told: bool) -> None:
        """Map the native status; one that is not known is an error, unless it was told to stop."""
        status = self._final.get("status")
        if status == "kOptimal":
            self._model.settle(self._search, self._final["objective"], _SOURCE)
        elif status in _NO_SCHEDULE and self._model.cutoff is not None:
            self._model.settle(self._search, None, _SOURCE)
        elif status in ("kTimeLimit", "kInterrupt", "kHighsInterrupt"):
            self._search.out_of_time()
            self._raise_bound(self._final["bound"])
        elif status is not None or not told:
            raise SolverError(
                f"HiGHS ends with {status or how_it_ended(exit_status)}: {self._last}"
            )

    def _raise_bound(self, native: float) -> None:
        bound = self._model.bound(native)
        if bound is not None:
            self._search.raise_bound(bound, _SOURCE)
