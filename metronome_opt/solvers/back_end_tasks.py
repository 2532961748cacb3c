"""Back ends as tasks of child processes, which import this module and no other of the package.

A process of its own, so that what goes wrong inside a back end ends this one alone; and because
OR-Tools and highspy both bring a shared library called libhighs, of different versions: whichever
is imported second in one process fails to load. SIGINT stops a back end.

Messages are `solution` (values by variable, without zeros), `bound`, and at the end `status`,
`objective` and `bound`. The status is ``optimal``, ``infeasible``, ``stopped`` or ``missing``, or
what the back end calls it if it is none of these.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Send = Callable[..., None]

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
# toulbar2 holds its process until it is done; what it finds meanwhile is in what it prints.
_TOULBAR2 = """
import json, sys
from pytoulbar2 import CFN
model = CFN(verbose=0)
for name, value in json.loads(sys.argv[2]).items():
    setattr(model.Option, name, value)
model.Read(sys.argv[1])
model.Solve(showSolutions=1)
"""
_TOULBAR2_BOUND = re.compile(r"(?:Initial lower and upper bounds|Optimality gap): \[(\d+),")
_TOULBAR2_END = re.compile(r"(?:(Optimum): (\d+)|No solution) in ")


def run_cpsat(path: str, parameters: Mapping[str, Any], deadline: float | None, send: Send) -> None:
    """Solve a model in a file with CP-SAT.

    Parameters
    ----------
    parameters
        By their native names.
    deadline
        A reading of the monotonic clock, so that starting counts; None for no limit.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        send(status="missing")
        return
    model = cp_model.CpModel()
    model.proto.parse_text_format(Path(path).read_text(encoding="utf-8"))
    solver = cp_model.CpSolver()
    for name, value in parameters.items():
        if isinstance(value, list):
            getattr(solver.parameters, name).extend(value)
        else:
            setattr(solver.parameters, name, value)
    if deadline is not None:
        solver.parameters.max_time_in_seconds = max(0.0, deadline - time.monotonic())
    solve_cpsat(solver, model, send)


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


def run_highs(path: str, parameters: Mapping[str, Any], deadline: float | None, send: Send) -> None:
    """Solve a model in a file with HiGHS; the arguments are those of `run_cpsat`."""
    try:
        import highspy
    except ImportError:
        send(status="missing")
        return
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    highs.readModel(path)
    for name, value in parameters.items():
        highs.setOptionValue(name, value)
    if deadline is not None:
        highs.setOptionValue("time_limit", max(0.0, deadline - time.monotonic()))
    names = [column.name for column in highs.getVariables()] if highs.getNumCol() else []
    highs.HandleKeyboardInterrupt = True
    highs.cbMipImprovingSolution += lambda event: _send_solution(
        send, names, event.data_out.mip_solution
    )
    highs.cbMipLogging += lambda event: send(bound=float(event.data_out.mip_dual_bound))
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        _send_solution(send, names, highs.getSolution().col_value)
    info = highs.getInfo()
    send(
        status=_HIGHS_STATUS.get(status.name, status.name),
        objective=float(info.objective_function_value),
        bound=float(info.mip_dual_bound),
    )


def run_toulbar2(
    path: str,
    parameters: Mapping[str, Any],
    deadline: float | None,  # noqa: ARG001 (it is interrupted)
    send: Send,
) -> None:
    """Solve a network in a file with toulbar2; solutions are positions in domains by variable."""
    if find_spec("pytoulbar2") is None:
        send(status="missing")
        return
    bound, line = 0, ""
    command = [sys.executable, "-P", "-c", _TOULBAR2, path, json.dumps(parameters)]
    with subprocess.Popen(  # noqa: S603 (this Python)
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
        try:
            for line in process.stdout:
                if match := _TOULBAR2_BOUND.match(line):
                    bound = int(match[1])
                    send(bound=bound)
                elif match := _TOULBAR2_END.match(line):
                    best = int(match[2] or 0)
                    status = "optimal" if match[1] else "infeasible"
                    send(status=status, objective=best, bound=best)
                elif line.startswith("New solution"):
                    places = enumerate(next(process.stdout).split())
                    send(solution={str(variable): int(place) for variable, place in places})
        except KeyboardInterrupt:
            process.kill()
            send(status="stopped", bound=bound)
            return
    if process.returncode:
        sys.exit(f"{line.strip()} (exit status {process.returncode})")


def _send_solution(send: Send, names: list[str], values: Iterable[float]) -> None:
    send(solution={n: v for n, v in zip(names, map(float, values), strict=True) if v and n})
