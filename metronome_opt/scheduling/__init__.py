"""A cluster's state, and places for jobs in it."""

from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.cluster import ClusterSpec, Host, Rack, Resources, read_cluster
from metronome_opt.scheduling.cycle import Cycle, Decision, Partial
from metronome_opt.scheduling.filtering import filter_nodes, why_not
from metronome_opt.scheduling.gang import Gang, read_request
from metronome_opt.scheduling.place import SEARCHES, place_all, place_job
from metronome_opt.scheduling.scoring import normalise, score_nodes
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.store import Store
from metronome_opt.scheduling.views import (
    deployment_of,
    differences,
    instance_of,
    rebuilt,
    schedule_of,
)

__all__ = [
    "SEARCHES",
    "Claim",
    "ClusterSpec",
    "ClusterState",
    "Cycle",
    "Decision",
    "Gang",
    "Host",
    "Partial",
    "Rack",
    "Resources",
    "Store",
    "deployment_of",
    "differences",
    "filter_nodes",
    "instance_of",
    "normalise",
    "place_all",
    "place_job",
    "read_cluster",
    "read_request",
    "rebuilt",
    "schedule_of",
    "score_nodes",
    "why_not",
]
