"""A gate survives mistakes: wrong phases, bursts that never end, slow scrapers."""

from __future__ import annotations

import logging
import socket
import threading
import time
from pathlib import Path

import pytest

from metronome_opt.gate import Gate
from tests.gate.clock import MS, Clock, claim, total

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
    """Slots at 50 and 80 of every 100 ms; the second iteration leaves out its second burst."""
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
    gate = clock.gate(claim(0, 100, 50, 80))
    assert iterate(clock, gate, phase, phase) == [(0, 50), (1, 80)]
    (record,) = caplog.records
    assert "the bursts of the claim are 0 to 1" in record.getMessage()


# ------------------------------------------------------------------ bursts that never end


def test_burst_that_never_ended_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    gate = clock.gate(claim(50, 100))
    lost = gate.burst()
    lost.begin()
    with gate.burst():  # a part of it, for all that is known
        clock.passes(10)
    clock.passes(10_000)
    seen = iterate(clock, gate, None, None)
    assert [began % 100 for _, began in seen] == [50, 50]  # after a pause, in its slots
    lost.end()
    assert [began % 100 for _, began in iterate(clock, gate, None)] == [50]
    assert total(gate, "bursts") == 3
    (record,) = caplog.records
    assert "never ended" in record.getMessage()


def test_invalid_unicode_is_escaped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, path = Clock(), tmp_path / "gate.jsonl"
    gate = clock.gate(claim(0, 100), job="a\ud800", record=path)
    iterate(clock, gate, None)
    assert 'job="a\ud800"' in gate.metrics()
    gate.close()
    assert '"job": "a\\ud800"' in path.read_text()
    assert caplog.records == []


# ------------------------------------------------------------------ others on the machine


def test_slow_scraper_delays_neither_others_nor_exit() -> None:
    gate = Gate(claim(0, 100), metrics="127.0.0.1:0")
    assert gate.address is not None
    over = threading.Event()

    def drip() -> None:
        with socket.create_connection(gate.address or ("", 0)) as slow:
            while not over.wait(0.2):
                try:
                    slow.send(b"G")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    time.sleep(0.3)
    with socket.create_connection(gate.address) as other:
        other.settimeout(20)
        other.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert other.recv(12) == b"HTTP/1.0 200"
    closing = threading.Thread(target=gate.close)
    closing.start()
    closing.join(20)
    assert not closing.is_alive()
    over.set()
    thread.join(20)
    logging.getLogger("metronome_opt.gate").handlers.clear()
