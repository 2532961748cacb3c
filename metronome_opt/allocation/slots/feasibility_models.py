"""Rows over variables that are 0 or 1, for HiGHS as SciPy has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget, run_interruptibly

_OPTIMAL, _LIMIT = 0, 1  # SciPy's statuses


class Row(NamedTuple):
    """``sum of coefficient * x <= most``, x being 0 or 1; terms are (coefficient, number of x)."""

    terms: tuple[tuple[int, int], ...]
    most: int


def import_milp() -> Any:
    """Return `scipy.optimize`, which has HiGHS."""
    return import_module("scipy.optimize")


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
    optimize = import_milp()
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
