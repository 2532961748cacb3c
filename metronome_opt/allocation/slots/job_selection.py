"""Feasibility at given periods, and jobs of the minimum weight without which the others fit.

A master proposes jobs without offsets: those of largest weight that pairs, loads and refutations
allow. Two jobs that do not fit are not both gated, loads stay within capacities, and of jobs that
were refuted not all are gated. The weight that is dropped under these conditions is a lower bound,
and if the jobs that are gated fit, it is the optimum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from metronome_opt.allocation.slots.feasibility import (
    FeasibilityTest,
    PairConflicts,
    shrink_conflict,
)
from metronome_opt.allocation.slots.feasibility_problem import (
    Conflict,
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
    at_periods,
    load,
)
from metronome_opt.allocation.slots.greedy import fit_greedily
from metronome_opt.allocation.slots.milp import Row, minimise
from metronome_opt.errors import SolverError
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.arguments import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    check_reserve,
    interrupt_stops,
    warm_up_instance,
)
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.imports import import_cp_model, run_cpsat
from metronome_opt.solvers.registry import Solver, find_solver

_LARGEST_LOAD = 2**32  # of a link; many jobs add to it


class _Master:
    """The problem as rows over the jobs that are dropped, by number; `forbid` adds rows.

    Once the budget is spent, rows are omitted, which makes bounds lower and not wrong.

    Attributes
    ----------
    weights
        Weights of the jobs, in units of ``1 / scale``. Where they are too large for a back end,
        they are rounded down, and bounds are a little lower.
    """

    largest_weight = 2**50

    def __init__(self, problem: FeasibilityProblem, pairs: PairConflicts) -> None:
        self.problem = problem
        self.jobs = problem.instance.jobs
        weights = [job.weight for job in self.jobs]
        self.scale = min(Fraction(1), Fraction(self.largest_weight, 1 + sum(weights)))
        self.weights = [int(weight * self.scale) for weight in weights]
        self.rows: list[Row] = []
        for index in pairs.impossible:
            self._limit([(1, index)], 0)
        self._state_pairs(pairs)
        self._state_loads()

    def minimise(self) -> tuple[list[int] | None, int]:
        """Return the lightest jobs whose omission is allowed, and a lower bound in units.

        There are no jobs if none were found in time.
        """
        raise NotImplementedError

    def solve(self) -> tuple[dict[str, int] | None, int]:
        """Return the gated jobs, if any were found, with their periods, and a bound of the cost."""
        dropped, bound = self.minimise()
        if dropped is None:
            return None, math.ceil(bound / self.scale)
        gated = [job for index, job in enumerate(self.jobs) if index not in dropped]
        return {job.name: job.period for job in gated}, math.ceil(bound / self.scale)

    def forbid(self, refutation: Conflict) -> None:
        """State that some jobs do not fit."""
        numbers = [index for index, job in enumerate(self.jobs) if job.name in refutation.periods]
        self._limit([(1, index) for index in numbers], len(numbers) - 1)

    def _limit(self, gated: Sequence[tuple[int, int]], most: int) -> None:
        """State the largest sum over the gated jobs of (factor, number)."""
        terms = tuple((-factor, number) for factor, number in gated if factor)
        self.rows.append(Row(terms, most - sum(factor for factor, _ in gated)))

    def _state_pairs(self, pairs: PairConflicts) -> None:
        for number, (i, j) in enumerate(pairs.forbidden):
            if number % 1024 == 0 and self.problem.budget.stopped:
                return
            if not pairs.fit(i, j, self.jobs[i].period, self.jobs[j].period):
                self._limit([(1, i), (1, j)], 1)

    def _state_loads(self) -> None:
        instance = self.problem.instance
        for link in instance.links:
            users = [(index, self.jobs[index]) for index in instance.jobs_on[link.name]]
            if sum(job.peak * job.links[link.name] for _, job in users) <= link.capacity:
                continue
            loads = [
                (index, job.links[link.name] * load(job, job.period, self.problem.cushion_slots))
                for index, job in users
            ]
            common = math.lcm(*(share.denominator for _, share in loads))
            # Rounded down, this is a relaxation.
            scale = min(Fraction(common), Fraction(_LARGEST_LOAD, max(1, link.capacity)))
            most = int(scale * link.capacity)
            self._limit(
                [(min(int(scale * load_of_job), most + 1), index) for index, load_of_job in loads],
                most,
            )


class CpsatMaster(_Master):
    """Proposes what CP-SAT finds."""

    def __init__(self, problem: FeasibilityProblem, pairs: PairConflicts) -> None:
        super().__init__(problem, pairs)
        cp = import_cp_model()
        self._model = cp.CpModel()
        self._dropped = [self._model.new_bool_var("") for _ in self.jobs]
        self._model.minimize(cp.LinearExpr.weighted_sum(self._dropped, self.weights))
        self._stated = 0

    def minimise(self) -> tuple[list[int] | None, int]:
        """Return the lightest jobs whose omission is allowed, and a lower bound in units."""
        for row in self.rows[self._stated :]:
            if self._stated % 256 == 0 and self.problem.budget.stopped:
                break
            self._model.add(sum(factor * self._dropped[n] for factor, n in row.terms) <= row.most)
            self._stated += 1
        parameters = {"num_workers": self.problem.threads, "random_seed": self.problem.seed % 2**31}
        solver, status = run_cpsat(self._model, self.problem.budget, parameters)
        if status not in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
            raise SolverError(f"CP-SAT ends with status {status}")
        bound = math.ceil(max(0.0, solver.best_objective_bound - 1e-6))
        if status == "UNKNOWN":
            return None, bound
        self._model.clear_hints()
        values = [bool(solver.value(variable)) for variable in self._dropped]
        for variable, value in zip(self._dropped, values, strict=True):
            self._model.add_hint(variable, value)
        return [number for number, value in enumerate(values) if value], bound


class MilpMaster(_Master):
    """Proposes what HiGHS finds; SciPy hands it neither a seed nor a number of threads."""

    largest_weight = 2**30  # HiGHS' tolerances tell apart integers up to this

    def minimise(self) -> tuple[list[int] | None, int]:
        """Return the lightest jobs whose omission is allowed, and a lower bound in units."""
        is_optimal, chosen, bound = minimise(self.problem.budget, self.weights, self.rows)
        cost = sum(self.weights[number] for number in chosen or ())
        if chosen is not None and is_optimal and cost == round(bound):
            return chosen, cost
        return chosen, max(0, math.ceil(bound - 1e-6 * max(1.0, abs(bound))))


def select_gated_jobs(
    problem: FeasibilityProblem, master: type[CpsatMaster | MilpMaster]
) -> FeasibilityResult:
    """Find gated jobs of the maximum weight: the master proposes, the test refutes.

    Jobs of a proposal that does not fit are those that `fit_greedily` places first.
    """
    best: Mapping[str, int] = fit_greedily(problem)
    if problem.weight_without(best) == 0 or problem.budget.stopped:
        return FeasibilityResult(best, problem.weight_without(best))
    test = FeasibilityTest(problem)
    offsets = test.decide({job.name: job.period for job in problem.instance.jobs}).offsets
    if offsets is not None:  # no model is needed
        return FeasibilityResult(offsets, 0)
    proposer = master(problem, test.pairs)
    refutations: list[Conflict] = []
    bound = 0
    while not problem.budget.stopped:
        proposed, bound_now = proposer.solve()
        bound = max(bound, bound_now)
        if proposed is None or bound >= problem.weight_without(best):
            break
        found = test.decide(proposed)
        if found.offsets is not None:  # the bound is met
            best = min(best, found.offsets, key=problem.weight_without)
            break
        if found.refutation is None or found.refutation.reason is Reason.HYPERPERIOD:
            break
        best = min(best, fit_greedily(problem, proposed), key=problem.weight_without)
        refutations.append(shrink_conflict(found.refutation, test.decide))
        proposer.forbid(refutations[-1])
    cost = problem.weight_without(best)
    return FeasibilityResult(best, cost, min(bound, cost), tuple(refutations))


FEASIBILITY_SOLVERS = {
    name: Solver(name, summary, f"{__name__}:{proposer}", packages, exact=bool(packages))
    for name, summary, proposer, packages in (
        ("auto", "as cpsat", "CpsatMaster", ("ortools",)),
        ("cpsat", "CP-SAT chooses, searches refute", "CpsatMaster", ("ortools",)),
        ("milp", "HiGHS chooses, searches refute", "MilpMaster", ("scipy",)),
        ("greedy", "highest weight first, each where it fits", "fit_greedily", ()),
    )
}
"""Exact ones are classes that propose gated jobs."""


def check_feasibility(
    instance: Instance,
    *,
    drop: bool = False,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    threads: int | None = None,
    cushion_slots: int = 0,
) -> FeasibilityResult:
    """Test whether all jobs can be gated at their periods, or which ones to drop so that they can.

    Parameters
    ----------
    drop
        Whether jobs may be dropped, at the cost of their weight.
    solver
        A name of `FEASIBILITY_SOLVERS`; a heuristic finds offsets or nothing.
    time_limit
        Seconds; None for no limit. What is found by then is returned, at Ctrl-C as well.
    seed
        Random seed.
    threads
        Threads of the back end; None for one per core.
    cushion_slots
        Slots added to every burst.

    Returns
    -------
    FeasibilityResult
        Without `drop` all jobs are gated or none is, and its refutation names no job that can be
        omitted, as far as there was time.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    chosen = find_solver(solver, FEASIBILITY_SOLVERS)
    chosen.import_packages()
    _load_kernels()
    check_instance(instance)
    check_numbers(time_limit, seed, threads)
    check_reserve(instance, cushion_slots)
    periods = {job.name: job.period for job in instance.jobs}
    if not drop:  # weights do not count
        instance = at_periods(instance, periods)
    cores = threads or os.cpu_count() or 1
    problem = FeasibilityProblem(instance, cushion_slots, Budget(time_limit), seed, cores)
    with interrupt_stops(problem.budget):
        if not chosen.exact:
            offsets = fit_greedily(problem)
            everything = len(offsets) == len(periods)
            fit = (
                FeasibilityResult(offsets, problem.weight_without(offsets))
                if drop or everything
                else FeasibilityResult()
            )
        else:
            master: Any = chosen.load()
            fit = select_gated_jobs(problem, master) if drop else _decide(problem, periods)
        return replace(fit, stop=problem.budget.stop)


def _decide(problem: FeasibilityProblem, periods: dict[str, int]) -> FeasibilityResult:
    test = FeasibilityTest(problem)
    decision = test.decide(periods)
    if decision.refutation is not None:
        # A short test shrinks it: the conflict that is known does not wait for a long one.
        refutation = shrink_conflict(
            decision.refutation, FeasibilityTest(problem, quick=True).decide
        )
        proved = refutation.reason is not Reason.HYPERPERIOD
        return FeasibilityResult(bound=None if proved else 0, refutations=(refutation,))
    return (
        FeasibilityResult() if decision.offsets is None else FeasibilityResult(decision.offsets, 0)
    )


@cache
def _load_kernels() -> None:
    problem = FeasibilityProblem(warm_up_instance())
    fit_greedily(problem)
    FeasibilityTest(problem, quick=True).decide(dict.fromkeys("abc", 8))
