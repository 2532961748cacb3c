"""Searches for the places of jobs in a cluster."""

from metronome_opt.scheduling.cycle import Cycle, Partial, PlaceDecision
from metronome_opt.scheduling.nodes import filter_nodes, normalise, refusals, score_nodes, why_not
from metronome_opt.scheduling.place import SEARCHES, place_job, place_scenario

__all__ = [
    "SEARCHES",
    "Cycle",
    "Partial",
    "PlaceDecision",
    "filter_nodes",
    "normalise",
    "place_job",
    "place_scenario",
    "refusals",
    "score_nodes",
    "why_not",
]
