"""Simulation of plans: iteration times of the jobs of an instance.

Computing times vary by the jitter of each job, and clocks of gated jobs are wrong. An ungated job
begins anywhere in its period: the times of its bursts are not known, and with little jitter they
stay for hundreds of iterations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import numpy as np

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.engine.conditions import jitter_or_default
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.engine.jobs import EngineJob, WindowSchedule
from metronome_opt.problem.instance import Instance, Job, Phase, Sharing
from metronome_opt.problem.objectives import MeanWeights
from metronome_opt.scenario.iteration import Iteration

WARM_UP = 10
"""Periods of the longest job before anything counts."""

PERIODS = 40
"""Of the longest job, for which a simulation lasts after that."""

EVENTS_PER_S = 500_000
"""Events that are simulated in a second, at least."""

Values = tuple[float, ...]

_CLOCK_MS = 1.0  # by up to this clocks are wrong; NTP in a local network keeps within it
_FIRST_TOLERANCE = 0.02  # of its period, by which a job may be late for its first window

_EVENTS_PER_PERIOD = 500  # of a replication that is lengthened, until a job ends an iteration
_MAX_EVENTS = 50_000
_MIN_ITERATIONS = 5  # of a job that leaves
_MAX_SLOWDOWN = 20.0  # of a job that leaves: beyond that it is broken off


def means_of(part: Instance, mean_weights: MeanWeights | None = None) -> MeanWeights:
    """Return weights in means that concern jobs of a part, by default their own; 1 if all are 0."""
    names = [job.name for job in part.jobs]
    given = mean_weights or ({job.name: job.weight for job in part.jobs},)
    concerned = tuple({name: level[name] for name in names} for level in given)
    kept = tuple(level for level in concerned if any(level.values()))
    return kept or (dict.fromkeys(names, 1),)


def weight_rows(instance: Instance, mean_weights: MeanWeights | None = None) -> Floats:
    """Return the coefficients of a job's time over its period in means, shape (means, jobs).

    A slowdown is a multiple of the best period that the job can have, not of that at its placement.
    """
    own = np.array([float(instance.over_best(job)) for job in instance.jobs])
    rows = np.array([list(level.values()) for level in means_of(instance, mean_weights)], float)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True) * own)


class PlanSimulator:
    """Simulates the jobs of an instance under plans, with common random numbers.

    Parameters
    ----------
    seeds
        Seeds, one for each replication.
    network
        How links are shared; with ``gated``, gated jobs are served before others. None: as in the
        instance.
    jitter_factor
        Factor on the jitter of each job, 2 % where none is stated, and on errors of clocks.
    periods
        Length of a replication after the warm-up, in periods of the longest job.
    threads
        Threads for the replications.
    mean_weights
        Weights in the means of slowdowns that count; those of the jobs if None.
    lives_ms
        How long each job still runs at its best iteration, by name, in ms: jobs leave in that
        order, and a replication lasts until all have left, without a warm-up. It is shortened in
        proportion to `periods`. None: no job leaves.
    exact_iterations
        Exact iterations by name; those of the instance are rounded to slots.
    classes
        The traffic class of jobs for which a plan names none, by name; otherwise 0.
    starts_in_slots
        Whether gated jobs begin in their windows; otherwise they begin anywhere, and get these a
        period of the longest job later.

    Attributes
    ----------
    weights
        As of `weight_rows`.
    least
        The means if no job is slower than its period.
    """

    def __init__(
        self,
        instance: Instance,
        seeds: Sequence[int],
        *,
        network: str | None = None,
        jitter_factor: float = 1.0,
        periods: int = PERIODS,
        threads: int = 1,
        mean_weights: MeanWeights | None = None,
        lives_ms: Mapping[str, float] | None = None,
        exact_iterations: Mapping[str, Iteration] | None = None,
        classes: Mapping[str, int] | None = None,
        starts_in_slots: bool = True,
    ) -> None:
        self.instance = instance
        self.seeds, self.network = tuple(seeds), network or instance.network
        self.jitter_factor, self._threads = jitter_factor, threads
        self._capacities = {link.name: link.capacity for link in instance.links}
        own = np.array([float(job.period * instance.slot_ms) for job in instance.jobs])
        self._own, longest = own, float(own.max())
        self._isolated = np.array([_isolated_ms(instance, job) for job in instance.jobs])
        self._bursts = np.array([len(job.phases) for job in instance.jobs])
        self._warm, self._horizon = WARM_UP * longest, (WARM_UP + periods) * longest
        # A job that its links slow down has to end an iteration, if that does not take too long.
        self._max_events = min(_EVENTS_PER_PERIOD * periods, _MAX_EVENTS)
        affordable = self._max_events / (2 * (self._bursts / self._isolated).sum())
        slowest = float(self._isolated.max())
        self._horizon = max(self._horizon, min(self._warm + 3 * slowest, affordable))
        exact, self._classes = exact_iterations or {}, classes or {}
        self._jobs = []
        for job in EngineJob.of_instance(instance):
            pattern = exact.get(job.name, job.pattern)
            jitter = jitter_factor * jitter_or_default(pattern.jitter)
            self._jobs.append(replace(job, pattern=replace(pattern, jitter=jitter)))
        self._leave, self._starts_in_slots = lives_ms is not None, starts_in_slots
        if lives_ms is not None:
            lives = np.array([lives_ms[job.name] for job in instance.jobs])
            lives *= min(1.0, periods * longest / lives.max())
            best = own / [float(instance.over_best(job)) for job in instance.jobs]
            counts = np.maximum(_MIN_ITERATIONS, np.rint(lives / best)).astype(int)
            self._jobs = [
                replace(runner, iterations=count)
                for runner, count in zip(self._jobs, counts.tolist(), strict=True)
            ]
            self._warm = 0.0
            self._horizon = _MAX_SLOWDOWN * float((counts * self._isolated).max())
        self.weights = weight_rows(instance, mean_weights)
        self.least: Values = tuple(self.weights.sum(axis=1).tolist())

    @property
    def events(self) -> float:
        """Approximate number of events of all replications: each burst begins and ends."""
        counts = self._horizon / self._isolated
        if self._leave:
            counts = np.array([runner.iterations or 0 for runner in self._jobs])
        return float(2 * len(self.seeds) * (counts * self._bursts).sum())

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the mean iteration time of each job over its period, shape (jobs,).

        `weights` make means of slowdowns of these, which are multiples of the best iteration.
        """
        return np.asarray(self.bounded(self.replicate(plan)).mean(axis=0))

    def bounded(self, slowdowns: Floats) -> Floats:
        """Return slowdowns to compare plans by: what is not known is as long as a replication."""
        least = np.maximum(self._horizon, self._isolated) / self._own
        return np.where(np.isnan(slowdowns), least, slowdowns)

    def replicate(self, plan: Plan) -> Floats:
        """Return the mean iteration time over its period for each seed, shape (seeds, jobs).

        It is NaN of a job that ends no iteration within the replication.
        """
        max_events = 0 if self._leave else self._max_events

        def replicate(seed: int) -> Floats:
            return self._start(plan, seed).mean_times(self._warm, self._horizon, max_events)

        if min(self._threads, len(self.seeds)) > 1:  # the event loop does not hold the interpreter
            with ThreadPoolExecutor(self._threads) as pool:
                times = list(pool.map(replicate, self.seeds))
        else:
            times = [replicate(seed) for seed in self.seeds]
        return np.asarray(np.array(times) / self._own)

    def value(self, slowdowns: Floats) -> float:
        """Return the first of the weighted means."""
        return self.values(slowdowns)[0]

    def values(self, slowdowns: Floats) -> Values:
        """Return the means of slowdowns, given times over periods."""
        return tuple((self.weights @ slowdowns).tolist())

    def run_once(self, plan: Plan, watched: Sequence[str] = ()) -> Engine:
        """Return the engine after the first replication; rates on watched links are traced."""
        engine = self._start(plan, self.seeds[0], watched)
        engine.run(self._horizon)
        return engine

    def _start(self, plan: Plan, seed: int, watched: Sequence[str] = ()) -> Engine:
        slot_ms = self.instance.slot_ms
        classes, sharing = {**self._classes, **plan.classes}, self.network
        jobs = [replace(r, traffic_class=classes.get(r.name, 0)) for r in self._jobs]
        if sharing == "gated":
            gated = (runner.name in plan.periods for runner in jobs)
            jobs = [replace(r, weight=int(g)) for r, g in zip(jobs, gated, strict=True)]
            sharing = "strict"
        engine = Engine(
            self._capacities, jobs, sharing=cast("Sharing", sharing), seed=seed, watched=watched
        )
        draw = np.random.default_rng(seed)
        wrong = draw.uniform(-_CLOCK_MS, _CLOCK_MS, len(jobs))
        phases = draw.uniform(0.0, 1.0, len(jobs))
        slots: list[tuple[int, float, WindowSchedule]] = []
        for index, job in enumerate(self.instance.jobs):
            slot, at = None, float(plan.offsets[job.name] * slot_ms)
            if job.name in plan.periods:
                at = max(0.0, at + self.jitter_factor * wrong[index])
                period_ms = float(plan.periods[job.name] * slot_ms)
                slot = burst_windows(period_ms, job.phases, slot_ms)
            if jobs[index].pattern.jitter and not (slot and self._starts_in_slots):
                if slot is not None:
                    slots.append((index, at, slot))
                    slot = None
                at += phases[index] * self._own[index]
            engine.start_job(index, job.links, at=at, windows=slot)
        if slots:  # jobs run before they get their windows
            engine.run(float(self._own.max()))
        for index, at, slot in slots:
            ready = engine.earliest_start(index)
            engine.set_windows(index, slot, ready + (at - ready) % slot.period_ms)
        return engine


def _isolated_ms(instance: Instance, job: Job) -> float:
    """Return about how long an iteration takes on links without other jobs, at least its period."""
    capacities = {link.name: link.capacity for link in instance.links}
    limit = min((capacities[link] / flows for link, flows in job.links.items()), default=math.inf)
    excess = (phase.length * max(0.0, phase.rate / limit - 1) for phase in job.phases)
    return instance.slot_ms * (job.period + sum(excess))


def burst_windows(period_ms: float, phases: Iterable[Phase], slot_ms: int) -> WindowSchedule:
    """Return the windows of the bursts of a gated job.

    Parameters
    ----------
    period_ms
        From one window of a burst to its next.
    phases
        The bursts, in slots.

    Returns
    -------
    WindowSchedule
        Its tolerance is 2 % of the period.
    """
    bursts = sorted(float(phase.start * slot_ms) for phase in phases)
    return WindowSchedule(period_ms, _FIRST_TOLERANCE * period_ms, bursts_ms=tuple(bursts))
