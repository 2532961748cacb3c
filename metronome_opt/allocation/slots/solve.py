"""Minimise the mean slowdown of the jobs, as simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache

from metronome_opt.allocation.slots.bound import Bound, slowdown_bound
from metronome_opt.allocation.slots.evaluator import MAX_LOSS
from metronome_opt.allocation.slots.plan import Plan, delay, expected_ms, mean_slowdown
from metronome_opt.allocation.slots.plan_search import (
    PlanResult,
    SlotSearchOptions,
    minimum_time,
    search_plan,
)
from metronome_opt.allocation.slots.simulator import EVENTS_PER_S, PlanSimulator
from metronome_opt.engine.conditions import jitter_or_default
from metronome_opt.problem.evaluation import Evaluation
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.objectives import (
    COMPLETION,
    DELAY,
    LEXICOGRAPHIC,
    SLOWDOWN,
    MeanWeights,
)
from metronome_opt.problem.result import Level, ProgressEvent, Result, StopReason
from metronome_opt.solvers.arguments import Arguments, make_schedule, warm_up_instance
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import evaluate

_ROBUSTNESS_SEEDS = range(400_000, 400_008)  # that no search uses
_MAX_JITTER = 0.3  # of which computing times stay above 0
_UNTIL_JOBS_LEAVE = (
    "iteration times and slowdown are means until each job leaves, after its iterations; what is "
    "minimised is the weighted mean time until then"
)


def solve_slowdown(
    arguments: Arguments,
    *,
    stretch_limit: Fraction | None = None,
    network: str | None = None,
    hyperperiod: int | None = None,
    max_loss: Fraction | None = MAX_LOSS,
    names: Sequence[str] = (SLOWDOWN,),
    mean_weights: MeanWeights,
    only: Plan | None = None,
    found: PlanResult | None = None,
    lives_ms: Mapping[str, float] | None = None,
) -> Result:
    """Choose for every job whether it is gated, and when it may burst.

    Parameters
    ----------
    hyperperiod
        Slots that periods of gated jobs have to divide; None for any periods.
    names
        Objectives that `are_simulated`.
    mean_weights
        Weights in the means that are minimised.
    only
        A plan that groups of jobs follow or not; None for a search.
    found
        What a search for a plan of the slowdown has found before, which is stated; a search for
        completion begins with it.
    lives_ms
        How long jobs run at their best iterations, for completion; None for other objectives.
    arguments, stretch_limit, network, max_loss
        As of `metronome_opt.solve`.

    Returns
    -------
    Result
        Its schedule says which jobs are gated, and what iteration time is expected of each. Without
        enough time to simulate the slowdown is not known.
    """
    instance, budget = arguments.instance, arguments.budget
    options = SlotSearchOptions(
        stretch_limit=stretch_limit,
        threads=arguments.threads,
        network=network,
        start=found.plan if found else only,
        hyperperiod=hyperperiod,
        max_loss=max_loss,
        mean_weights=mean_weights,
        classes=instance.traffic_classes if only is None else 1,
        tries_start_only=only is not None,
        lives_ms=lives_ms,
    )
    bound = slowdown_bound(instance, until_jobs_leave=lives_ms is not None)
    is_known = found is not None and lives_ms is None
    minimum = minimum_time(instance)
    if not is_known and budget.remaining is not None and budget.remaining < minimum:
        return _not_simulated(arguments, bound, math.ceil(minimum))
    trajectory: list[ProgressEvent] = []

    def report(slowdown: Fraction) -> None:
        event = ProgressEvent(budget.elapsed, slowdown, min(bound.value, slowdown), "simulation")
        trajectory.append(event)
        budget.iterate()
        budget.note(event)

    if found is not None and is_known:
        outcome = found
        report(mean_slowdown(instance, expected_ms(instance, found.plan, found.slowdowns)))
    else:
        outcome = search_plan(instance, options, budget, report)
    return _simulated(arguments, outcome, options, bound, trajectory, names)


def _not_simulated(arguments: Arguments, bound: Bound, enough_s: int) -> Result:
    """Return the jobs unshifted: no job is gated without a simulation."""
    instance = arguments.instance
    evaluation, unknown = _evaluate(instance, Plan(instance.unshifted), None)
    schedule = make_schedule(
        arguments,
        instance.unshifted,
        {},
        {SLOWDOWN: None, DELAY: None, **(evaluation.objectives if evaluation else {})},
        bound.value,
        bound_prices=bound.prices or None,
        bound_pairs=bound.pairs,
        proved=False,
        gated=dict.fromkeys(instance.unshifted, False),
    )
    return Result(
        instance=instance,
        schedule=schedule,
        stop_reason=arguments.budget.stop if arguments.budget.stopped else StopReason.TIME_LIMIT,
        evaluation=evaluation,
        build_s=0.0,
        solve_s=schedule.runtime_s,
        trajectory=(),
        levels=(Level(SLOWDOWN, None, proved=False),),
        notes=(f"no time to simulate, {enough_s} s needed: no job is gated", *unknown),
    )


def _evaluate(
    instance: Instance, plan: Plan, stretch_limit: Fraction | None
) -> tuple[Evaluation | None, list[str]]:
    """Return the other objectives; None with a note if a hyperperiod is too long for them."""
    stretch = plan.stretch(instance)
    if links := instance.long_hyperperiods(stretch):
        beyond = f"link {min(links)} is above the limit of {instance.hyperperiod_limit} slots"
        return None, [f"contention and latency are not known: the hyperperiod of {beyond}"]
    return evaluate(instance, plan.offsets, stretch, stretch_limit=stretch_limit), []


@cache
def warm_up_engine() -> None:
    """Load, or compile, the kernels that two jobs on a link need; no time limit counts that."""
    three = warm_up_instance()
    search_plan(three.replace(jobs=three.jobs[:2]), SlotSearchOptions(max_events=1), Budget())


def _simulated(
    arguments: Arguments,
    outcome: PlanResult,
    options: SlotSearchOptions,
    bound: Bound,
    trajectory: list[ProgressEvent],
    names: Sequence[str],
) -> Result:
    instance, plan = arguments.instance, outcome.plan
    stretch = plan.stretch(instance)
    limit = max(
        (
            Fraction(stretch[job.name], job.period)
            for job in instance.jobs
            if stretch[job.name] > job.max_stretch
        ),
        default=None,
    )
    evaluation, unknown = _evaluate(instance, plan, limit)
    times = expected_ms(instance, plan, outcome.slowdowns)
    value = mean_slowdown(instance, times)
    proved = value == bound.value and not outcome.simulated
    schedule = make_schedule(
        arguments,
        plan.offsets,
        stretch,
        {
            SLOWDOWN: value,
            DELAY: delay(instance, times),
            **(evaluation.objectives if evaluation else {}),
        },
        min(bound.value, value),  # chance may bring the value below the bound
        bound_prices=bound.prices or None,
        bound_pairs=bound.pairs,
        proved=proved,
        gated={job.name: job.name in plan.periods for job in instance.jobs},
        classes={job.name: plan.classes.get(job.name, 0) for job in instance.jobs}
        if instance.traffic_classes > 1
        else None,
        stretch_limit=limit,
        expected_ms=times,
    )
    stated = [name if name == DELAY else SLOWDOWN for name in names]
    unshifted_ms = {
        job.name: outcome.unshifted[job.name] * job.period * instance.slot_ms
        for job in instance.jobs
    }
    return Result(
        instance=instance,
        schedule=schedule,
        stop_reason=StopReason.PROVED if proved else arguments.budget.stop,
        evaluation=evaluation,
        build_s=0.0,
        solve_s=schedule.runtime_s,
        trajectory=tuple(trajectory),
        levels=tuple(Level(name, schedule.objectives[name], proved) for name in stated),
        notes=(
            *([_by_weight(instance, times)] if LEXICOGRAPHIC in names else []),
            *([_UNTIL_JOBS_LEAVE] if COMPLETION in names else []),
            *_robustness(instance, plan, options, arguments.budget),
            *unknown,
        ),
        unshifted_ms=unshifted_ms,
    )


def _robustness(
    instance: Instance, plan: Plan, options: SlotSearchOptions, budget: Budget
) -> list[str]:
    """Return up to which jitter a plan pays, as text; nothing without windows, classes or time."""
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
            text = f"this pays up to {pays:g} times the stated jitter; at {factor:g} times the "
            return [f"{text}slowdown is {gated:.4f}, with no job gated {ungated:.4f}"]
        pays = factor
    return [f"this pays up to {pays:g} times the stated jitter at least"] if pays > 1 else []


def _by_weight(instance: Instance, times_ms: Mapping[str, Fraction]) -> str:
    """Return the mean slowdowns of the jobs of each weight as text, the highest weight first."""
    texts = []
    for weight in sorted({job.weight for job in instance.jobs}, reverse=True):
        jobs = tuple(job for job in instance.jobs if job.weight == weight)
        mean = mean_slowdown(instance.replace(jobs=jobs), times_ms)
        texts.append(f"{float(mean):.4f} of weight {weight}")
    return f"slowdown by weight: {', '.join(texts)}"
