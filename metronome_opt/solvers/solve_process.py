"""A back end as a program: ``python solve_process.py cpsat|highs MODEL``.

A process of its own, so that what goes wrong inside a back end ends this one alone; and because
OR-Tools and highspy both bring a shared library called libhighs, of different versions: whichever
is imported second in one process fails to load.

`MODEL` is a file that the back end reads. One line of JSON is read: `parameters` by their native
names, and `deadline`, a reading of the monotonic clock, so that starting counts. SIGINT stops it.

Prints one JSON object a line: ``{"solution": {variable: value}}`` without zeros, ``{"bound": b}``
and at the end ``{"status": s, "objective": v, "bound": b}``. The status is ``optimal``,
``infeasible`` or ``stopped``, or what the back end calls it if it is none of these.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

NOT_INSTALLED = 3
"""The exit status if the back end cannot be imported."""

Send = Callable[..., None]
"""Takes a message, its fields as keywords."""

_CPSAT_STATUS = {
    "OPTIMAL": "optimal",
    "INFEASIBLE": "infeasible",
    "FEASIBLE": "stopped",
    "UNKNOWN": "stopped",
}
_HIGHS_STATUS = {
    "kOptimal": "optimal",
    "kInfeasible": "infeasible",
    "kUnboundedOrInfeasible": "infeasible",  # nothing here is unbounded
    "kTimeLimit": "stopped",
    "kInterrupt": "stopped",
    "kHighsInterrupt": "stopped",
}
_turn = threading.Lock()  # bounds and solutions come from different threads


def main(arguments: list[str]) -> int:
    """Solve a file; return the exit status."""
    back_end, path = arguments
    options = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    solve: Callable[[str, dict[str, Any]], None] = {"cpsat": _cpsat, "highs": _highs}[back_end]
    try:
        solve(path, options)
    except ImportError:
        return NOT_INSTALLED
    return 0


def end_with_parent() -> None:
    """End this process once nothing can be read any more: its parent is gone, perhaps killed."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _cpsat(path: str, options: dict[str, Any]) -> None:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    model.proto.parse_text_format(Path(path).read_text(encoding="utf-8"))
    solver = cp_model.CpSolver()
    for name, value in options["parameters"].items():
        if isinstance(value, list):
            getattr(solver.parameters, name).extend(value)
        else:
            setattr(solver.parameters, name, value)
    if options["deadline"] is not None:
        solver.parameters.max_time_in_seconds = _seconds_left(options)
    solve_cpsat(solver, model, _send)


def solve_cpsat(solver: Any, model: Any, send: Send) -> None:
    """Let CP-SAT solve a model; send solutions, bounds and the end."""
    from ortools.sat.python import cp_model

    names = [variable.name for variable in model.proto.variables]

    class RuleMonitor(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            _send_solution(send, names, self.response_proto.solution)

    solver.best_bound_callback = lambda bound: send(bound=float(bound))
    status = solver.solve(model, RuleMonitor())
    if status == cp_model.OPTIMAL:
        _send_solution(send, names, solver.response_proto.solution)
    native = solver.status_name(status)
    send(
        status=_CPSAT_STATUS.get(native, native),
        objective=float(solver.objective_value),
        bound=float(solver.best_objective_bound),
    )


def _highs(path: str, options: dict[str, Any]) -> None:
    import highspy

    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    highs.readModel(path)
    for name, value in options["parameters"].items():
        highs.setOptionValue(name, value)
    if options["deadline"] is not None:
        highs.setOptionValue("time_limit", _seconds_left(options))
    names = [column.name for column in highs.getVariables()] if highs.getNumCol() else []
    highs.HandleKeyboardInterrupt = True
    highs.cbMipImprovingSolution += lambda event: _send_solution(
        _send, names, event.data_out.mip_solution
    )
    highs.cbMipLogging += lambda event: _send(bound=float(event.data_out.mip_dual_bound))
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        _send_solution(_send, names, highs.getSolution().col_value)
    info = highs.getInfo()
    _send(
        status=_HIGHS_STATUS.get(status.name, status.name),
        objective=float(info.objective_function_value),
        bound=float(info.mip_dual_bound),
    )


def _seconds_left(options: dict[str, Any]) -> float:
    return max(0.0, float(options["deadline"]) - time.monotonic())


def _send(**message: Any) -> None:
    with _turn:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _send_solution(send: Send, names: list[str], values: Iterable[float]) -> None:
    send(solution={n: v for n, v in zip(names, map(float, values), strict=True) if v and n})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
