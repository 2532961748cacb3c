"""Programs over variables that are 0 or 1, solved by HiGHS as SciPy has it.

`minimise` runs HiGHS in a thread, which cannot be stopped: where it goes on past its limit, the
interpreter aborts at its end. `minimise_in_process` runs it in a process that is killed when time
is over. The process reads a line of JSON, `deadline` (of the monotonic clock, or null), `costs` and
`rows`, and prints one: what `minimise` returns.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget, run_interruptibly
from metronome_opt.solvers.child import run_child
from metronome_opt.solvers.imports import import_scipy
from metronome_opt.solvers.solve_process import end_with_parent

_ROOT = Path(__file__).parents[3]  # of the package
_PROGRAM = f"import sys; sys.path.append(sys.argv[1]); from {__name__} import main; main()"
_OPTIMAL, _LIMIT = 0, 1  # SciPy's statuses


class Row(NamedTuple):
    """``sum of coefficient * x <= most``, x being 0 or 1; terms are (coefficient, number of x)."""

    terms: tuple[tuple[int, int], ...]
    most: int


def minimise(
    budget: Budget, costs: Sequence[int], rows: Sequence[Row]
) -> tuple[bool, list[int] | None, float]:
    """Minimise a sum of costs of variables that are 0 or 1, within some rows that can be kept.

    Returns
    -------
    tuple
        Whether HiGHS calls it optimal; the numbers of the variables that are 1, if any were found;
        a lower bound.
    """
    if budget.stopped:
        return False, None, 0.0
    optimize = import_scipy()
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if budget.remaining is not None:  # the rest is for telling what was found
        options["time_limit"] = 0.9 * budget.remaining
    most = np.array([float(row.most) for row in rows])
    problem: dict[str, Any] = {
        "c": np.array(costs, dtype=float),
        "integrality": np.ones(len(costs)),
        "bounds": optimize.Bounds(0, 1),
        "constraints": optimize.LinearConstraint(_matrix(rows, len(costs)), ub=most),
        "options": options,
    }
    result: Any = run_interruptibly(budget, lambda: optimize.milp(**problem))
    if result is None:
        return False, None, 0.0
    if result.status not in (_OPTIMAL, _LIMIT):
        raise SolverError(f"HiGHS ends with status {result.status}: {result.message}")
    bound = result.mip_dual_bound
    known = 0.0 if bound is None or not math.isfinite(bound) else float(bound)
    if result.x is None:
        return False, None, known
    chosen: list[int] = np.flatnonzero(result.x > 0.5).tolist()
    return result.status == _OPTIMAL, chosen, known


def _matrix(rows: Sequence[Row], width: int) -> Any:
    from scipy.sparse import csr_array

    terms = [term for row in rows for term in row.terms]
    begins = np.cumsum([0, *(len(row.terms) for row in rows)])
    factors = np.array([float(factor) for factor, _ in terms])
    numbers = np.array([number for _, number in terms], dtype=np.int64)
    return csr_array((factors, numbers, begins), shape=(len(rows), width))


def minimise_in_process(
    budget: Budget, costs: Sequence[int], rows: Sequence[Row]
) -> tuple[bool, list[int] | None, float]:
    """Minimise as `minimise` does.

    Raises
    ------
    SolverError
        If HiGHS fails; the text is its last line.
    """
    if budget.stopped:
        return False, None, 0.0
    deadline = None if budget.remaining is None else time.monotonic() + budget.remaining
    problem = json.dumps({"deadline": deadline, "costs": costs, "rows": rows})
    lines: list[str] = []
    command = [sys.executable, "-P", "-c", _PROGRAM, str(_ROOT)]
    run_child(budget, command, lines.append, first_line=problem, max_requests=1)
    try:
        is_optimal, chosen, bound = json.loads((lines or [""])[-1])
    except ValueError:
        if budget.stopped:
            return False, None, 0.0
        raise SolverError(f"HiGHS fails: {(lines or ['no output'])[-1]}") from None
    return is_optimal, chosen, bound


def main() -> None:
    """Read a problem, minimise, print the answer."""
    task = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    deadline = task["deadline"]
    budget = Budget(None if deadline is None else max(0.0, deadline - time.monotonic()))
    rows = [Row(tuple((factor, x) for factor, x in terms), most) for terms, most in task["rows"]]
    sys.stdout.write(json.dumps(minimise(budget, task["costs"], rows)) + "\n")
    sys.stdout.flush()
    os._exit(0)  # whatever HiGHS still does
