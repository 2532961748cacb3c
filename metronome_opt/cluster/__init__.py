"""A cluster that runs: its state and journal, a monitor of its jobs, and profiles of traffic."""

from metronome_opt.cluster.gang import Gang, Reservation, read_request
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.store import Store

__all__ = ["ClusterState", "Gang", "Reservation", "Store", "read_request"]
