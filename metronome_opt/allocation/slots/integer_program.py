"""Linear programs over small integers, solved by CP-SAT, or by HiGHS as SciPy has it.

`minimise_by_highs` runs HiGHS in a thread, which cannot be stopped: where it goes on past its
limit, the interpreter aborts at its end. `minimise_in_process` runs it in a process that is killed
when time is over.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.child import Send, run_child
from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget, run_interruptibly
from metronome_opt.solvers.imports import import_cp_model, run_cpsat

_OPTIMAL, _LIMIT = 0, 1  # SciPy's statuses
_TOLERANCE = 1e-6  # of a bound, before it is rounded up to an integer

Answer = tuple[list[int] | None, int]
"""The values of the variables, if any were found, and a lower bound of the objective."""


class Row(NamedTuple):
    """``sum of coefficient * x <= most``, or equal to it; terms are (coefficient, number of x)."""

    terms: tuple[tuple[int, int], ...]
    most: int
    is_equation: bool = False


Minimise = Callable[..., Answer]
"""Minimises a sum of costs of variables that are 0 or 1, within rows that can be kept.

It takes a budget, costs, rows, and by keyword a hint and parameters of CP-SAT.
"""


def minimise_by_cpsat(
    budget: Budget,
    costs: Sequence[int],
    rows: Sequence[Row],
    hint: Sequence[int] = (),
    uppers: Sequence[int] = (),
    **parameters: object,
) -> Answer:
    """Minimise by CP-SAT with some parameters; variables are up to `uppers`, or 1 without any."""
    cp = import_cp_model()
    model = cp.CpModel()
    variables = [model.new_int_var(0, most, "") for most in uppers or [1] * len(costs)]
    for number, row in enumerate(rows):
        if number % 256 == 0 and budget.stopped:
            return None, 0
        factors, numbers = zip(*row.terms, strict=True)
        total = cp.LinearExpr.weighted_sum([variables[n] for n in numbers], factors)
        model.add(total == row.most if row.is_equation else total <= row.most)
    for variable, value in zip(variables, hint, strict=False):
        model.add_hint(variable, value)
    model.minimize(cp.LinearExpr.weighted_sum(variables, costs))
    solver, status = run_cpsat(model, budget, parameters)
    if status not in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
        raise SolverError(f"CP-SAT ends with status {status}")
    bound = math.ceil(solver.best_objective_bound - _TOLERANCE)
    if status == "UNKNOWN":
        return None, max(0, bound)
    return [solver.value(variable) for variable in variables], bound


def minimise_by_highs(
    budget: Budget, costs: Sequence[int], rows: Sequence[Row], **_: object
) -> Answer:
    """Minimise by HiGHS, to which SciPy hands neither a hint, a seed nor a number of threads."""
    if budget.stopped:
        return None, 0
    from scipy import optimize

    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if budget.remaining is not None:  # the rest is for telling what was found
        options["time_limit"] = 0.9 * budget.remaining
    least = [float(row.most) if row.is_equation else -math.inf for row in rows]
    most = [float(row.most) for row in rows]
    problem: dict[str, Any] = {
        "c": np.array(costs, dtype=float),
        "integrality": np.ones(len(costs)),
        "bounds": optimize.Bounds(0, 1),
        "constraints": optimize.LinearConstraint(_matrix(rows, len(costs)), least, most),
        "options": options,
    }
    result: Any = run_interruptibly(budget, lambda: optimize.milp(**problem))
    if result is None:
        return None, 0
    if result.status not in (_OPTIMAL, _LIMIT):
        raise SolverError(f"HiGHS ends with status {result.status}: {result.message}")
    known = result.mip_dual_bound
    known = 0.0 if known is None or not math.isfinite(known) else float(known)
    bound = max(0, math.ceil(known - _TOLERANCE * max(1.0, abs(known))))
    if result.x is None:
        return None, bound
    values: list[int] = np.rint(result.x).astype(int).tolist()
    cost = sum(c * x for c, x in zip(costs, values, strict=True))
    return values, cost if result.status == _OPTIMAL and cost == round(known) else bound


def _matrix(rows: Sequence[Row], width: int) -> Any:
    from scipy.sparse import csr_array

    terms = [term for row in rows for term in row.terms]
    begins = np.cumsum([0, *(len(row.terms) for row in rows)])
    factors = np.array([float(factor) for factor, _ in terms])
    numbers = np.array([number for _, number in terms], dtype=np.int64)
    return csr_array((factors, numbers, begins), shape=(len(rows), width))


def minimise_in_process(
    budget: Budget, costs: Sequence[int], rows: Sequence[Row], **_: object
) -> Answer:
    """Minimise as `minimise_by_highs` does; where HiGHS fails, its last line is the error."""
    if budget.stopped:
        return None, 0
    deadline = None if budget.remaining is None else time.monotonic() + budget.remaining
    task = pickle.dumps(partial(_send_minimum, deadline, costs, rows))
    answers: list[dict[str, Any]] = []
    end = run_child(task, answers.append, lambda: signal.SIGKILL if budget.stopped else None)
    if answers:
        values, bound = answers[0]["minimum"]
        return values, bound
    if budget.stopped:
        return None, 0
    raise SolverError(f"HiGHS fails: {end.last_output or 'no output'}")


def _send_minimum(
    deadline: float | None, costs: Sequence[int], rows: Sequence[Row], send: Send
) -> None:
    budget = Budget(None if deadline is None else max(0.0, deadline - time.monotonic()))
    send(minimum=minimise_by_highs(budget, costs, rows))
    os._exit(0)  # whatever HiGHS still does


MAX_OBJECTIVE: Mapping[Minimise, int] = {
    minimise_by_cpsat: 2**40,
    minimise_by_highs: 2**30,
    minimise_in_process: 2**30,
}
"""Largest objective: HiGHS takes larger integers for equal within its tolerances."""
