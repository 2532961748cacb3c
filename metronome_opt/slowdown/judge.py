"""The value of a plan, and whether it harms a job."""

from __future__ import annotations

from collections.abc import Sequence

from metronome_opt.instance import Instance
from metronome_opt.kernels.fluid.world import Floats
from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import PERIODS, Play, Player

HARM = 0.01
"""By what share a job may be slower than unshifted."""

_PENALTY = 10.0  # for each unit of slowdown beyond that


class Judge:
    """Weighted mean slowdown, and a penalty if a job is harmed.

    Attributes
    ----------
    unshifted
        Slowdown of each job if nobody is shifted or gated, shape (jobs,).
    most
        The slowdown of each job beyond which it is harmed.
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
        self.unshifted: Floats = self.player.slowdowns(Plan(instance.unshifted))
        self.most: Floats = self.unshifted * (1 + harm)

    def slowdowns(self, plan: Plan) -> Floats:
        """Return the slowdown of each job; nobody is let run again to be unshifted."""
        same = not plan.periods and plan.offsets == self.player.instance.unshifted
        return self.unshifted if same else self.player.slowdowns(plan)

    def value(self, plan: Plan) -> float:
        """Return the value of a plan."""
        slowdowns = self.slowdowns(plan)
        beyond = (slowdowns - self.most).clip(min=0)
        return self.player.value(slowdowns) + _PENALTY * float(beyond.max(initial=0.0))

    def is_harmless(self, plan: Plan) -> bool:
        """Return whether no job is slower than it may be."""
        return bool((self.slowdowns(plan) <= self.most).all())
