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
_SLEEPING = 300
_PERIOD_NS = 20_000_000
_SEND_S, _WAIT_S = 0.005, 0.006
_TURN_S = 0.014  # computing and sending; two turns and one wait are between one slot and the next
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
        plain, busy = Gate(Claim(0, _PERIOD_NS)), Gate(**everything)
        # Whatever runs after a sleep finds cold caches, the end of a burst that sleeps as well.
        for send_s, what, bar in ((0.0, "", _CPU_BAR), (_SEND_S, " and sleeps", "")):
            alone, costs, late = _waiting(sleeping, send_s, plain, busy)
            yield Figure(f"its sleep alone{what and ', twice'}", alone, "us of CPU")
            yield Figure(f"a burst that waits{what}, besides", costs[plain], "us of CPU", bar)
            yield Figure(f"a burst that waits{what}, all on", costs[busy], "us of CPU", bar)
        plain.close()
        busy.close()
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


def _waiting(
    bursts: int, send_s: float, *gates: Gate
) -> tuple[float, dict[Gate, float], list[float]]:
    """Return what bursts that wait and then send cost, by gate, besides what they sleep.

    Bursts of each gate take turns with sleeps of the same lengths, so that both find caches as cold
    as sleeping leaves them. Who is ready `_WAIT_S`
    before a slot waits for it; bursts that come later do not count.

    Returns
    -------
    tuple
        The processor time of the sleeps, what a burst takes more, and by how much each burst began
        late, all in microseconds.
    """
    late: list[float] = []
    costs: dict[Gate, list[int]] = {gate: [] for gate in gates}
    sleeps: list[int] = []
    for _ in range(bursts):
        for gate in gates:
            time.sleep(_TURN_S - send_s)
            begin = time.process_time_ns()
            with gate.burst(1000) as burst:
                if send_s:
                    time.sleep(send_s)
            cost = time.process_time_ns() - begin
            time.sleep(_TURN_S - send_s)
            begin = time.process_time_ns()
            time.sleep(_WAIT_S)
            if send_s:
                time.sleep(send_s)
            sleep = time.process_time_ns() - begin
            if burst.late_ns is not None and burst.waited_ns > _WAIT_S * 0.5e9:
                late.append(burst.late_ns / 1000)
                costs[gate].append(cost - sleep)
                sleeps.append(sleep)
    besides = {gate: statistics.fmean(each) / 1000 for gate, each in costs.items()}
    return statistics.fmean(sleeps) / 1000, besides, late


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
