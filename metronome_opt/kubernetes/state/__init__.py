"""Running cluster: its state in a file, and the monitor of its jobs."""

from metronome_opt.kubernetes.state.records import Gang, Reservation, read_request
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.store import Store, read_cluster_state

__all__ = ["ClusterState", "Gang", "Reservation", "Store", "read_cluster_state", "read_request"]
