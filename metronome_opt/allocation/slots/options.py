"""Choice of a pattern for each job that offers several, by local descent.

Every choice is an instance in which each job has one pattern, and is solved as such. Its value is
the mean slowdown over the periods of the jobs' own patterns, for the same work. From own patterns
on, that of one job is changed, or of all equal jobs, as long as that is noticeably better and
makes no job slower than it is unshifted with all own patterns. Few choices are all tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product

from metronome_opt.allocation.slots.evaluator import MIN_GAIN, is_better
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import (
    PlanResult,
    Report,
    SlotSearchOptions,
    minimum_time,
    search_plan,
)
from metronome_opt.allocation.slots.simulator import Values, levels_of
from metronome_opt.files.records import FrozenDict
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.presolve.components import components

Patterns = Mapping[str, int]

_OWN_PATTERNS: Patterns = FrozenDict()
_OWN, _OTHER = 1 / 2, 1 / 4  # shares of the time that is left, for own patterns and for each other
_FEW = 32  # choices of patterns, of which all are tried


def choose_patterns(
    instance: Instance,
    options: SlotSearchOptions,
    budget: Budget,
    report: Report | None = None,
    start: Patterns = _OWN_PATTERNS,
) -> PlanResult:
    """Return the plan of the smallest mean slowdown that is found in time, and its patterns.

    Parameters
    ----------
    report
        As of `search_plan`.
    start
        The patterns of the plan to try first, if there is one.
    """
    offsets: dict[str, int] = {}
    periods: dict[str, int] = {}
    patterns: dict[str, int] = {}
    slowdowns: dict[str, float] = {}
    unshifted: dict[str, float] = {}
    simulated, left = False, len(instance.jobs)
    for part in components(instance):
        outcome = _descend(part, options, budget.fraction(len(part.jobs) / left), start)
        left -= len(part.jobs)
        offsets |= outcome.plan.offsets
        periods |= outcome.plan.periods
        patterns |= outcome.patterns
        slowdowns |= outcome.slowdowns
        unshifted |= outcome.unshifted
        simulated |= outcome.simulated
        if report is not None:
            known = replace(outcome, slowdowns=slowdowns, patterns=patterns)
            whole = {job.name: 1.0 for job in instance.jobs} | _relative(instance, known)
            (weights,) = levels_of(instance)
            total = sum(whole[name] * float(weight) for name, weight in weights.items())
            report(Fraction(total) / sum(weights.values()))
    return PlanResult(Plan(offsets, periods), slowdowns, unshifted, simulated, patterns)


def _descend(
    part: Instance, options: SlotSearchOptions, budget: Budget, start: Patterns
) -> PlanResult:
    """Return the best outcome for jobs that share links."""
    has_options = any(job.options for job in part.jobs)
    own = best = _solved(part, {}, options, budget.fraction(_OWN) if has_options else budget, start)
    tried = {_signature(part, {})}
    improved = True
    while improved:
        improved = False
        for patterns in _changed(part, best.patterns, start):
            enough = budget.remaining is None or budget.remaining > minimum_time(part)
            if budget.stopped or not enough:
                break
            signature = _signature(part, patterns)
            if signature in tried:
                continue
            tried.add(signature)
            alone = replace(own, slowdowns=dict.fromkeys(own.slowdowns, 1.0), patterns=patterns)
            values = _values(part, best, options)
            if not is_better(_values(part, alone, options), values, MIN_GAIN):
                continue
            other = _solved(part, patterns, options, budget.fraction(_OTHER), start)
            if is_better(_values(part, other, options), values, MIN_GAIN) and _is_harmless(
                part, own, other, options
            ):
                best, improved = other, True
                break
    return replace(best, unshifted=own.unshifted)


def _solved(
    part: Instance, patterns: Patterns, options: SlotSearchOptions, budget: Budget, start: Patterns
) -> PlanResult:
    """Return what is best for jobs that keep some patterns."""
    # A mean of slowdowns counts iterations; one of another pattern does the work of several.
    works = {
        job.name: Fraction(1) if job.name not in patterns else job.options[patterns[job.name]].work
        for job in part.jobs
    }
    unit = math.lcm(*(work.numerator for work in works.values()))
    levels = tuple(
        {name: weight * int(unit / works[name]) for name, weight in level.items()}
        for level in levels_of(part, options.levels)
    )
    same = patterns == {job.name: start[job.name] for job in part.jobs if job.name in start}
    options = replace(options, levels=levels, start=options.start if same else None)
    return replace(search_plan(part.at_patterns(patterns), options, budget), patterns=patterns)


def _changed(part: Instance, patterns: Patterns, start: Patterns) -> Iterator[Patterns]:
    """Yield patterns to try next: those of the start, of all equal jobs changed, of one job.

    Where there are few choices, all of them.
    """
    yield {job.name: start[job.name] for job in part.jobs if job.name in start}
    equal: dict[object, list[Job]] = {}
    for job in part.jobs:
        equal.setdefault((job.period, job.phases, job.options), []).append(job)
    for jobs in (*equal.values(), *([job] for job in part.jobs)):
        rest = {
            name: index for name, index in patterns.items() if name not in {j.name for j in jobs}
        }
        yield rest
        for index in range(len(jobs[0].options)):
            yield {**rest, **{job.name: index for job in jobs}}
    if math.prod(len(job.options) + 1 for job in part.jobs) <= _FEW:
        every = product(*(range(-1, len(job.options)) for job in part.jobs))
        for row in every:
            chosen = zip(part.jobs, row, strict=True)
            yield {job.name: index for job, index in chosen if index >= 0}


def _signature(part: Instance, patterns: Patterns) -> tuple[tuple[str, int], ...]:
    """Return the same for patterns that differ in the names of equal jobs alone."""
    jobs = (
        (job.model_dump_json(exclude={"name"}), patterns.get(job.name, -1)) for job in part.jobs
    )
    return tuple(sorted(jobs))


def _shares(part: Instance, patterns: Patterns) -> dict[str, Fraction]:
    """Return the period of the pattern of each job, for the same work, over that of its own."""
    jobs = part.at_patterns(patterns).jobs
    slots = part.per_work({job.name: Fraction(job.period) for job in jobs}, patterns)
    return {job.name: slots[job.name] / job.period for job in part.jobs}


def _relative(part: Instance, outcome: PlanResult) -> dict[str, float]:
    """Return slowdowns over the best iterations with own patterns, for the same work."""
    shares = _shares(part, outcome.patterns)
    own = {job.name: part.over_best(job) for job in part.jobs}
    return {name: s * float(shares[name] * own[name]) for name, s in outcome.slowdowns.items()}


def _values(part: Instance, outcome: PlanResult, options: SlotSearchOptions) -> Values:
    """Return the mean slowdowns that count."""
    slowdowns = _relative(part, outcome)
    return tuple(
        sum(float(weight) * slowdowns[name] for name, weight in level.items())
        / float(sum(level.values()))
        for level in levels_of(part, options.levels)
    )


def _is_harmless(
    part: Instance, own: PlanResult, other: PlanResult, options: SlotSearchOptions
) -> bool:
    """Return whether no job loses more than the limit against all own patterns, unshifted."""
    slowdowns = _relative(part, other)
    return options.max_loss is None or all(
        slowdowns[job.name] <= own.unshifted[job.name] * (1 + float(options.max_loss))
        for job in part.jobs
    )
