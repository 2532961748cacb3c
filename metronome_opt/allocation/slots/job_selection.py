"""Feasibility at given periods, and jobs of the minimum weight without which the others fit.

A master proposes jobs without offsets: those of largest weight that pairs, loads and refutations
allow. Two jobs that do not fit are not both gated, loads stay within capacities, and of jobs that
were refuted not all are gated. The weight that is dropped under these conditions is a lower bound,
and if the jobs that are gated fit, it is the optimum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
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
from metronome_opt.allocation.slots.integer_program import (
    MAX_OBJECTIVE,
    Answer,
    Minimise,
    Row,
    minimise_by_cpsat,
    minimise_by_highs,
)
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
from metronome_opt.solvers.registry import Solver, find_solver

_LARGEST_LOAD = 2**32  # of a link; many jobs add to it


class Master:
    """The problem as rows over the jobs that are dropped, by number; `forbid` adds rows.

    Once the budget is spent, rows are omitted, which makes bounds lower and not wrong.
    """

    def __init__(
        self, problem: FeasibilityProblem, pairs: PairConflicts, minimise: Minimise
    ) -> None:
        self.problem, self._minimise = problem, minimise
        self.jobs = problem.instance.jobs
        self.rows: list[Row] = []
        self._hint: list[int] = []
        for index in pairs.impossible:
            self._limit([(1, index)], 0)
        for number, (i, j) in enumerate(pairs.forbidden):
            if number % 1024 == 0 and problem.budget.stopped:
                break
            if not pairs.fit(i, j, self.jobs[i].period, self.jobs[j].period):
                self._limit([(1, i), (1, j)], 1)
        self._limit_loads()

    def solve(self, incumbent: int) -> tuple[dict[str, int] | None, int]:
        """Return the gated jobs, if any were found, with their periods, and a bound of the cost.

        At a known cost, `incumbent`, no job of a larger weight has to be dropped.
        """
        costs = [min(job.weight, incumbent + 1) for job in self.jobs]
        dropped, bound = self._minimise_levels(costs)
        if dropped is None:
            return None, bound
        self._hint = dropped
        jobs = zip(self.jobs, dropped, strict=True)
        return {job.name: job.period for job, is_dropped in jobs if not is_dropped}, bound

    def _minimise_levels(self, costs: Sequence[int]) -> Answer:
        """Minimise costs that may be too large for a back end, exactly.

        Costs are then multiples of a unit, and remainders. Remainders are minimised at the least
        sum of multiples, then at the next ones, as long as these can cost less.
        """
        most = MAX_OBJECTIVE[self._minimise]
        if sum(costs) < most:
            return self._minimise_costs(costs, self.rows)
        unit = max(math.isqrt(sum(costs)), math.ceil(sum(costs) / most)) + 1
        multiples, remainders = zip(*(divmod(cost, unit) for cost in costs), strict=True)
        dropped, level = self._minimise_costs(multiples, self.rows)
        if dropped is None or _sum(multiples, dropped) > level or sum(remainders) >= most:
            return dropped, unit * level
        bound = cost = _sum(costs, dropped)
        limited = tuple((multiple, index) for index, multiple in enumerate(multiples) if multiple)
        while unit * level < cost:
            rows = [*self.rows, Row(limited, level)]
            found, least = self._minimise_costs(remainders, rows)
            if found is None or _sum(multiples, found) > level:  # no time, or not exact
                return dropped, min(bound, unit * level)
            bound = min(bound, unit * level + least)
            if _sum(costs, found) < cost:
                dropped, cost = found, _sum(costs, found)
            level += 1
        return dropped, min(bound, cost)

    def _minimise_costs(self, costs: Sequence[int], rows: Sequence[Row]) -> Answer:
        dropped, bound = self._minimise(
            self.problem.budget,
            costs,
            rows,
            hint=self._hint,
            num_workers=self.problem.threads,
            random_seed=self.problem.seed % 2**31,
        )
        return dropped, max(0, bound)

    def forbid(self, refutation: Conflict) -> None:
        """State that some jobs do not fit."""
        numbers = [index for index, job in enumerate(self.jobs) if job.name in refutation.periods]
        self._limit([(1, index) for index in numbers], len(numbers) - 1)

    def _limit(self, gated: Sequence[tuple[int, int]], most: int) -> None:
        """State the largest sum over the gated jobs of (factor, number)."""
        terms = tuple((-factor, number) for factor, number in gated if factor)
        self.rows.append(Row(terms, most - sum(factor for factor, _ in gated)))

    def _limit_loads(self) -> None:
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


def _sum(costs: Sequence[int], chosen: Sequence[int]) -> int:
    return sum(cost for cost, is_chosen in zip(costs, chosen, strict=True) if is_chosen)


def _select_gated_jobs(problem: FeasibilityProblem, minimise: Minimise) -> FeasibilityResult:
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
    proposer = Master(problem, test.pairs, minimise)
    refutations: list[Conflict] = []
    bound = 0
    while not problem.budget.stopped:
        proposed, bound_now = proposer.solve(problem.weight_without(best))
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


_PROGRAMS: Mapping[str, tuple[str, Callable[..., Any], tuple[str, ...]]] = {
    "auto": ("as cpsat", minimise_by_cpsat, ("ortools",)),
    "cpsat": ("CP-SAT chooses, searches refute", minimise_by_cpsat, ("ortools",)),
    "milp": ("HiGHS chooses, searches refute", minimise_by_highs, ("scipy",)),
    "greedy": ("highest weight first, each where it fits", fit_greedily, ()),
}
FEASIBILITY_SOLVERS = {
    name: Solver(name, summary, function, packages, exact=bool(packages))
    for name, (summary, function, packages) in _PROGRAMS.items()
}
"""Exact ones minimise the weight that is dropped."""


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
        if chosen.exact and drop:
            minimise: Any = chosen.load()
            fit = _select_gated_jobs(problem, minimise)
        elif chosen.exact:
            fit = _decide(problem, periods)
        else:
            offsets, fit = fit_greedily(problem), FeasibilityResult()
            if drop or len(offsets) == len(periods):
                fit = FeasibilityResult(offsets, problem.weight_without(offsets))
        return replace(fit, stop=problem.budget.stop)


def _decide(problem: FeasibilityProblem, periods: dict[str, int]) -> FeasibilityResult:
    decision = FeasibilityTest(problem).decide(periods)
    if decision.offsets is not None:
        return FeasibilityResult(decision.offsets, 0)
    if decision.refutation is None:
        return FeasibilityResult()
    # A short test shrinks it: the conflict that is known does not wait for a long one.
    short = FeasibilityTest(problem, quick=True)
    refutation = shrink_conflict(decision.refutation, short.decide)
    proved = refutation.reason is not Reason.HYPERPERIOD
    return FeasibilityResult(bound=None if proved else 0, refutations=(refutation,))


@cache
def _load_kernels() -> None:
    problem = FeasibilityProblem(warm_up_instance())
    fit_greedily(problem)
    FeasibilityTest(problem, quick=True).decide(dict.fromkeys("abc", 8))
