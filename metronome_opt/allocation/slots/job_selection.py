"""Jobs of the minimum weight without which the others fit: problem (b).

A master proposes jobs without offsets: the heaviest that pairs, loads and refutations allow. Two
jobs that do not fit are not both gated, loads stay within capacities, and of jobs that were refuted
not all are gated. The weight that is left out under all that is a lower bound, and if the jobs that
are gated fit, it is the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from metronome_opt.allocation.slots.feasibility import FeasibilityTest, PairConflicts, core
from metronome_opt.allocation.slots.feasibility_models import Row, minimise
from metronome_opt.allocation.slots.feasibility_problem import (
    Conflict,
    FeasibilityProblem,
    FeasibilityResult,
    Reason,
    load,
)
from metronome_opt.allocation.slots.greedy import greedy
from metronome_opt.errors import SolverError
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
            common = math.lcm(*(each.denominator for _, each in loads))
            # Rounded down, this is a relaxation.
            scale = min(Fraction(common), Fraction(_LARGEST_LOAD, max(1, link.capacity)))
            most = int(scale * link.capacity)
            self._limit([(min(int(scale * each), most + 1), index) for index, each in loads], most)


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
