"""Metronome: places and starts by what they cost all jobs."""

from __future__ import annotations

from dataclasses import replace

from metronome_opt.allocation.meetings import Meetings
from metronome_opt.allocation.occupancy import Occupancy, Outlook, Placed
from metronome_opt.allocation.starts import decide_start
from metronome_opt.scenario.network import Placement
from metronome_opt.simulate.policies.plain import Default
from metronome_opt.simulate.state import SimState, TrainingJob


class Metronome(Default):
    """Asks `allocation` where a job runs and when it starts, as the controller does."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._meetings: Meetings | None = None

    def place(self, job: TrainingJob, state: SimState) -> Placement | None:
        """Return the placement with the cheapest start, None if that is not now."""
        if self._meetings is None:
            self._meetings = Meetings([state.sharing])
        placed = [
            Placed(replace(each.job.demand, length_ms=state.left_ms(index)), each.placement)
            for index, each in state.running.items()
        ]
        occupancy = Occupancy(state.room, placed, self._meetings, Outlook())
        waited = state.now - 1000 * job.work.arrival_s
        return decide_start(job.demand, occupancy, waited).placement
