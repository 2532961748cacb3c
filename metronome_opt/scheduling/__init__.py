"""A cluster's state, and places for jobs in it."""

from metronome_opt.scenario.cluster import ClusterSpec, read_cluster
from metronome_opt.scheduling.cycle import Cycle, Partial, PlaceDecision
from metronome_opt.scheduling.gang import Gang, Reservation, read_request
from metronome_opt.scheduling.nodes import filter_nodes, normalise, refusals, score_nodes, why_not
from metronome_opt.scheduling.place import SEARCHES, place_job, place_scenario
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.store import Store

__all__ = [
    "SEARCHES",
    "ClusterSpec",
    "ClusterState",
    "Cycle",
    "Gang",
    "Partial",
    "PlaceDecision",
    "Reservation",
    "Store",
    "filter_nodes",
    "normalise",
    "place_job",
    "place_scenario",
    "read_cluster",
    "read_request",
    "refusals",
    "score_nodes",
    "why_not",
]
