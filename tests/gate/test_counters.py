"""A gate reports every burst: lines of JSON, counters, and answers to scrapes."""

from __future__ import annotations

import json
import math
import os
import random
import socket
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from metronome_opt.gate import Gate
from tests.gate.clock import MS, Clock, claim, run, said


@pytest.fixture(autouse=True)
def _no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOSTNAME", raising=False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def series(text: str) -> dict[str, float]:
    """Read metrics as Prometheus does."""
    return {
        sample.name.removeprefix("metronome_gate_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_record_lines_worked_out_by_hand(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "gate.jsonl"
    gate = clock.gate(claim(40, 100, 0, 30), record=path, job='a"b', task=3)
    with gate.burst(sent_bytes=1000):
        clock.passes(12.5)
    clock.passes(20)
    with gate.burst() as burst:
        clock.passes(5)
        burst.sent_bytes = 70
    run(clock, gate, 10, 60)
    gate.set_claim(claim(0, 0))
    run(clock, gate, 10, 60)
    gate.close()
    times = ("waited_ms", "late_ms", "burst_ms", "iteration_ms")
    names = ("at", "iteration", "phase", *times, "sent_bytes")
    at = 1_700_000_000
    rows = [
        (at + 0.04, 0, 0, 40, 0, 12.5, None, 1000),
        (at + 0.0725, 0, 1, 0, 2.5, 5, None, 70),
        (at + 0.14, 1, 0, 2.5, 0, 10, 100, None),
        (at + 0.21, 1, 1, 0, None, 10, None, None),
    ]
    expected = [dict(zip(names, row, strict=True)) | {"job": 'a"b', "task": 3} for row in rows]
    assert lines(path) == expected


def test_record_continues_after_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    path.write_text('{"at": 1}\n{"at": 2, "itera')
    clock = Clock()
    gate = clock.gate(claim(0, 100), record=path)
    run(clock, gate, 10, 0)
    gate.close()
    first, broken, ours = path.read_text().splitlines()
    assert (first, broken) == ('{"at": 1}', '{"at": 2, "itera')
    assert json.loads(ours)["job"] == "bert"


def test_fastest_of_sixteen_bursts_is_counted() -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100))
    for number in range(40):
        clock.passes(50)
        with gate.burst(1000):
            clock.passes(7 if number in (5, 20, 35) else 10)
    counters = series(gate.metrics())
    # The third of them is not counted before its sixteen are over.
    assert counters["fastest_bytes_total"] == 2000
    assert counters["fastest_seconds_total"] == pytest.approx(0.014)


def test_counters_worked_out_by_hand() -> None:
    clock = Clock()
    gate = clock.gate(claim(40, 100, cushion_ms=5), job="bert", task=2)
    # Ready at 0, 110, 246, 353: the second is in time, the third late by 6, the fourth by 13.
    for computing, sent in ((0, 100), (60, 200), (96, 300), (97, 400)):
        clock.passes(computing)
        with gate.burst(sent):
            clock.passes(10)
    assert series(gate.metrics()) == pytest.approx(
        {
            "sent_bytes_total": 1000,
            "bursts_total": 4,
            "waited_seconds_total": 0.04 + 0.03,
            "late_seconds_total": 0.006 + 0.013,
            "late_bursts_total": 2,
            "burst_seconds_total": 0.04,
            "fastest_bytes_total": 0,
            "fastest_seconds_total": 0.0,
            "iterations_total": 3,
            "iteration_seconds_total": 0.313,
            "computing_products_total": 0.06 * 0.096 + 0.096 * 0.097,
            "computing_differences_total": 0.036**2 + 0.001**2,
            "period_seconds": 0.1,
            "offset_seconds": 0.04,
            "following": 1,
        }
    )
    gate.set_claim(claim(0, 0))
    gone = series(gate.metrics())
    assert gone["following"] == 0
    assert "period_seconds" not in gone


def jitter(gate: Gate) -> float:
    """Return the jitter of computing times as docs/gate.md works it out."""
    counted = series(gate.metrics())
    squares = counted["computing_differences_total"] / 2
    return math.sqrt(squares / counted["computing_products_total"])


def test_waits_and_pauses_are_no_jitter() -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100))
    run(clock, gate, 10, *[60] * 20)  # and waits 30 ms each time
    run(clock, gate, 10, 5000, *[60] * 20, 181, 60, 60)  # a checkpoint, and another one
    assert jitter(gate) == 0
    run(clock, gate, 10, 120)  # is none
    assert jitter(gate) > 0


@pytest.mark.parametrize("share", [0.002, 0.02, 0.1])
def test_jitter_of_drawn_computing_times_is_found(share: float) -> None:
    draw = random.Random(1)
    clock = Clock()
    gate = clock.gate(claim(0, 100, 0, 50))
    for number in range(4000):
        length = (20, 50)[number % 2] * (1 + number / 10_000)  # which drifts
        run(clock, gate, 10, length * draw.gauss(1, share))
    assert jitter(gate) == pytest.approx(share, rel=0.1)


def ask(gate: Gate, path: str = "/metrics") -> tuple[str, str]:
    assert gate.address is not None
    host, port = gate.address
    where = f"[{host}]" if ":" in host else host
    with urllib.request.urlopen(f"http://{where}:{port}{path}", timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_scrapes_are_answered_until_gate_is_closed(host: str) -> None:
    clock = Clock()
    gate = clock.gate(claim(0, 100), metrics=f"{host}:0")
    if gate.address is None:
        pytest.skip(f"no {host} here")
    run(clock, gate, 10, 0)
    kind, text = ask(gate)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert series(text)["bursts_total"] == 1
    assert text == gate.metrics() == ask(gate, "/")[1]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(gate, "/other")
    gate.close()
    assert gate.address is None


def test_slow_scraper_delays_neither_others_nor_exit() -> None:
    gate = Gate(claim(0, 100), metrics="127.0.0.1:0")
    assert gate.address is not None
    with socket.create_connection(gate.address) as slow:
        slow.send(b"G")
        with socket.create_connection(gate.address) as other:
            other.settimeout(20)
            other.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.0 200"
        closing = threading.Thread(target=gate.close)
        closing.start()
        closing.join(20)
        assert not closing.is_alive()


def test_invalid_unicode_is_escaped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock, path = Clock(), tmp_path / "gate.jsonl"
    gate = clock.gate(claim(0, 100), job="a\ud800", record=path)
    run(clock, gate, 10, 20)
    assert r'job="a\\ud800"' in gate.metrics()
    gate.close()
    assert '"job": "a\\ud800"' in path.read_text()
    assert said(caplog) == []


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_forked_process_neither_records_nor_answers(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "gate.jsonl"
    gate = clock.gate(claim(0, 100), record=path, metrics="127.0.0.1:0")
    run(clock, gate, 10, 0, 60)
    child = os.fork()
    if child == 0:
        try:
            bursts = run(clock, gate, 10, *[60] * 40)
            gate.close()
            os._exit(0 if gate.address is None and bursts[-1].waited_ns == 30 * MS else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    run(clock, gate, 10, 60)
    assert series(ask(gate)[1])["bursts_total"] == 3
    gate.close()
    assert [line["iteration"] for line in lines(path)] == [0, 1, 2]
