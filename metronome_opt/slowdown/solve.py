"""The entry for people: least slowdown, unless other objectives are asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

from immutabledict import immutabledict

from metronome_opt.compatible.choices import most_stretch
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Instance
from metronome_opt.multiobjective import solve as solve_objectives
from metronome_opt.multiobjective.goals import Exact, check_reserve, exact
from metronome_opt.result import Event, Level, Result, Stop
from metronome_opt.schedule import OBJECTIVES, Schedule, Status
from metronome_opt.slowdown.minimise import Outcome, Terms, long_periods, minimise
from metronome_opt.slowdown.plan import Plan, expected_ms, mean_slowdown
from metronome_opt.slowdown.player import SAFE, SHARINGS, Player, plays, waits
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.registry import Run, Solver, find_solver
from metronome_opt.solvers.search import Callback
from metronome_opt.solvers.solve import (
    DEFAULT_TIME_LIMIT,
    check_instance,
    check_numbers,
    check_start,
    crowd,
    interrupt_stops,
    versions_of,
)
from metronome_opt.verify import evaluate

SLOWDOWN = "slowdown"
_MOST_WAITING = 100  # jobs of which it is said who waits for whom
_NOTICEABLE = 0.005  # of an iteration
_EVENTS_PER_S = 200_000  # that are simulated, at least
_VALUES = 3  # of all plays that there has to be time for


def solve(
    instance: Instance,
    solver: str | Run | Solver = "auto",
    *,
    time_limit: float | None = DEFAULT_TIME_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    objectives: Sequence[str] | None = None,
    stretch_limit: Exact | None = None,
    sharing: str | None = None,
    tolerance: Mapping[str, Exact] | None = None,
    weights: Mapping[str, Exact] | None = None,
    epsilon: Mapping[str, Exact] | None = None,
    strict: bool = False,
    cushion_slots: int = 0,
    callback: Callback | None = None,
    start: Schedule | None = None,
) -> Result:
    """Choose for every job whether it is gated, and when it may burst.

    Least is the weighted mean slowdown, mean iteration time over period, as the jobs are simulated:
    the mean over fair sharing and TCP, with computing times that vary by 1 %. In that mean no job
    is made slower by more than 1 % than it is if nobody is shifted; and under neither of them by
    more than 2 % both than that and than its slots are apart.

    Parameters
    ----------
    instance
        The problem.
    solver
        A name of `metronome_opt.SOLVERS`, or a function of one `metronome_opt.solvers.Search`; only
        ``auto`` knows slowdown, the others choose offsets of least contention.
    time_limit
        Seconds for everything; None for as long as it takes.
    seed
        For everything that is random.
    workers
        Threads; None for one per core.
    objectives
        ``["slowdown"]`` if left out and the solver knows it; else those of
        `metronome_opt.multiobjective.solve`.
    stretch_limit
        The share of its period by which a gated job may be stretched, if that is more than the
        instance says: ``"20%"``, or an exact number.
    sharing
        How the network shares links: ``fair``, ``tcp``, ``weighted`` or ``strict`` by priority, or
        ``gated``, where gated jobs are served first. If left out, what is chosen has to be good
        under ``fair`` and ``tcp``, and of jobs that meet all are gated or none.
    tolerance, weights, epsilon, strict
        For other objectives, see `metronome_opt.multiobjective.solve`.
    cushion_slots
        By how many slots bursts of gated jobs may be longer without disturbing one another.
    callback
        Told of every new incumbent; returns True to stop.
    start
        A schedule to begin with, of an earlier call or another instance with the same jobs. For
        slowdown it is tried first, for contention alone nothing worse is returned.

    Returns
    -------
    Result
        Its schedule says who is gated, and what iteration time is expected of each job.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    check_instance(instance)
    chosen = find_solver(solver)
    others = weights or tolerance or epsilon or strict
    plain = stretch_limit is None and sharing is None
    if objectives is None and plain and (chosen.name != "auto" or others or instance.needs_stretch):
        objectives = ("contention",)
    if objectives is not None and list(objectives) != [SLOWDOWN]:
        _check_alone(objectives, stretch_limit, sharing)
        return solve_objectives(
            instance,
            solver if isinstance(solver, str) else chosen,
            time_limit=time_limit,
            seed=seed,
            workers=workers,
            objectives=objectives,
            tolerance=tolerance,
            weights=weights,
            epsilon=epsilon,
            strict=strict,
            cushion_slots=cushion_slots,
            callback=callback,
            start=start,
        )
    _check_able(instance, chosen, others)
    check_numbers(time_limit, seed, workers)
    check_start(instance, start)
    check_reserve(instance, cushion_slots)
    terms = Terms(
        stretch_limit=_share(stretch_limit),
        cushion_slots=cushion_slots,
        seed=seed,
        workers=workers or os.cpu_count() or 1,
        sharings=_sharings(sharing),
        partly=sharing is not None,
        start=None if start is None else Plan.of(instance, start),
    )
    least = _least_time(instance)
    if time_limit is not None and time_limit < least:
        result = solve_objectives(
            instance,
            time_limit=time_limit,
            seed=seed,
            workers=workers,
            cushion_slots=cushion_slots,
            callback=callback,
            start=None if start is None or any(start.stretch.values()) or cushion_slots else start,
        )
        fits = not result.evaluation.objectives["contention"]
        note = (
            f"no time to simulate, for which {math.ceil(least)} s would do: "
            "least contention instead of least slowdown, "
            "without regard to a stretch limit and to how links are shared; "
            + ("all bursts fit" if fits else "not all bursts fit, so nobody is gated")
        )
        gated = dict.fromkeys((job.name for job in instance.jobs), fits)
        schedule = result.schedule.model_copy(update={"gated": immutabledict(gated)})
        return replace(result, schedule=schedule, notes=(*result.notes, note))
    _load_kernels()
    budget = Budget(time_limit)
    trajectory: list[Event] = []

    def report(slowdown: Fraction) -> None:
        event = Event(budget.elapsed, slowdown, Fraction(1), "play")
        trajectory.append(event)
        if callback is not None and callback(event):
            budget.end(Stop.CALLBACK)

    with interrupt_stops(budget):
        outcome = minimise(instance, terms, budget, report)
        return _result(instance, outcome, terms, budget, trajectory)


@cache
def _load_kernels() -> None:
    """Load, or compile, what no clock should count: all that two bursts that meet need."""
    three = crowd()
    minimise(three.replace(jobs=three.jobs[:2]), Terms(rounds=1), Budget())


def _share(value: Exact | None) -> Fraction | None:
    """Return the stretch limit as a number; one that is negative is refused."""
    limit = None if value is None else exact("stretch_limit", value)
    if limit is not None and limit < 0:
        raise InputError(f"stretch_limit: must be at least 0, got {quote(str(value))}")
    return limit


def _sharings(sharing: str | None) -> Sequence[str]:
    if sharing is None:
        return SAFE
    if sharing not in SHARINGS:
        raise InputError(
            f"sharing: {quote(sharing)} is not known; choose from {', '.join(SHARINGS)}"
        )
    return (sharing,)


def _check_alone(
    objectives: Sequence[str], stretch_limit: Exact | None, sharing: str | None
) -> None:
    if not isinstance(objectives, str) and SLOWDOWN in objectives:
        raise InputError("objectives: slowdown stands alone; leave the others out")
    if stretch_limit is not None:
        raise InputError(
            "stretch_limit: is for slowdown alone; other objectives keep to max_stretch of the jobs"
        )
    if sharing is not None:
        raise InputError("sharing: is for slowdown alone; other objectives do not depend on it")


def _check_able(instance: Instance, solver: Solver, others: object) -> None:
    if solver.name != "auto":
        raise InputError(f"solver: {solver.name} does not know slowdown; use auto")
    if others:
        raise InputError(
            "slowdown: knows no tolerance, weights, epsilon or strict; name other objectives"
        )
    if instance.needs_stretch:
        raise InputError(
            f"{instance.name}: jobs have to be stretched before links have hyperperiods; "
            "name stretch among the objectives"
        )


def _least_time(instance: Instance) -> float:
    """Return about how many seconds it takes to judge a plan at all."""
    player = Player(instance, plays(0, 4), periods=long_periods(instance))
    return _VALUES * player.events / _EVENTS_PER_S


def _result(
    instance: Instance, outcome: Outcome, terms: Terms, budget: Budget, trajectory: list[Event]
) -> Result:
    runtime = budget.elapsed
    plan = outcome.plan
    stretch = plan.stretch(instance)
    limit = max(
        (
            Fraction(stretch[job.name], job.period)
            for job in instance.jobs
            if stretch[job.name] > job.max_stretch
        ),
        default=None,
    )
    evaluation = evaluate(
        instance, plan.offsets, stretch, longer=terms.cushion_slots, stretch_limit=limit
    )
    expected = expected_ms(instance, plan, outcome.slowdowns)
    value = mean_slowdown(instance, expected)
    proved = value == 1 and not outcome.simulated
    schedule = Schedule(
        instance=instance.name,
        offsets=dict(plan.offsets),
        stretch=stretch,
        status=Status.OPTIMAL if proved else Status.FEASIBLE,
        objectives={SLOWDOWN: value, **{n: evaluation.objectives[n] for n in OBJECTIVES}},
        lower_bound=Fraction(1),
        solver="auto",
        seed=terms.seed,
        runtime_s=round(runtime, 6),
        versions=versions_of(find_solver("auto")),
        cushion_slots=terms.cushion_slots,
        gated={job.name: job.name in plan.periods for job in instance.jobs},
        stretch_limit=limit,
        expected_ms=expected,
    )
    return Result(
        instance=instance,
        schedule=schedule,
        stop=Stop.PROVED if proved else budget.stop,
        evaluation=evaluation,
        build_s=0.0,
        solve_s=runtime,
        trajectory=tuple(trajectory),
        levels=(Level(SLOWDOWN, value, proved),),
        unshifted_ms={
            job.name: outcome.unshifted[job.name] * job.period * instance.slot_ms
            for job in instance.jobs
        },
        notes=_notes(instance, terms),
        waits=_waits(instance, outcome) if len(instance.jobs) <= _MOST_WAITING else None,
    )


def _waits(instance: Instance, outcome: Outcome) -> dict[str, Mapping[str, float]]:
    """Return who holds up whom, of those that are noticeably slower than their slots are apart."""
    stretch = outcome.plan.stretch(instance)
    apart = {job.name: 1 + stretch[job.name] / job.period for job in instance.jobs}
    return {
        name: by if outcome.slowdowns[name] > (1 + _NOTICEABLE) * apart[name] else {}
        for name, by in waits(instance, outcome.plan).items()
    }


def _notes(instance: Instance, terms: Terms) -> tuple[str, ...]:
    """Say which stretch limit leaves every job some idle time, if the present one does not."""
    if all(most_stretch(instance, job, terms.stretch_limit) for job in instance.jobs):
        return ()
    slot = max(Fraction(1, job.period) for job in instance.jobs)
    least = max(Fraction(2), Fraction(math.ceil(1000 * slot), 10))
    said = (
        "some jobs may not be stretched by a slot, and one without idle time that is late once "
        f"stays so: with a stretch limit of {float(least):g}% more jobs may gain"
    )
    return (said,)
