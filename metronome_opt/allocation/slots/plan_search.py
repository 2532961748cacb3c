"""Search for a plan: which jobs are gated, in which windows, and in which class each job is.

Only jobs on a link that could be overloaded slow one another down, so each group of them is planned
by itself. The candidates are that no job is gated; all jobs, at periods with common divisors; a
part of the jobs; traffic classes by several orders, where links serve several; and both.
`PlanEvaluator` chooses: first among all candidates, in replications of some length, then between
the few that were the best at some time and no job gated, in longer ones that no search has seen,
since without idle time gated jobs become late little by little. A candidate has to be surely better
than the best before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING

from metronome_opt.allocation.slots.evaluator import MAX_LOSS, REPLICATIONS, PlanEvaluator
from metronome_opt.allocation.slots.periods import (
    HyperperiodTest,
    PeriodCandidates,
    hyperperiods_fit,
)
from metronome_opt.allocation.slots.plan import Plan, expected_ms, mean_slowdown
from metronome_opt.allocation.slots.simulator import EVENTS_PER_S, PlanSimulator
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.presolve.blocks import components
from metronome_opt.solvers.presolve.reductions import simplify_links

if TYPE_CHECKING:
    from metronome_opt.allocation.slots.local_search import Moves

_MIN_VALUES = 3  # simulations of a plan that there has to be time for
_LAST_VALUES = 8  # that are evaluated once the time of the search is over
_STRETCHES = tuple(Fraction(share, 100) for share in (0, 2, 10, 50))
"""Largest stretches up to which a part of the jobs is gated, one after the other. They do not
depend on what is allowed, so that a larger limit begins as a smaller one does."""
RACE_PERIODS = 100
"""Of the longest job, for which a replication lasts."""
DECISION_EVENTS = 1_000_000
"""Events in the search for a plan that jobs wait for: about two seconds."""
_LONG, _LONG_ALL = 400, 8_000  # periods of replications that decide at last, and times jobs
_SHORT_PERIODS = 25
_MAX_OFFERED = 8  # plans of a local search, the last ones
_SEARCHING, _SCREENING, _CONFIRMING = 0, 50_000, 100_000  # first seeds


@dataclass(frozen=True)
class SlotSearchOptions:
    """Limits of a search for a plan, and its resources."""

    # the share of its period by which a job may be stretched at most; None for no limit but that of
    # the instance, a `max_stretch` above 0
    stretch_limit: Fraction | None = None
    # threads, network, exact_iterations, classes_kept and lives_ms are those of `PlanSimulator`
    threads: int = 1
    network: str | None = None
    # slots that the periods of gated jobs have to divide; None for any periods
    hyperperiod: int | None = None
    start: Plan | None = None  # a plan to try first
    base: Plan | None = None  # the plan that losses are relative to; no job gated if None
    # weights in the means that are minimised, one after the other; None for the weights of the
    # jobs, in one mean
    mean_weights: MeanWeights | None = None
    # the share by which a job may become slower than under the base; None for any
    max_loss: Fraction | None = MAX_LOSS
    classes: int = 1  # how many traffic classes links serve in strict order; 1 for none
    lives_ms: Mapping[str, float] | None = None
    exact_iterations: Mapping[str, Iteration] | None = None
    classes_kept: Mapping[str, int] | None = None
    # events to simulate for a group before no further candidates are tried; None for no limit. The
    # candidates are compared in any case
    max_events: int | None = None
    tries_start_only: bool = False  # whether no plan is tried but `start`

    def evaluator(
        self,
        instance: Instance,
        first_seed: int,
        periods: int,
        budget: Budget,
        change_costs: Callable[[Plan], Floats] | None = None,
    ) -> PlanEvaluator:
        """Return an evaluator of plans of a group.

        Gated jobs have to find into their windows unless it is known what a change costs.

        Parameters
        ----------
        first_seed
            Seeds of replications are counted from here.
        periods
            Length of a replication, in periods of the longest job.
        change_costs
            As of `PlanEvaluator`.
        """
        simulator_of = partial(
            PlanSimulator,
            instance,
            network=self.network,
            threads=self.threads,
            periods=periods,
            mean_weights=self._mean_weights(instance),
            lives_ms=self.lives_ms,
            exact_iterations=self.exact_iterations,
            classes=self.classes_kept,
            starts_in_slots=change_costs is not None,
        )
        return PlanEvaluator(
            simulator_of,
            first_seed,
            max_loss=self.max_loss,
            base=self.base and self.base.only(instance),
            change_costs=change_costs,
            budget=budget,
        )

    def _mean_weights(self, instance: Instance) -> MeanWeights | None:
        """Return the weights in means; of completions in ms, if jobs leave."""
        if self.lives_ms is None:
            return self.mean_weights
        weighted = any(job.weight for job in instance.jobs)
        return tuple(
            {name: max(1, round(self.lives_ms[name])) * weight for name, weight in level.items()}
            for level in self.mean_weights
            or ({job.name: job.weight if weighted else 1 for job in instance.jobs},)
        )


@dataclass(frozen=True)
class PlanResult:
    """A plan, and the slowdown of each job."""

    plan: Plan
    # by job: mean iteration time over its period, under the plan and with no job gated; NaN if no
    # iteration ended in a simulation
    slowdowns: dict[str, float]
    unshifted: dict[str, float]
    simulated: bool  # whether simulations were needed; otherwise no job can ever be delayed


def long_periods(instance: Instance) -> int:
    """Return the periods of the longest job in a last replication, fewer of many jobs."""
    return max(RACE_PERIODS, min(_LONG, _LONG_ALL // len(instance.jobs)))


def minimum_time(instance: Instance) -> float:
    """Return about how many seconds it takes to evaluate a plan of the jobs that share links."""
    events = sum(
        PlanSimulator(part, range(REPLICATIONS), periods=long_periods(part)).events
        for part in groups(instance)
        if len(part.jobs) > 1
    )
    return _MIN_VALUES * events / EVENTS_PER_S


Report = Callable[[Fraction], None]


def find_plan(instance: Instance, options: SlotSearchOptions, budget: Budget) -> Plan:
    """Return the plan of the smallest weighted mean slowdown that is found in time.

    Parameters
    ----------
    options
        Limits of the plan, and weights in the mean.
    budget
        Time, which groups of jobs share in proportion to their sizes.

    Returns
    -------
    Plan
        Of all jobs; a group without time for a search is ungated.
    """
    plan = Plan(dict(instance.unshifted))
    for found, _ in _search_groups(instance, options, budget):
        plan = plan.joined(found)
    return plan


def search_plan(
    instance: Instance, options: SlotSearchOptions, budget: Budget, report: Report | None = None
) -> PlanResult:
    """Return the plan that `find_plan` returns, with the slowdowns of all jobs.

    The weighted mean slowdown of the whole is reported after each group of jobs.
    """
    plan = Plan(dict(instance.unshifted))
    slowdowns = {job.name: 1.0 for job in instance.jobs}
    unshifted, simulated = dict(slowdowns), False
    for found, last in _search_groups(instance, options, budget):
        plan, simulated = plan.joined(found), True
        slowdowns |= _by_name(last.instance, last.estimate(found))
        unshifted |= _by_name(last.instance, last.estimate(Plan(last.instance.unshifted)))
        mean = mean_slowdown(instance, expected_ms(instance, plan, slowdowns))
        if report is not None and mean is not None:
            report(mean)
    return PlanResult(plan, slowdowns, unshifted, simulated)


def _search_groups(
    instance: Instance, options: SlotSearchOptions, budget: Budget
) -> Iterator[tuple[Plan, PlanEvaluator]]:
    """Yield the plan of each group, and the evaluator that decided at last."""
    periods: dict[str, int] = {}
    parts = list(groups(instance))
    left = sum(len(part.jobs) for part in parts)
    for part in parts:
        # It may share links that are never overloaded with others.
        links = [link.name for link in part.links]
        fit = partial(
            hyperperiods_fit, instance, links, dict(periods), hyperperiod=options.hyperperiod
        )
        free, *others = _search_group(part, options, fit, budget.fraction(len(part.jobs) / left))
        left -= len(part.jobs)
        last = options.evaluator(part, _CONFIRMING, long_periods(part), budget)
        plan = next((best for best in reversed(others) if last.best(free, [best]) is best), free)
        periods |= plan.periods
        yield plan, last


def _by_name(instance: Instance, values: Floats) -> dict[str, float]:
    return {job.name: float(v) for job, v in zip(instance.jobs, values, strict=True)}


def groups(instance: Instance) -> Iterator[Instance]:
    """Yield the groups of jobs that share links which could be overloaded, on all their links.

    A job that overloads a link by itself is a group, too.
    """
    for part in components(simplify_links(instance)):
        if part.links:
            names = {job.name for job in part.jobs}
            jobs = tuple(job for job in instance.jobs if job.name in names)
            used = {link for job in jobs for link in job.links}
            links = tuple(link for link in instance.links if link.name in used)
            yield instance.replace(links=links, jobs=jobs)


def _search_group(
    part: Instance, options: SlotSearchOptions, hyperperiods_fit: HyperperiodTest, budget: Budget
) -> Sequence[Plan]:
    """Return the plans of a group that were the best at some time, the first without gates."""
    free = Plan(part.unshifted)
    if len(part.jobs) == 1 or budget.stopped:
        return [free]
    began = budget.remaining
    # The base is simulated here.
    evaluator = options.evaluator(part, _SEARCHING, RACE_PERIODS, budget)
    if evaluator.is_least(evaluator.means(free)) or budget.stopped:
        return [free]
    if began is not None and budget.remaining:
        took = (began - budget.remaining) / budget.remaining  # for one value
        share = min(1 / 2, _LAST_VALUES * took * long_periods(part) / RACE_PERIODS)
        evaluator.budget = budget = budget.fraction(1.0 - share)
    search = _GroupSearch(part, options, hyperperiods_fit, evaluator, [free])
    search.try_start()
    if not options.tries_start_only:
        slots = budget.fraction(1 / 2) if options.classes > 1 else budget
        search.gate_all(slots)
        search.gate_some(slots)
        search.classify(budget)
    return search.plans


@dataclass(frozen=True)
class _GroupSearch:
    """The plans of a group, each of which is surely better than the one before."""

    part: Instance
    options: SlotSearchOptions
    hyperperiods_fit: HyperperiodTest
    evaluator: PlanEvaluator
    plans: list[Plan]

    @cached_property
    def screening(self) -> PlanEvaluator:
        """Evaluator of single changes, by short replications."""
        return self.options.evaluator(self.part, _SCREENING, _SHORT_PERIODS, Budget())

    @property
    def _best(self) -> Plan:
        return self.plans[-1]

    def _is_over(self, budget: Budget) -> bool:
        most = self.options.max_events
        return (
            budget.stopped
            or (most is not None and self.evaluator.events + self.screening.events >= most)
            or self.evaluator.is_least(self.evaluator.means(self._best))
        )

    def _offer(self, plans: Sequence[Plan]) -> None:
        best = self.evaluator.best(self._best, plans)
        if best is not self._best:
            self.plans.append(best)

    def _longest(self) -> dict[str, int]:
        """Return the longest periods that are allowed and under which no job loses too much."""
        longest, limit = {}, self.options.stretch_limit
        for job, slowest in zip(self.part.jobs, self.evaluator.limits.tolist(), strict=True):
            shares = [] if limit is None else [limit]
            if not math.isinf(slowest):
                shares.append(max(Fraction(0), Fraction(slowest) - 1))
            slots = [int(share * job.period) for share in shares]
            slots += [job.max_stretch] if job.max_stretch else []
            most = min(slots, default=job.period)
            longest[job.name] = min(job.period + most, self.part.hyperperiod_limit)
        return longest

    def try_start(self) -> None:
        """Offer the plan that is given, if it is allowed."""
        given, longest = self.options.start, self._longest()
        plan = given and given.only(self.part)
        if (
            plan
            and all(period <= longest[name] for name, period in plan.periods.items())
            and all(number < self.options.classes for number in plan.classes.values())
            and self.hyperperiods_fit(plan.periods)
        ):
            self._offer([plan])

    def gate_all(self, budget: Budget) -> None:
        """Try plans in which all jobs are gated."""
        terms = (self.options.hyperperiod, self.options.mean_weights)
        longest, fit = self._longest(), self.hyperperiods_fit
        candidates = PeriodCandidates(self.part, longest, fit, budget, *terms)
        self._offer(list(candidates.plans()))

    def gate_some(self, budget: Budget) -> None:
        """Try changes of single jobs of the best plan, at larger and larger stretches."""
        from metronome_opt.allocation.slots.local_search import OtherSlots  # few networks need it

        longest, tried = self._longest(), set[object]()
        limit = self.options.stretch_limit
        for stretch in _STRETCHES:
            if self._is_over(budget) or (limit is not None and stretch > limit):
                return
            within = {
                job.name: min(longest[job.name], math.floor(job.period * (1 + stretch)))
                for job in self.part.jobs
            }
            moves = OtherSlots(self.part, within, self.hyperperiods_fit, self.screening.slowdowns)
            if (key := (id(self._best), *within.values())) not in tried:
                tried.add(key)
                self._improve(moves, budget)

    def classify(self, budget: Budget) -> None:
        """Try traffic classes, with the windows of the best plan and without any."""
        if self.options.classes < 2:
            return
        from metronome_opt.allocation.slots.classes import FEW, class_orders, follows_weights
        from metronome_opt.allocation.slots.local_search import other_classes

        bases = list({id(plan): plan for plan in (self._best, self.plans[0])}.values())
        for count in range(2, self.options.classes + 1):
            if count > len(self.part.jobs):
                break
            orders = list(class_orders(self.part, count))
            for _, some in groupby(orders, key=partial(follows_weights, self.part.jobs)):
                if self._is_over(budget):
                    return
                classes = list(some)
                self._offer([base.in_classes(order) for base in bases for order in classes])
            if len(self.part.jobs) > FEW:
                self._improve(partial(other_classes, count), budget)

    def _improve(self, moves: Moves, budget: Budget) -> None:
        """Try changes of single jobs of the best plan."""
        from metronome_opt.allocation.slots.local_search import improve_plan

        found = improve_plan(self.screening, self._best, partial(self._is_over, budget), moves)
        self._offer(found[-_MAX_OFFERED:])
