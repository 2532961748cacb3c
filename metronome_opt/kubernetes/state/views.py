"""A cluster state as others see it: an instance, a plan, a schedule, a deployment."""

from __future__ import annotations

from collections.abc import Mapping

from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.problem.instance import Instance, Link
from metronome_opt.problem.schedule import Schedule, Status
from metronome_opt.scenario.placed_instance import Deployment, Task
from metronome_opt.verify import evaluate


def instance_of(
    state: ClusterState, reservations: Mapping[str, Reservation] | None = None
) -> Instance:
    """Return reservations as an instance, with their offsets as current offsets.

    A link that carries nothing is omitted. Jobs across it have no network, and stay gated on
    their other links; iterations of the instance hold for other jobs only.

    Parameters
    ----------
    reservations
        By job, in force or not, on the links that they cross; None for all in force, on all links.
    """
    chosen = state.reservations if reservations is None else reservations
    if not chosen:
        raise InputError(f"{state.cluster.name}: no reservations are in force")
    carrying = {link: capacity for link, capacity in state.capacities.items() if capacity}
    flows = {}
    for job, held in chosen.items():
        links = state.flows[job] if job in state.flows else state.placement(held).links
        flows[job] = {link: count for link, count in links.items() if link in carrying}
    crossed = set().union(*flows.values())
    return Instance(
        name=state.cluster.name,
        slot_ms=state.cluster.slot_ms,
        links=tuple(
            Link(name=link, capacity=capacity)
            for link, capacity in carrying.items()
            if reservations is None or link in crossed
        ),
        jobs=tuple(
            held.gang.job(flows[job], stretch=held.stretch, current_offset=held.offset)
            for job, held in chosen.items()
        ),
        network=state.cluster.network,
        traffic_classes=state.cluster.traffic_classes,
    )


def plan_of(reservations: Mapping[str, Reservation]) -> Plan:
    """Return the windows of gated jobs, and the classes of all jobs; ungated ones are unshifted."""
    return Plan(
        {
            job: held.offset if held.gated else held.gang.ready % held.gang.period
            for job, held in reservations.items()
        },
        {job: held.period for job, held in reservations.items() if held.gated},
    ).in_classes({job: held.traffic_class for job, held in reservations.items()})


def with_slots(held: Reservation, plan: Plan) -> Reservation:
    """Return a reservation in the windows of a plan; an ungated one keeps its period."""
    period = plan.periods.get(held.job)
    if period is None:
        return held.model_copy(update={"gated": False})
    stretch = period - held.gang.period
    longest = max(held.gang.max_stretch, stretch)
    gang = held.gang.model_copy(update={"max_stretch": longest})
    slots = {"offset": plan.offsets[held.job] % period, "stretch": stretch, "gated": True}
    return held.model_copy(update={"gang": gang, **slots})


def exported(state: ClusterState) -> tuple[Instance, Schedule, Deployment]:
    """Return reservations as an instance, a schedule with its objectives, and where tasks run."""
    instance, jobs = instance_of(state), state.reservations.items()
    offsets = {job: held.offset for job, held in jobs}
    stretch = {job: held.stretch for job, held in jobs}
    gated = {job: held.gated for job, held in jobs}
    classes = {job: held.traffic_class for job, held in jobs}
    schedule = Schedule(
        instance=instance.name,
        offsets=offsets,
        stretch=stretch,
        status=Status.FEASIBLE,
        objectives=evaluate(instance, offsets, stretch).objectives,
        lower_bound=None,
        solver="place",
        seed=None,
        runtime_s=0.0,
        gated=None if all(gated.values()) else gated,
        classes=classes if instance.traffic_classes > 1 else None,
        paths={job: held.paths for job, held in jobs if held.paths} or None,
    )
    tasks = tuple(
        Task(job, index, node, links)
        for job, held in jobs
        for index, (node, links) in enumerate(
            zip(held.nodes, state.placement(held).routes, strict=True)
        )
    )
    costs = {job: held.gang.max_network_cost for job, held in jobs}
    return instance, schedule, Deployment(state.cluster, tasks, max_network_cost=costs)
