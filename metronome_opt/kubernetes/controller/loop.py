"""Control loop: reconcile whenever pods change.

The monitor decides about windows in another thread; only the loop changes the state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from lightkube.core.client import Client
from prometheus_client import CollectorRegistry, Counter, Gauge

from metronome_opt.errors import MetronomeError
from metronome_opt.kubernetes.controller.client import PODS, ClusterError, asking
from metronome_opt.kubernetes.controller.live import LiveCluster
from metronome_opt.kubernetes.controller.reconcile import Controller
from metronome_opt.kubernetes.state.monitor import Monitor, SlotDecision, SlotReview
from metronome_opt.kubernetes.state.observations import Read
from metronome_opt.kubernetes.state.state import ClusterState

_PAUSE_S = 0.2
_INTERVAL_S = 5.0  # between two rounds if nothing changes
_WATCH_S = 300


class ControllerMetrics:
    """Metrics of a controller for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        more: dict[str, Any] = {"namespace": "metronome_controller", "registry": self.registry}
        chosen = "Gangs without nodes although enough are free"
        unanswered = "Queries of Prometheus without a usable answer"
        self.rounds = Counter("rounds", "Rounds of reconciliation", **more)
        self.failures = Counter("failures", "Rounds that an API server cut short", **more)
        self.waiting = Gauge("waiting_gangs", "Gangs without nodes", **more)
        self.deferred = Gauge("waiting_by_choice_gangs", chosen, **more)
        self.placed = Gauge("placed_gangs", "Gangs with nodes", **more)
        self.free = Gauge("free_gangs", "Gangs with nodes that are ungated", **more)
        self.rephased = Counter("rephased_gangs", "Gangs that were given other windows", **more)
        self.unmeasured = Counter("prometheus_failures", unanswered, **more)


def run(
    controller: Controller,
    live: LiveCluster,
    read: Read | None,
    *,
    stop: threading.Event,
    changed: threading.Event,
    metrics: ControllerMetrics,
    notify: Callable[[str], None],
) -> None:
    """Reconcile until `stop` is set.

    Parameters
    ----------
    read
        Reads the counters of gates; None to choose windows again only as jobs come and go.
    stop, changed
        Set to end the loop, and whenever pods have changed.
    notify
        Called with a message when the API server stops answering.
    """
    rephasing = _Rephasing(controller.state, read)
    failed = False
    while not stop.is_set():
        changed.clear()
        try:
            waiting = controller.reconcile(live.pods(), live.nodes())
            decision, gangs = rephasing.step()
        except MetronomeError as error:
            metrics.failures.inc()
            if not failed:
                notify(str(error))
            failed = True
        else:
            failed = False
            placed = controller.state.reservations.values()
            metrics.rounds.inc()
            metrics.waiting.set(waiting)
            metrics.deferred.set(len(controller.deferred))
            metrics.placed.set(len(placed))
            metrics.free.set(sum(not reservation.gated for reservation in placed))
            if decision.fault is not None:
                metrics.unmeasured.inc()
                notify(decision.fault)
            if gangs:
                metrics.rephased.inc(gangs)
                notify(decision.reason)
                changed.set()  # the next round gives pods their windows
        stop.wait(_PAUSE_S)  # pods of one gang come one after the other
        changed.wait(_INTERVAL_S)


class _Rephasing:
    """Decisions about the windows of running gangs, made by a thread one after the other."""

    def __init__(self, state: ClusterState, read: Read | None) -> None:
        self._state = state
        self._monitor = Monitor(read)
        self._monitor.follow(state)
        self._under_way: tuple[SlotReview, Future[SlotDecision]] | None = None

    def step(self) -> tuple[SlotDecision, int]:
        """Begin the next decision, or return the last one and the gangs with other windows."""
        self._monitor.follow(self._state)
        if self._under_way is None:
            review = self._monitor.next(self._state)
            if review is not None:
                self._under_way = review, Future()
                # No pool: a controller that ends does not wait for a decision.
                threading.Thread(target=self._answer, args=self._under_way, daemon=True).start()
            return SlotDecision({}, ""), 0
        review, future = self._under_way
        if not future.done():
            return SlotDecision({}, ""), 0
        self._under_way = None
        try:
            decision = future.result()
            return decision, self._monitor.apply(self._state, review, decision)
        except Exception as error:  # the controller goes on
            self._monitor.put_back(review)
            fault = f"no windows were chosen: {type(error).__name__}: {error}"
            return SlotDecision({}, "", fault=fault), 0

    def _answer(self, review: SlotReview, future: Future[SlotDecision]) -> None:
        try:
            future.set_result(self._monitor.decide(review))
        except BaseException as error:
            future.set_exception(error)


def watch(client: Client, namespace: str, changed: threading.Event, stop: threading.Event) -> None:
    """Watch pods from a thread of its own.

    Parameters
    ----------
    client, namespace
        The client, and the namespace of the pods.
    changed, stop
        Set whenever pods change, and to end the watch.
    """

    def follow() -> None:
        while not stop.is_set():
            with suppress(ClusterError), asking(client):
                for _ in client.watch(PODS, namespace=namespace, server_timeout=_WATCH_S):
                    changed.set()
            stop.wait(1.0)

    threading.Thread(target=follow, name="watch", daemon=True).start()
