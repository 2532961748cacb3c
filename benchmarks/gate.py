"""What a gate costs a training loop, and how exactly it lets bursts begin."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.registry import Figure, benchmark
from metronome_opt.gate import Claim, Gate

_BURSTS = 2000
_SLEEPING = 500
_PERIOD_NS = 20_000_000
_WORK_S = 0.005
_CPU_BAR, _IMPORT_BAR = "<= 50", "<= 30"


@benchmark("What does a gate cost for each burst, and how late do bursts begin after their slots?")
def gate(small: bool) -> Iterator[Figure]:
    """Measure processor time of bursts that are late and that wait, lateness, and the import."""
    bursts, sleeping, imports = (20, 5, 1) if small else (_BURSTS, _SLEEPING, 11)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        everything = _everything(folder)
        yield Figure("a late burst", _late(bursts), "us of CPU", _CPU_BAR)
        yield Figure("a late burst, all on", _late(bursts, **everything), "us of CPU", _CPU_BAR)
        costs, late = _waiting(sleeping, **everything)
        # Whatever runs after a sleep finds cold caches; this is no matter of the gate's alone.
        yield Figure("a burst that waits, all on", costs, "us of CPU")
        yield Figure("a sleep alone", _sleep_alone(sleeping), "us of CPU")
    centiles = statistics.quantiles(late, n=100)
    yield Figure("late after waiting, median", centiles[49], "us")
    yield Figure("late after waiting, 99 %", centiles[98], "us")
    yield Figure("import metronome_opt.gate", _import_ms(imports), "ms", _IMPORT_BAR)


def _everything(folder: Path) -> dict[str, Any]:
    """Return options with which a gate does all that it can do."""
    claim = folder / "claim.json"
    claim.write_text(json.dumps({"offset_ms": 0, "period_ms": _PERIOD_NS / 1e6}))
    time.sleep(0.05)  # a file that has just changed is read again
    return {"file": claim, "record": folder / "record.jsonl", "metrics": folder / "gate.prom"}


def _late(bursts: int, **options: Any) -> float:
    """Return the processor time of a burst that has nothing to wait for, in microseconds."""
    clock = _Clock()
    gate = Gate(
        Claim(0, _PERIOD_NS),
        wall=clock.wall,
        steady=clock.steady,
        sleep=clock.sleep,
        **options,
    )
    begin = time.thread_time_ns()
    for _ in range(bursts):
        with gate.burst(1000):
            pass
    cost = time.thread_time_ns() - begin
    gate.close()
    return cost / bursts / 1000


class _Clock:
    """Clocks in which every burst comes a little more than a period after the one before."""

    def __init__(self) -> None:
        self._now = 0

    def wall(self) -> int:
        self._now += _PERIOD_NS + 1000
        return self._now

    def steady(self) -> int:
        return self._now

    def sleep(self, seconds: float) -> None:  # before the first burst
        self._now += round(seconds * 1e9)


def _waiting(bursts: int, **options: Any) -> tuple[float, list[float]]:
    """Return the processor time of a burst that waits, and by how much each began late, in us."""
    gate = Gate(**options)
    late: list[float] = []
    cost = 0
    for _ in range(bursts):
        begin = time.thread_time_ns()
        burst = gate.burst(1000)
        burst.begin()
        cost += time.thread_time_ns() - begin
        time.sleep(_WORK_S)
        begin = time.thread_time_ns()
        burst.end()
        cost += time.thread_time_ns() - begin
        if burst.waited_ns and burst.late_ns is not None:
            late.append(burst.late_ns / 1000)
    gate.close()
    return cost / bursts / 1000, late


def _sleep_alone(times: int) -> float:
    """Return the processor time of a sleep, and of reading the clock, in microseconds."""
    cost = 0
    for _ in range(times):
        time.sleep(_WORK_S)
        begin = time.thread_time_ns()
        time.sleep(_PERIOD_NS / 1e9 - _WORK_S)
        cost += time.thread_time_ns() - begin
    return cost / times / 1000


def _import_ms(times: int) -> float:
    """Return how long the import takes in a new interpreter, the median in milliseconds."""
    code = (
        "import time; begin = time.perf_counter(); import metronome_opt.gate; "
        "print(1000 * (time.perf_counter() - begin))"
    )
    command = [sys.executable, "-c", code]
    return statistics.median(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(times)
    )
