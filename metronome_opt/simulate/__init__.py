"""What a schedule brings: iteration times, completion times and utilisation, simulated."""

from __future__ import annotations

from metronome_opt.simulate.conditions import Conditions
from metronome_opt.simulate.measures import Run
from metronome_opt.simulate.play import play
from metronome_opt.simulate.policies import PARTS, POLICIES
from metronome_opt.simulate.run import simulate

__all__ = ["PARTS", "POLICIES", "Conditions", "Run", "play", "simulate"]
