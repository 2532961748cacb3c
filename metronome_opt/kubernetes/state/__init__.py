"""Running cluster: state and journal, monitor of jobs, traffic profiles."""

from metronome_opt.kubernetes.state.records import Gang, Reservation, read_request
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.store import Store

__all__ = ["ClusterState", "Gang", "Reservation", "Store", "read_request"]
