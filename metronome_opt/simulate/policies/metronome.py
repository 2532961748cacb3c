"""Metronome: the decisions of `allocation`, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from metronome_opt.allocation.meetings import Meetings
from metronome_opt.allocation.occupancy import Occupancy, Outlook, Placed
from metronome_opt.allocation.starts import Waiting, decide_starts
from metronome_opt.scenario.network import Placement
from metronome_opt.simulate.policies.plain import Default
from metronome_opt.simulate.state import SimState, TrainingJob


class Metronome(Default):
    """Lets `allocation` decide where a job runs and when it starts."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._meetings: Meetings | None = None

    def starts(
        self, waiting: Sequence[TrainingJob], state: SimState
    ) -> Iterator[tuple[TrainingJob, Placement]]:
        """Yield the jobs whose cheapest start is now."""
        if self._meetings is None:
            self._meetings = Meetings([state.sharing])
        placed = [
            Placed(replace(each.job.demand, length_ms=state.left_ms(index)), each.placement)
            for index, each in state.running.items()
        ]
        occupancy = Occupancy(state.room, placed, self._meetings, Outlook())
        asked = [Waiting(job.demand, state.now - 1000 * job.work.arrival_s) for job in waiting]
        decisions = decide_starts(asked, occupancy, self._seed)
        for job in waiting:
            placement = decisions[job.name].placement
            if placement is not None:
                yield job, placement
