"""What a plan brings, by letting the jobs run: the mean slowdown of each."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.simulate.conditions import Conditions, Sharing
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Manner, Pattern, Runner, Slot
from metronome_opt.slowdown.plan import Plan

if TYPE_CHECKING:
    import pandas as pd

_WARM_UP = (
    10  # periods of the longest job before anything counts: free jobs forget where they began
)
PERIODS = 40
"""Of the longest job, for which a play lasts after that."""


class Play(NamedTuple):
    """How jobs are let run once: how links are shared, and the seed of all that is random.

    Sharing is that of `Conditions`, or ``gated``: gated jobs are served before all others.
    """

    sharing: str
    seed: int


SHARINGS = (*get_args(Sharing), "gated")
SAFE = ("fair", "tcp")
"""A plan that is good under both is good on networks that nobody has set up for it."""


def plays(first: int, seeds: int, sharings: Sequence[str] = SAFE) -> tuple[Play, ...]:
    """Return plays under some ways of sharing, with some seeds each."""
    return tuple(
        Play(sharing, seed) for seed in range(first, first + seeds) for sharing in sharings
    )


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
    manner, cushion_ms
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
        manner: Manner = Manner.YIELD,
        cushion_ms: float = 0.0,
        workers: int = 1,
    ) -> None:
        self.instance = instance
        self._manner, self._cushion_ms = manner, cushion_ms
        self._workers = workers
        self._plays = tuple(plays)
        self._conditions = Conditions(jitter=jitter)
        self._capacities = {link.name: link.capacity for link in instance.links}
        self._runners = [
            Runner(
                job.name, Pattern.of_job(job, instance.slot_ms), job.weight, None, len(job.links)
            )
            for job in instance.jobs
        ]
        longest = float(max(job.period for job in instance.jobs) * instance.slot_ms)
        self._warm, self._horizon = _WARM_UP * longest, (_WARM_UP + periods) * longest
        self._own = np.array([float(job.period * instance.slot_ms) for job in instance.jobs])
        weights = np.array([float(job.weight) for job in instance.jobs])
        self.weights = weights if weights.any() else np.ones_like(weights)
        self.weights /= self.weights.sum()

    @property
    def events(self) -> float:
        """How many events all plays have, about: each burst begins and ends."""
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

    def trace(self, plan: Plan) -> pd.DataFrame:
        """Return the rates on all links, as `Engine.trace` has them, in the first play."""
        engine = self._start(plan, self._plays[0], watched=list(self._capacities))
        engine.run(self._horizon)
        return engine.trace()

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
                    manner=self._manner,
                    bursts_ms=tuple(bursts),
                )
            engine.enter(index, job.links, at=float(plan.offsets[job.name] * slot_ms), slot=slot)
        return engine
