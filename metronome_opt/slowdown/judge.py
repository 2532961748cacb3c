"""The value of a plan, and whether it harms a job."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import PERIODS, Play, Player

HARM = 0.01
"""By what share a job may be slower than it would be otherwise; twice that on a single network."""

_PENALTY = 10.0  # for each unit of slowdown beyond that


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
        harm: float = HARM,
        workers: int = 1,
        periods: int = PERIODS,
    ) -> None:
        self.player = Player(instance, plays, workers=workers, periods=periods)
        self._harm = harm
        self._unshifted = self.player.by_sharing(Plan(instance.unshifted))
        self.unshifted: Floats = self._unshifted.mean(axis=0)
        self.most: Floats = self.unshifted * (1 + harm)

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the slowdown of each job."""
        return np.asarray(self._by_sharing(plan).mean(axis=0))

    def value(self, plan: Plan) -> float:
        """Return the value of a plan."""
        by_sharing = self._by_sharing(plan)
        value = self.player.value(by_sharing.mean(axis=0))
        return value + _PENALTY * max(0.0, self._beyond(plan, by_sharing))

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether no job is slower than it may be."""
        return self._beyond(plan, self._by_sharing(plan)) <= 0

    def _by_sharing(self, plan: Plan) -> Floats:
        """Return the slowdowns; nobody is let run again to be unshifted."""
        same = not plan.periods and plan.offsets == self.player.instance.unshifted
        return self._unshifted if same else self.player.by_sharing(plan)

    def _beyond(self, plan: Plan, by_sharing: Floats) -> float:
        """Return by how much the job that is harmed most is slower than it may be."""
        jobs = self.player.instance.jobs
        apart = [plan.periods.get(job.name, job.period) / job.period for job in jobs]
        each = by_sharing - np.maximum(self._unshifted, apart) * (1 + 2 * self._harm)
        return float(max((by_sharing.mean(axis=0) - self.most).max(), each.max()))
