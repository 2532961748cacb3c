"""Clocks that stand still while a processor is stopped, and who sees for how long it is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.testbed import clock
from tests.running import wait_until

ROOT = Path(__file__).parents[3]
SECOND = 10**9


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the file of a watcher that has seen nothing yet."""
    path = tmp_path / "stopped"
    path.write_bytes(bytes(8))
    monkeypatch.setenv(clock.VARIABLE, str(path))
    clock._watched.cache_clear()
    yield path
    clock._watched.cache_clear()


def test_clocks_leave_out_what_the_watcher_has_seen(stopped: Path) -> None:
    assert abs(clock.wall_ns() - time.time_ns()) < SECOND
    with stopped.open("r+b") as file:
        file.write((5 * SECOND).to_bytes(8, sys.byteorder))
    assert clock.stopped_ns() == 5 * SECOND
    assert -6 * SECOND < clock.wall_ns() - time.time_ns() <= -5 * SECOND
    assert -6 * SECOND < clock.steady_ns() - time.monotonic_ns() <= -5 * SECOND


@pytest.mark.netns
@pytest.mark.slow
@pytest.mark.usefixtures("namespaces")
def test_a_watcher_that_is_stopped_adds_up_for_how_long(stopped: Path) -> None:
    program = [sys.executable, "-S", "-m", "benchmarks.testbed.clock", str(stopped)]
    with subprocess.Popen(program, cwd=ROOT) as watcher:
        try:
            time.sleep(1)
            before = clock.stopped_ns()
            watcher.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            watcher.send_signal(signal.SIGCONT)
            wait_until(lambda: clock.stopped_ns() - before >= 0.29 * SECOND)
        finally:
            watcher.kill()
