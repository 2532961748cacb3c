"""Problem (d): who is gated, periods and offsets together, such that jobs are least slowed down.

Jobs that share no link that could be overloaded do not slow one another down, so each group that
does is treated by itself. Free jobs begin when they are ready: nobody could hold them to anything
else. A group that fits as a whole, with as little stretch as possible, is gated if jobs gain by it.

If it is known how the network shares links, a part of a group may be gated: first the set of most
worth, which is what jobs lose unshifted. Annealing goes on from there, or from nobody gated if that
is better, and in the end whoever gains nothing by being gated is let go. Otherwise this is not
tried: over TCP free jobs made gated ones slower than the simulation says.

What is found by some plays is judged by others, and stated by others again, so that no luck is
counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from metronome_opt.compatible.choices import (
    Choices,
    FitTask,
    Kept,
    PeriodChoice,
    cheapest_first,
    most_stretch,
)
from metronome_opt.compatible.choose import choose
from metronome_opt.compatible.decider import Decider
from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.presolve import simplify_links
from metronome_opt.presolve.components import components
from metronome_opt.slowdown.plan import Plan, expected_ms, mean_slowdown
from metronome_opt.slowdown.player import PERIODS, SAFE, Judge, plays
from metronome_opt.solvers.budget import Budget

_LONGEST = 20_000  # slots of a hyperperiod
_WORTH = 2e-3  # less gain than this is none: so much do plays differ by chance
_CLOSE = 5e-3  # a plan that is so close to 1 is not improved any further
_CUSHION = Fraction(2, 100)  # of the shortest period: with 1.5 % real jobs got in each other's way
_IDLE = tuple(Fraction(each, 100) for each in (0, 1, 2, 4))
"""Shares of periods by which gated jobs are stretched at least, if they may be: who has no idle
time and is late once, stays so."""
_SHARE = 0.1  # of the time, for the set of most worth, and again for its offsets
_PER_COST = 10**7  # units of a cost of 1
_ANNEALING = 0.95  # of the time that is left then; the rest is for letting go
_LAST_VALUES, _STATED_VALUES = 6, 2  # that are judged after that, the last of them to be stated
_GLANCE = 15  # periods of a play that says whether another is worth it
_LONG, _LONG_ALL = 400, 8_000  # periods of a play, and times jobs
_SEARCHING, _JUDGING, _STATING = 0, 100, 200  # first seeds


@dataclass(frozen=True)
class Terms:
    """Limits of a search for gated jobs, and its resources.

    Attributes
    ----------
    stretch_limit
        The share of its period by which a job may be stretched, if that is more than the instance
        says.
    cushion_slots
        By how many slots bursts of gated jobs are longer; 0 for 2 % of the shortest period.
    seed, workers
        For what is random; threads.
    rounds
        Of annealing, for each job.
    sharings
        How links are shared; a plan is judged under all of these.
    partly
        Whether a part of jobs that meet may be gated.
    hyperperiod
        Slots that the periods of gated jobs have to divide; None for any periods.
    start
        A plan to try first.
    """

    stretch_limit: Fraction | None = None
    cushion_slots: int = 0
    seed: int = 0
    workers: int = 1
    rounds: int = 150
    sharings: Sequence[str] = SAFE
    partly: bool = False
    hyperperiod: int | None = None
    start: Plan | None = None

    def judge(self, instance: Instance, first: int, seeds: int, *, long: bool = True) -> Judge:
        """Return a judge with some seeds, from a first one on, and plays that are long or short."""
        return Judge(
            instance,
            plays(first, seeds, self.sharings),
            workers=self.workers,
            periods=long_periods(instance) if long else PERIODS,
        )


@dataclass(frozen=True)
class Outcome:
    """A plan, and what it brings to each job.

    Attributes
    ----------
    slowdowns, unshifted
        By job: mean iteration time over period, under the plan and if nobody is shifted or gated.
    simulated
        Whether anybody had to be let run; otherwise nobody can ever be held up.
    """

    plan: Plan
    slowdowns: dict[str, float]
    unshifted: dict[str, float]
    simulated: bool


def long_periods(instance: Instance) -> int:
    """Return for how many periods of the longest job a play lasts that decides.

    Without idle time gated jobs become late little by little, and that takes hundreds of
    iterations to be seen. Where there are many jobs, there is no time for so many.
    """
    return max(PERIODS, min(_LONG, _LONG_ALL // len(instance.jobs)))


Report = Callable[[Fraction], None]
Short = Callable[[Mapping[str, int]], bool]


def minimise(
    instance: Instance, terms: Terms, budget: Budget, report: Report | None = None
) -> Outcome:
    """Return the plan of least weighted mean slowdown that is found in time.

    Parameters
    ----------
    report
        Told of the weighted mean slowdown of the whole whenever it falls.
    """
    offsets = dict(instance.unshifted)
    periods: dict[str, int] = {}
    slowdowns = {job.name: 1.0 for job in instance.jobs}
    unshifted = dict(slowdowns)
    parts = list(_parts(instance))
    left = sum(len(part.jobs) for part in parts)
    for part in parts:
        # It may share links that are never overloaded with others.
        links = [link.name for link in part.links]
        short = partial(is_short, instance, links, dict(periods))
        plan = _minimise_part(part, terms, short, budget.fraction(len(part.jobs) / left))
        left -= len(part.jobs)
        offsets |= plan.offsets
        periods |= plan.periods
        stating = terms.judge(part, _STATING, 4)
        slowdowns |= _by_name(part, stating.slowdowns(plan))
        unshifted |= _by_name(part, stating.unshifted)
        if report is not None:
            report(
                mean_slowdown(instance, expected_ms(instance, Plan(offsets, periods), slowdowns))
            )
    return Outcome(Plan(offsets, periods), slowdowns, unshifted, bool(parts))


def _by_name(instance: Instance, values: Floats) -> dict[str, float]:
    return {job.name: float(v) for job, v in zip(instance.jobs, values, strict=True)}


def _parts(instance: Instance) -> Iterator[Instance]:
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
) -> bool:
    """Return whether links still have hyperperiods that the judge can walk through, and may.

    Parameters
    ----------
    others, periods
        Of the jobs that do not keep to their own.
    """
    for link in links:
        jobs = (instance.jobs[index] for index in instance.jobs_on[link])
        kept = (periods.get(job.name, others.get(job.name, job.period)) for job in jobs)
        most = max(_LONGEST, instance.hyperperiods[link])
        if math.lcm(*kept) > min(most, instance.hyperperiod_limit):
            return False
    return True


def _minimise_part(part: Instance, terms: Terms, short: Short, budget: Budget) -> Plan:
    if len(part.jobs) == 1:
        return Plan(part.unshifted)
    judge = terms.judge(part, _JUDGING, 4)
    unshifted = Plan(part.unshifted)
    began = budget.remaining
    base = judge.value(unshifted)
    if base <= 1.0 + _WORTH or budget.stopped:
        return unshifted
    judging = budget
    if began is not None and budget.remaining:
        took = (began - budget.remaining) / budget.remaining  # for one value; more are to come
        judging = budget.fraction(max(0.0, 1.0 - _STATED_VALUES * took))
        budget = budget.fraction(max(0.0, 1.0 - _LAST_VALUES * took))
    longest = {
        job.name: job.period
        + min(most_stretch(part, job, terms.stretch_limit), int(job.period * max(0.0, loses - 1.0)))
        for job, loses in zip(part.jobs, map(float, judge.most), strict=True)
    }
    search = terms.judge(part, _SEARCHING, 2, long=False)
    cushion = _cushion(part, terms)
    tried = [unshifted]
    for idle in _IDLE:
        if budget.stopped:
            break
        kept = _most_worth(search, longest, idle, cushion, terms, budget.fraction(_SHARE))
        if kept.periods and short(kept.periods):
            roomy = _roomiest(part, kept, cushion, budget.fraction(_SHARE))
            tried.append(Plan({**part.unshifted, **roomy}, kept.periods))
    given = terms.start and terms.start.only(part)
    if given and (not given.periods or short(given.periods)):
        tried.append(given)
    best = min(tried, key=search.value)
    if terms.partly and not budget.stopped and search.value(best) > 1.0 + _CLOSE:
        from metronome_opt.slowdown.anneal import anneal  # by default no group is gated in part

        found = anneal(
            search,
            Judge(part, plays(_SEARCHING, 1, terms.sharings)[-1:], periods=_GLANCE),
            best,
            longest,
            budget.fraction(_ANNEALING),
            short=short,
            rounds=terms.rounds * len(part.jobs),
            cushion_slots=cushion,
            seed=terms.seed,
        )
        tried.append(_let_go(search, found, budget))
    least = _best_harmless(judge, sorted(tried, key=search.value), judging)
    return least if least and judge.value(least) < base - _WORTH else unshifted


def _cushion(part: Instance, terms: Terms) -> int:
    """Return by how many slots bursts of gated jobs are longer."""
    shortest = min(job.period for job in part.jobs)
    return terms.cushion_slots or math.ceil(_CUSHION * shortest)


def _most_worth(
    judge: Judge,
    longest: Mapping[str, int],
    idle: Fraction,
    cushion: int,
    terms: Terms,
    budget: Budget,
) -> Kept:
    """Return the gated set that is worth most by what jobs lose unshifted; empty if none fits.

    Parameters
    ----------
    idle
        The least share of its period by which every gated job is stretched.
    """
    choices = _choices(judge, longest, idle, terms)
    if not all(choices.values()):
        return Kept()
    task = FitTask(judge.player.instance, cushion, budget, terms.seed, terms.workers)
    return choose(task, choices, Decider(task)).kept or Kept()


def _roomiest(part: Instance, kept: Kept, cushion_slots: int, budget: Budget) -> Mapping[str, int]:
    """Return offsets at which bursts of gated jobs may grow by as much as can be."""
    offsets = kept.offsets
    low, high = cushion_slots, max(kept.periods.values())
    while high - low > 1:
        middle = (low + high) // 2
        task = FitTask(part, middle, budget.fraction(0.5))
        found = Decider(task).decide(kept.periods).offsets
        if found is None:
            high = middle
        else:
            low, offsets = middle, found
    return offsets


def _choices(judge: Judge, longest: Mapping[str, int], idle: Fraction, terms: Terms) -> Choices:
    """Return what jobs may do: keep slots of some period, or lose what they lose unshifted.

    Costs are shares of the mean slowdown; of one denominator, as the master wants them.
    """
    player = judge.player
    return {
        job.name: cheapest_first(
            [
                *(
                    PeriodChoice(period, _cost(weight * (period / job.period - 1.0)))
                    for period in range(math.ceil(job.period * (1 + idle)), longest[job.name] + 1)
                    if terms.hyperperiod is None or terms.hyperperiod % period == 0
                ),
                *(
                    [PeriodChoice(None, _cost(weight * max(0.0, loses - 1.0)))]
                    if terms.partly
                    else []
                ),
            ]
        )
        for job, weight, loses in zip(
            player.instance.jobs, player.weights, judge.unshifted, strict=True
        )
    }


def _cost(value: float) -> Fraction:
    return Fraction(round(_PER_COST * value), _PER_COST)


def _best_harmless(judge: Judge, plans: Sequence[Plan], budget: Budget) -> Plan | None:
    """Return the best of some plans that harms nobody, of the first of them if time is short."""
    harmless = [
        plan
        for number, plan in enumerate(plans)
        if not (number and budget.stopped) and judge.is_harmless(plan)
    ]
    return min(harmless, key=judge.value, default=None)


def _let_go(judge: Judge, plan: Plan, budget: Budget) -> Plan:
    """Let go whoever gains nothing by being gated, one after the other."""
    value = judge.value(plan)
    for name in sorted(plan.periods):
        if budget.stopped:
            break
        less = Plan(
            {**plan.offsets, name: judge.player.instance.job(name).unshifted},
            {other: period for other, period in plan.periods.items() if other != name},
        )
        reached = judge.value(less)
        if reached <= value + _WORTH / 4:
            plan, value = less, min(value, reached)
    return plan
