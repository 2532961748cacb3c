"""Problem (d): gated jobs, their periods and offsets, for minimum weighted mean slowdown.

Jobs that share no link that could be overloaded do not slow one another down, so each group that
does is treated by itself. Free jobs begin when they are ready: nothing holds them to anything
else. A group that fits as a whole is gated if jobs gain by it, stretched as far as that pays.

A part of a group may be gated, too, if jobs gain by it on the network that they run on.

Where links serve several traffic classes, jobs are given some once slots are known, first of two
classes, then of three, and so on.

Candidates are taken in the order of their largest stretch, and one has to be noticeably better than
all before it. The few that were are judged again, with seeds that no search has seen, which also
state what the best of them brings. So what a larger limit allows besides, or a further class, never
makes the answer worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from heapq import merge
from operator import itemgetter

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.objectives import Levels
from metronome_opt.presolve.components import components
from metronome_opt.presolve.reductions import simplify_links
from metronome_opt.records import FrozenDict
from metronome_opt.slowdown.candidates import IDLE, Candidates, Short, largest_stretch
from metronome_opt.slowdown.plan import Plan, expected_ms, mean_slowdown
from metronome_opt.slowdown.player import (
    EVENTS_PER_S,
    PERIODS,
    WORTH,
    Judge,
    Player,
    is_better,
    lowest,
)
from metronome_opt.solvers.budget import Budget

_LONGEST = 20_000  # slots of a hyperperiod
_VALUES = 3  # of all simulations that there has to be time for
_LAST_VALUES = 8  # that are judged once the time of the search is over, each at some jitter
_LIMITS = tuple(Fraction(each, 100) for each in (0, 1, 2, 5, 10, 20, 50, 100))
"""Largest stretches up to which a part of the jobs is gated, one after the other. They do not
depend on what is allowed, so that a larger limit begins as a smaller one does."""
_LONG, _LONG_ALL = 400, 8_000  # periods of a simulation, and times jobs
_SEARCHING, _JUDGING, _STATING = 0, 100, 200  # first seeds


@dataclass(frozen=True)
class Terms:
    """Limits of a search for gated jobs, and its resources.

    Attributes
    ----------
    stretch_limit
        The share of its period by which a job may be stretched at most; None for no limit but that
        of the instance, a `max_stretch` above 0.
    cushion_slots
        By how many slots bursts of gated jobs are longer; 0 for one at least, and what simulations
        say.
    workers
        Threads.
    network
        As of `Player`.
    hyperperiod
        Slots that the periods of gated jobs have to divide; None for any periods.
    start
        A plan to try first.
    base
        The plan in comparison with which no job may be harmed; jobs unshifted if left out.
    levels
        Weights in the mean slowdowns that are minimised, one after the other; None for the weights
        of the jobs, in one mean.
    tolerance
        The share by which jobs may become slower for the sake of heavier ones that they meet; 1 %
        in any case.
    quick
        Whether plans are judged by few short simulations, and groups gated as a whole, where many
        of them are decided about.
    classes
        How many traffic classes links serve in strict order; 1 for none.
    idle
        As of `Candidates`.
    tries_start_only
        Whether no plan is tried but `start`.
    """

    stretch_limit: Fraction | None = None
    cushion_slots: int = 0
    workers: int = 1
    network: str | None = None
    hyperperiod: int | None = None
    start: Plan | None = None
    base: Plan | None = None
    levels: Levels | None = None
    tolerance: Fraction = Fraction(0)
    quick: bool = False
    classes: int = 1
    idle: Sequence[float] = IDLE
    tries_start_only: bool = False

    @property
    def cushion(self) -> int:
        """Slots by which bursts of gated jobs are longer at least."""
        return self.cushion_slots or 1

    def judge(self, instance: Instance, first: int, budget: Budget, *, long: bool = True) -> Judge:
        """Return a judge by many long simulations or few short ones, with seeds from a first on."""
        long = long and not self.quick
        return Judge(
            instance,
            range(first, first + (8 if long else 4)),
            network=self.network,
            workers=self.workers,
            periods=long_periods(instance) if long else PERIODS,
            levels=self.levels,
            tolerance=float(self.tolerance),
            base=self.base and self.base.only(instance),
            budget=budget,
        )


@dataclass(frozen=True)
class Outcome:
    """A plan, and what it brings to each job.

    Attributes
    ----------
    slowdowns, unshifted
        By job: mean iteration time over its period, under the plan and unshifted, none gated.
    simulated
        Whether simulations were needed; otherwise no job can ever be delayed.
    patterns
        As of a schedule; `slowdowns` are over the periods of these.
    """

    plan: Plan
    slowdowns: dict[str, float]
    unshifted: dict[str, float]
    simulated: bool
    patterns: Mapping[str, int] = FrozenDict()


def long_periods(instance: Instance) -> int:
    """Return for how many periods of the longest job a simulation lasts that decides.

    Without idle time gated jobs become late little by little, and that takes hundreds of
    iterations to be seen. Where there are many jobs, there is no time for so many.
    """
    return max(PERIODS, min(_LONG, _LONG_ALL // len(instance.jobs)))


def minimum_time(instance: Instance) -> float:
    """Return about how many seconds it takes to judge a plan of the jobs that meet at all."""
    parts = (part for part in groups(instance) if len(part.jobs) > 1)
    players = (Player(part, range(8), periods=long_periods(part)) for part in parts)
    return _VALUES * sum(player.events for player in players) / EVENTS_PER_S


Report = Callable[[Fraction], None]


def minimise(
    instance: Instance, terms: Terms, budget: Budget, report: Report | None = None
) -> Outcome:
    """Return the plan of the smallest weighted mean slowdown that is found in time.

    Parameters
    ----------
    report
        Notified of the weighted mean slowdown of the whole whenever it falls.
    """
    offsets = dict(instance.unshifted)
    periods: dict[str, int] = {}
    classes: dict[str, int] = {}
    slowdowns = {job.name: 1.0 for job in instance.jobs}
    unshifted = dict(slowdowns)
    parts = list(groups(instance))
    left = sum(len(part.jobs) for part in parts)
    for part in parts:
        # It may share links that are never overloaded with others.
        links = [link.name for link in part.links]
        short = partial(is_short, instance, links, dict(periods), hyperperiod=terms.hyperperiod)
        time = budget.fraction(len(part.jobs) / left)
        lighter = len({job.weight for job in part.jobs}) > 1
        tolerant = lighter and terms.tolerance and not terms.tries_start_only
        strictly = replace(terms, tolerance=Fraction(0)) if tolerant else terms
        plans = _minimise_part(part, strictly, short, time.fraction(1 / 2) if tolerant else time)
        if tolerant:  # from the slots on, so that neither a larger one nor more classes are worse
            slots = next(plan for plan in reversed(plans) if not plan.classes)
            again = _minimise_part(part, replace(terms, start=slots), short, time)
            plans = [*plans, *again[1:]]
        left -= len(part.jobs)
        stating = terms.judge(part, _STATING, budget)
        plan = _best(stating, plans, budget)
        offsets |= plan.offsets
        periods |= plan.periods
        classes |= plan.classes
        slowdowns |= _by_name(part, stating.slowdowns(plan))
        unshifted |= _by_name(part, stating.slowdowns(plans[0]))
        if report is not None:
            report(
                mean_slowdown(instance, expected_ms(instance, Plan(offsets, periods), slowdowns))
            )
    return Outcome(Plan(offsets, periods, classes), slowdowns, unshifted, bool(parts))


def _best(judge: Judge, plans: Sequence[Plan], budget: Budget) -> Plan:
    """Return the best plan that harms no job with these seeds either; the first one shifts no job.

    One that there was no time to judge is not taken.
    """
    best, *others = plans
    for plan in reversed(others):
        if budget.stopped:
            break
        if is_better(judge.means(plan), judge.means(best)) and judge.is_harmless(plan):
            best = plan
    return best


def _by_name(instance: Instance, values: Floats) -> dict[str, float]:
    return {job.name: float(v) for job, v in zip(instance.jobs, values, strict=True)}


def groups(instance: Instance) -> Iterator[Instance]:
    """Yield the groups of jobs that share links which could be overloaded, on all their links.

    A job that is more than such a link carries is one by itself.
    """
    for part in components(simplify_links(instance).instance):
        if part.links:
            names = {job.name for job in part.jobs}
            jobs = tuple(job for job in instance.jobs if job.name in names)
            used = {link for job in jobs for link in job.links}
            links = tuple(link for link in instance.links if link.name in used)
            yield instance.replace(links=links, jobs=jobs)


def is_short(
    instance: Instance,
    links: Iterable[str],
    others: Mapping[str, int],
    periods: Mapping[str, int],
    *,
    hyperperiod: int | None = None,
) -> bool:
    """Return whether links still have hyperperiods that the judge can walk through, and may.

    A link that has none at the jobs' own periods needs none.

    Parameters
    ----------
    others, periods
        Of the jobs that do not keep to their own.
    hyperperiod
        Slots that `periods` have to divide; None for any periods.
    """
    if hyperperiod is not None and any(hyperperiod % period for period in periods.values()):
        return False
    for link in links:
        jobs = (instance.jobs[index] for index in instance.jobs_on[link])
        kept = (periods.get(job.name, others.get(job.name, job.period)) for job in jobs)
        own, limit = instance.hyperperiods[link], instance.hyperperiod_limit
        if own <= limit and math.lcm(*kept) > min(max(_LONGEST, own), limit):
            return False
    return True


def _minimise_part(part: Instance, terms: Terms, short: Short, budget: Budget) -> Sequence[Plan]:
    """Return the plans of a group that were the best at some time; the first one shifts no job."""
    unshifted = Plan(part.unshifted)
    if len(part.jobs) == 1:
        return [unshifted]
    began = budget.remaining
    judge = terms.judge(part, _JUDGING, budget)  # which simulates the jobs unshifted
    if judge.is_least(judge.means(unshifted)) or budget.stopped:
        return [unshifted]
    if began is not None and budget.remaining:
        took = (began - budget.remaining) / budget.remaining  # for one value; more are to come
        budget = budget.fraction(max(0.0, 1.0 - _LAST_VALUES * took))
    walk = _Walk(judge, terms.judge(part, _SEARCHING, budget, long=False), unshifted)
    longest = _longest(judge, terms.stretch_limit)
    given = terms.start and terms.start.only(part)
    allowed = (
        given
        and all(period <= longest[name] for name, period in given.periods.items())
        and all(each < terms.classes for each in given.classes.values())
    )
    if given and allowed and short(given.periods):
        walk.offer(given)
    slots = budget.fraction(1 / 2) if terms.classes > 1 else budget
    others = () if terms.tries_start_only else _steps(part, longest, terms, short, slots)
    for stretch, plan in others:
        if slots.stopped or judge.is_least(walk.values):
            break
        if plan is None:
            plan = walk.descend(stretch, longest, terms, short, slots)
        if plan is not None and not slots.stopped:
            walk.offer(plan)
    for count in range(2, terms.classes + 1):
        walk.classify(count, budget)
    return walk.plans


def _steps(
    part: Instance, longest: Mapping[str, int], terms: Terms, short: Short, budget: Budget
) -> Iterator[tuple[Fraction, Plan | None]]:
    """Yield plans in which all jobs are gated, by stretch, and between them stretches alone.

    Up to the latter a part of the jobs may be gated.
    """
    limit = terms.stretch_limit
    candidates = Candidates(
        part, longest, terms.cushion, short, budget, terms.hyperperiod, terms.levels, terms.idle
    )
    whole = ((largest_stretch(part, plan.periods), plan) for plan in candidates.plans())
    limits = (each for each in _LIMITS if not terms.quick and (limit is None or each <= limit))
    return merge(whole, ((each, None) for each in limits), key=itemgetter(0))


class _Walk:
    """The plans of a group, each noticeably better than those before it.

    Attributes
    ----------
    judge, search
        What counts, and what is asked first because it takes less time.
    values
        Of the last plan.
    """

    def __init__(self, judge: Judge, search: Judge, plan: Plan) -> None:
        self.judge, self.search = judge, search
        self.plans, self.values = [plan], judge.means(plan)
        self._last: tuple[Plan, Mapping[str, int]] | None = None

    def offer(self, plan: Plan) -> None:
        """Take over a plan that harms no job and is noticeably better."""
        if not is_better(self.search.means(plan), self.values, WORTH):
            return
        if is_better(self.judge.means(plan), self.values, WORTH) and self.judge.is_harmless(plan):
            self.plans.append(plan)
            self.values = lowest(self.judge.means(plan), self.values)

    def descend(
        self,
        stretch: Fraction,
        longest: Mapping[str, int],
        terms: Terms,
        short: Short,
        budget: Budget,
    ) -> Plan | None:
        """Return what changes of single jobs make of the best plan; None if it was tried before."""
        from metronome_opt.slowdown.descent import OtherSlots, descend  # few networks need it

        part = self.judge.player.instance
        within = {
            job.name: min(longest[job.name], math.floor(job.period * (1 + stretch)))
            for job in part.jobs
        }
        before, self._last = self._last, (self.plans[-1], within)
        if before == self._last:
            return None
        moves = OtherSlots(part, within, short, terms.cushion)
        return descend(self.search, self.plans[-1], budget, moves)

    def classify(self, count: int, budget: Budget) -> None:
        """Take over traffic classes by two orders, and what changes of single jobs make of them.

        So with the slots of the best plan, and without slots.
        """
        from metronome_opt.slowdown.descent import (
            descend,
            in_order,
            other_classes,
            urgency,
            weight,
        )

        jobs, best = self.judge.player.instance.jobs, self.plans[-1]
        bases = [best, self.plans[0]] if best.periods else [best]
        starts = [in_order(plan, jobs, count, key) for plan in bases for key in (weight, urgency)]
        moves = partial(other_classes, count)
        for improve in (False, True):
            for start in [best, *starts]:
                if budget.stopped or self.judge.is_least(self.values):
                    return
                plan = descend(self.search, start, budget, moves) if improve else start
                if not budget.stopped:
                    self.offer(plan)


def _longest(judge: Judge, limit: Fraction | None) -> dict[str, int]:
    """Return the longest periods that are allowed and harm no job."""
    longest = {}
    for job, slowest in zip(judge.player.instance.jobs, judge.limits.tolist(), strict=True):
        shares = [Fraction(slowest) - 1] + ([] if limit is None else [limit])
        slots = [int(max(Fraction(0), share) * job.period) for share in shares]
        slots += [job.max_stretch] if job.max_stretch else []
        longest[job.name] = min(job.period + min(slots), judge.player.instance.hyperperiod_limit)
    return longest
