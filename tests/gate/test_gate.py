"""Bursts wait for their windows; nested, concurrent and mistaken ones do no harm; marks."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from metronome_opt.gate import Claim, Gate
from tests.gate.clock import MS, Clock, began_ms, claim, run, said, total


def test_bursts_wait_for_their_windows() -> None:
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
    assert [(burst.iteration, burst.phase) for burst in bursts] == [
        *((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    ]
    assert [burst.iteration_ns for burst in bursts] == [None, None, 50 * MS, None, 230 * MS]
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
    clock.passes(120)  # 140, the second window: no need to wait
    assert began_ms(run(clock, gate, 10, 0)) == [140]
    assert total(gate, "bursts") == 1


def test_nested_burst_is_part_of_outer_one() -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100))
    with gate.burst(1000) as outer:
        clock.passes(10)
        with gate.burst(500) as inner:
            clock.passes(10)
    assert (inner.waited_ns, outer.sent_bytes) == (0, 1500)
    assert [total(gate, name) for name in ("bursts", "sent_bytes")] == [1, 1500]
    assert began_ms(run(clock, gate, 10, 0)) == [100]


def test_burst_of_another_thread_joins_open_one() -> None:
    gate = Gate(claim(0, 100))

    def loop() -> None:
        for _ in range(5):
            with gate.burst(1) as burst:
                assert burst.window_at is None or burst.began_at >= burst.window_at
                time.sleep(0.002)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
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
    (line,) = said(caplog)
    assert line.startswith("a burst is entered a second time; take another one")


# ------------------------------------------------------------------ which burst it is


def iterate(clock: Clock, gate: Gate, *phases: int | None) -> list[tuple[int, float]]:
    """Compute for 20 ms and burst for 10 ms each; return phases, and beginnings in ms."""
    seen = []
    for phase in phases:
        clock.passes(20)
        with gate.burst(phase=phase) as burst:
            clock.passes(10)
        seen.append((burst.phase, burst.began / MS))
    return seen


def test_named_bursts_stay_in_step() -> None:
    """Windows at 50 and 80 of every 100 ms; the second iteration omits its second burst."""
    clock = Clock()
    gate = clock.gate(claim(0, 100, 50, 80))
    seen = iterate(clock, gate, 0, 1, 0, 0, 1)
    assert seen == [(0, 50), (1, 80), (0, 150), (0, 250), (1, 280)]


def test_claim_amid_an_iteration_does_not_swap_bursts(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "claim.json"
    gate = clock.gate(file=path)
    assert [phase for phase, _ in iterate(clock, gate, 0)] == [0]
    path.write_text('{"offset_ms": 0, "period_ms": 100, "starts_ms": [50, 80]}')
    seen = iterate(clock, gate, *[1, 0] * 10)
    assert [phase for phase, _ in seen] == [1, 0] * 10
    assert [began % 100 for _, began in seen[-2:]] == [80, 50]


@pytest.mark.parametrize("phase", [2, -1, "x", 10**400])
def test_unknown_phase_is_a_warning(phase: int, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    assert iterate(clock, clock.gate(claim(0, 100, 50, 80)), phase, phase) == [(0, 50), (1, 80)]
    (line,) = said(caplog)
    assert "the bursts of the claim are 0 to 1" in line


def test_burst_that_never_ended_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    gate = clock.gate(claim(50, 100))
    lost = gate.burst()
    lost.begin()
    with gate.burst():  # a part of it, for all that is known
        clock.passes(10)
    clock.passes(10_000)
    seen = iterate(clock, gate, None, None)
    assert [began % 100 for _, began in seen] == [50, 50]  # after a pause, in its windows
    lost.end()
    assert [began % 100 for _, began in iterate(clock, gate, None)] == [50]
    assert total(gate, "bursts") == 3
    (line,) = said(caplog)
    assert "never ended" in line


# ------------------------------------------------------------------ traffic classes

CS3 = 24 << 2  # the code point above two bits for congestion
V4 = socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS
V6 = socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS


@pytest.mark.parametrize(("family", "level", "option"), [V4, V6])
def test_sockets_carry_the_class_of_the_claim(family: int, level: int, option: int) -> None:
    try:
        with socket.socket(family) as made:
            for traffic_class, byte in ((3, CS3), (0, 0)):
                Gate(claim(0, 100)._replace(traffic_class=traffic_class)).mark(made)
                assert made.getsockopt(level, option) == byte
    except OSError:
        pytest.skip("this machine has no such sockets")


def test_what_cannot_be_marked_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    gate = Gate(claim(0, 100)._replace(traffic_class=3))
    with one, other:
        gate.mark(one)
        gate.mark(other)
        Gate(file="/nowhere").mark(one)  # nothing is known, so nothing is set
    first, *others = said(caplog)
    assert first.endswith("; a socket is not marked")
    assert first not in others
