"""Latency and priority together: several objectives in order, as a sum, or as a front."""

from metronome_opt.multiobjective.front import Front, FrontEvent
from metronome_opt.multiobjective.pareto import pareto
from metronome_opt.multiobjective.periods import Periods, choose_periods, stretched

__all__ = [
    "Front",
    "FrontEvent",
    "Periods",
    "choose_periods",
    "pareto",
    "stretched",
]
