"""A cluster's state, and places for jobs in it."""

from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.cluster import ClusterSpec, Host, Rack, Resources, read_cluster
from metronome_opt.scheduling.compare import differences, rebuilt
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.place import SEARCHES, Decision, place_all, place_job, why_not
from metronome_opt.scheduling.request import read_request
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.store import Store
from metronome_opt.scheduling.views import deployment_of, instance_of, schedule_of

__all__ = [
    "SEARCHES",
    "Claim",
    "ClusterSpec",
    "ClusterState",
    "Decision",
    "Gang",
    "Host",
    "Rack",
    "Resources",
    "Store",
    "deployment_of",
    "differences",
    "instance_of",
    "place_all",
    "place_job",
    "read_cluster",
    "read_request",
    "rebuilt",
    "schedule_of",
    "why_not",
]
