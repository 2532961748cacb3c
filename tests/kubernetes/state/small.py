"""Small clusters, jobs that run on them, and gangs that ask for a placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.clusters import make_cluster
from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.problem.instance import Phase
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.nodes import Resources


def cluster(
    racks: Sequence[int],
    *,
    gpus: int | Sequence[int] = 2,
    interface: int = 100,
    uplink: int | None = 150,
    hyperperiod: int = 24,
) -> ClusterSpec:
    """Return nodes n0, n1, ... in racks of some sizes, whose uplinks are up-0, up-1, ..."""
    return make_cluster(
        racks, name="small", gpus=gpus, interface=interface, uplink=uplink, hyperperiod=hyperperiod
    )


def gang(tasks: int, *bursts: tuple[int, int, int], name: str = "new", **fields: Any) -> Gang:
    """Return a gang whose tasks have `bursts` (start, length, rate) in 12 slots.

    They need a GPU each if nothing is said of that.
    """
    phases = tuple(Phase(start=s, length=m, rate=b) for s, m, b in bursts or [(0, 4, 60)])
    return Gang(name=name, tasks=tasks, phases=phases, **{"period": 12, **fields})


def running(
    name: str,
    nodes: str,
    *bursts: tuple[int, int, int],
    offset: int = 0,
    gpus: int = 0,
    **fields: Any,
) -> Reservation:
    """Return the reservation of a job with a task on each of `nodes`, "n0 n1"."""
    names = tuple(nodes.split())
    asked = gang(len(names), *bursts, name=name, each=Resources(gpus=gpus), **fields)
    return Reservation(gang=asked, nodes=names, offset=offset)


def state_of(spec: ClusterSpec, *reservations: Reservation) -> ClusterState:
    """Return a cluster with some reservations in force."""
    state = ClusterState(spec)
    for reservation in reservations:
        state.reserve(reservation)
    return state


A = running("a", "n0 n1", (0, 4, 60), offset=2, weight=2, gpus=1)
B = running("b", "n0 n2", (0, 2, 30), offset=7, period=8, gpus=1)


def change(state: ClusterState) -> ClusterState:
    """Let four events happen: two jobs come, a link slows down, a node fails."""
    state.reserve(A)
    state.reserve(B)
    state.set_capacity("up-1", 40)
    state.set_node("n3", up=False)
    return state


def usual() -> ClusterState:
    """Return the state after these."""
    return change(ClusterState(cluster([2, 2])))
