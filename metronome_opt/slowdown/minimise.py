"""Problem (d): who is gated, periods and offsets together, such that jobs are least slowed down.

Jobs that share no link that could be overloaded do not slow one another down, so each group that
does is treated by itself. Two plans are tried at once: beginnings of least contention, and the
gated set of most worth, which is what jobs lose unshifted. Annealing goes on from the better one
for as long as there is time, and in the end whoever gains nothing by being gated is let go. What is
found by some plays is judged by others, and stated by others again, so that no luck is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from metronome_opt.compatible.choices import Choice, Choices, cheapest_first, most_stretch
from metronome_opt.compatible.choose import choose
from metronome_opt.compatible.decide import Decider
from metronome_opt.compatible.pace import Kept
from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.presolve.components import components
from metronome_opt.presolve.links import simplify_links
from metronome_opt.slowdown.anneal import anneal, is_short
from metronome_opt.slowdown.judge import HARM, Judge
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import plays
from metronome_opt.solvers.deadline import Deadline
from metronome_opt.solvers.solve import solve as solve_contention

_WORTH = 2e-3  # less gain than this is none: so much do plays differ by chance
_SHARE = 0.15  # of the time, for each of the plans that are tried at once
_ANNEALING = 0.95  # of the time that is left then; the rest is for letting go
_LAST_VALUES = 10  # of all jobs, after that
_SEARCHING, _JUDGING, _STATING = 0, 100, 200  # first seeds


@dataclass(frozen=True)
class Terms:
    """What is allowed, and what may be used.

    Attributes
    ----------
    stretch_limit
        The share of its period by which a job may be stretched, if that is more than the instance
        says.
    cushion_slots
        By how many slots bursts of gated jobs are longer.
    harm
        By what share a job may be slower than unshifted.
    seed, workers
        For what is random; threads.
    rounds
        Of annealing, for each job.
    """

    stretch_limit: Fraction | None = None
    cushion_slots: int = 0
    harm: float = HARM
    seed: int = 0
    workers: int = 1
    rounds: int = 150


@dataclass(frozen=True)
class Outcome:
    """A plan, and what it brings to each job.

    Attributes
    ----------
    slowdowns, unshifted
        By job: mean iteration time over period, under the plan and if nobody is shifted or gated.
    """

    plan: Plan
    slowdowns: dict[str, float]
    unshifted: dict[str, float]


Report = Callable[[float], None]


def minimise(
    instance: Instance, terms: Terms, clock: Deadline, report: Report | None = None
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
        plan = _minimise_part(part, terms, clock.share(len(part.jobs) / left))
        left -= len(part.jobs)
        offsets |= plan.offsets
        periods |= plan.periods
        stating = Judge(part, plays(_STATING, 4), workers=terms.workers)
        slowdowns |= _by_name(part, stating.player.slowdowns(plan))
        unshifted |= _by_name(part, stating.unshifted)
        if report is not None:
            report(_mean(instance, slowdowns))
    return Outcome(Plan(offsets, periods), slowdowns, unshifted)


def _by_name(instance: Instance, values: Floats) -> dict[str, float]:
    return {job.name: float(v) for job, v in zip(instance.jobs, values, strict=True)}


def _mean(instance: Instance, slowdowns: dict[str, float]) -> float:
    weights = {job.name: job.weight for job in instance.jobs}
    total = sum(weights.values()) or len(weights)
    return (
        sum((w if any(weights.values()) else 1) * slowdowns[n] for n, w in weights.items()) / total
    )


def _parts(instance: Instance) -> Iterator[Instance]:
    """Yield the groups of jobs that share links which could be overloaded, on all their links."""
    for part in components(simplify_links(instance).instance):
        if len(part.jobs) > 1:
            names = {job.name for job in part.jobs}
            jobs = tuple(job for job in instance.jobs if job.name in names)
            used = {link for job in jobs for link in job.links}
            links = tuple(link for link in instance.links if link.name in used)
            yield instance.replace(links=links, jobs=jobs)


def _minimise_part(part: Instance, terms: Terms, clock: Deadline) -> Plan:
    judge = Judge(part, plays(_JUDGING, 4), harm=terms.harm, workers=terms.workers)
    unshifted = Plan(part.unshifted)
    began = clock.remaining
    base = judge.value(unshifted)
    if base <= 1.0 + _WORTH or clock.over:
        return unshifted
    if began is not None and clock.remaining:
        took = began - clock.remaining  # for one value; some more are to come in the end
        clock = clock.share(max(0.0, 1.0 - _LAST_VALUES * took / clock.remaining))
    longest = {
        job.name: job.period
        + min(most_stretch(job, terms.stretch_limit), int(job.period * max(0.0, loses - 1.0)))
        for job, loses in zip(part.jobs, map(float, judge.most), strict=True)
    }
    search = Judge(part, plays(_SEARCHING, 2), harm=terms.harm, workers=terms.workers)
    tried = sorted(_plans(search, terms, longest, clock), key=search.value)
    if not clock.over and search.value(tried[0]) > 1.0 + _WORTH:
        screen = Judge(part, plays(_SEARCHING, 1)[1:], harm=terms.harm)
        found = anneal(
            search,
            screen,
            tried[0],
            longest,
            clock.share(_ANNEALING),
            rounds=terms.rounds * len(part.jobs),
            cushion_slots=terms.cushion_slots,
            seed=terms.seed,
        )
        tried.append(_release(search, found))
    best = min(tried, key=judge.value)
    return best if judge.value(best) < base - _WORTH else unshifted


def _plans(judge: Judge, terms: Terms, longest: dict[str, int], clock: Deadline) -> Iterator[Plan]:
    """Yield the plans that are tried at once."""
    part = judge.player.instance
    seconds = None if clock.remaining is None else _SHARE * clock.remaining
    found = solve_contention(part, time_limit=seconds, seed=terms.seed, workers=terms.workers)
    yield Plan(found.offsets)
    chosen = choose(
        Decider(part, terms.cushion_slots),
        _kept_or_free(judge, longest),
        clock.share(_SHARE),
        seed=terms.seed,
        workers=terms.workers,
    )
    if chosen.kept is not None and chosen.kept.periods and is_short(part, chosen.kept.periods):
        roomy = _roomiest(part, chosen.kept, terms.cushion_slots, clock.share(_SHARE))
        yield Plan({**found.offsets, **roomy}, chosen.kept.periods)


def _roomiest(part: Instance, kept: Kept, cushion_slots: int, clock: Deadline) -> Mapping[str, int]:
    """Return offsets at which bursts of gated jobs may grow by as much as can be."""
    offsets = kept.offsets
    low, high = cushion_slots, max(kept.periods.values())
    while high - low > 1:
        middle = (low + high) // 2
        found = Decider(part, middle).decide(kept.periods, clock.share(0.5)).offsets
        if found is None:
            high = middle
        else:
            low, offsets = middle, found
    return offsets


def _kept_or_free(judge: Judge, longest: dict[str, int]) -> Choices:
    """Return what jobs may do: keep slots of some period, or lose what they lose unshifted."""
    return {
        job.name: cheapest_first(
            [
                *(
                    Choice(period, Fraction(job.weight * (period - job.period), job.period))
                    for period in range(job.period, longest[job.name] + 1)
                ),
                Choice(None, job.weight * Fraction(round(1000 * max(0.0, loses - 1.0)), 1000)),
            ]
        )
        for job, loses in zip(judge.player.instance.jobs, judge.unshifted, strict=True)
    }


def _release(judge: Judge, plan: Plan) -> Plan:
    """Let go whoever gains nothing by being gated, one after the other."""
    value = judge.value(plan)
    for name in sorted(plan.periods):
        own = judge.player.instance.job(name).period
        less = Plan(
            {**plan.offsets, name: plan.offsets[name] % own},
            {other: period for other, period in plan.periods.items() if other != name},
        )
        reached = judge.value(less)
        if reached <= value + _WORTH / 4:
            plan, value = less, min(value, reached)
    return plan
