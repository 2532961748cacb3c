"""Real trainings of two ranks with gloo: the hook changes when gradients go, and nothing else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.running import ROOT, python_with

PERIOD_MS = 400  # far above what an iteration computes, on a busy machine too
OFFSET_MS = 160


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        python_with("torch") is None, reason="torch is not installed (Debian: python3-torch)"
    ),
]


def train(folder: Path, mode: str) -> list[subprocess.Popen[bytes]]:
    """Start both ranks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    interpreter = python_with("torch")
    assert interpreter is not None
    ranks = []
    for rank in range(2):
        environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "METRONOME_OFFSET_MS": str(OFFSET_MS),
            "METRONOME_PERIOD_MS": str(PERIOD_MS),
            "METRONOME_TASK": str(rank),
            "METRONOME_RECORD": str(folder / f"{mode}-{rank}.jsonl"),
        }
        words = [interpreter, "-m", "tests.gate.rank", mode, str(rank), port]
        ranks.append(
            subprocess.Popen(
                [*words, str(folder / f"{mode}-{rank}.json")],
                cwd=ROOT,
                env=environ,
                stderr=subprocess.PIPE,
            )
        )
    return ranks


def results(folder: Path, mode: str) -> list[dict[str, Any]]:
    for process in train(folder, mode):
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    return [json.loads((folder / f"{mode}-{rank}.json").read_text()) for rank in range(2)]


def test_losses_are_bitwise_equal_and_bursts_in_slots(tmp_path: Path) -> None:
    free, gated = results(tmp_path, "free"), results(tmp_path, "gated")
    assert [rank["losses"] for rank in gated] == [rank["losses"] for rank in free]
    for rank in range(2):
        lines = (tmp_path / f"gated-{rank}.jsonl").read_text().splitlines()
        bursts = [json.loads(line) for line in lines]
        assert len(bursts) == 12
        early = [burst for burst in bursts if burst["waited_ms"] > 1]
        assert early
        for burst in early:
            late_ms = 1000 * burst["at"] % PERIOD_MS - OFFSET_MS
            assert late_ms == pytest.approx(burst["late_ms"], abs=0.01)
        # A ring of two: each byte of the gradients once. The windows are waited for while backward
        # goes on, so its last gradient is there long before the buckets are.
        assert {burst["sent_bytes"] for burst in bursts} == {4 * (8 * (128 * 128 + 128) + 128 + 1)}
        assert max(gated[rank]["waited_ms"]) > 1


def test_rank_that_dies_is_an_error_of_the_other(tmp_path: Path) -> None:
    alive, dead = train(tmp_path, "dies")
    _, errors = alive.communicate(timeout=120)
    dead.communicate(timeout=120)
    assert dead.returncode == 3
    assert alive.returncode == 1
    assert b"by peer" in errors  # closed or reset
    assert b"a bucket was not reduced" in errors
