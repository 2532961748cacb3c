"""The loop goes on after rounds and decisions that fail."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from metronome_opt.errors import RemoteError
from metronome_opt.kubernetes.controller.loop import ControllerMetrics, run
from metronome_opt.kubernetes.controller.reconcile import Controller
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.state.monitor import Monitor, SlotDecision, SlotReview
from tests.kubernetes.controller.fake import FakeCluster
from tests.kubernetes.state.states import reservation, state_of


class Restless(threading.Event):
    """A loop that waits for it goes on at once."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        return super().wait(0.0)


class Flaky(FakeCluster):
    """The first request fails."""

    failed = False

    def pods(self) -> list[Pod]:
        if not self.failed:
            self.failed = True
            raise RemoteError("https://server: no answer")
        return super().pods()


@pytest.mark.timeout(60)
def test_gangs_that_meet_get_other_slots_from_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided is not tested here: a search ends with its time, and nothing moves then."""
    threads = []

    def decide(_: Monitor, review: SlotReview) -> SlotDecision:
        threads.append(threading.current_thread())
        if len(threads) == 1:
            raise ZeroDivisionError("by zero")  # a decision that fails is made again
        moved = review.reservations["b"].model_copy(update={"offset": 100})
        return SlotDecision({"b": moved}, "they met")

    monkeypatch.setattr(Monitor, "decide", decide)
    monkeypatch.setattr("metronome_opt.kubernetes.state.monitor._SETTLE_S", 0.0)
    state = state_of(reservation("a", 0), reservation("b", 30))
    controller = Controller(state, FakeCluster(2))
    stop, lines, metrics = threading.Event(), list[str](), ControllerMetrics()

    def notify(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            stop.set()

    events: dict[str, Any] = {"stop": stop, "changed": Restless()}
    run(controller, Flaky(2), None, **events, metrics=metrics, notify=notify)
    failed = "no windows were chosen: ZeroDivisionError: by zero"
    assert lines == ["https://server: no answer", failed, "they met"]
    assert [claim.offset for claim in state.reservations.values()] == [0, 100]
    assert threading.main_thread() not in threads
    counted = metrics.registry.get_sample_value
    assert counted("metronome_controller_failures_total") == 1
    assert counted("metronome_controller_rephased_gangs_total") == 1
