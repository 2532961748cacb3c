"""A cluster's state, and places for jobs in it."""

from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.cluster import ClusterSpec, Host, Rack, Resources, read_cluster
from metronome_opt.scheduling.compare import differences, rebuilt
from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.filtering import filter_nodes
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.overhead import normalise
from metronome_opt.scheduling.place import SEARCHES, Decision, place_all, place_job
from metronome_opt.scheduling.reasons import why_not
from metronome_opt.scheduling.request import read_request
from metronome_opt.scheduling.scoring import score_nodes
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.store import Store
from metronome_opt.scheduling.views import deployment_of, instance_of, schedule_of

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
