"""Minimum-cost choices at which jobs fit: problems (b), (c) and their mixtures.

A master proposes choices without offsets: the cheapest that pairs, loads and refutations allow.
Each job takes one choice. Two jobs that do not fit at two periods do not take both, loads stay
within capacities, and of jobs that were refuted at some periods not all take these. What is
cheapest under all that is a lower bound, and if its jobs fit, it is the optimum.

A refutation says more than its own periods. Whether jobs fit depends on their bursts and the
pairwise greatest common divisors of their periods alone: bursts at ``r_i`` within their iterations
meet somewhere iff ``phi_i + r_i`` and ``phi_j + r_j`` are congruent modulo ``gcd(T_i, T_j)`` for
all pairs (the Chinese remainder theorem). With divisors of these they meet all the more. So each
job of a refutation stands for all its periods whose divisors with all those of the others divide
the refuted ones. Only a hyperperiod above its limit says nothing of other periods.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

from metronome_opt.compatible.choices import (
    Choices,
    Chosen,
    FitDecision,
    FitTask,
    Kept,
    Reason,
    Refutation,
    costs_of,
    least_cost,
    load,
)
from metronome_opt.compatible.decider import Decider, Pairs, core
from metronome_opt.compatible.models import INFEASIBLE, OPTIMAL, Row, minimise, solve_cpsat
from metronome_opt.instance import Instance
from metronome_opt.solvers.imports import import_cp_model

_LARGEST_LOAD = 2**32  # of a link; many choices add to it
_Taken = tuple[str, int | None]
_Minimum = tuple[list[int] | None, int | None]
Proposed = tuple[Mapping[str, int | None] | None, Fraction | None]
"""The cheapest choices that are allowed, and a lower bound of their cost.

There are no choices if none were found, and no bound if none are allowed.
"""


class _Master:
    """The problem as rows over the choices, which are numbered; `forbid` adds to them.

    Once the budget is spent, rows are left out, which makes bounds lower and not wrong.

    Attributes
    ----------
    taken
        Of each choice: the job, and the period at which it keeps slots.
    groups
        The choices of each job, one of which it takes.
    costs
        Of each choice, in units of ``1 / scale``. Where that would be too fine for a back end to
        count in, they are rounded down, and bounds are a little lower.
    """

    largest_cost = 2**50

    def __init__(self, task: FitTask, choices: Choices, pairs: Pairs) -> None:
        self.task = task
        instance = task.instance
        self.taken: list[_Taken] = []
        self.groups: dict[str, range] = {}
        for job in instance.jobs:
            begin = len(self.taken)
            self.taken += [(job.name, choice.period) for choice in choices[job.name]]
            self.groups[job.name] = range(begin, len(self.taken))
        costs = [choice.cost for job in instance.jobs for choice in choices[job.name]]
        self.scale = min(
            Fraction(math.lcm(*(cost.denominator for cost in costs))),
            self.largest_cost / (1 + sum(costs, Fraction(0))),
        )
        self.costs = [int(cost * self.scale) for cost in costs]
        self.rows: list[Row] = []
        for index in pairs.impossible:
            kept = [number for _, number in self._kept(instance.jobs[index].name)]
            self._allow(0, kept)
        self._state_pairs(instance, pairs)
        self._state_loads(instance)

    def minimise(self) -> _Minimum:
        """Return the cheapest choices that are allowed by number, and a lower bound in units."""
        raise NotImplementedError

    def solve(self) -> Proposed:
        """Return the cheapest choices that are allowed, and a lower bound of their cost."""
        chosen, bound = self.minimise()
        if bound is None:
            return None, None
        taken = None if chosen is None else dict(self.taken[number] for number in chosen)
        return taken, Fraction(bound, self.scale)

    def forbid(self, refutation: Refutation) -> None:
        """State that some jobs do not fit at some periods, and others like these."""
        alike = {name: [period] for name, period in refutation.periods.items()}
        if refutation.reason is not Reason.HYPERPERIOD:
            for name, periods in alike.items():
                periods += [
                    period
                    for period, _ in self._kept(name)
                    if period not in periods and _is_no_better(period, name, refutation, alike)
                ]
        numbers = [
            number
            for name, periods in alike.items()
            for period, number in self._kept(name)
            if period in periods
        ]
        self._allow(len(alike) - 1, numbers)

    def _kept(self, name: str) -> list[tuple[int, int]]:
        """Return (period, number) of the choices in which a job keeps slots."""
        named = ((self.taken[number][1], number) for number in self.groups[name])
        return [(period, number) for period, number in named if period is not None]

    def _allow(self, most: int, numbers: Iterable[int]) -> None:
        self.rows.append(Row(tuple((1, number) for number in numbers), most))

    def _state_pairs(self, instance: Instance, pairs: Pairs) -> None:
        for i, j in pairs.forbidden:
            alike = defaultdict(list)
            theirs = self._kept(instance.jobs[j].name)
            for period, number in self._kept(instance.jobs[i].name):
                if self.task.budget.stopped:
                    return
                clashing = tuple(n for other, n in theirs if not pairs.fit(i, j, period, other))
                alike[clashing].append(number)
            for clashing, numbers in alike.items():
                if clashing:
                    self._allow(1, (*numbers, *clashing))

    def _state_loads(self, instance: Instance) -> None:
        for link in instance.links:
            users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
            if sum(job.peak * job.links[link.name] for job in users) <= link.capacity:
                continue
            loads = [
                (number, job.links[link.name] * load(job, period, self.task.cushion_slots))
                for job in users
                for period, number in self._kept(job.name)
            ]
            common = math.lcm(*(each.denominator for _, each in loads))
            # Rounded down, this is a relaxation.
            scale = min(Fraction(common), Fraction(_LARGEST_LOAD, max(1, link.capacity)))
            most = int(scale * link.capacity)
            terms = ((min(int(scale * each), most + 1), number) for number, each in loads)
            self.rows.append(Row(tuple(term for term in terms if term[0]), most))


class CpsatMaster(_Master):
    """Proposes what CP-SAT finds."""

    def __init__(self, task: FitTask, choices: Choices, pairs: Pairs) -> None:
        super().__init__(task, choices, pairs)
        cp = import_cp_model()
        self._model = cp.CpModel()
        self._chosen = [self._model.new_bool_var("") for _ in self.taken]
        for numbers in self.groups.values():
            self._model.add_exactly_one(self._chosen[number] for number in numbers)
        self._model.minimize(cp.LinearExpr.weighted_sum(self._chosen, self.costs))
        self._stated = 0

    def minimise(self) -> _Minimum:
        """Return the cheapest choices that are allowed by number, and a lower bound in units."""
        for row in self.rows[self._stated :]:
            if self._stated % 256 == 0 and self.task.budget.stopped:
                break
            self._model.add(sum(factor * self._chosen[n] for factor, n in row.terms) <= row.most)
            self._stated += 1
        solver, status = solve_cpsat(self._model, self.task)
        if status == "INFEASIBLE":
            return None, None
        bound = math.ceil(max(0.0, solver.best_objective_bound - 1e-6))
        if status == "UNKNOWN":
            return None, bound
        self._model.clear_hints()
        values = [bool(solver.value(variable)) for variable in self._chosen]
        for variable, value in zip(self._chosen, values, strict=True):
            self._model.add_hint(variable, value)
        return [number for number, value in enumerate(values) if value], bound


class MilpMaster(_Master):
    """Proposes what HiGHS finds; SciPy hands it neither a seed nor a number of threads."""

    largest_cost = 2**30  # integers up to this are told apart by doubles within HiGHS' tolerances

    def minimise(self) -> _Minimum:
        """Return the cheapest choices that are allowed by number, and a lower bound in units."""
        groups = list(self.groups.values())
        status, chosen, bound = minimise(self.task.budget, self.costs, groups, self.rows)
        if status == INFEASIBLE:
            return None, None
        cost = sum(self.costs[number] for number in chosen or ())
        if chosen and status == OPTIMAL and cost == round(bound):
            return chosen, cost
        return chosen, max(0, math.ceil(bound - 1e-6 * max(1.0, abs(bound))))


def _is_no_better(
    period: int, name: str, refutation: Refutation, alike: Mapping[str, list[int]]
) -> bool:
    """Return whether a job fits at another period no better than at the refuted one."""
    own = refutation.periods[name]
    return all(
        math.gcd(own, refutation.periods[other]) % math.gcd(period, theirs) == 0
        for other, taken in alike.items()
        if other != name
        for theirs in taken
    )


def choose(
    task: FitTask,
    choices: Choices,
    decider: Decider,
    start: Chosen | None = None,
    *,
    propose: type[CpsatMaster | MilpMaster] = CpsatMaster,
) -> Chosen:
    """Find the cheapest choices at which jobs fit: the master proposes, the decider refutes.

    Parameters
    ----------
    choices
        Of all jobs, the cheapest first, no two of a job with the same period.
    start
        Choices that are known, to be returned if nothing better is found.
    propose
        Which master.
    """
    best = start or Chosen(None, None, least_cost(choices))
    if best.proved or task.budget.stopped:
        return best
    at_best = _cheapest_of_all(choices, decider)
    if at_best is not None:  # nothing has to be loaded
        return Chosen(at_best, least_cost(choices), least_cost(choices))
    master = propose(task, choices, decider.pairs)
    costs = costs_of(choices)
    refutations: list[Refutation] = []
    bound = best.bound or Fraction(0)
    while not task.budget.stopped:
        proposed, bound_now = master.solve()
        if bound_now is None:  # nothing is allowed, and only what does not fit was forbidden
            return Chosen(best.kept, best.cost, best.cost, tuple(refutations))
        bound = max(bound, bound_now)
        if proposed is None or (best.cost is not None and bound >= best.cost):
            break
        periods = {name: period for name, period in proposed.items() if period is not None}
        found = decider.decide(periods)
        if found.refutation is not None:
            refutations.append(core(found.refutation, decider.decide))
            master.forbid(refutations[-1])
        if found == FitDecision():
            break
        if found.offsets is not None:  # as cheap as the master can prove
            cost = sum((costs[name][p] for name, p in proposed.items()), Fraction(0))
            if best.cost is None or cost < best.cost:
                best = Chosen(Kept(periods, found.offsets), cost, bound)
            break
    bound = bound if best.cost is None else min(bound, best.cost)
    return Chosen(best.kept, best.cost, bound, tuple(refutations))


def _cheapest_of_all(choices: Choices, decider: Decider) -> Kept | None:
    """Return the cheapest choices of all jobs if they fit together."""
    taken = {name: each[0].period for name, each in choices.items()}
    periods = {name: period for name, period in taken.items() if period is not None}
    offsets = decider.decide(periods).offsets
    return None if offsets is None else Kept(periods, offsets)
