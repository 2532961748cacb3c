"""Plans judged by simulation: slowdowns, and harm to jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from metronome_opt.engine.conditions import Conditions, Sharing
from metronome_opt.engine.engine import Engine
from metronome_opt.engine.runner import Lateness, Runner, Slot
from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.objectives import Levels
from metronome_opt.slowdown.plan import Plan

WARM_UP = 10
"""Periods of the longest job before anything counts: free jobs forget where they began."""

PERIODS = 40
"""Of the longest job, for which a play lasts after that."""


class Play(NamedTuple):
    """One simulation: the sharing of links, and the seed of random numbers.

    Sharing is that of `Conditions`, or ``gated``: gated jobs are served before all others.
    """

    sharing: str
    seed: int


SHARINGS = (*get_args(Sharing), "gated")
SAFE: tuple[Sharing, ...] = ("fair", "tcp")
"""A plan that is good under both is good on networks that were not set up for it."""
EVENTS_PER_S = 200_000
"""Events that are simulated in a second, at least."""


def plays(first: int, seeds: int, sharings: Sequence[str] = SAFE) -> tuple[Play, ...]:
    """Return plays under some ways of sharing, with some seeds each."""
    return tuple(
        Play(sharing, seed) for seed in range(first, first + seeds) for sharing in sharings
    )


_HARM = 0.01
"""By what share a job may be slower than it would be otherwise; twice that on a single network."""

WORTH = 2e-3
"""Less gain than this is none: so much do plays differ by chance."""

Values = tuple[float, ...]

_PENALTY = 10.0  # for each unit of slowdown beyond that

_REMEMBERED = 64  # plans; a search tries thousands, and asks again for the last ones alone

JITTER = 0.01
"""Standard deviation of a computing time, as a share of it. Without any, jobs with harmonic periods
come round to the same meetings for ever, and a plan is judged by an accident."""


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


class Player:
    """Lets the jobs of an instance run under plans; a job has the same chance under each of them.

    Parameters
    ----------
    plays
        How; the slowdown of a job is the mean over ways of sharing, and over plays of each.
    jitter
        See `JITTER`.
    periods
        For how many periods of the longest job a play lasts once it counts.
    workers
        Threads for the plays.
    levels
        Weights in the means of slowdowns that count; those of the jobs if left out.

    Attributes
    ----------
    weights
        Of the jobs in these means, shape (means, jobs); those of a mean add up to 1.
    """

    def __init__(
        self,
        instance: Instance,
        plays: Sequence[Play],
        *,
        jitter: float = JITTER,
        periods: int = PERIODS,
        workers: int = 1,
        levels: Levels | None = None,
    ) -> None:
        self.instance = instance
        self._workers = workers
        self._plays = tuple(plays)
        self._conditions = Conditions(jitter=jitter)
        self._capacities = {link.name: link.capacity for link in instance.links}
        self._runners = Runner.of_instance(instance)
        longest = float(max(job.period for job in instance.jobs) * instance.slot_ms)
        self._warm, self._horizon = WARM_UP * longest, (WARM_UP + periods) * longest
        self._own = np.array([float(job.period * instance.slot_ms) for job in instance.jobs])
        rows = [[float(w) for w in level.values()] for level in levels_of(instance, levels)]
        self.weights = np.array(rows) / np.sum(rows, axis=1, keepdims=True)

    @property
    def events(self) -> float:
        """Approximate number of events of all simulations: each burst begins and ends."""
        bursts = np.array([len(job.phases) for job in self.instance.jobs])
        return float(2 * len(self._plays) * (self._horizon / self._own * bursts).sum())

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the mean iteration time of each job over its period, shape (jobs,)."""
        return np.asarray(self.by_sharing(plan).mean(axis=0))

    def by_sharing(self, plan: Plan) -> Floats:
        """Return these means for each way of sharing, shape (sharings, jobs).

        A job that does not end an iteration within the play takes as long as that.
        """
        each = partial(self._times, plan)
        if min(self._workers, len(self._plays)) > 1:  # the event loop does not hold the interpreter
            with ThreadPoolExecutor(self._workers) as pool:
                times = list(pool.map(each, self._plays))
        else:
            times = [each(play) for play in self._plays]
        by: dict[str, list[Floats]] = {}
        for play, ended in zip(self._plays, times, strict=True):
            by.setdefault(play.sharing, []).append(ended / self._own)
        return np.array([np.mean(each, axis=0) for each in by.values()])

    def value(self, slowdowns: Floats) -> float:
        """Return the first of the weighted means."""
        return self.values(slowdowns)[0]

    def values(self, slowdowns: Floats) -> Values:
        """Return the weighted means of slowdowns; unweighted if all weights are 0."""
        return tuple((self.weights @ slowdowns).tolist())

    def traced(self, plan: Plan) -> Mapping[str, NDArray[Any]]:
        """Return the rates on all links, as `Engine.traced` has them, in the first play."""
        engine = self._start(plan, self._plays[0], watched=list(self._capacities))
        engine.run(self._horizon)
        return engine.traced()

    def _times(self, plan: Plan, play: Play) -> Floats:
        engine = self._start(plan, play)
        engine.run(self._warm)
        earlier, gone = engine.ended()
        engine.run(self._horizon)
        spent, count = engine.ended()
        times = (spent - earlier) / np.maximum(count - gone, 1)
        return np.where(count > gone, times, self._horizon)

    def _start(self, plan: Plan, play: Play, watched: Sequence[str] = ()) -> Engine:
        slot_ms = self.instance.slot_ms
        classes, sharing = plan.classes, play.sharing
        runners = [replace(r, traffic_class=classes.get(r.name, 0)) for r in self._runners]
        if sharing == "gated":
            gated = (runner.name in plan.periods for runner in runners)
            runners = [replace(r, weight=int(g)) for r, g in zip(runners, gated, strict=True)]
            sharing = "strict"
        engine = Engine(
            self._capacities,
            runners,
            sharing=cast("Sharing", sharing),
            conditions=self._conditions,
            seed=play.seed,
            watched=watched,
        )
        for index, job in enumerate(self.instance.jobs):
            slot = None
            if job.name in plan.periods:
                bursts = sorted(float(phase.start * slot_ms) for phase in job.phases)
                slot = Slot(
                    period_ms=float(plan.periods[job.name] * slot_ms),
                    cushion_ms=0.0,
                    lateness=Lateness.YIELD,  # as real jobs do
                    bursts_ms=tuple(bursts),
                )
            engine.enter(index, job.links, at=float(plan.offsets[job.name] * slot_ms), slot=slot)
        return engine


class Judge:
    """Weighted mean slowdown, and a penalty if a job is harmed.

    A job is harmed if it is slower than unshifted in the mean over ways of sharing by more than
    1 %; and if, under one of them, by more than 2 % both than unshifted and than the period of its
    slots.

    Parameters
    ----------
    levels
        As of `Player`.
    tolerance
        The share by which jobs of less than the largest weight may be slower instead of 1 %.

    Attributes
    ----------
    unshifted
        Slowdown of each job unshifted, with no job gated, shape (jobs,).
    limits
        The mean slowdown of each job beyond which it is harmed.
    """

    def __init__(
        self,
        instance: Instance,
        plays: Sequence[Play],
        *,
        workers: int = 1,
        periods: int = PERIODS,
        levels: Levels | None = None,
        tolerance: float = 0.0,
    ) -> None:
        self.player = Player(instance, plays, workers=workers, periods=periods, levels=levels)
        self._names = [job.name for job in instance.jobs]
        self._played: dict[tuple[tuple[int | None, ...], ...], Floats] = {}
        self._unshifted = self._by_sharing(Plan(instance.unshifted))
        self.unshifted: Floats = self._unshifted.mean(axis=0)
        largest = max(job.weight for job in instance.jobs)
        lighter = np.array([job.weight < largest for job in instance.jobs])
        self._harm = np.where(lighter, max(tolerance, _HARM), _HARM)
        self.limits: Floats = self.unshifted * (1 + self._harm)

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the slowdown of each job."""
        return np.asarray(self._by_sharing(plan).mean(axis=0))

    def means(self, plan: Plan) -> Values:
        """Return the weighted mean slowdowns, without a penalty."""
        return self.player.values(self.slowdowns(plan))

    def value(self, plan: Plan) -> float:
        """Return the first of the values of a plan."""
        return self.values(plan)[0]

    def values(self, plan: Plan) -> Values:
        """Return the weighted mean slowdowns, the first of them with a penalty."""
        first, *others = self.means(plan)
        beyond = self._beyond(plan, self._by_sharing(plan))
        return (first + _PENALTY * max(0.0, beyond), *others)

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether no job is slower than it may be."""
        return self._beyond(plan, self._by_sharing(plan)) <= 0

    def _by_sharing(self, plan: Plan) -> Floats:
        """Return the slowdowns; the same plan is not simulated again."""
        key = tuple(
            (plan.offsets[name], plan.periods.get(name), plan.classes.get(name))
            for name in self._names
        )
        if key not in self._played:
            if len(self._played) == _REMEMBERED:
                self._played.clear()
            self._played[key] = self.player.by_sharing(plan)
        return self._played[key]

    def _beyond(self, plan: Plan, by_sharing: Floats) -> float:
        """Return by how much the job that is harmed most is slower than it may be."""
        jobs = self.player.instance.jobs
        alone = [plan.periods.get(job.name, job.period) / job.period for job in jobs]
        each = by_sharing - np.maximum(self._unshifted, alone) * (1 + self._harm + _HARM)
        return float(max((by_sharing.mean(axis=0) - self.limits).max(), each.max()))
