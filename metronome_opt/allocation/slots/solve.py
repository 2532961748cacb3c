"""Minimise the mean slowdown of the jobs, as simulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

from metronome_opt.allocation.slots.bound import slowdown_bound
from metronome_opt.allocation.slots.plan import Plan, delay, expected_ms, mean_slowdown
from metronome_opt.allocation.slots.plan_search import (
    PlanResult,
    SlotSearchOptions,
    minimum_time,
    search_plan,
)
from metronome_opt.allocation.slots.simulator import EVENTS_PER_S, PlanSimulator
from metronome_opt.engine.conditions import jitter_or_default
from metronome_opt.errors import first_few
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import COMPLETION, DELAY, LEXICOGRAPHIC, SLOWDOWN
from metronome_opt.problem.result import Level, ProgressEvent, Result, StopReason
from metronome_opt.solvers.arguments import Arguments, make_schedule, warm_up_instance
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import evaluate

_ROBUSTNESS_SEEDS = range(400_000, 400_008)  # that no search uses
_MAX_JITTER = 0.3  # of which computing times stay above 0
_UNKNOWN = "the slowdown is not known: no iteration ended in a simulation, of"
_UNTIL_JOBS_LEAVE = (
    "iteration times and slowdown are means until each job leaves, after its iterations; what is "
    "minimised is the weighted mean time until then"
)

_NOT_EVALUATED = "contention and latency were not computed"
_BOUNDING, _MIN_BOUNDING = 0.2, 1.0  # of the time, for the bound; and seconds at least
_CHANGES_PER_S = 500_000  # of rates, whose contention is computed


def solve_slowdown(
    arguments: Arguments,
    options: SlotSearchOptions,
    *,
    names: Sequence[str] = (SLOWDOWN,),
    only: Callable[[Instance, Budget], Plan] | None = None,
    found: PlanResult | None = None,
) -> Result:
    """Choose for every job whether it is gated, and when it may burst.

    Without enough time to simulate the slowdown is not known, and no job is gated. Groups of jobs
    take their part in the plan that `only` returns or not, without a search. What a search for a
    plan of the slowdown has `found` before is stated; with `lives_ms` of the options, for
    completion, it is a beginning.
    """
    instance, budget, outcome = arguments.instance, arguments.budget, None
    leaving, left = options.lives_ms is not None, budget.remaining
    seconds = None if left is None else max(_MIN_BOUNDING, _BOUNDING * left)
    bound = slowdown_bound(instance, until_jobs_leave=leaving, seconds=seconds)
    minimum = minimum_time(instance)
    trajectory: list[ProgressEvent] = []

    def report(slowdown: Fraction) -> None:
        event = ProgressEvent(budget.elapsed, slowdown, min(bound.value, slowdown), "simulation")
        trajectory.append(event)
        budget.iterate()
        budget.note(event)

    if found is not None and options.lives_ms is None:
        outcome = found
        mean = mean_slowdown(instance, expected_ms(instance, found.plan, found.slowdowns))
        if mean is not None:
            report(mean)
    elif budget.remaining is None or budget.remaining >= minimum:
        options = replace(
            options,
            start=found.plan if found else only and only(instance, budget),
            classes=instance.traffic_classes if only is None else 1,
            tries_start_only=only is not None,
        )
        outcome = search_plan(instance, options, budget, report)
    plan = outcome.plan if outcome else Plan(instance.unshifted)
    stretch = plan.stretch(instance)
    shares = (
        Fraction(stretch[job.name], job.period)
        for job in instance.jobs
        if stretch[job.name] > job.max_stretch
    )
    limit = max(shares, default=None)
    evaluation, notes = _evaluate(instance, plan, limit, budget)
    times = before = value = delay_now = None
    if outcome:
        before = expected_ms(instance, Plan(instance.unshifted), outcome.unshifted)
        known = expected_ms(instance, plan, outcome.slowdowns)
        value, delay_now = mean_slowdown(instance, known), delay(instance, known)
        times = None if value is None else known
        slow = [job.name for job in instance.jobs if job.name not in known]
        notes = [
            *([f"{_UNKNOWN}: {first_few(slow)}"] if slow else []),
            *([_by_weight(instance, known)] if LEXICOGRAPHIC in names and not slow else []),
            *([_UNTIL_JOBS_LEAVE] if COMPLETION in names else []),
            *_robustness(instance, plan, options, budget),
            *notes,
        ]
    else:
        enough = f"no time to simulate, {math.ceil(minimum)} s needed: no job is gated"
        names, notes = (SLOWDOWN,), [enough, *notes]
    proved = outcome is not None and value == bound.value and not outcome.simulated
    stated = evaluation.objectives if evaluation else {}
    schedule = make_schedule(
        arguments,
        plan.offsets,
        stretch,
        {SLOWDOWN: value, DELAY: delay_now, **stated},
        bound.value if value is None else min(bound.value, value),  # chance may bring it below
        bound_prices=bound.prices or None,
        bound_pairs=bound.pairs,
        proved=proved,
        gated={job.name: job.name in plan.periods for job in instance.jobs},
        classes={job.name: plan.classes.get(job.name, 0) for job in instance.jobs}
        if outcome and instance.traffic_classes > 1
        else None,
        stretch_limit=limit,
        expected_ms=times,
        before_ms=before,
    )
    stop = budget.stop if outcome or budget.stopped else StopReason.TIME_LIMIT
    levels = (name if name == DELAY else SLOWDOWN for name in names)
    return Result(
        instance=instance,
        schedule=schedule,
        stop_reason=StopReason.PROVED if proved else stop,
        evaluation=evaluation,
        build_s=0.0,
        solve_s=schedule.runtime_s,
        trajectory=tuple(trajectory),
        levels=tuple(Level(name, schedule.objectives[name], proved) for name in levels),
        notes=tuple(notes),
        unshifted_ms=before,
    )


def _evaluate(
    instance: Instance, plan: Plan, stretch_limit: Fraction | None, budget: Budget
) -> tuple[Evaluation | None, list[str]]:
    """Return the other objectives; None with a note if hyperperiods are too long for them."""
    stretch = plan.stretch(instance)
    if links := instance.long_hyperperiods(stretch):
        beyond = f"link {min(links)} is above the limit of {instance.hyperperiod_limit} slots"
        return None, [f"{_NOT_EVALUATED}: the hyperperiod of {beyond}"]
    periods = {job.name: job.period + stretch.get(job.name, 0) for job in instance.jobs}
    changes, time_s = 0, math.inf if budget.remaining is None else max(1.0, budget.remaining)
    for link in instance.links:
        users = [instance.jobs[index] for index in instance.jobs_on[link.name]]
        hyperperiod = math.lcm(*(periods[job.name] for job in users))
        changes += sum(2 * len(j.phases) * hyperperiod // periods[j.name] for j in users)
    if changes > time_s * _CHANGES_PER_S:
        return None, [f"{_NOT_EVALUATED}: no time for {changes:,} changes of rates"]
    return evaluate(instance, plan.offsets, stretch, stretch_limit=stretch_limit), []


@cache
def warm_up_engine() -> None:
    """Load, or compile, the kernels that two jobs on a link need; no time limit counts that."""
    three = warm_up_instance()
    search_plan(three.replace(jobs=three.jobs[:2]), SlotSearchOptions(max_events=1), Budget())


def _robustness(
    instance: Instance, plan: Plan, options: SlotSearchOptions, budget: Budget
) -> list[str]:
    """Return with which jitter a plan pays, as text; nothing without windows, classes or time."""
    if not (plan.periods or plan.classes) or budget.stopped:
        return []
    free, pays = Plan(instance.unshifted), 1.0
    largest = max(jitter_or_default(job.jitter) for job in instance.jobs)
    for factor in (2.0, 4.0):
        simulator = PlanSimulator(
            instance,
            _ROBUSTNESS_SEEDS,
            network=options.network,
            jitter_factor=factor,
            threads=options.threads,
            mean_weights=options.mean_weights,
        )
        enough = budget.remaining is None or budget.remaining > 2 * simulator.events / EVENTS_PER_S
        if not enough or factor * largest > _MAX_JITTER:
            break
        gated, ungated = (simulator.value(simulator.slowdowns(tried)) for tried in (plan, free))
        if gated >= ungated:
            means = f"slowdown {gated:.4f}, without windows {ungated:.4f}"
            return [f"with {factor:g} times the stated jitter these windows do not pay: {means}"]
        pays = factor
    return [f"these windows pay with {pays:g} times the stated jitter, too"] if pays > 1 else []


def _by_weight(instance: Instance, times_ms: Mapping[str, Fraction]) -> str:
    """Return the mean slowdowns of the jobs of each weight as text, the highest weight first."""
    texts = []
    for weight in sorted({job.weight for job in instance.jobs}, reverse=True):
        jobs = tuple(job for job in instance.jobs if job.weight == weight)
        mean = mean_slowdown(instance.replace(jobs=jobs), times_ms)
        texts += [] if mean is None else [f"{float(mean):.4f} of weight {weight}"]
    return f"slowdown by weight: {', '.join(texts)}"
