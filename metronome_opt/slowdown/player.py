"""Plans judged by simulation: slowdowns, and harm to jobs.

Computing times vary by the jitter of each job, and clocks of gated jobs are wrong. Slots that hold
at one jitter may break at a larger one, and jobs that have lost theirs delay the others. So values
are those at the jitter that is stated, and a plan may harm no job at half, once or twice of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from metronome_opt.engine.conditions import jitter_or_default
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.runner import Lateness, Runner, Slot
from metronome_opt.instance import Instance, Sharing
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.objectives import Levels
from metronome_opt.slowdown.plan import Plan
from metronome_opt.solvers.budget import Budget

WARM_UP = 10
"""Periods of the longest job before anything counts: free jobs forget where they began."""

PERIODS = 40
"""Of the longest job, for which a simulation lasts after that."""

EVENTS_PER_S = 200_000
"""Events that are simulated in a second, at least."""

_HARM = 0.01
"""By what share a job may be slower than it would be otherwise."""

_NOISES = (1.0, 2.0, 0.5)
"""Shares of the stated jitter at which a plan may harm no job."""

_HARMLESS, _HARMED = 0.99, 0.95
"""Confidence of the upper limit of a loss that is no harm, and of the lower one of one that is, by
Student's distribution over seeds. The former is asked for again and again, so it is larger."""

_BATCHES = 16
"""Times as many seeds at most, where the first ones leave open whether a job is harmed."""

_CLOCK_MS = 1.0
"""By up to this the clock of a job is wrong; NTP in a local network keeps within it."""

WORTH = 2e-3
"""Less gain than this is none: so much do simulations differ by chance."""

Values = tuple[float, ...]

_PENALTY = 10.0  # for each unit of slowdown beyond that

_REMEMBERED = 64  # plans; a search tries thousands, and asks again for the last ones alone


def is_better(new: Values, old: Values, gain: float = 0.0) -> bool:
    """Return whether the first means that differ noticeably, or the last by a gain, are less."""
    for one, other in zip(new[:-1], old, strict=False):
        if abs(one - other) > WORTH:
            return one < other
    return new[-1] < old[-1] - gain


def lowest(new: Values, old: Values) -> Values:
    """Return new means, none but the last above an old one by chance: small losses add up."""
    pairs = zip(new[:-1], old, strict=False)
    return (*(min(a, b) if abs(a - b) <= WORTH else a for a, b in pairs), new[-1])


def levels_of(part: Instance, levels: Levels | None = None) -> Levels:
    """Return the weights in means that concern jobs of a part; their own if there are no others.

    All are 1 if all are 0.
    """
    names = [job.name for job in part.jobs]
    given = levels or ({job.name: job.weight for job in part.jobs},)
    concerned = tuple({name: level[name] for name in names} for level in given)
    kept = tuple(level for level in concerned if any(level.values()))
    return kept or (dict.fromkeys(names, 1),)


def mean_weights(instance: Instance, levels: Levels | None = None) -> Floats:
    """Return what a job's time over its period counts in means of slowdowns, shape (means, jobs).

    A slowdown is a multiple of the best period that the job can have, not of that at its place.
    """
    own = np.array([float(instance.over_best(job)) for job in instance.jobs])
    rows = [[float(weight) for weight in level.values()] for level in levels_of(instance, levels)]
    return np.asarray(np.array(rows) / np.sum(rows, axis=1, keepdims=True) * own)


class Player:
    """Lets the jobs of an instance run under plans; a job has the same chance under each of them.

    Parameters
    ----------
    seeds
        A simulation each. The slowdown of a job is the mean over them.
    network
        How links are shared; with ``gated``, gated jobs are served before others. None: as in the
        instance.
    noise
        Factor on the jitter of each job, 2 % where none is stated, and on errors of clocks.
        Without any, jobs with harmonic periods come round to the same meetings for ever, and a plan
        is judged by an accident.
    periods
        For how many periods of the longest job a simulation lasts once it counts.
    workers
        Threads for the simulations.
    levels
        Weights in the means of slowdowns that count; those of the jobs if left out.

    Attributes
    ----------
    weights
        As of `mean_weights`.
    least
        The means if no job is slower than its period.
    """

    def __init__(
        self,
        instance: Instance,
        seeds: Sequence[int],
        *,
        network: str | None = None,
        noise: float = 1.0,
        periods: int = PERIODS,
        workers: int = 1,
        levels: Levels | None = None,
    ) -> None:
        self.instance = instance
        self.seeds, self.network = tuple(seeds), network or instance.network
        self.noise, self._workers = noise, workers
        self._capacities = {link.name: link.capacity for link in instance.links}
        self._runners = [_with_noise(runner, noise) for runner in Runner.of_instance(instance)]
        longest = float(max(job.period for job in instance.jobs) * instance.slot_ms)
        self._warm, self._horizon = WARM_UP * longest, (WARM_UP + periods) * longest
        self._own = np.array([float(job.period * instance.slot_ms) for job in instance.jobs])
        self.weights = mean_weights(instance, levels)
        self.least: Values = tuple(self.weights.sum(axis=1).tolist())

    @property
    def events(self) -> float:
        """Approximate number of events of all simulations: each burst begins and ends."""
        bursts = np.array([len(job.phases) for job in self.instance.jobs])
        return float(2 * len(self.seeds) * (self._horizon / self._own * bursts).sum())

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the mean iteration time of each job over its period, shape (jobs,).

        `weights` make means of slowdowns of these, which are multiples of the best iteration.
        """
        return np.asarray(self.by_seed(plan).mean(axis=0))

    def by_seed(self, plan: Plan) -> Floats:
        """Return these means for each seed, shape (seeds, jobs).

        A job that does not end an iteration within the simulation takes as long as that.
        """
        each = partial(self._times, plan)
        if min(self._workers, len(self.seeds)) > 1:  # the event loop does not hold the interpreter
            with ThreadPoolExecutor(self._workers) as pool:
                times = list(pool.map(each, self.seeds))
        else:
            times = [each(seed) for seed in self.seeds]
        return np.asarray(np.array(times) / self._own)

    def value(self, slowdowns: Floats) -> float:
        """Return the first of the weighted means."""
        return self.values(slowdowns)[0]

    def values(self, slowdowns: Floats) -> Values:
        """Return the means of slowdowns, given times over periods."""
        return tuple((self.weights @ slowdowns).tolist())

    def traced(self, plan: Plan) -> Mapping[str, NDArray[Any]]:
        """Return the rates on all links, as `Engine.traced` has them, with the first seed."""
        engine = self._start(plan, self.seeds[0], watched=list(self._capacities))
        engine.run(self._horizon)
        return engine.traced()

    def _times(self, plan: Plan, seed: int) -> Floats:
        engine = self._start(plan, seed)
        engine.run(self._warm)
        earlier, gone = engine.ended()
        engine.run(self._horizon)
        spent, count = engine.ended()
        times = (spent - earlier) / np.maximum(count - gone, 1)
        return np.where(count > gone, times, self._horizon)

    def _start(self, plan: Plan, seed: int, watched: Sequence[str] = ()) -> Engine:
        slot_ms = self.instance.slot_ms
        classes, sharing = plan.classes, self.network
        runners = [replace(r, traffic_class=classes.get(r.name, 0)) for r in self._runners]
        if sharing == "gated":
            gated = (runner.name in plan.periods for runner in runners)
            runners = [replace(r, weight=int(g)) for r, g in zip(runners, gated, strict=True)]
            sharing = "strict"
        engine = Engine(
            self._capacities,
            runners,
            sharing=cast("Sharing", sharing),
            seed=seed,
            watched=watched,
        )
        wrong = np.random.default_rng(seed).uniform(-_CLOCK_MS, _CLOCK_MS, len(runners))
        for index, job in enumerate(self.instance.jobs):
            slot, at = None, float(plan.offsets[job.name] * slot_ms)
            if job.name in plan.periods:
                at = max(0.0, at + self.noise * wrong[index])
                bursts = sorted(float(phase.start * slot_ms) for phase in job.phases)
                slot = Slot(
                    period_ms=float(plan.periods[job.name] * slot_ms),
                    cushion_ms=0.0,
                    lateness=Lateness.YIELD,  # as real jobs do
                    bursts_ms=tuple(bursts),
                )
            engine.enter(index, job.links, at=at, slot=slot)
        return engine


def _with_noise(runner: Runner, noise: float) -> Runner:
    """Return a job with a factor on its jitter."""
    jitter = noise * jitter_or_default(runner.pattern.jitter)
    return replace(runner, pattern=replace(runner.pattern, jitter=jitter))


class Judge:
    """Weighted mean slowdown, and harm to jobs.

    A job is harmed if its upper confidence limit says that it may be slower than otherwise by more
    than 1 %.

    Parameters
    ----------
    network, levels
        As of `Player`.
    tolerance
        The share by which jobs of less than the largest weight may be slower instead of 1 %.
    base
        The plan that others are compared with; jobs unshifted, with none gated, if left out.
    budget
        When it is over, a plan that is not yet known to be harmless is not.

    Attributes
    ----------
    base
        Slowdown of each job under that plan, shape (jobs,).
    limits
        The slowdown of each job beyond which it is harmed, shape (jobs,).
    """

    def __init__(
        self,
        instance: Instance,
        seeds: Sequence[int],
        *,
        network: str | None = None,
        workers: int = 1,
        periods: int = PERIODS,
        levels: Levels | None = None,
        tolerance: float = 0.0,
        base: Plan | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._budget = budget or Budget()
        self._player_at = cache(
            lambda noise, batch: Player(
                instance,
                [seed + batch * len(seeds) for seed in seeds],
                network=network,
                noise=noise,
                workers=workers,
                periods=periods,
                levels=levels,
            )
        )
        self.player: Player = self._player_at(1.0, 0)
        self._names = [job.name for job in instance.jobs]
        self._simulated: dict[object, Floats] = {}
        self._base_plan = base or Plan(instance.unshifted)
        self._base: dict[tuple[float, int], Floats] = {}
        free = self._base_at(1.0, 0)
        self.base: Floats = free.mean(axis=0)
        largest = max(job.weight for job in instance.jobs)
        lighter = np.array([job.weight < largest for job in instance.jobs])
        self._harm = np.where(lighter, max(tolerance, _HARM), _HARM)
        self.limits: Floats = self.base * (1 + self._harm)

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the slowdown of each job."""
        return np.asarray(self._slowdowns(plan, 1.0, 0).mean(axis=0))

    def means(self, plan: Plan) -> Values:
        """Return the weighted mean slowdowns, without a penalty."""
        return self.player.values(self.slowdowns(plan))

    def value(self, plan: Plan) -> float:
        """Return the first of the values of a plan."""
        return self.values(plan)[0]

    def values(self, plan: Plan) -> Values:
        """Return the weighted mean slowdowns, the first with a penalty if jobs are slower."""
        first, *others = self.means(plan)
        beyond = float((self._losses(plan, 1.0, 0).mean(axis=0) - self._harm).max())
        return (first + _PENALTY * max(0.0, beyond), *others)

    def is_least(self, values: Values) -> bool:
        """Return whether no plan can be noticeably better: no job is slower than its period."""
        return all(
            one <= other + WORTH for one, other in zip(values, self.player.least, strict=True)
        )

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether no job is harmed at half, once or twice the stated jitter."""
        return all(self._is_harmless_at(noise, plan) for noise in _NOISES)

    def _is_harmless_at(self, noise: float, plan: Plan) -> bool:
        """Return whether no job is harmed, by as many seeds as it takes to be sure."""
        from scipy.special import stdtrit  # few plans come so far

        losses: list[Floats] = []
        for batch in range(_BATCHES):
            if self._budget.stopped:
                return False
            losses.extend(self._losses(plan, noise, batch))
            mean, seeds = np.mean(losses, axis=0), len(losses)
            if seeds == 1:
                continue
            error = np.std(losses, axis=0, ddof=1) / math.sqrt(seeds)
            if (mean - stdtrit(seeds - 1, _HARMED) * error > self._harm).any():
                return False
            if (mean + stdtrit(seeds - 1, _HARMLESS) * error <= self._harm).all():
                return True
        return False

    def _losses(self, plan: Plan, noise: float, batch: int) -> Floats:
        """Return by what share jobs are slower than under the base, as `_slowdowns` has them."""
        return self._slowdowns(plan, noise, batch) / self._base_at(noise, batch) - 1.0

    def _base_at(self, noise: float, batch: int) -> Floats:
        key = noise, batch
        if key not in self._base:
            self._base[key] = self._simulate(self._base_plan, *key)
        return self._base[key]

    def _slowdowns(self, plan: Plan, noise: float, batch: int) -> Floats:
        """Return slowdowns, shape (seeds, jobs); a plan is not simulated again."""
        if plan == self._base_plan:
            return self._base_at(noise, batch)
        rows = (
            (plan.offsets[name], plan.periods.get(name), plan.classes.get(name))
            for name in self._names
        )
        key = noise, batch, *rows
        if key not in self._simulated:
            if len(self._simulated) >= _REMEMBERED:
                self._simulated.clear()
            self._simulated[key] = self._simulate(plan, noise, batch)
        return self._simulated[key]

    def _simulate(self, plan: Plan, noise: float, batch: int) -> Floats:
        return self._player_at(noise, batch).by_seed(plan)
