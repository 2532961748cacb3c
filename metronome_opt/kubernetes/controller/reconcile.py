"""One look at a cluster: what its pods, its nodes and the state disagree on is put right.

Nothing is remembered between two looks but the state and its journal, so it does not matter where
the last one was interrupted. A gang is reserved in the journal first, then its claims are written,
then its pods are let go, each with its node and its slots. Whoever finds a reserved gang with pods
that still wait goes on where it stopped. On the way back the pods go first, then the claims, and
the reservation last, so that no GPU is given away that a pod may still hold.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from metronome_opt.errors import InputError, MetronomeError
from metronome_opt.kubernetes.controller.marks import Marks, marks_of
from metronome_opt.kubernetes.controller.pods import Pod, gang_of, jobs_of
from metronome_opt.scheduling.gang import Claim, Gang
from metronome_opt.scheduling.nodes import why_not
from metronome_opt.scheduling.place import place_job
from metronome_opt.scheduling.state import ClusterState


class Cluster(Protocol):
    """What a controller does to a cluster; each of it may raise a `MetronomeError`."""

    def let_go(self, places: Sequence[tuple[Pod, str]], marks: Marks) -> None:
        """Give waiting pods their nodes and their slots; they wait no longer."""

    def mark(self, pod: Pod, marks: Marks) -> None:
        """Give a running pod other slots."""

    def claim(self, claim: Claim, pods: Sequence[Pod], marks: Marks) -> None:
        """Write the claims of a job, all or none."""

    def unclaim(self, job: str) -> None:
        """Delete the claims of a job."""

    def delete(self, pod: Pod) -> None:
        """Delete a pod."""

    def tell(self, pods: Sequence[Pod], reason: str, message: str, *, warning: bool = True) -> None:
        """Say what happens to a job, as an event on it."""


class Controller:
    """Places the gangs of a cluster.

    Parameters
    ----------
    state
        The cluster as it is reserved; changes are kept by whoever opened it.
    cluster
        What is done to pods and claims.
    patience_s
        Seconds after which a pod that was let go and is not bound makes its gang start anew.
    clock
        Seconds, for tests.
    """

    def __init__(
        self,
        state: ClusterState,
        cluster: Cluster,
        *,
        patience_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = state
        self._cluster = cluster
        self._patience_s = patience_s
        self._clock = clock
        self._unbound: dict[str, float] = {}  # by uid of the pod: since when it is seen so
        self._said: dict[str, str] = {}

    def look(self, pods: Iterable[Pod], nodes: Iterable[Mapping[str, Any]]) -> int:
        """Put right what can be put right now; return how many gangs still wait.

        Parameters
        ----------
        pods
            All pods that wait for us or have their place from us.
        nodes
            All Node objects.
        """
        self._follow(nodes)
        jobs = jobs_of(pods)
        for job in [job for job in self.state.claims if job not in jobs]:
            self._attempt(job, (), self._release)
        waiting: list[tuple[Gang, str]] = []
        for job, members in jobs.items():
            self._attempt(job, members, partial(self._settle, waiting))
        # The most important first, then who came first; nobody makes way for another.
        waiting.sort(key=lambda each: (-each[0].weight, jobs[each[1]][0].created, each[1]))
        for gang, job in waiting:
            self._attempt(job, jobs[job], partial(self._place, gang))
        self._said = {job: said for job, said in self._said.items() if job in jobs}
        return sum(job not in self.state.claims for job in jobs)

    def _attempt(
        self, job: str, members: Sequence[Pod], act: Callable[[str, Sequence[Pod]], None]
    ) -> None:
        """Let one job's trouble be its own."""
        try:
            act(job, members)
        except MetronomeError as error:
            if getattr(error, "passing", False):
                raise  # of the API server, and not this job's
            self._say(job, members, "Waiting", str(error))

    def _say(self, job: str, pods: Sequence[Pod], reason: str, message: str) -> None:
        """Tell each thing once."""
        if self._said.get(job) != message and pods:
            self._said[job] = message
            self._cluster.tell(pods, reason, message, warning=reason != "Placed")

    def _follow(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Take over which nodes are ready."""
        ready = {node["metadata"]["name"]: _is_ready(node) for node in nodes}
        for host in self.state.cluster.nodes:
            self.state.set_node(host.name, up=ready.get(host.name, False))

    # ------------------------------------------------------------------ a job with its pods

    def _settle(self, waiting: list[tuple[Gang, str]], job: str, pods: Sequence[Pod]) -> None:
        """Bring a job's pods, claims and reservation together; it waits if it has none."""
        placed = [pod for pod in pods if pod.place is not None]
        claim = self.state.claims.get(job)
        if claim is not None and not placed:
            # Interrupted before its first pod was let go, or all its pods are made anew.
            self._release(job, pods)
            claim = None
        if claim is None and placed:
            claim = self._recover(job, placed)
        if claim is None:
            self._start(job, pods, placed, waiting)
            return
        trouble = self._trouble(claim, placed)
        if trouble:
            self._give_up(job, pods, placed, trouble)
        else:
            self._carry_out(claim, pods)

    def _start(
        self, job: str, pods: Sequence[Pod], placed: Sequence[Pod], waiting: list[tuple[Gang, str]]
    ) -> None:
        """Let a job wait for its place once all its pods are there."""
        if placed:
            self._give_up(job, pods, placed, "its reservation is lost")
            return
        gang = gang_of(job, list(pods), self.state.cluster)
        waits = [pod for pod in pods if not pod.leaving]
        if len(waits) < gang.tasks:
            self._say(job, pods, "Waiting", f"{len(waits)} of {gang.tasks} pods are there")
        else:
            waiting.append((gang, job))

    def _recover(self, job: str, placed: Sequence[Pod]) -> Claim | None:
        """Reserve again what pods say that they were given; None if that cannot be."""
        try:
            gang = gang_of(job, list(placed), self.state.cluster)
            marks = marks_of(placed[0])
        except InputError:
            return None
        if marks is None or len(placed) != gang.tasks:
            return None
        slot_us = 1000 * self.state.cluster.slot_ms
        claim = Claim(
            gang=gang,
            nodes=tuple(pod.place or "" for pod in placed),
            offset=marks.offset_us // slot_us,
            stretch=marks.period_us // slot_us - gang.period,
        )
        try:
            self.state.reserve(claim)
        except InputError:
            return None
        return claim

    def _trouble(self, claim: Claim, placed: Sequence[Pod]) -> str | None:
        """Return why a job cannot stay where it is; None if it can."""
        now = self._clock()
        spare = Counter(claim.nodes)
        spare.subtract(pod.place or "" for pod in placed if not pod.leaving)
        if any(count < 0 for count in spare.values()):
            return "its pods are not where its reservation says"
        unbound = {pod.uid for pod in placed if pod.node is None and not pod.leaving}
        for uid in unbound:
            if now - self._unbound.setdefault(uid, now) > self._patience_s:
                return f"a pod was not bound within {self._patience_s:g} s"
        for pod in placed:
            if pod.uid not in unbound:
                self._unbound.pop(pod.uid, None)
            if not self.state.up[self.state.node_index(pod.place or claim.nodes[0])]:
                return f"node {pod.place} is gone or not ready"
        return None

    def _give_up(self, job: str, pods: Sequence[Pod], placed: Sequence[Pod], reason: str) -> None:
        """Delete all pods of a job that have a place, so that its controller makes them anew."""
        self._say(job, pods, "StartingAnew", f"{reason}; all its pods are made anew")
        for pod in placed:
            if not pod.leaving:
                self._cluster.delete(pod)
            self._unbound.pop(pod.uid, None)
        # What it holds is given back when its pods are gone.

    def _release(self, job: str, _: Sequence[Pod]) -> None:
        self._cluster.unclaim(job)
        self.state.unreserve(job)

    # ------------------------------------------------------------------ a place

    def _place(self, gang: Gang, _: str, pods: Sequence[Pod]) -> None:
        decision = place_job(self.state, gang)
        if decision is None:
            self._say(gang.name, pods, "Waiting", why_not(self.state, gang))
            return
        self.state.reserve(decision.claim)
        self._carry_out(decision.claim, pods)

    def _carry_out(self, claim: Claim, pods: Sequence[Pod]) -> None:
        """Make pods and claims what the reservation says; nothing happens if they are."""
        marks = Marks.of(self.state, claim)
        here = [pod for pod in pods if not pod.leaving]
        free = Counter(claim.nodes)
        free.subtract(pod.place for pod in pods if pod.place is not None)
        waits = [pod for pod in here if pod.place is None]
        stale = [pod for pod in here if pod.place is not None and marks_of(pod) != marks]
        if not waits and not stale:
            return
        self._cluster.claim(claim, here, marks)
        for pod in stale:
            self._cluster.mark(pod, marks)
        # Nodes in the order of the claim, so that neighbours in rank are neighbours in racks.
        nodes = []
        for node in claim.nodes:
            if free[node] > 0:
                free[node] -= 1
                nodes.append(node)
        if waits:
            self._cluster.let_go(list(zip(waits, nodes, strict=False)), marks)
            where = ", ".join(dict.fromkeys(claim.nodes))
            offset_ms = marks.offset_us / 1000
            self._say(claim.job, pods, "Placed", f"on {where}, offset {offset_ms:g} ms")


def _is_ready(node: Mapping[str, Any]) -> bool:
    if node["spec"].get("unschedulable"):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
