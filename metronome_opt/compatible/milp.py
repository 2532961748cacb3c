"""Mixed integer linear programs, by HiGHS as SciPy has it: proposing choices, and deciding.

Whether jobs fit is stated slot by slot: a job is at one of its offsets, and in every slot of a
link's hyperperiod what bursts then is within its capacity.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from metronome_opt.compatible.choices import Choices
from metronome_opt.compatible.decide import Decision, Reason, Refutation, pose
from metronome_opt.compatible.master import Proposed
from metronome_opt.compatible.pairs import Pairs
from metronome_opt.compatible.statement import CostsTooFineError, Row, Statement
from metronome_opt.compatible.waiting import finish_or_leave
from metronome_opt.errors import SolverError
from metronome_opt.instance import Instance
from metronome_opt.kernels.tables import compile_instance
from metronome_opt.presolve.orbits import orbits
from metronome_opt.solvers.deadline import Deadline
from metronome_opt.solvers.time_indexed import TimeIndexed

_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2
_LARGEST = 2**30  # integers up to this are told apart by doubles within HiGHS' tolerances


class MilpMaster:
    """Proposes what HiGHS finds; otherwise as `Master`.

    Parameters
    ----------
    choices
        Of all jobs of the instance, no two of a job with the same period.

    Raises
    ------
    CostsTooFineError
        If costs are too fine for doubles.
    """

    def __init__(self, instance: Instance, choices: Choices, pairs: Pairs, clock: Deadline) -> None:
        self._statement = Statement(instance, choices, pairs, clock)
        if sum(self._statement.costs) >= _LARGEST:
            raise CostsTooFineError("costs: too fine for solver milp; use coarser ones, or auto")

    def forbid(self, refutation: Refutation) -> None:
        """State that some jobs do not fit at some periods, and others like these."""
        self._statement.forbid(refutation)

    def solve(self, clock: Deadline, seed: int, workers: int) -> Proposed:  # noqa: ARG002
        """Return the cheapest choices that are allowed, and a lower bound of their cost.

        SciPy hands HiGHS neither a seed nor a number of threads.
        """
        stated = self._statement
        groups = list(stated.groups.values())
        status, chosen, bound = _minimise(clock, stated.costs, groups, stated.rows)
        if status == _INFEASIBLE:
            return None, None
        units = max(0, math.ceil(bound - 1e-6 * max(1.0, abs(bound))))
        least = Fraction(units, stated.scale)
        if chosen is None:
            return None, least
        if status == _OPTIMAL and abs(stated.cost(chosen) * stated.scale - round(bound)) < 1:
            least = stated.cost(chosen)
        return dict(stated.taken[number] for number in chosen), least


def decide(
    instance: Instance, periods: Mapping[str, int], clock: Deadline, *, cushion_slots: int = 0
) -> Decision:
    """Decide by a time-indexed model whether jobs fit at some periods.

    Raises
    ------
    InputError
        If the model is too large.
    """
    posed = pose(instance, periods, cushion_slots)
    if isinstance(posed, Decision):
        return posed
    compiled = compile_instance(posed)
    form = TimeIndexed(compiled)
    domains = orbits(posed).domains
    offsets: list[range] = []
    groups: list[range] = []
    for job in posed.jobs:
        allowed = form.offsets(job)
        offsets.append(range(domains[job.name]) if job.name in domains else allowed)
        begin = groups[-1].stop if groups else 0
        groups.append(range(begin, begin + len(offsets[-1])))
    rows = []
    for row in form.rows():
        if clock.over:
            return Decision()
        terms: dict[int, int] = defaultdict(int)
        for rate, index, phase, slot in row.terms:
            mine = offsets[index]
            for offset in form.bursting(posed.jobs[index], phase, slot):
                if offset in mine:
                    terms[groups[index][mine.index(offset)]] += rate
        rows.append(Row(tuple((rate, number) for number, rate in terms.items()), row.capacity))
    status, chosen, _ = _minimise(clock, [0] * groups[-1].stop, groups, rows)
    if status == _INFEASIBLE:
        return Decision(refutation=Refutation(Reason.SEARCH, dict(periods)))
    if chosen is None:
        return Decision()
    at = {
        job.name: offsets[index][number - groups[index].start]
        for index, (job, number) in enumerate(zip(posed.jobs, chosen, strict=True))
    }
    return Decision(offsets=at)


def _minimise(
    clock: Deadline, costs: Sequence[int], groups: Sequence[range], rows: Iterable[Row]
) -> tuple[int, list[int] | None, float]:
    """Choose one number of each group within some rows at the least cost.

    Returns
    -------
    tuple
        SciPy's status; the numbers, group by group, if any were found; a lower bound.
    """
    if clock.over:
        return _LIMIT, None, 0.0
    from scipy.optimize import Bounds, LinearConstraint, milp

    one_each = [Row(tuple((1, number) for number in group), 1) for group in groups]
    stated = [*one_each, *rows]
    least = np.full(len(stated), -np.inf)
    least[: len(one_each)] = 1.0
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if clock.remaining is not None:  # the rest is for telling what was found
        options["time_limit"] = 0.9 * clock.remaining
    problem: dict[str, Any] = {
        "c": np.array(costs, dtype=float),
        "integrality": np.ones(len(costs)),
        "bounds": Bounds(0, 1),
        "constraints": LinearConstraint(
            _matrix(stated, len(costs)), least, np.array([float(row.most) for row in stated])
        ),
        "options": options,
    }
    result: Any = finish_or_leave(clock, lambda: milp(**problem))
    if result is None:
        return _LIMIT, None, 0.0
    if result.status not in (_OPTIMAL, _LIMIT, _INFEASIBLE):
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
