"""Placements of gangs in a cluster state, as `allocation` decides them, and their first windows.

A gang is gated from the beginning if its bursts fit among those of the jobs on its links, all of
which are gated. Otherwise it starts ungated, and the monitor chooses windows for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import groupby

from metronome_opt.allocation.admission import AdmissionDecision, QueuedJob, decide_admissions
from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.occupancy import Occupancy
from metronome_opt.allocation.request import JobRequest
from metronome_opt.allocation.rollout import Arrivals
from metronome_opt.allocation.scenario_search import allocate
from metronome_opt.allocation.slots.classes import follows_weights
from metronome_opt.allocation.slots.greedy import PartialSchedule
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions
from metronome_opt.allocation.slots.simulator import PERIODS
from metronome_opt.errors import InputError, first_few
from metronome_opt.kubernetes.state.records import Gang, Reservation, gang_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import instance_of, plan_of
from metronome_opt.kubernetes.state.waiting import NOTICED, WaitDecision, wait_of
from metronome_opt.scenario.collectives import Transport
from metronome_opt.scenario.flows import Placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.reference import EmptyCluster, empty_cluster
from metronome_opt.scenario.scenario_file import Scenario
from metronome_opt.solvers.budget import Budget
from metronome_opt.solvers.kernels.burst_costs import middle_of_longest_run

LATE = 0.05
"""Remaining length of a job that should have ended: a share of how long it has run."""

_CUSHION = Fraction(2, 100)  # of a period: distance between bursts of gated jobs
_MAX_LOSS = 0.01  # of an iteration, by windows, for a gang that no other delays without them
_SECONDS = 10.0  # for the placements of all jobs of a scenario
_CLASS_SECONDS = 2.0  # for the traffic class of a job
_FIRST_SEED = 500_000  # of simulations for it; those of searches for windows are others
_REMEMBERED = 4096  # gangs whose iterations are kept from one decision to the next


@dataclass(frozen=True)
class PlacementDecision:
    """The decision where a gang starts; nothing is reserved yet.

    Attributes
    ----------
    reservation
        The reservation for the gang.
    best_ms, alone_ms, expected_ms
        Iterations of the gang: the shortest in the empty cluster, the one at the placement without
        other jobs, and the one expected there.
    placement
        Nodes and links of the gang.
    delays
        Expected losses of other jobs, as shares of their best iterations, largest first.
    """

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
    queued = []
    for gang, waited_ms in waiting:
        job = _whole(state, gang)
        arrivals.note(job, 1000 * (now_s or 0.0) - waited_ms)
        queued.append(QueuedJob(job, waited_ms))
    return decide_admissions(queued, occupancy_of(state, now_s), arrivals)


def arrivals_of(state: ClusterState) -> Arrivals:
    """Return the running gangs whose start is known, in the order in which they arrived."""
    arrivals = Arrivals()
    for held in state.reservations.values():
        if held.started is not None:
            arrivals.note(_whole(state, held.gang), 1000.0 * held.started)
    return arrivals


def _whole(state: ClusterState, gang: Gang) -> JobRequest:
    """Return a gang with all its iterations to run."""
    job, count = _request(state, gang), gang.iterations
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
    job = _request(state, gang)
    gained = mine - job.loss(placement.transport)
    reservation = reservation_at(state, gang, placement, gained, now_s)
    reservation = _in_class(state, reservation, placement)
    expected_ms = job.best_ms * (1 + mine)
    if reservation.gated:
        expected_ms = float(reservation.iteration * state.cluster.slot_ms)
        delays = {}
    noticed = sorted(
        ((name, loss) for name, loss in delays.items() if loss > NOTICED), key=lambda pair: -pair[1]
    )
    alone_ms = job.traffic(placement.transport).isolated_ms
    return PlacementDecision(
        reservation, job.best_ms, alone_ms, expected_ms, placement, dict(noticed)
    )


def occupancy_of(state: ClusterState, now_s: float | None = None) -> Occupancy:
    """Return the jobs of a state as allocation sees them, on links as they are.

    Jobs that have no network send nothing.
    """
    resources = CandidatePlacements(state.present, state.free - state.others, state.up)
    running = []
    for held in state.reservations.values():
        job = replace(_request(state, held.gang), length_ms=_left_ms(state, held, now_s))
        paths = state.cluster.steer(held.job, held.paths)
        gpus, algorithm = held.gang.each.gpus, held.gang.allreduce
        there = resources.on_links(held.nodes, algorithm, gpus, paths=paths)
        running.append((job, there if there.transport.rate else replace(there, links={})))
    return Occupancy.of_running(resources, running, classes=state.cluster.traffic_classes)


def iterations_ms(state: ClusterState, occupancy: Occupancy | None = None) -> dict[str, float]:
    """Return expected iterations of all jobs; undelayed jobs take as long as their periods.

    An ungated job takes as long as if it started on its nodes. A gated job beside ungated ones is
    longer than its period by its loss if ungated. Iterations of a job without a network do not end.
    The occupancy is that of the state, computed here if None.
    """
    occupancy = occupancy or occupancy_of(state)
    undelayed = find_undelayed(state)
    iterations: dict[str, float] = {}
    for name, held in state.reservations.items():
        slots_ms = float(held.iteration * state.cluster.slot_ms)
        if name not in undelayed:
            placed = occupancy.remove(name)
            mine = occupancy.start(placed.job, placed.placement).losses.get(name, 0.0)
            occupancy.add(placed)
            iteration_ms = placed.job.best_ms * (1 + mine)
            slots_ms = iteration_ms + (slots_ms - placed.profile.isolated_ms) * held.gated
            slots_ms = slots_ms if placed.placement.transport.rate else math.inf
        iterations[name] = slots_ms
    return iterations


def find_undelayed(state: ClusterState) -> set[str]:
    """Return the gated jobs with a network that share no link with an ungated one."""
    sending = state.flows.keys() - state.cut_off.keys()
    gated = {job for job in state.reservations if job in sending and state.reservations[job].gated}
    ungated = {link for job in sending - gated for link in state.flows[job]}
    return {job for job in gated if ungated.isdisjoint(state.flows[job])}


def _request(state: ClusterState, gang: Gang) -> JobRequest:
    """Return a gang as allocation sees it, of unknown length."""
    spec = state.cluster
    return _request_in(empty_cluster(spec), gang, spec.slot_ms, spec.hyperperiod)


@lru_cache(maxsize=_REMEMBERED)
def _request_in(empty: EmptyCluster, gang: Gang, slot_ms: int, hyperperiod: int) -> JobRequest:
    @cache
    def traffic(transport: Transport) -> Iteration:
        # On a link that has failed it would take for ever.
        rate = max(Fraction(1), transport.rate)
        return gang.iteration_at(transport._replace(rate=rate), slot_ms)

    @cache
    def is_short(transport: Transport) -> bool:
        with suppress(InputError):
            return bool(gang.at(transport, slot_ms, hyperperiod))
        return False

    places = empty.transports(gang.tasks, gang.each, gang.allreduce)
    own = float(gang.period * slot_ms)
    return JobRequest(
        name=gang.name,
        tasks=gang.tasks,
        task_resources=gang.each,
        traffic=traffic,
        best_ms=min([traffic(place).isolated_ms for place in places] or [own]),
        algorithm=gang.allreduce,
        weight=gang.weight,
        limits=gang.limits,
        is_short=is_short,
    )


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
    is_timed = now_s is not None and gang.iterations is not None
    ungated = Reservation(
        gang=gang,
        nodes=placement.nodes,
        offset=0,
        stretch=stretch,
        gated=False,
        started=int(now_s or 0) if is_timed else None,
        paths=placement.paths if state.cluster.routing == "chosen" else (),
    )
    offset = _find_offset(state, ungated, placement.links)
    if offset is None or stretch > float(max(_MAX_LOSS, gained)) * gang.period:
        return ungated
    return ungated.model_copy(update={"offset": offset, "gated": True})


def at_place(state: ClusterState, asked: Gang, placement: Placement) -> Gang:
    """Return a gang with the bursts that links allow; unchanged where links carry nothing."""
    shares = (Fraction(state.capacities[link], flows) for link, flows in placement.links.items())
    transport = placement.transport
    transport = transport._replace(rate=min(shares, default=transport.rate))
    if transport.rate < 1:
        return asked
    return asked.at(transport, state.cluster.slot_ms, state.cluster.hyperperiod)


def on_links(state: ClusterState, held: Reservation) -> Reservation:
    """Return a reservation with the bursts that its links allow; its windows stay otherwise."""
    gang = at_place(state, held.gang, state.placement(held))
    if gang == held.gang:
        return held
    stretch = gang.stretch_for(state.cluster.hyperperiod)
    offset = held.offset % (gang.period + stretch)
    return held.model_copy(update={"gang": gang, "stretch": stretch, "offset": offset})


def _find_offset(state: ClusterState, new: Reservation, links: Mapping[str, int]) -> int | None:
    """Return the offset with the largest distance around the bursts of a gang; None without one.

    Only links that can be overloaded count. A gang beside an ungated job has no offset, nor does a
    gang that uses no link, which needs none.
    """
    peaks = {
        link: flows * new.gang.peak + sum(on * held.gang.peak for held, on in state.users(link))
        for link, flows in links.items()
    }
    met = state.jobs_sharing({link for link in peaks if peaks[link] > state.capacities[link]})
    if not links or not all(held.gated for held in met.values()):
        return None
    instance = instance_of(state, {**met, new.job: new})
    placed = PartialSchedule(instance, max_slots=state.cluster.hyperperiod)
    for job, held in met.items():
        placed.put(job, held.period, held.offset)
    blocked = placed.costs(new.job, new.period)
    if blocked is None:
        return None
    offset, cushion = middle_of_longest_run(blocked, new.gang.ready % new.period)
    return int(offset) if cushion >= _CUSHION * new.period else None


def _in_class(state: ClusterState, reservation: Reservation, placement: Placement) -> Reservation:
    """Return the reservation of a job that starts with the best traffic class.

    NCCL reads its class once, so that running jobs keep theirs. A new job gets the class with the
    smallest weighted mean slowdown of itself and the jobs that it shares links with, and with no
    large loss of any. Where no other order is surely better, jobs of higher weight are in higher
    classes. A job that shares no links gets a class in the middle: later ones may go before and
    after it.
    """
    count, name = state.cluster.traffic_classes, reservation.job
    middle = (count - 1) // 2
    reservation = reservation.model_copy(update={"traffic_class": middle})
    met = state.jobs_sharing(placement.links)
    if count == 1 or not met:
        return reservation
    jobs = {**met, name: reservation}
    part = instance_of(state, jobs)
    evaluator = SlotSearchOptions(classes=count).evaluator(
        part, _FIRST_SEED, PERIODS, Budget(_CLASS_SECONDS)
    )
    plan = plan_of(jobs)

    def breaks_order(other: Plan) -> bool:
        return not follows_weights(part.jobs, other.classes)

    by_distance = sorted(range(count), key=lambda number: abs(number - middle))
    plans = [plan.in_classes({**plan.classes, name: number}) for number in by_distance]
    best = next(filter(evaluator.is_within_loss, plans), plans[0])
    for _, some in groupby(sorted(plans, key=breaks_order), key=breaks_order):
        best = evaluator.best(best, list(some))
    return reservation.model_copy(update={"traffic_class": best.classes.get(name, 0)})


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
    for job, traffic in zip(problem.instance.jobs, problem.traffic, strict=True):
        gang = gang_of(traffic, state.cluster)
        nodes = [task.node for task in problem.deployment.tasks if task.job == job.name]
        there = state.placement_at(gang, nodes, problem.paths.get(job.name, ()))
        reservation = reservation_at(state, gang, there, now_s=now_s)
        offset = job.current_offset if job.fixed_offset is None else job.fixed_offset
        changes = {} if offset is None else {"offset": offset, "gated": True}
        state.reserve(reservation.model_copy(update=changes))
