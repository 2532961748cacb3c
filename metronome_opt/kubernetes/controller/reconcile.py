"""Reconciliation of the pods of a cluster, its nodes and the state.

Only the stored state is remembered between two rounds, so it does not matter where the
last one was interrupted. A gang is reserved in the state first, then its claims are written, then
its pods are released with their nodes and windows. The next round completes a reserved gang with
waiting pods. On the way back the pods go first, then the claims, and the reservation last, so that
no GPU is given away that a pod may still hold.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from metronome_opt.allocation.admission import AdmissionDecision
from metronome_opt.errors import InputError, MetronomeError, RemoteError
from metronome_opt.kubernetes.claims.names import Manifest
from metronome_opt.kubernetes.controller.claims import (
    Assignment,
    claim_manifests,
    key,
    matches,
    slots_of,
    stated_slots,
)
from metronome_opt.kubernetes.controller.gangs import GangPods, gang_of, jobs_of, without_place
from metronome_opt.kubernetes.controller.nodes import Nodes
from metronome_opt.kubernetes.reading.fields import KubernetesObject, UnsuitableError
from metronome_opt.kubernetes.reading.limits import Asked, LimitReader
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.state.migrations import apply_migrations, decide_migrations, reroute
from metronome_opt.kubernetes.state.placement import arrivals_of, at_place, decide, place_job
from metronome_opt.kubernetes.state.records import Gang, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.waiting import WaitDecision
from metronome_opt.scenario.flows import Placement

if TYPE_CHECKING:
    from metronome_opt.kubernetes.controller.live import LiveCluster

_MAX_PAUSE_S = 3600.0
_GOOD_NEWS = ("Placed", "Rephased")
_UNREADABLE = (LookupError, TypeError, AttributeError, ValueError, OverflowError)
_CLAIMS_S = 30.0  # between two readings of all claims
_RECONSIDER_S = 30.0  # after which a deferred gang is considered again
_MOVES_S = 30.0  # between two decisions about migrations


class Controller:
    """Places the gangs of a cluster.

    Parameters
    ----------
    state
        The reservations; the store that holds the state keeps its changes.
    cluster
        Actions on pods and claims.
    namespace
        Namespace of the jobs, None for all. Other reservations are not touched, nor are
        reservations of jobs that never had pods.
    bind_timeout_s
        Seconds after which a gang is restarted if a released pod is not bound; the gang then waits
        for its next attempt, every time twice as long, an hour at most.
    node_timeout_s
        Seconds after which the gangs on a node that is not ready are restarted.
    clock, unix_clock
        Seconds, and seconds since 1970, for tests.

    Attributes
    ----------
    state
        As above.
    deferred
        Gangs that wait although enough resources are free.
    """

    def __init__(
        self,
        state: ClusterState,
        cluster: LiveCluster,
        *,
        namespace: str | None = None,
        bind_timeout_s: float = 60.0,
        node_timeout_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        unix_clock: Callable[[], float] = time.time,
    ) -> None:
        self.state = state
        self._cluster = cluster
        self._namespace = namespace
        self._bind_timeout_s, self._node_timeout_s = bind_timeout_s, node_timeout_s
        self._clock, self._unix_clock = clock, unix_clock
        self._unbound: dict[str, float] = {}  # by uid of the pod: since when
        self._nodes = Nodes(state, clock)
        self._read_limits: Callable[[], LimitReader]  # once in a round, if a gang needs them
        self._claims: Mapping[tuple[str, str], Manifest] | None = None  # if read in this round
        self._claims_read = -math.inf
        self._pauses: dict[str, tuple[float, float]] = {}  # by job: how long, and until when
        self._arrivals = arrivals_of(state)
        # What the last decision about waiting jobs was about, and when it is made again.
        self._decided: tuple[object, float] = None, math.inf
        # By job: its new placement, and until when its pods have to exist again.
        self._moving: dict[str, tuple[Placement, float]] = {}
        self._moves_from = -math.inf
        self._routed = -1  # events of the state when flows last had a choice of paths
        self.deferred: set[str] = set()
        self._reported: dict[str, str] = {}  # by job or node

    def reconcile(self, pods: Collection[Pod], nodes: Collection[KubernetesObject]) -> int:
        """Reconcile once; return the number of gangs that still wait.

        Parameters
        ----------
        pods, nodes
            All pods and nodes of the cluster.
        """
        self._nodes.follow(nodes)
        remaining = [pod for pod in pods if not pod.is_over]
        known = {node.name: node for node in nodes if node.name in self.state.index}
        self._read_limits = cache(
            lambda: LimitReader(self.state.cluster, self._cluster.constraints(), known, remaining)
        )
        now, self._claims = self._clock(), None
        if now - self._claims_read >= _CLAIMS_S:  # they may have been deleted or changed
            self._claims = {key(item): item for item in self._cluster.claims(self._namespace)}
            self._claims_read = now
        jobs = jobs_of(pod for pod in pods if self._namespace in (None, pod.namespace))
        self._forget(jobs)
        for job in list(self.state.reservations):
            namespace, slash, _ = job.partition("/")
            ours = slash and self._namespace in (None, namespace)
            if ours and job not in jobs and job not in self._moving:
                self._attempt(GangPods(job), lambda of: self._release(of.job))
        waiting: list[tuple[Gang, GangPods]] = []
        for members in jobs.values():
            self._attempt(members, lambda of: self._settle(of, waiting))
        self._nodes.count_others(pods, nodes, self._cluster.claimable())
        # By priority, then by age; no gang is preempted.
        waiting.sort(key=lambda item: (-item[0].weight, item[1].created, item[1].job))
        for job, (there, _) in self._moving.items():  # no other job is placed there meanwhile
            needs = self.state.reservations[job].gang.each.vector
            for node in there.nodes:
                self.state.others[self.state.node_index(node)] += needs
        self._place(waiting)
        if self.state.sequence != self._routed:  # jobs arrived or departed, or links changed
            with suppress(InputError):
                reroute(self.state, self._unix_clock())
            self._routed = self.state.sequence
        if not waiting and not self._moving:
            self._move(jobs)
        for differing, message in self._nodes.differing:
            self._report_node(differing, message)
        return sum(job not in self.state.reservations for job in jobs)

    def _forget(self, jobs: Mapping[str, GangPods]) -> None:
        """Forget jobs and pods that are gone."""
        uids = {pod.uid for members in jobs.values() for pod in members.pods}
        self._unbound = {uid: since for uid, since in self._unbound.items() if uid in uids}
        self._pauses = {job: pause for job, pause in self._pauses.items() if job in jobs}
        self._reported = {
            name: said for name, said in self._reported.items() if name in jobs or "/" not in name
        }
        self.deferred &= jobs.keys()
        now, running = self._clock(), self.state.reservations
        self._moving = {
            job: move for job, move in self._moving.items() if now < move[1] and job in running
        }

    def _attempt(self, members: GangPods, act: Callable[[GangPods], None]) -> None:
        """Act on a job; report its errors on it, so that other jobs go on."""
        try:
            act(members)
        except MetronomeError as error:
            if isinstance(error, RemoteError) and error.is_transient:
                raise  # of the API server, not of this job
            self._report(members, "Waiting", str(error))

    def _report(self, members: GangPods, reason: str, message: str, cause: str = "") -> None:
        """Record an event on the pods of a job, once for each message, or each cause."""
        if members.pods:
            self._record(members.job, members.pods[0].references, reason, message, cause)

    def _report_node(self, node: KubernetesObject, message: str) -> None:
        """Record once that a node differs from the state."""
        name, uid = node.name, node.at("metadata.uid").text()
        about = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        remedy = "to place jobs there, write it into the file of --cluster and start again"
        self._record(name, [about], "NotInState", f"{message}; {remedy}")

    def _record(
        self, key: str, about: list[dict[str, Any]], reason: str, message: str, cause: str = ""
    ) -> None:
        """Record an event; a cluster may refuse it."""
        if self._reported.get(key) != (cause or message):
            with suppress(MetronomeError):
                self._cluster.event(about, reason, message, warning=reason not in _GOOD_NEWS)
                self._reported[key] = cause or message

    # ------------------------------------------------------------------ a job with its pods

    def _settle(self, members: GangPods, waiting: list[tuple[Gang, GangPods]]) -> None:
        """Reconcile a job's pods, claims and reservation; it waits if it has no reservation."""
        held = self.state.reservations.get(members.job)
        if held is not None and members.job in self._moving:
            self._go_on(held, members)
            return
        if held is not None and not members.placed and not members.done:
            # Interrupted before its first pod was released, or all its pods are new.
            self._release(members.job)
            held = None
        if held is not None and _misplaced(held, members):
            self.state.unreserve(members.job)  # the state is older than the pods
            held = None
        if held is None and members.placed:
            held = self._recover(members)
            if held is None:
                self._restart(members, "its reservation is lost")
                return
        if held is None:
            self._wait(members, waiting)
        elif reason := self._reason_to_restart(members):
            self._restart(members, reason)
        else:
            self._apply(held, members)

    def _wait(self, members: GangPods, waiting: list[tuple[Gang, GangPods]]) -> None:
        """Queue a job for nodes once all its pods exist."""
        gang = self._gang_of(members)
        gang.stretch_for(self.state.cluster.hyperperiod)  # which may be impossible
        there = len(members.ready)
        _, until = self._pauses.get(members.job, (0.0, 0.0))
        if there < gang.tasks:
            held = len(members.waits) - there
            others = f"; {held} have other scheduling gates" if held else ""
            self._report(members, "Waiting", f"{there} of {gang.tasks} pods are there{others}")
        elif self._clock() >= until:
            waiting.append((gang, members))

    def _gang_of(self, members: GangPods, nodes: Sequence[str] = ()) -> Gang:
        """Return the gang that a job requests, with limits; a running one may keep its nodes."""
        gang, pods = gang_of(members, self.state.cluster), members.pods
        templates, stated = [*map(without_place, pods)], pods[0].annotations
        asked = Asked(pods[0], templates, stated, gang.tasks, gang.each, pods[0].gang, nodes=nodes)
        limits: dict[str, Any] = {"allowed_nodes": nodes}
        try:
            limits, _ = self._read_limits().read(asked)
        except (InputError, UnsuitableError) as error:
            if not nodes:
                raise InputError(f"{members.job}: {error}") from None
        return Gang.model_validate({**dict(gang), **limits})

    def _recover(self, members: GangPods) -> Reservation | None:
        """Reserve the placement in the annotations of pods; return None if that is impossible."""
        assigned = sorted((*members.placed, *members.done), key=lambda pod: pod.rank)
        slots, slot_ms = stated_slots(assigned[0]), self.state.cluster.slot_ms
        with suppress(*_UNREADABLE):
            nodes = tuple(pod.place or "" for pod in assigned)
            gang = self._gang_of(members, nodes)
            if len(assigned) == gang.tasks:
                paths = tuple(tuple(spines) for spines in slots.get("paths", ()))
                gang = at_place(self.state, gang, self.state.placement_at(gang, nodes, paths))
                # A measured job may iterate faster than its annotations state.
                period = max(round(slots["period_ms"]) // slot_ms, gang.period)
                reservation = Reservation(
                    gang=gang,
                    nodes=nodes,
                    offset=round(slots["offset_ms"]) // slot_ms,
                    stretch=period - gang.period,
                    gated=slots.get("gated", True),
                    paths=paths,
                )
                self.state.reserve(reservation)
                return reservation
        return None

    def _reason_to_restart(self, members: GangPods) -> str | None:
        """Return why a job cannot keep its nodes; None if it can."""
        now = self._clock()
        for pod in members.placed:
            if pod.node is not None or pod.leaving:
                self._unbound.pop(pod.uid, None)
            elif now - self._unbound.setdefault(pod.uid, now) > self._bind_timeout_s:
                last, _ = self._pauses.get(members.job, (self._bind_timeout_s / 2, 0.0))
                pause = min(2 * last, _MAX_PAUSE_S)
                self._pauses[members.job] = pause, now + pause
                return f"a pod was not bound within {self._bind_timeout_s:g} s"
            if pod.place in self._nodes.gone:
                return f"node {pod.place} is gone"
            if self._nodes.unready_s(pod.place or "") > self._node_timeout_s:
                return f"node {pod.place} was not ready for {self._node_timeout_s:g} s"
        return None

    def _restart(self, members: GangPods, reason: str) -> None:
        """Delete all pods of a job that have nodes, so that its controller recreates them."""
        action = "its pods are deleted, so that their controller recreates them"
        self._report(members, "Restarting", f"{reason}; {action}")
        self._delete(members)  # the reservation is given back when the pods are gone

    def _delete(self, members: GangPods) -> None:
        for pod in members.placed:
            if not pod.leaving:
                self._cluster.delete(pod)

    def _move(self, jobs: Mapping[str, GangPods]) -> None:
        """Restart the gang on other nodes that gains most, among gangs that state the cost."""
        if self._clock() < self._moves_from:
            return
        costs_s: dict[str, float] = {}
        for job, reservation in self.state.reservations.items():
            with suppress(InputError):  # a cost that cannot be read moves nothing
                cost_s = jobs[job].move_cost_s if job in jobs else None
                if cost_s is not None and len(jobs[job].pods) == reservation.gang.tasks:
                    costs_s[job] = cost_s
        if not costs_s:
            return
        self._moves_from = self._clock() + _MOVES_S
        for move in decide_migrations(self.state, costs_s, self._unix_clock())[:1]:
            self._moving[move.job] = move.after, self._clock() + self._bind_timeout_s
            where = ", ".join(dict.fromkeys(move.after.nodes))
            gain = f"{move.gain}, costs {costs_s[move.job]:g} s"
            restart = partial(self._restart, reason=f"moves to {where}: {gain}")
            self._attempt(jobs[move.job], restart)

    def _go_on(self, reservation: Reservation, members: GangPods) -> None:
        """Go on with a migration, which ends when all pods are new and wait for their nodes.

        Until then the gang keeps its old nodes, where pods may still run.
        """
        if members.placed or len(members.ready) < reservation.gang.tasks:
            self._delete(members)  # the restart may have been interrupted
            return
        after, _ = self._moving.pop(members.job)
        nodes, paths = {members.job: after.nodes}, {members.job: after.paths}
        reservation = apply_migrations(self.state, nodes, paths).reservations[members.job]
        self.state.revise([reservation])  # if that is refused it waits for any nodes
        self._apply(reservation, members)

    def _release(self, job: str) -> None:
        self._cluster.unclaim(job)
        self.state.unreserve(job)

    # ------------------------------------------------------------------ placement

    def _place(self, waiting: Sequence[tuple[Gang, GangPods]]) -> None:
        """Decide about all waiting jobs together, if anything has changed for any of them."""
        gangs = [(gang, self.state.fits(gang).tobytes()) for gang, _ in waiting]
        about, now = (gangs, self.state.sequence), self._clock()
        if not waiting or (about == self._decided[0] and now < self._decided[1]):
            return
        self._decided = about, math.inf
        now_s = self._unix_clock()
        waited = [
            (gang, 1000 * max(0.0, now_s - _unix_time(members.created, now_s)))
            for gang, members in waiting
        ]
        decisions = decide(self.state, waited, now_s, self._arrivals)
        for gang, members in waiting:
            start = partial(self._start, gang, decisions[gang.name], now_s)
            self._attempt(members, start)
        if self.deferred:
            self._decided = about, now + _RECONSIDER_S

    def _start(
        self, gang: Gang, decision: AdmissionDecision, now_s: float, members: GangPods
    ) -> None:
        """Start a job on the nodes of the decision, or report why it waits."""
        self.deferred.discard(members.job)
        answer = place_job(self.state, gang, decision, now_s=now_s)
        if isinstance(answer, WaitDecision):
            if answer.deferred:
                self.deferred.add(members.job)
            self._report(members, "Waiting", f"waits: {answer.reason}", answer.cause)
            return
        self.state.reserve(answer.reservation)
        self._apply(answer.reservation, members, answer.why_slower)

    def _apply(self, reservation: Reservation, members: GangPods, slower: str = "") -> None:
        """Make pods and claims agree with the reservation."""
        slots = slots_of(self.state, reservation)
        placed, waits = _tasks(reservation, members)
        stale = [task for task in placed if stated_slots(task.pod) != slots]
        manifests = claim_manifests(self.state, reservation, [*waits, *stale])
        if self._claims is not None:
            wanted = claim_manifests(self.state, reservation, placed)
            manifests += (item for item in wanted if not matches(self._claims.get(key(item)), item))
        if manifests:
            self._cluster.claim(manifests)
        if stale:
            times = f"offset {slots['offset_ms']} ms, period {slots['period_ms']} ms"
            if not reservation.gated:
                times = "no windows: bursts begin when they are ready"
            self._report(members, "Rephased", times)
        for task in stale:
            self._cluster.annotate(task, slots)
        if waits:
            self._cluster.assign(waits, slots)
            where = ", ".join(dict.fromkeys(reservation.nodes))
            begin = f"offset {slots['offset_ms']} ms" if reservation.gated else "no windows"
            longer = f"; slower than at best: {slower}" if slower else ""
            self._report(members, "Placed", f"on {where}, {begin}{longer}")


def _unix_time(created: str, default: float) -> float:
    """Return a time as the API server writes it, in seconds since 1970."""
    with suppress(ValueError):
        return datetime.fromisoformat(created).timestamp()
    return default


def _tasks(
    reservation: Reservation, members: GangPods
) -> tuple[list[Assignment], list[Assignment]]:
    """Return the tasks of placed pods that are not leaving, and of pods that get nodes.

    Nodes are given in the order of the reservation, so that neighbours in rank are neighbours in
    racks.
    """
    remaining, placed = dict(enumerate(reservation.nodes)), []
    for pod in sorted((*members.placed, *members.done), key=lambda pod: pod.rank):
        index = next((index for index, node in remaining.items() if node == pod.place), None)
        if index is not None:
            node = remaining.pop(index)
            if not pod.leaving and pod not in members.done:
                placed.append(Assignment(pod, index, node))
    pairs = zip(members.ready, remaining.items(), strict=False)
    return placed, [Assignment(pod, index, node) for pod, (index, node) in pairs]


def _misplaced(reservation: Reservation, members: GangPods) -> bool:
    spare = Counter(reservation.nodes)
    spare.subtract(pod.place or "" for pod in members.placed if not pod.leaving)
    return min(spare.values()) < 0
