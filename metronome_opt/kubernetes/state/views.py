"""Conversions of a cluster state: documents, instances, schedules, deployments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError, error_context, format_path
from metronome_opt.files.records import (
    FrozenDict,
    FrozenMap,
    Name,
    NonNegative,
    Record,
    parse_record,
)
from metronome_opt.kubernetes.state.records import CapacityChanged, NodeChanged, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.placed_instance import Deployment, Task
from metronome_opt.verify import evaluate

STATE_FORMAT = "metronome-state/1"


class StateSnapshot(Record):
    """A state as a document.

    Parameters
    ----------
    claims
        Reservations in force, in the order in which they came.
    capacities, down
        Of links that do not carry what the cluster's description says, in Mbit/s, and nodes that
        take no tasks.
    mode
        That jobs share links; all that was ever written.
    cluster, sequence
        As in `ClusterState`.
    """

    format: Literal["metronome-state/1"] = "metronome-state/1"
    cluster: ClusterSpec
    mode: Literal["shared"] = "shared"
    sequence: NonNegative = 0
    claims: Annotated[tuple[Reservation, ...], Field(strict=False)] = ()
    capacities: FrozenMap[Name, NonNegative] = Field(default_factory=FrozenDict)
    down: Annotated[tuple[Name, ...], Field(strict=False)] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateSnapshot:
        """Build a snapshot from a document of format ``metronome-state/1``."""
        return parse_record(cls, data, STATE_FORMAT)


def snapshot_of(state: ClusterState) -> StateSnapshot:
    """Return a state as a document."""
    nominal, nodes = state.cluster.capacities, state.cluster.nodes
    return StateSnapshot(
        cluster=state.cluster,
        sequence=state.sequence,
        claims=tuple(state.reservations.values()),
        capacities={
            link: capacity
            for link, capacity in state.capacities.items()
            if capacity != nominal[link]
        },
        down=tuple(node.name for node, up in zip(nodes, state.up, strict=True) if not up),
    )


def restore(snapshot: StateSnapshot) -> ClusterState:
    """Build a state from its document.

    Claims that were in force stay so, even if today there would be no bandwidth for them.

    Raises
    ------
    InputError
        If the document contradicts itself.
    """
    state = ClusterState(snapshot.cluster)
    for index, reservation in enumerate(snapshot.claims):
        with error_context(f"claims[{index}]"):
            state.restore(reservation)
    for link, capacity in snapshot.capacities.items():
        with error_context(format_path(["capacities", link])):
            state.apply(CapacityChanged(link=link, capacity=capacity))
    for index, node in enumerate(snapshot.down):
        with error_context(f"down[{index}]"):
            state.apply(NodeChanged(node=node, up=False))
    state.sequence = snapshot.sequence
    return state


def instance_of(state: ClusterState, jobs: Iterable[str] | None = None) -> Instance:
    """Return the reservations in force as an instance, their offsets as the current ones.

    A link that has failed carries 1 Mbit/s there, since instances know no less.

    Parameters
    ----------
    jobs
        Only these, with the links that they cross; all jobs and all links if None.
    """
    chosen = [state.reservation(job) for job in (state.reservations if jobs is None else jobs)]
    if not chosen:
        raise InputError(f"{state.cluster.name}: no reservations are in force")
    flows = [state.flows(reservation.job) for reservation in chosen]
    crossed = {link for each in flows for link in each}
    return Instance(
        name=state.cluster.name,
        slot_ms=state.cluster.slot_ms,
        links=tuple(
            Link(name=link, capacity=max(1, capacity))
            for link, capacity in state.capacities.items()
            if jobs is None or link in crossed
        ),
        jobs=tuple(
            reservation.gang.job(
                links, stretch=reservation.stretch, current_offset=reservation.offset
            )
            for reservation, links in zip(chosen, flows, strict=True)
        ),
        network=state.cluster.network,
        traffic_classes=state.cluster.traffic_classes,
    )


def plan_of(reservations: Mapping[str, Reservation]) -> Plan:
    """Return the slots of gated jobs, and the classes of all; others begin unshifted."""
    return Plan(
        {
            job: reservation.offset
            if reservation.gated
            else reservation.gang.ready % reservation.gang.period
            for job, reservation in reservations.items()
        },
        {job: reservation.period for job, reservation in reservations.items() if reservation.gated},
    ).in_classes({job: reservation.traffic_class for job, reservation in reservations.items()})


def schedule_of(state: ClusterState) -> Schedule:
    """Return the offsets and stretches in force as a schedule of `instance_of`, judged."""
    offsets = {job: reservation.offset for job, reservation in state.reservations.items()}
    stretch = {job: reservation.stretch for job, reservation in state.reservations.items()}
    gated = {job: reservation.gated for job, reservation in state.reservations.items()}
    classes = {job: reservation.traffic_class for job, reservation in state.reservations.items()}
    evaluation = evaluate(instance_of(state), offsets, stretch)
    return Schedule(
        instance=state.cluster.name,
        offsets=offsets,
        stretch=stretch,
        status=Status.FEASIBLE,
        objectives=evaluation.objectives,
        lower_bound=None,
        solver="place",
        seed=None,
        runtime_s=0.0,
        gated=None if all(gated.values()) else gated,
        classes=classes if state.cluster.traffic_classes > 1 else None,
        paths={
            job: reservation.paths
            for job, reservation in state.reservations.items()
            if reservation.paths
        }
        or None,
    )


def deployment_of(state: ClusterState) -> Deployment:
    """Return the cluster, and where the tasks run."""
    tasks = [
        Task(job, index, node, links)
        for job, reservation in state.reservations.items()
        for index, (node, links) in enumerate(
            zip(reservation.nodes, state.placement(reservation).routes, strict=True)
        )
    ]
    costs = {
        job: reservation.gang.max_network_cost for job, reservation in state.reservations.items()
    }
    return Deployment(state.cluster, tuple(tasks), max_network_cost=costs)
