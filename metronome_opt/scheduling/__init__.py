"""Placement of jobs in a cluster."""

from metronome_opt.scheduling.cycle import PlaceDecision
from metronome_opt.scheduling.place import place_job, place_scenario
from metronome_opt.scheduling.reasons import why_not

__all__ = ["PlaceDecision", "place_job", "place_scenario", "why_not"]
