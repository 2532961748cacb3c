"""Bursts wait for their windows, and nested or concurrent ones are one burst."""

from __future__ import annotations

import threading
import time

import pytest

from metronome_opt.gate import Burst, Claim, Gate
from tests.gate.clock import MS, Clock, began_ms, claim, run, total


def test_bursts_wait_for_their_slots() -> None:
    clock = Clock()
    bursts = run(clock, clock.gate(claim(40, 100)), 10, 0, 60, 60, 60)
    assert began_ms(bursts) == [40, 140, 240, 340]
    assert [burst.waited_ns for burst in bursts] == [40 * MS, 30 * MS, 30 * MS, 30 * MS]
    assert [burst.late_ns for burst in bursts] == [0, 0, 0, 0]
    assert max(clock.slept) <= 0.1  # seconds, so that Ctrl-C has its turn


def test_ungated_burst_never_waits_and_is_counted() -> None:
    clock = Clock()
    gate = clock.gate(Claim(10 * MS, 100 * MS, (0, 50 * MS), gated=False))
    bursts = run(clock, gate, 5, 0, 20, 20, 200, 20)
    assert began_ms(bursts) == [0, 25, 50, 255, 280]
    assert [burst.late_ns for burst in bursts] == [None] * 5
    named = [(burst.iteration, burst.phase, burst.iteration_ns) for burst in bursts]
    assert named == [
        (0, 0, None),
        (0, 1, None),
        (1, 0, 50 * MS),
        (1, 1, None),
        (2, 0, 230 * MS),
    ]
    assert [total(gate, name) for name in ("bursts", "iterations", "late_bursts")] == [5, 2, 0]
    assert total(gate, "burst_seconds") == 0.025
    assert "metronome_gate_following 1" in gate.metrics()


def test_exception_of_block_passes_and_ends_burst() -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100))
    with pytest.raises(ZeroDivisionError), gate.burst():
        clock.passes(10 / 0)
    assert total(gate, "bursts") == 1
    assert began_ms(run(clock, gate, 10, 10)) == [100]


def test_interrupt_while_waiting_leaves_gate_usable() -> None:
    clock = Clock()

    def interrupt(seconds: float) -> None:
        clock.sleep(seconds / 2)
        raise KeyboardInterrupt

    gate = Gate(claim(40, 100), wall=clock.wall, steady=clock.steady, sleep=interrupt)
    with pytest.raises(KeyboardInterrupt):
        gate.burst().begin()
    assert clock.now == 20 * MS
    clock.passes(120)  # 140, the second slot: no need to wait
    assert began_ms(run(clock, gate, 10, 0)) == [140]
    assert total(gate, "bursts") == 1


def test_nested_burst_is_part_of_outer_one() -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100))
    with gate.burst(1000) as outer:
        clock.passes(10)
        with gate.burst(500) as inner:
            clock.passes(10)
    assert inner.waited_ns == 0
    assert outer.sent_bytes == 1500
    assert total(gate, "bursts") == 1
    assert total(gate, "sent_bytes") == 1500
    assert began_ms(run(clock, gate, 10, 0)) == [100]


def test_burst_of_another_thread_joins_open_one() -> None:
    gate = Gate(claim(0, 100))
    begun: list[int] = []

    def loop() -> None:
        for _ in range(5):
            with gate.burst(1):
                begun.append(time.monotonic_ns())
                time.sleep(0.002)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(begun) == 15
    assert total(gate, "sent_bytes") == 15
    assert 1 <= total(gate, "bursts") <= 15


def test_burst_is_entered_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    gate = clock.gate(claim(40, 100))
    burst = gate.burst(7)
    for _ in range(3):
        with burst:
            clock.passes(10)
    assert (burst.began, clock.now) == (40 * MS, 70 * MS)
    assert [total(gate, name) for name in ("bursts", "sent_bytes")] == [1, 7]
    (record,) = caplog.records
    assert record.getMessage().startswith("a burst is entered a second time; take another one")


def test_real_sleep_ends_at_the_slot() -> None:
    gate = Gate(claim(0, 50))
    for _ in range(5):
        with gate.burst() as burst:
            assert isinstance(burst, Burst)
            assert burst.window_at is not None
            assert burst.window_at % (50 * MS) == 0
            assert burst.began_at >= burst.window_at
