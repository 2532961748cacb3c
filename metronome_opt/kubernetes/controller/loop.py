"""The loop: reconcile whenever pods change, as long as this is the leader."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lightkube.core.client import Client
from prometheus_client import CollectorRegistry, Counter, Gauge

from metronome_opt.errors import MetronomeError
from metronome_opt.kubernetes.client import PODS, ClusterError, asking
from metronome_opt.kubernetes.controller.lease import Leadership
from metronome_opt.kubernetes.controller.live import LiveCluster
from metronome_opt.kubernetes.controller.reconcile import Controller
from metronome_opt.kubernetes.controller.rephase import Rephasing

_PAUSE_S = 0.2
_INTERVAL_S = 5.0  # between two rounds if nothing changes
_WATCH_S = 300


class ControllerMetrics:
    """Metrics of a controller for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        more: dict[str, Any] = {"namespace": "metronome_controller", "registry": self.registry}
        self.rounds = Counter("rounds", "Rounds of reconciliation", **more)
        self.failures = Counter("failures", "Rounds that an API server cut short", **more)
        self.waiting = Gauge("waiting_gangs", "Gangs without a place", **more)
        self.placed = Gauge("placed_gangs", "Gangs with a place", **more)
        self.free = Gauge("free_gangs", "Gangs with a place that keep no slots", **more)
        self.rephased = Counter("rephased_gangs", "Gangs that were given other slots", **more)
        self.unmeasured = Counter(
            "prometheus_failures", "Queries of Prometheus without a usable answer", **more
        )


def run(
    controller: Controller,
    live: LiveCluster,
    leadership: Leadership | None,
    rephasing: Rephasing,
    *,
    stop: threading.Event,
    changed: threading.Event,
    metrics: ControllerMetrics,
    notify: Callable[[str], None],
) -> bool:
    """Reconcile until `stop` is set; return whether this was the leader until then.

    Parameters
    ----------
    leadership
        None for a single controller.
    rephasing
        Decides after each round about other slots.
    stop, changed
        Set to end the loop, and whenever pods have changed.
    notify
        Called with a message when the API server stops answering.
    """
    failed = False
    while not stop.is_set():
        if leadership is not None and not leadership.held:
            return False
        changed.clear()
        try:
            waiting = controller.reconcile(live.pods(), live.nodes())
        except MetronomeError as error:
            metrics.failures.inc()
            if not failed:
                notify(str(error))
            failed = True
        else:
            failed = False
            metrics.rounds.inc()
            metrics.waiting.set(waiting)
            metrics.placed.set(len(controller.state.claims))
            metrics.free.set(sum(not each.gated for each in controller.state.claims.values()))
            rephase(rephasing, metrics, notify, changed)
        stop.wait(_PAUSE_S)  # pods of one gang come one after the other
        changed.wait(_INTERVAL_S)
    return True


def rephase(
    rephasing: Rephasing,
    metrics: ControllerMetrics,
    notify: Callable[[str], None],
    changed: threading.Event,
) -> None:
    """Take over decisions about running gangs; the next round applies them."""
    done = rephasing.step()
    if done is None:
        return
    if done.fault is not None:
        metrics.unmeasured.inc()
        notify(done.fault)
    if done.gangs:
        metrics.rephased.inc(done.gangs)
        notify(done.line)
        changed.set()


def watch(
    client: Client, namespace: str, changed: threading.Event, stop: threading.Event
) -> threading.Thread:
    """Set `changed` whenever pods change, from a thread of its own."""

    def follow() -> None:
        while not stop.is_set():
            with suppress(ClusterError), asking(client):
                for _ in client.watch(PODS, namespace=namespace, server_timeout=_WATCH_S):
                    changed.set()
            stop.wait(1.0)

    thread = threading.Thread(target=follow, name="watch", daemon=True)
    thread.start()
    return thread
