"""Places for gangs in a cluster state, as `allocation` decides them, and their first slots.

A gang keeps slots from the beginning if its bursts fit among those of the jobs that it meets, all
of which keep slots. Otherwise it starts free, and the monitor chooses slots for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial

import numpy as np

from metronome_opt.allocation.admission import AdmissionDecision, QueuedJob, decide_admissions
from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.request import JobRequest
from metronome_opt.allocation.rollout import Arrivals
from metronome_opt.allocation.scenario_search import allocate
from metronome_opt.errors import InputError, first_few
from metronome_opt.kubernetes.state.classes import in_class
from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.waiting import NOTICED, WaitDecision, wait_of
from metronome_opt.problem.instance import Link
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.flows import Placement, compute_placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.reference import EmptyCluster, empty_cluster
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.kernels.burst_costs import middle_of_longest_run
from metronome_opt.solvers.kernels.compiled_instance import Ints

LATE = 0.05
"""Remaining length of a job that should have ended: a share of how long it has run."""

_CUSHION = Fraction(2, 100)  # of a period: distance between bursts that keep slots
_HARM = 0.01  # of an iteration: slots may make a gang slower by so much that meets no other job
_SECONDS = 10.0  # for the places of all jobs of a scenario
_REMEMBERED = 4096  # gangs whose iterations are kept from one decision to the next


@dataclass(frozen=True)
class PlacementDecision:
    """The decision where a gang starts; nothing is reserved yet.

    Attributes
    ----------
    asked, reservation
        The gang, and what is to be reserved.
    best_ms, alone_ms, expected_ms
        Its shortest iteration in the empty cluster, that at its place without other jobs, and the
        one that is expected there.
    placement
        Its nodes and links.
    delays
        By what share of their best iterations other jobs are expected to be slower, largest first.
    """

    asked: Gang
    reservation: Reservation
    best_ms: float
    alone_ms: float
    expected_ms: float
    placement: Placement
    delays: Mapping[str, float]

    def affected(self, state: ClusterState) -> list[tuple[str, float, float]]:
        """Return jobs that become slower, with their iterations in ms without and with the gang."""
        occupancy = occupancy_of(state)
        before, placed = iterations_ms(state, occupancy), occupancy.placed
        return [
            (name, before[name], before[name] + by * placed[name].job.best_ms)
            for name, by in self.delays.items()
            if name in placed  # one that was decided about together with it may not yet be
        ]

    @property
    def why_slower(self) -> str:
        """Reasons for which its iterations take longer than at best; empty if they do not."""
        place, reservation = self.placement, self.reservation
        if self.expected_ms <= self.best_ms * (1 + NOTICED):
            return ""
        reasons = []
        if self.alone_ms > self.best_ms * (1 + NOTICED):
            flows = 0 if place.bottleneck is None else place.links[place.bottleneck]
            if flows > 1:
                reasons.append(f"{flows} flows share {place.bottleneck}")
            else:
                reasons.append(
                    f"it sends {f'over {place.bottleneck}' if flows else 'inside a node'}"
                )
        if reservation.gated and reservation.stretch:
            reasons.append("its period divides the hyperperiod")
        if self.delays:
            reasons.append(f"shares links with {first_few(list(self.delays))}")
        return ", ".join(reasons) or "shares links with other jobs"


def decide(
    state: ClusterState,
    waiting: Sequence[tuple[Gang, float]],
    now_s: float | None = None,
    arrivals: Arrivals | None = None,
) -> Mapping[str, AdmissionDecision]:
    """Decide which gangs start, and where: nowhere too slow for the hyperperiod.

    Parameters
    ----------
    waiting
        Gangs, the most urgent ones first, and for how many ms each has waited.
    now_s
        Unix time, by which it is known how long jobs still run; None if nothing is known.
    arrivals
        The gangs seen so far, to which these are added; those that run if None.
    """
    arrivals = arrivals_of(state) if arrivals is None else arrivals
    asked = []
    for gang, waited_ms in waiting:
        job = replace(_whole(state, gang), is_short=partial(is_short, state, gang))
        arrivals.note(job, 1000 * (now_s or 0.0) - waited_ms)
        asked.append(QueuedJob(job, waited_ms))
    return decide_admissions(asked, occupancy_of(state, now_s), arrivals)


def arrivals_of(state: ClusterState) -> Arrivals:
    """Return the running gangs of which it is known when they began, as they came."""
    arrivals = Arrivals()
    for reservation in state.reservations.values():
        if reservation.started is not None:
            arrivals.note(_whole(state, reservation.gang), 1000.0 * reservation.started)
    return arrivals


def _whole(state: ClusterState, gang: Gang) -> JobRequest:
    """Return a gang with all its iterations to run."""
    job, count = _demand(state, gang, None), gang.iterations
    return replace(job, length_ms=None if count is None else count * job.best_ms)


def place_job(
    state: ClusterState,
    gang: Gang,
    decision: AdmissionDecision | None = None,
    *,
    now_s: float | None = None,
) -> PlacementDecision | WaitDecision:
    """Return where a gang runs, or that it waits; nothing is reserved yet.

    Parameters
    ----------
    decision
        As of `decide`; decided here, for this gang alone, if None.
    now_s
        Unix time; None if it is not known.

    Raises
    ------
    InputError
        If the gang does not fit the cluster's hyperperiod, or runs already.
    """
    if gang.name in state.reservations:
        raise InputError(f"{gang.name}: runs already; unreserve it first, or rename it")
    gang.stretch_for(state.cluster.hyperperiod)
    if decision is None:
        decision = decide(state, [(gang, 0.0)], now_s)[gang.name]
    placement = decision.placement
    if placement is None or decision.start is None:
        lengths = (
            _left_ms(state, reservation, now_s) for reservation in state.reservations.values()
        )
        return wait_of(state, gang, decision, known=None not in lengths)
    delays = dict(decision.start.losses)
    mine = delays.pop(gang.name, 0.0)
    job = _demand(state, gang, None)
    best_ms, alone_ms = job.best_ms, job.traffic(placement.transport).isolated_ms
    reservation = reservation_at(
        state, gang, placement, mine - job.loss(placement.transport), now_s
    )
    reservation = in_class(state, reservation, placement)
    expected_ms = best_ms * (1 + mine)
    if reservation.gated:
        expected_ms = float(reservation.iteration * state.cluster.slot_ms)
    noticed = {} if reservation.gated else {name: by for name, by in delays.items() if by > NOTICED}
    worst_first = dict(sorted(noticed.items(), key=lambda each: -each[1]))
    return PlacementDecision(
        gang, reservation, best_ms, alone_ms, expected_ms, placement, worst_first
    )


def occupancy_of(state: ClusterState, now_s: float | None = None) -> Occupancy:
    """Return the jobs of a state as allocation sees them, on links as they are."""
    resources = CandidatePlacements(_present(state), state.free - state.others, state.up)
    running = (
        (
            _demand(state, reservation.gang, _left_ms(state, reservation, now_s)),
            resources.on_links(
                reservation.nodes,
                reservation.gang.allreduce,
                reservation.gang.each.gpus,
                paths=state.cluster.steer(reservation.job, reservation.paths),
            ),
        )
        for reservation in state.reservations.values()
    )
    return Occupancy.of_running(resources, running, classes=state.cluster.traffic_classes)


def iterations_ms(state: ClusterState, occupancy: Occupancy | None = None) -> dict[str, float]:
    """Return the expected iteration of each job, those of `undelayed` as long as their slots.

    That of a job without slots is what it would be if it started where it is; one that has slots
    and meets jobs that have none is as much longer than its slots as it would be longer than alone.
    The occupancy is that of the state, worked out here if None.
    """
    occupancy = occupancy or occupancy_of(state)
    kept = undelayed(state)
    iterations: dict[str, float] = {}
    for name, reservation in state.reservations.items():
        slots_ms = float(reservation.iteration * state.cluster.slot_ms)
        if name not in kept:
            each = occupancy.remove(name)
            mine = occupancy.start(each.job, each.placement).losses.get(name, 0.0)
            occupancy.add(each)
            alone_ms = each.job.traffic(each.placement.transport).isolated_ms
            iteration_ms = each.job.best_ms * (1 + mine)
            slots_ms = iteration_ms + (slots_ms - alone_ms if reservation.gated else 0.0)
        iterations[name] = slots_ms
    return iterations


def undelayed(state: ClusterState) -> set[str]:
    """Return the jobs that keep slots and meet none that does not."""
    free = {
        link
        for job, links in state.crossed.items()
        if not state.reservations[job].gated
        for link in links
    }
    return {
        job
        for job, reservation in state.reservations.items()
        if reservation.gated and free.isdisjoint(state.crossed[job])
    }


def _present(state: ClusterState) -> Cluster:
    """Return the cluster with what links carry now."""
    links = state.cluster.links
    carried = state.capacity.tolist()
    if [*state.cluster.capacities.values()] == carried:
        return state.cluster
    fields = {field: getattr(state.cluster, field) for field in Cluster.model_fields}
    now = (
        Link.model_construct(name=link.name, capacity=capacity)  # 0 is no capacity of a file
        for link, capacity in zip(links, carried, strict=True)
    )
    return Cluster.model_construct(**{**fields, "links": tuple(now), "background": {}})


@lru_cache(maxsize=_REMEMBERED)
def _traffic_of(
    empty: EmptyCluster, gang: Gang, slot_ms: int
) -> tuple[Callable[[Transport], Iteration], float]:
    """Return the iteration of a gang at a place, and the length of its best one, in ms."""

    @cache
    def traffic(transport: Transport) -> Iteration:
        # On a link that has failed it would take for ever.
        transport = transport._replace(rate=max(Fraction(1), transport.rate))
        if gang.step is None:
            pattern = Iteration.of_job(gang.job({}), slot_ms)
        else:
            pattern = replace(gang.step.at(transport), jitter=gang.jitter)
        return pattern if transport.nodes == 1 else pattern.slowed_to(transport.rate)

    places = empty.transports(gang.tasks, gang.each, gang.allreduce)
    own = float(gang.period * slot_ms)
    return traffic, min([traffic(place).isolated_ms for place in places] or [own])


def _demand(state: ClusterState, gang: Gang, length_ms: float | None) -> JobRequest:
    traffic, best_ms = _traffic_of(empty_cluster(state.cluster), gang, state.cluster.slot_ms)
    return JobRequest(
        name=gang.name,
        tasks=gang.tasks,
        task_resources=gang.each,
        traffic=traffic,
        best_ms=best_ms,
        algorithm=gang.allreduce,
        weight=gang.weight,
        length_ms=length_ms,
        most_racks=gang.most_racks,
        max_network_cost=gang.max_network_cost,
    )


def is_short(state: ClusterState, gang: Gang, transport: Transport) -> bool:
    """Return whether an iteration at a place fits the hyperperiod."""
    with suppress(InputError):
        return bool(gang.at(transport, state.cluster.slot_ms, state.cluster.hyperperiod))
    return False


def _left_ms(state: ClusterState, reservation: Reservation, now_s: float | None) -> float | None:
    """Return how long a job still runs; None if it is not known.

    At its ideal end a job that runs slower by a share has about as large a share of its length
    left; how much slower this one is was not observed, so that of a usual one is taken.
    """
    gang = reservation.gang
    if now_s is None or reservation.started is None or gang.iterations is None:
        return None
    length = float(gang.iterations * gang.period * state.cluster.slot_ms)
    ran = 1000 * (now_s - reservation.started)
    return max(length - ran, LATE * ran)


# ------------------------------------------------------------------ the reservation


def reservation_at(
    state: ClusterState,
    asked: Gang,
    placement: Placement,
    gained: float = 0.0,
    now_s: float | None = None,
) -> Reservation:
    """Return the reservation of a gang at a place, with slots if its bursts fit.

    Parameters
    ----------
    gained
        The share of an iteration that other jobs would delay it without slots.
    now_s
        Unix time; None if it is not known.
    """
    gang = at_place(state, asked, placement)
    stretch = gang.stretch_for(state.cluster.hyperperiod)
    offset = _offset(state, gang, placement, stretch)
    gated = offset is not None and stretch <= float(max(_HARM, gained)) * gang.period
    is_timed = now_s is not None and gang.iterations is not None
    return Reservation(
        gang=gang,
        nodes=placement.nodes,
        offset=offset if gated and offset is not None else 0,
        stretch=stretch,
        gated=gated,
        started=int(now_s or 0) if is_timed else None,
        paths=placement.paths if state.cluster.routing == "chosen" else (),
    )


def at_place(state: ClusterState, asked: Gang, placement: Placement) -> Gang:
    """Return a gang as it is at a place, on links as they are; as it was where they carry none."""
    capacities = state.capacities
    shares = (Fraction(capacities[link], flows) for link, flows in placement.links.items())
    transport = placement.transport
    transport = transport._replace(rate=min(shares, default=transport.rate))
    if transport.rate < 1:
        return asked
    return asked.at(transport, state.cluster.slot_ms, state.cluster.hyperperiod)


def _offset(state: ClusterState, gang: Gang, placement: Placement, stretch: int) -> int | None:
    """Return the offset with most room around the bursts of a gang; None if there is none.

    Only links that can be overloaded count. If a job without slots is there, there is no offset;
    nor for a gang that uses no link, which needs none.
    """
    if not placement.links:
        return None
    period, capacities = gang.period + stretch, state.capacities
    blocked: Ints = np.zeros(period, dtype=np.int64)
    for link, flows in placement.links.items():
        users = state.users(link)
        asked = flows * gang.peak + sum(on * other.gang.peak for other, on in users)
        if asked <= capacities[link]:
            continue
        if not all(other.gated for other, _ in users):
            return None
        free = state.residual(link).reshape(-1, period).min(axis=0)
        for phase in gang.phases:
            short = np.tile(free < flows * phase.rate, 3)  # a burst may end two periods later
            before = np.concatenate([[0], short.cumsum()])
            begin = np.arange(period) + phase.start
            blocked += before[begin + phase.length] - before[begin]
    if blocked.all():
        return None
    offset, cushion = middle_of_longest_run(blocked, gang.ready % period)
    return int(offset) if cushion >= _CUSHION * period else None


# ------------------------------------------------------------------ a whole scenario


def place_scenario(state: ClusterState, scenario: Scenario, now_s: float | None = None) -> None:
    """Reserve nodes for the jobs of a scenario, those that they name or that `allocate` finds.

    Jobs send what they send there, from the offset on that the scenario gives, else as `claim_at`
    chooses, one after the other; they begin now, in Unix time. If there is no room for one of
    them, that is an `InputError`.
    """
    problem = allocate(scenario, Budget(_SECONDS))
    if problem.waiting:
        raise InputError(f"jobs: no room for {first_few(problem.waiting)}; leave them out")
    nodes: dict[str, list[str]] = {}
    for task in problem.deployment.tasks:
        nodes.setdefault(task.job, []).append(task.node)
    traffic = {traffic.job.name: traffic for traffic in problem.traffic}
    for work, job in zip(scenario.jobs, problem.instance.jobs, strict=True):
        step, algorithm = traffic[job.name].step, traffic[job.name].algorithm
        gang = Gang(
            name=job.name,
            tasks=len(nodes[job.name]),
            each=work.each,
            period=job.period,
            phases=job.phases,
            step=None if step.is_stated else step,
            allreduce=algorithm,
            weight=job.weight,
            max_network_cost=work.max_network_cost,
            ready=job.ready,
            max_stretch=job.max_stretch,
            iterations=work.iterations,
            jitter=job.jitter,
        )
        paths = state.cluster.steer(job.name, problem.paths.get(job.name))
        there = compute_placement(
            state.cluster, nodes[job.name], algorithm, task_gpus=work.each.gpus, paths=paths
        )
        reservation = reservation_at(state, gang, there, now_s=now_s)
        offset = job.current_offset if job.fixed_offset is None else job.fixed_offset
        changes = {} if offset is None else {"offset": offset, "gated": True}
        state.reserve(reservation.model_copy(update=changes))
