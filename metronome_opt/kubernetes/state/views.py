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
from metronome_opt.kubernetes.state.records import Change, Reservation
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
        Capacities of links that differ from the cluster's description, in Mbit/s, and nodes that
        take no tasks.
    mode
        Jobs share links: the only value.
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

    Reservations stay in force even if links have no bandwidth for them at present.

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
            state.apply(Change(capacities={link: capacity}))
    for index, node in enumerate(snapshot.down):
        with error_context(f"down[{index}]"):
            state.apply(Change(up={node: False}))
    state.sequence = snapshot.sequence
    return state


def instance_of(state: ClusterState, jobs: Iterable[str] | None = None) -> Instance:
    """Return reservations as an instance, with their offsets as current offsets.

    A link that failed carries 1 Mbit/s, the least in an instance.

    Parameters
    ----------
    jobs
        Jobs of the instance, with the links that they cross; None for all jobs and all links.
    """
    chosen = [state.reservation(job) for job in (state.reservations if jobs is None else jobs)]
    if not chosen:
        raise InputError(f"{state.cluster.name}: no reservations are in force")
    flows = [state.flows(held.job) for held in chosen]
    crossed = set().union(*flows)
    return Instance(
        name=state.cluster.name,
        slot_ms=state.cluster.slot_ms,
        links=tuple(
            Link(name=link, capacity=max(1, capacity))
            for link, capacity in state.capacities.items()
            if jobs is None or link in crossed
        ),
        jobs=tuple(
            held.gang.job(links, stretch=held.stretch, current_offset=held.offset)
            for held, links in zip(chosen, flows, strict=True)
        ),
        network=state.cluster.network,
        traffic_classes=state.cluster.traffic_classes,
    )


def plan_of(reservations: Mapping[str, Reservation]) -> Plan:
    """Return the slots of gated jobs, and the classes of all jobs; ungated ones are unshifted."""
    return Plan(
        {
            job: held.offset if held.gated else held.gang.ready % held.gang.period
            for job, held in reservations.items()
        },
        {job: held.period for job, held in reservations.items() if held.gated},
    ).in_classes({job: held.traffic_class for job, held in reservations.items()})


def schedule_of(state: ClusterState) -> Schedule:
    """Return reservations as a schedule of `instance_of`, with its objectives."""
    jobs = state.reservations.items()
    offsets = {job: held.offset for job, held in jobs}
    stretch = {job: held.stretch for job, held in jobs}
    gated = {job: held.gated for job, held in jobs}
    classes = {job: held.traffic_class for job, held in jobs}
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
        paths={job: held.paths for job, held in jobs if held.paths} or None,
    )


def deployment_of(state: ClusterState) -> Deployment:
    """Return the cluster, and the nodes and links of all tasks."""
    tasks = [
        Task(job, index, node, links)
        for job, held in state.reservations.items()
        for index, (node, links) in enumerate(
            zip(held.nodes, state.placement(held).routes, strict=True)
        )
    ]
    costs = {job: held.gang.max_network_cost for job, held in state.reservations.items()}
    return Deployment(state.cluster, tuple(tasks), max_network_cost=costs)
