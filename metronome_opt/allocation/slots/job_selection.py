"""Feasibility at given periods, and jobs of the minimum weight without which the others fit.

A master proposes jobs without offsets: the heaviest that pairs, loads and refutations allow. Two
jobs that do not fit are not both gated, loads stay within capacities, and of jobs that were refuted
not all are gated. The weight that is dropped under all that is a lower bound, and if the jobs that
are gated fit, it is the optimum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from metronome_opt.allocation.slots.feasibility import FeasibilityTest, PairConflicts, core
from metronome_opt.allocation.slots.feasibility_problem import (
    Conflict,
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
    at_periods,
    load,
)
from metronome_opt.allocation.slots.greedy import greedy
from metronome_opt.allocation.slots.milp import Row, import_milp, minimise
from metronome_opt.errors import InputError, SolverError, quote
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

_LARGEST_LOAD = 2**32  # of a link; many jobs add to it


class _Master:
    """The problem as rows over the jobs that are left out, by number; `forbid` adds to them.

    Once the budget is spent, rows are left out, which makes bounds lower and not wrong.

    Attributes
    ----------
    weights
        Of the jobs, in units of ``1 / scale``. Where they are too large for a back end to count
        with, they are rounded down, and bounds are a little lower.
    """

    largest_weight = 2**50

    def __init__(self, task: FeasibilityProblem, pairs: PairConflicts) -> None:
        self.task = task
        self.jobs = task.instance.jobs
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
        left_out, bound = self.minimise()
        if left_out is None:
            return None, math.ceil(bound / self.scale)
        gated = [job for index, job in enumerate(self.jobs) if index not in left_out]
        return {job.name: job.period for job in gated}, math.ceil(bound / self.scale)

    def forbid(self, refutation: Conflict) -> None:
        """State that some jobs do not fit."""
        numbers = [index for index, job in enumerate(self.jobs) if job.name in refutation.periods]
        self._limit([(1, index) for index in numbers], len(numbers) - 1)

    def _limit(self, gated: Sequence[tuple[int, int]], most: int) -> None:
        """State that a sum over the gated jobs of (factor, number) is at most so much."""
        terms = tuple((-factor, number) for factor, number in gated if factor)
        self.rows.append(Row(terms, most - sum(factor for factor, _ in gated)))

    def _state_pairs(self, pairs: PairConflicts) -> None:
        for number, (i, j) in enumerate(pairs.forbidden):
            if number % 1024 == 0 and self.task.budget.stopped:
                return
            if not pairs.fit(i, j, self.jobs[i].period, self.jobs[j].period):
                self._limit([(1, i), (1, j)], 1)

    def _state_loads(self) -> None:
        instance = self.task.instance
        for link in instance.links:
            users = [(index, self.jobs[index]) for index in instance.jobs_on[link.name]]
            if sum(job.peak * job.links[link.name] for _, job in users) <= link.capacity:
                continue
            loads = [
                (index, job.links[link.name] * load(job, job.period, self.task.cushion_slots))
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

    def __init__(self, task: FeasibilityProblem, pairs: PairConflicts) -> None:
        super().__init__(task, pairs)
        cp = import_cp_model()
        self._model = cp.CpModel()
        self._left_out = [self._model.new_bool_var("") for _ in self.jobs]
        self._model.minimize(cp.LinearExpr.weighted_sum(self._left_out, self.weights))
        self._stated = 0

    def minimise(self) -> tuple[list[int] | None, int]:
        """Return the lightest jobs whose omission is allowed, and a lower bound in units."""
        for row in self.rows[self._stated :]:
            if self._stated % 256 == 0 and self.task.budget.stopped:
                break
            self._model.add(sum(factor * self._left_out[n] for factor, n in row.terms) <= row.most)
            self._stated += 1
        parameters = {"num_workers": self.task.workers, "random_seed": self.task.seed % 2**31}
        solver, status = run_cpsat(self._model, self.task.budget, parameters)
        if status not in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
            raise SolverError(f"CP-SAT ends with status {status}")
        bound = math.ceil(max(0.0, solver.best_objective_bound - 1e-6))
        if status == "UNKNOWN":
            return None, bound
        self._model.clear_hints()
        values = [bool(solver.value(variable)) for variable in self._left_out]
        for variable, value in zip(self._left_out, values, strict=True):
            self._model.add_hint(variable, value)
        return [number for number, value in enumerate(values) if value], bound


class MilpMaster(_Master):
    """Proposes what HiGHS finds; SciPy hands it neither a seed nor a number of threads."""

    largest_weight = 2**30  # HiGHS' tolerances tell apart integers up to this

    def minimise(self) -> tuple[list[int] | None, int]:
        """Return the lightest jobs whose omission is allowed, and a lower bound in units."""
        is_optimal, chosen, bound = minimise(self.task.budget, self.weights, self.rows)
        cost = sum(self.weights[number] for number in chosen or ())
        if chosen is not None and is_optimal and cost == round(bound):
            return chosen, cost
        return chosen, max(0, math.ceil(bound - 1e-6 * max(1.0, abs(bound))))


def select_gated_jobs(
    task: FeasibilityProblem, master: type[CpsatMaster | MilpMaster]
) -> FeasibilityResult:
    """Find gated jobs of the maximum weight: the master proposes, the decider refutes.

    What does not fit as a whole says which jobs `greedy` is to place first.
    """
    best: Mapping[str, int] = greedy(task)
    if task.weight_without(best) == 0 or task.budget.stopped:
        return FeasibilityResult(best, task.weight_without(best))
    decider = FeasibilityTest(task)
    offsets = decider.decide({job.name: job.period for job in task.instance.jobs}).offsets
    if offsets is not None:  # nothing has to be stated
        return FeasibilityResult(offsets, 0)
    proposer = master(task, decider.pairs)
    refutations: list[Conflict] = []
    bound = 0
    while not task.budget.stopped:
        proposed, bound_now = proposer.solve()
        bound = max(bound, bound_now)
        if proposed is None or bound >= task.weight_without(best):
            break
        found = decider.decide(proposed)
        if found.offsets is not None:  # as cheap as the master can prove
            best = min(best, found.offsets, key=task.weight_without)
            break
        if found.refutation is None or found.refutation.reason is Reason.HYPERPERIOD:
            break
        best = min(best, greedy(task, proposed), key=task.weight_without)
        refutations.append(core(found.refutation, decider.decide))
        proposer.forbid(refutations[-1])
    cost = task.weight_without(best)
    return FeasibilityResult(best, cost, min(bound, cost), tuple(refutations))


@dataclass(frozen=True)
class FeasibilitySolver:
    """A solver of compatible problems.

    Attributes
    ----------
    summary
        One line for help texts.
    master
        Proposes the jobs to leave out; None if the solver proves nothing.
    load
        Imports its back end.
    """

    name: str
    summary: str
    master: type[CpsatMaster | MilpMaster] | None = None
    load: Callable[[], object] = object


def check_feasibility(
    instance: Instance,
    *,
    drop: bool = False,
    solver: str = "auto",
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    cushion_slots: int = 0,
) -> FeasibilityResult:
    """Decide whether all jobs fit at their periods, or which ones to leave out so that they do.

    Parameters
    ----------
    drop
        Whether jobs may be left out, at the cost of their weight.
    solver
        A name of `SOLVERS`; those that are not exact find offsets or nothing.
    time_limit
        Seconds; None for no limit. What is found by then is returned, at Ctrl-C as well.
    seed
        For everything that is random.
    workers
        Threads of the back end; None for one per core.
    cushion_slots
        By how many slots bursts are longer.

    Returns
    -------
    Fit
        Without `drop` all jobs are gated or none is, and its refutation names no job that can be
        left out, as far as there was time.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    if solver not in SOLVERS:
        raise InputError(f"solver: {quote(solver)} is not known; choose from {', '.join(SOLVERS)}")
    chosen = SOLVERS[solver]
    chosen.load()
    _load_kernels()
    check_instance(instance)
    check_numbers(time_limit, seed, workers)
    check_reserve(instance, cushion_slots)
    periods = {job.name: job.period for job in instance.jobs}
    if not drop:  # all jobs count the same
        instance = at_periods(instance, periods)
    cores = workers or os.cpu_count() or 1
    task = FeasibilityProblem(instance, cushion_slots, Budget(time_limit), seed, cores)
    with interrupt_stops(task.budget):
        if chosen.master is None:
            offsets = greedy(task)
            everything = len(offsets) == len(periods)
            fit = (
                FeasibilityResult(offsets, task.weight_without(offsets))
                if drop or everything
                else FeasibilityResult()
            )
        else:
            fit = select_gated_jobs(task, chosen.master) if drop else _decide(task, periods)
        return replace(fit, stop=task.budget.stop)


def _decide(task: FeasibilityProblem, periods: dict[str, int]) -> FeasibilityResult:
    decider = FeasibilityTest(task)
    decision = decider.decide(periods)
    if decision.refutation is not None:
        # What is known is not to wait for what can be left out of it.
        refutation = core(decision.refutation, FeasibilityTest(task, quick=True).decide)
        proved = refutation.reason is not Reason.HYPERPERIOD
        return FeasibilityResult(bound=None if proved else 0, refutations=(refutation,))
    return (
        FeasibilityResult() if decision.offsets is None else FeasibilityResult(decision.offsets, 0)
    )


@cache
def _load_kernels() -> None:
    task = FeasibilityProblem(warm_up_instance())
    greedy(task)
    FeasibilityTest(task, quick=True).decide(dict.fromkeys("abc", 8))


_ALL = (
    FeasibilitySolver("auto", "as cpsat", CpsatMaster, import_cp_model),
    FeasibilitySolver("cpsat", "CP-SAT chooses, searches refute", CpsatMaster, import_cp_model),
    FeasibilitySolver("milp", "HiGHS chooses, searches refute", MilpMaster, import_milp),
    FeasibilitySolver("greedy", "heaviest first, each where it fits"),
)
SOLVERS = {solver.name: solver for solver in _ALL}
