"""Plans judged by letting the jobs run: slowdowns, whom they harm, and who waits for whom."""

from __future__ import annotations

from collections import defaultdict
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
"""A plan that is good under both is good on networks that nobody has set up for it."""
EVENTS_PER_S = 200_000
"""Events that are simulated in a second, at least."""


def plays(first: int, seeds: int, sharings: Sequence[str] = SAFE) -> tuple[Play, ...]:
    """Return plays under some ways of sharing, with some seeds each."""
    return tuple(
        Play(sharing, seed) for seed in range(first, first + seeds) for sharing in sharings
    )


_HARM = 0.01
"""By what share a job may be slower than it would be otherwise; twice that on a single network."""

_PENALTY = 10.0  # for each unit of slowdown beyond that

_REMEMBERED = 64  # plans; a search tries thousands, and asks again for the last ones alone

_FULL = 1 - 1e-9  # of a link's capacity

JITTER = 0.01
"""Standard deviation of a computing time, as a share of it. Without any, jobs with harmonic periods
come round to the same meetings for ever, and a plan is judged by an accident."""


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
    lateness, cushion_ms
        What gated jobs do that are late, by more than a cushion; to yield is what real ones do, and
        needs none.
    workers
        Threads for the plays.

    Attributes
    ----------
    weights
        Of the jobs, shape (jobs,); they add up to 1.
    """

    def __init__(
        self,
        instance: Instance,
        plays: Sequence[Play],
        *,
        jitter: float = JITTER,
        periods: int = PERIODS,
        lateness: Lateness = Lateness.YIELD,
        cushion_ms: float = 0.0,
        workers: int = 1,
    ) -> None:
        self.instance = instance
        self._manner, self._cushion_ms = lateness, cushion_ms
        self._workers = workers
        self._plays = tuple(plays)
        self._conditions = Conditions(jitter=jitter)
        self._capacities = {link.name: link.capacity for link in instance.links}
        self._runners = Runner.of_instance(instance)
        longest = float(max(job.period for job in instance.jobs) * instance.slot_ms)
        self._warm, self._horizon = WARM_UP * longest, (WARM_UP + periods) * longest
        self._own = np.array([float(job.period * instance.slot_ms) for job in instance.jobs])
        weights = np.array([float(job.weight) for job in instance.jobs])
        self.weights = weights if weights.any() else np.ones_like(weights)
        self.weights /= self.weights.sum()

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
        """Return the weighted mean of slowdowns; unweighted if all weights are 0."""
        return float(self.weights @ slowdowns)

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
        runners, sharing = self._runners, play.sharing
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
                    cushion_ms=self._cushion_ms,
                    lateness=self._manner,
                    bursts_ms=tuple(bursts),
                )
            engine.enter(index, job.links, at=float(plan.offsets[job.name] * slot_ms), slot=slot)
        return engine


class Judge:
    """Weighted mean slowdown, and a penalty if a job is harmed.

    A job is harmed if it is slower than unshifted in the mean over ways of sharing; and if, under
    one of them, it is slower by twice as much both than unshifted and than its slots are apart.

    Attributes
    ----------
    unshifted
        Slowdown of each job if nobody is shifted or gated, shape (jobs,).
    most
        The mean slowdown of each job beyond which it is harmed.
    """

    def __init__(
        self,
        instance: Instance,
        plays: Sequence[Play],
        *,
        workers: int = 1,
        periods: int = PERIODS,
    ) -> None:
        self.player = Player(instance, plays, workers=workers, periods=periods)
        self._names = [job.name for job in instance.jobs]
        self._played: dict[tuple[tuple[int, int | None], ...], Floats] = {}
        self._unshifted = self._by_sharing(Plan(instance.unshifted))
        self.unshifted: Floats = self._unshifted.mean(axis=0)
        self.most: Floats = self.unshifted * (1 + _HARM)

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the slowdown of each job."""
        return np.asarray(self._by_sharing(plan).mean(axis=0))

    def mean(self, plan: Plan) -> float:
        """Return the weighted mean slowdown, without a penalty."""
        return self.player.value(self.slowdowns(plan))

    def value(self, plan: Plan) -> float:
        """Return the value of a plan."""
        by_sharing = self._by_sharing(plan)
        value = self.player.value(by_sharing.mean(axis=0))
        return value + _PENALTY * max(0.0, self._beyond(plan, by_sharing))

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether no job is slower than it may be."""
        return self._beyond(plan, self._by_sharing(plan)) <= 0

    def _by_sharing(self, plan: Plan) -> Floats:
        """Return the slowdowns; nobody is let run again under the same plan."""
        key = tuple((plan.offsets[name], plan.periods.get(name)) for name in self._names)
        if key not in self._played:
            if len(self._played) == _REMEMBERED:
                self._played.clear()
            self._played[key] = self.player.by_sharing(plan)
        return self._played[key]

    def _beyond(self, plan: Plan, by_sharing: Floats) -> float:
        """Return by how much the job that is harmed most is slower than it may be."""
        jobs = self.player.instance.jobs
        apart = [plan.periods.get(job.name, job.period) / job.period for job in jobs]
        each = by_sharing - np.maximum(self._unshifted, apart) * (1 + 2 * _HARM)
        return float(max((by_sharing.mean(axis=0) - self.most).max(), each.max()))


def waits(instance: Instance, plan: Plan) -> Mapping[str, Mapping[str, float]]:
    """Return for each job the others that hold it up, each with its share of that.

    While a link is full, whoever sends on it more slowly than it could loses time, and the others
    there make it so, each by what it sends. Fair sharing, without jitter.
    """
    trace = Player(instance, (Play("fair", 0),), jitter=0.0).traced(plan)
    capacities = {link.name: link.capacity for link in instance.links}
    own = {
        job.name: min([job.peak, *(capacities[name] / n for name, n in job.links.items())])
        for job in instance.jobs
    }
    lost: dict[str, dict[str, float]] = {job.name: defaultdict(float) for job in instance.jobs}
    for link in instance.links:
        here = trace["link"] == link.name
        rows = zip(
            trace["time_ms"][here].tolist(),
            trace["job"][here],
            trace["rate_mbps"][here].tolist(),
            strict=True,
        )
        rates: dict[str, float] = {}
        before = 0.0
        for now, name, rate in rows:
            if now > before and sum(rates.values()) >= _FULL * link.capacity:
                _share_out(instance, link.name, rates, own, now - before, lost)
            before = now
            rates[name] = rate
            if not rate:
                del rates[name]
    return {
        name: {other: time / sum(by.values()) for other, time in by.items()}
        for name, by in lost.items()
    }


def _share_out(
    instance: Instance,
    link: str,
    rates: Mapping[str, float],
    own: Mapping[str, float],
    length: float,
    lost: Mapping[str, dict[str, float]],
) -> None:
    """Add what each job loses on a full link for a while."""
    total = sum(rates.values())
    for name, rate in rates.items():
        share = rate / (instance.job(name).links[link] * own[name])
        if share < _FULL:
            for other, theirs in rates.items():
                if other != name:
                    lost[name][other] += length * (1 - share) * theirs / (total - rate)
