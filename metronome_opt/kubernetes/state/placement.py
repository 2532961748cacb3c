"""Placements of gangs in a cluster state, as `allocation` decides them, and their first slots.

A gang is gated from the beginning if its bursts fit among those of the jobs on its links, all of
which are gated. Otherwise it starts ungated, and the monitor chooses slots for all of them.
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
from metronome_opt.kubernetes.state.records import Gang, Reservation, gang_of
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

_CUSHION = Fraction(2, 100)  # of a period: distance between bursts of gated jobs
_MAX_LOSS = 0.01  # of an iteration, by slots, for a gang that nobody delays without them
_SECONDS = 10.0  # for the placements of all jobs of a scenario
_REMEMBERED = 4096  # gangs whose iterations are kept from one decision to the next


@dataclass(frozen=True)
class PlacementDecision:
    """The decision where a gang starts; nothing is reserved yet.

    Attributes
    ----------
    asked, reservation
        The gang, and the reservation for it.
    best_ms, alone_ms, expected_ms
        Iterations of the gang: the shortest in the empty cluster, the one at the placement without
        other jobs, and the one expected there.
    placement
        Nodes and links of the gang.
    delays
        Expected losses of other jobs, as shares of their best iterations, largest first.
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
            if name in placed  # a job of the same decision may not have a reservation yet
        ]

    @property
    def why_slower(self) -> str:
        """Reasons why iterations take longer than the best one; empty if they do not."""
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
    """Decide which gangs start, and on which nodes; their iterations fit the hyperperiod.

    Parameters
    ----------
    waiting
        Gangs, the most urgent ones first, and how long they have waited, in ms.
    now_s
        Unix time, by which remaining times of jobs are known; None if they are not.
    arrivals
        Gangs seen so far, to which those that wait are added; None for those that run.

    Returns
    -------
    mapping
        Decisions by names of gangs.
    """
    arrivals = arrivals_of(state) if arrivals is None else arrivals
    asked = []
    for gang, waited_ms in waiting:
        job = replace(_whole(state, gang), is_short=partial(is_short, state, gang))
        arrivals.note(job, 1000 * (now_s or 0.0) - waited_ms)
        asked.append(QueuedJob(job, waited_ms))
    return decide_admissions(asked, occupancy_of(state, now_s), arrivals)


def arrivals_of(state: ClusterState) -> Arrivals:
    """Return the running gangs whose start is known, in the order in which they arrived."""
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
    """Return the placement of a gang, or the reason to wait; nothing is reserved yet.

    Parameters
    ----------
    decision
        A decision of `decide`; None to decide about this gang only.
    now_s
        Unix time; None if it is not known.

    Returns
    -------
    PlacementDecision or WaitDecision
        The decision, with the reservation if the gang starts.

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
        lengths = (_left_ms(state, held, now_s) for held in state.reservations.values())
        return wait_of(state, gang, decision, known=None not in lengths)
    delays = dict(decision.start.losses)
    mine = delays.pop(gang.name, 0.0)
    job = _demand(state, gang, None)
    best_ms, alone_ms = job.best_ms, job.traffic(placement.transport).isolated_ms
    gained = mine - job.loss(placement.transport)
    reservation = reservation_at(state, gang, placement, gained, now_s)
    reservation = in_class(state, reservation, placement)
    expected_ms = best_ms * (1 + mine)
    if reservation.gated:
        expected_ms = float(reservation.iteration * state.cluster.slot_ms)
        delays = {}
    noticed = [(name, loss) for name, loss in delays.items() if loss > NOTICED]
    noticed.sort(key=lambda pair: -pair[1])
    return PlacementDecision(
        gang, reservation, best_ms, alone_ms, expected_ms, placement, dict(noticed)
    )


def occupancy_of(state: ClusterState, now_s: float | None = None) -> Occupancy:
    """Return the jobs of a state as allocation sees them, on links as they are."""
    resources = CandidatePlacements(_present(state), state.free - state.others, state.up)
    running = (
        (
            _demand(state, held.gang, _left_ms(state, held, now_s)),
            resources.on_links(
                held.nodes,
                held.gang.allreduce,
                held.gang.each.gpus,
                paths=state.cluster.steer(held.job, held.paths),
            ),
        )
        for held in state.reservations.values()
    )
    return Occupancy.of_running(resources, running, classes=state.cluster.traffic_classes)


def iterations_ms(state: ClusterState, occupancy: Occupancy | None = None) -> dict[str, float]:
    """Return expected iterations of all jobs; undelayed jobs take as long as their slots.

    An ungated job takes as long as if it started on its nodes. A gated job beside ungated ones is
    longer than its slots by its loss without slots. The occupancy is that of the state, computed
    here if None.
    """
    occupancy = occupancy or occupancy_of(state)
    kept = find_undelayed(state)
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


def find_undelayed(state: ClusterState) -> set[str]:
    """Return the gated jobs that share no link with an ungated one."""
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
    """Return the remaining time of a job; None if it is not known.

    At its ideal end, the share of its length that a job has left is about its loss. The loss of
    this job was not observed, so that a usual one is assumed.
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
    """Return the reservation of a gang at a placement, gated if its bursts fit.

    Parameters
    ----------
    asked, placement
        The gang as it asks for nodes, and its nodes and links.
    gained
        Loss by other jobs if the gang is ungated, as a share of an iteration.
    now_s
        Unix time; None if it is not known.

    Returns
    -------
    Reservation
        With the bursts that links allow.
    """
    gang = at_place(state, asked, placement)
    stretch = gang.stretch_for(state.cluster.hyperperiod)
    offset = _offset(state, gang, placement, stretch)
    gated = offset is not None and stretch <= float(max(_MAX_LOSS, gained)) * gang.period
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
    """Return a gang with the bursts that links allow; unchanged where links carry nothing."""
    capacities = state.capacities
    shares = (Fraction(capacities[link], flows) for link, flows in placement.links.items())
    transport = placement.transport
    transport = transport._replace(rate=min(shares, default=transport.rate))
    if transport.rate < 1:
        return asked
    return asked.at(transport, state.cluster.slot_ms, state.cluster.hyperperiod)


def _offset(state: ClusterState, gang: Gang, placement: Placement, stretch: int) -> int | None:
    """Return the offset with the largest distance around the bursts of a gang; None without one.

    Only links that can be overloaded count. A gang beside an ungated job has no offset, nor does a
    gang that uses no link, which needs none.
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
    """Reserve nodes for the jobs of a scenario: those that it names, or that `allocate` chooses.

    Offsets are those of the scenario, or chosen by `reservation_at`, one job after the other; jobs
    start at `now_s`, in Unix time.

    Raises
    ------
    InputError
        If there is no room for one of the jobs.
    """
    problem, _ = allocate(scenario, Budget(_SECONDS))
    if problem.waiting:
        raise InputError(f"jobs: no room for {first_few(problem.waiting)}; leave them out")
    nodes: dict[str, list[str]] = {}
    for task in problem.deployment.tasks:
        nodes.setdefault(task.job, []).append(task.node)
    traffic = {traffic.job.name: traffic for traffic in problem.traffic}
    for job in problem.instance.jobs:
        gang = gang_of(
            traffic[job.name],
            period=job.period,
            phases=job.phases,
            max_stretch=job.max_stretch,
            ready=job.ready,
        )
        paths = state.cluster.steer(job.name, problem.paths.get(job.name))
        there = compute_placement(
            state.cluster,
            nodes[job.name],
            gang.allreduce,
            task_gpus=gang.each.gpus,
            paths=paths,
        )
        reservation = reservation_at(state, gang, there, now_s=now_s)
        offset = job.current_offset if job.fixed_offset is None else job.fixed_offset
        changes = {} if offset is None else {"offset": offset, "gated": True}
        state.reserve(reservation.model_copy(update=changes))
