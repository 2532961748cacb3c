"""What a policy is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from metronome_opt.simulate.cluster import Placement
from metronome_opt.simulate.conditions import Sharing
from metronome_opt.simulate.jobs import TrainingJob
from metronome_opt.simulate.state import Order, Placed, State


class Policy(Protocol):
    """Decides where jobs run and when they begin.

    Attributes
    ----------
    sharing
        How it asks the network to share links.
    contends
        Whether its jobs share links at all.
    """

    sharing: Sharing
    contends: bool

    def __init__(self, seed: int) -> None:
        """Take the seed of whatever it draws."""

    def place(self, job: TrainingJob, state: State) -> Placement | None:
        """Return where a waiting job is to run; None to let it wait."""

    def admits(self, job: TrainingJob, placement: Placement, state: State) -> bool:
        """Whether a waiting job may run where the scenario says; there are GPUs for it."""

    def plan(self, state: State, came: Sequence[int], left: Sequence[Placed]) -> list[Order]:
        """Return what jobs are to do now that some came, which run already, and some left.

        A job that came and is not named begins at once; who is not named goes on as before.
        """
