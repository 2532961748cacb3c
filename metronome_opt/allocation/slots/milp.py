"""Programs over variables that are 0 or 1, solved by HiGHS as SciPy has it.

`minimise` runs HiGHS in a thread, which cannot be stopped: where it goes on past its limit, the
interpreter aborts at its end. `minimise_in_process` runs it in a process that is killed when time
is over.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.child import Send, run_child
from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget, run_interruptibly

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
    from scipy import optimize

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
    task = pickle.dumps(partial(_send_minimum, deadline, costs, rows))
    answers: list[dict[str, Any]] = []
    end = run_child(task, answers.append, lambda: signal.SIGKILL if budget.stopped else None)
    if answers:
        is_optimal, chosen, bound = answers[0]["minimum"]
        return is_optimal, chosen, bound
    if budget.stopped:
        return False, None, 0.0
    raise SolverError(f"HiGHS fails: {end.last_output or 'no output'}")


def _send_minimum(
    deadline: float | None, costs: Sequence[int], rows: Sequence[Row], send: Send
) -> None:
    budget = Budget(None if deadline is None else max(0.0, deadline - time.monotonic()))
    send(minimum=minimise(budget, costs, rows))
    os._exit(0)  # whatever HiGHS still does
