"""Models for back ends: jobs that fit, in CP-SAT; rows, for HiGHS as SciPy has it.

In CP-SAT bursts are intervals on the circle of each link's hyperperiod. Copy k of a burst that
begins s slots after its job's offset begins at ``offset + k T + s``. The circle is cut open at 0:
copies -1 to ``H / T - 1`` are all that reach into ``[0, H)``, whatever the offset. Where no two
jobs of a link may burst at once no intervals overlap; elsewhere their rates add up to at most its
capacity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from metronome_opt.compatible.problem import FitDecision, FitTask, Reason, Refutation
from metronome_opt.errors import SolverError
from metronome_opt.instance import Instance, Link
from metronome_opt.presolve import orbits
from metronome_opt.solvers.budget import Budget, run_interruptibly
from metronome_opt.solvers.imports import import_cp_model, run_cpsat

_OPTIMAL, _LIMIT = 0, 1  # SciPy's statuses

_MAX_INTERVALS = 2_000_000


class Row(NamedTuple):
    """``sum of coefficient * x <= most``, x being 0 or 1; terms are (coefficient, number of x)."""

    terms: tuple[tuple[int, int], ...]
    most: int


def decide_cpsat(task: FitTask, instance: Instance) -> FitDecision:
    """Decide whether the contention of an instance can be 0, if the model is not too large."""
    count = sum(
        len(instance.jobs[index].phases) * (length // instance.jobs[index].period + 1)
        for link, length in instance.hyperperiods.items()
        for index in instance.jobs_on[link]
    )
    if count > _MAX_INTERVALS:
        return FitDecision()
    model = import_cp_model().CpModel()
    offsets = _offsets(model, instance)
    for link in instance.links:
        _state_link(model, task, instance, link, offsets)
    if task.budget.stopped:  # links may not be stated as a whole
        return FitDecision()
    solver, status = solve_cpsat(model, task)
    if status in ("OPTIMAL", "FEASIBLE"):
        return FitDecision(offsets={name: solver.value(offset) for name, offset in offsets.items()})
    if status == "INFEASIBLE":
        refuted = {job.name: job.period for job in instance.jobs}
        return FitDecision(refutation=Refutation(Reason.SEARCH, refuted))
    return FitDecision()


def _offsets(model: Any, instance: Instance) -> dict[str, Any]:
    domains = orbits(instance).domains
    return {
        job.name: model.new_constant(job.fixed_offset)
        if job.fixed_offset is not None
        else model.new_int_var(0, domains[job.name] - 1, "")
        for job in instance.jobs
    }


def _state_link(
    model: Any, task: FitTask, instance: Instance, link: Link, offsets: Mapping[str, Any]
) -> None:
    """State that a link is never asked for more than it carries; leave it when time is over."""
    users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
    hyperperiod = instance.hyperperiods[link.name]
    intervals: list[Any] = []
    demands: list[int] = []
    for job in users:
        if task.budget.stopped:
            return
        for phase, k in itertools.product(job.phases, range(-1, hyperperiod // job.period)):
            begin = offsets[job.name] + (k * job.period + phase.start)
            intervals.append(model.new_fixed_size_interval_var(begin, phase.length, ""))
            demands.append(phase.rate * job.links[link.name])
    least = sorted(job.links[link.name] * min(p.rate for p in job.phases) for job in users)
    if sum(least[:2]) > link.capacity >= max(demands):
        model.add_no_overlap(intervals)
    else:
        model.add_cumulative(intervals, demands, link.capacity)


def solve_cpsat(model: Any, task: FitTask) -> tuple[Any, str]:
    """Let CP-SAT solve a model within the budget of a task; return the solver and its status.

    Raises
    ------
    SolverError
        If the status is none of OPTIMAL, FEASIBLE, INFEASIBLE and UNKNOWN.
    """
    parameters = {"num_workers": task.workers, "random_seed": task.seed % 2**31}
    solver, status = run_cpsat(model, task.budget, parameters)
    if status not in ("OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"):
        raise SolverError(f"CP-SAT ends with status {status}")
    return solver, status


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
