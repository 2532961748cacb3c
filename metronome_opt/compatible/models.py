"""Rows over choices, for HiGHS as SciPy has it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget, run_interruptibly

OPTIMAL, _LIMIT, INFEASIBLE = 0, 1, 2
"""SciPy's statuses."""


class Row(NamedTuple):
    """``sum of coefficient * x <= most``, x being 1 if a choice is taken and 0 if not.

    Terms are (coefficient, number of the choice).
    """

    terms: tuple[tuple[int, int], ...]
    most: int


def import_milp() -> Any:
    """Return `scipy.optimize`, which has HiGHS."""
    return import_module("scipy.optimize")


def minimise(
    budget: Budget, costs: Sequence[int], groups: Sequence[range], rows: Iterable[Row]
) -> tuple[int, list[int] | None, float]:
    """Choose one number of each group within some rows at the least cost.

    Returns
    -------
    tuple
        SciPy's status; the numbers, group by group, if any were found; a lower bound.
    """
    if budget.stopped:
        return _LIMIT, None, 0.0
    optimize = import_milp()
    one_each = [Row(tuple((1, number) for number in group), 1) for group in groups]
    stated = [*one_each, *rows]
    least = np.full(len(stated), -np.inf)
    least[: len(one_each)] = 1.0
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if budget.remaining is not None:  # the rest is for telling what was found
        options["time_limit"] = 0.9 * budget.remaining
    problem: dict[str, Any] = {
        "c": np.array(costs, dtype=float),
        "integrality": np.ones(len(costs)),
        "bounds": optimize.Bounds(0, 1),
        "constraints": optimize.LinearConstraint(
            _matrix(stated, len(costs)), least, np.array([float(row.most) for row in stated])
        ),
        "options": options,
    }
    result: Any = run_interruptibly(budget, lambda: optimize.milp(**problem))
    if result is None:
        return _LIMIT, None, 0.0
    if result.status not in (OPTIMAL, _LIMIT, INFEASIBLE):
        raise SolverError(f"HiGHS ends with status {result.status}: {result.message}")
    bound = result.mip_dual_bound
    known = 0.0 if bound is None or not math.isfinite(bound) else float(bound)
    if result.x is None:
        return result.status, None, known
    return result.status, [max(group, key=lambda n: result.x[n]) for group in groups], known


def _matrix(rows: Sequence[Row], width: int) -> Any:
    from scipy.sparse import csr_array

    terms = [term for row in rows for term in row.terms]
    begins = np.cumsum([0, *(len(row.terms) for row in rows)])
    factors = np.array([float(factor) for factor, _ in terms])
    numbers = np.array([number for _, number in terms], dtype=np.int64)
    return csr_array((factors, numbers, begins), shape=(len(rows), width))
