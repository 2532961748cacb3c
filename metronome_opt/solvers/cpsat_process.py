"""CP-SAT as a program: ``python cpsat_process.py MODEL.pbtxt OPTIONS``.

A process of its own, so that what goes wrong inside OR-Tools ends this one alone. `OPTIONS` is a
JSON object: `parameters` by their names in CP-SAT, `deadline`, a reading of the monotonic clock,
so that starting counts, and `memory_mb`, the address space that the process may use.

Prints one JSON object a line: ``{"solution": [indices of the variables that are 1]}``,
``{"bound": b}`` and at the end ``{"status": name, "objective": v, "bound": b}``. SIGINT stops it.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    """Solve a file; 3 says that OR-Tools is not installed."""
    path, text = arguments
    options = json.loads(text)
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return 3
    if options["memory_mb"] is not None:
        limit = options["memory_mb"] * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    model = cp_model.CpModel()
    model.proto.parse_text_format(Path(path).read_text(encoding="utf-8"))
    solver = cp_model.CpSolver()
    set_parameters(solver.parameters, options["parameters"])
    if options["deadline"] is not None:
        solver.parameters.max_time_in_seconds = max(0.0, options["deadline"] - time.monotonic())
    turn = threading.Lock()  # bounds and solutions come from different threads

    def tell(**message: Any) -> None:
        with turn:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def tell_solution(values: Any) -> None:
        tell(solution=[index for index, value in enumerate(values) if value == 1])

    class Watch(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            tell_solution(self.response_proto.solution)

    solver.best_bound_callback = lambda bound: tell(bound=float(bound))
    status = solver.solve(model, Watch())
    if status == cp_model.OPTIMAL:
        tell_solution(solver.response_proto.solution)
    tell(
        status=solver.status_name(status),
        objective=float(solver.objective_value),
        bound=float(solver.best_objective_bound),
    )
    return 0


def set_parameters(parameters: Any, chosen: dict[str, Any]) -> None:
    """Set CP-SAT's parameters by name; lists are added to."""
    for name, value in chosen.items():
        if isinstance(value, list):
            getattr(parameters, name).extend(value)
        else:
            setattr(parameters, name, value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
