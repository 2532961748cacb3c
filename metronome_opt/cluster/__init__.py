"""Running cluster: state and journal, monitor of jobs, traffic profiles."""

from metronome_opt.cluster.gang import Gang, Reservation, read_request
from metronome_opt.cluster.state import ClusterState
from metronome_opt.cluster.store import Store

__all__ = ["ClusterState", "Gang", "Reservation", "Store", "read_request"]
