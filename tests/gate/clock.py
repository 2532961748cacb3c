"""A clock that stands still unless somebody sleeps or states how long something takes."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.gate import Burst, Claim, Gate

MS = 1_000_000
EPOCH = 1_700_000_000_000 * MS  # a multiple of the periods that tests have


class Clock:
    """Both clocks of a machine, in nanoseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.set_by = EPOCH
        self.slept: list[float] = []

    def steady(self) -> int:
        return self.now

    def wall(self) -> int:
        return self.now + self.set_by

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += round(seconds * 1e9)

    def passes(self, ms: float) -> None:
        self.now += round(ms * MS)

    def gate(self, claim: Claim | None = None, **options: Any) -> Gate:
        return Gate(claim, wall=self.wall, steady=self.steady, sleep=self.sleep, **options)


def claim(offset_ms: int, period_ms: int, *starts_ms: int, cushion_ms: int = 0) -> Claim:
    starts = tuple(start * MS for start in starts_ms or (0,))
    return Claim(offset_ms * MS, period_ms * MS, starts, cushion_ms * MS, "bert")


def run(clock: Clock, gate: Gate, burst_ms: float, *computed_ms: float) -> list[Burst]:
    """Let a loop compute and burst, again and again, and return its bursts."""
    bursts = []
    for computing in computed_ms:
        clock.passes(computing)
        with gate.burst() as burst:
            clock.passes(burst_ms)
        bursts.append(burst)
    return bursts


def began_ms(bursts: list[Burst]) -> list[float]:
    """When bursts began, since the beginning of the test."""
    return [burst.began / MS for burst in bursts]


def total(gate: Gate, name: str) -> float:
    """Read a counter."""
    lines = gate.metrics().splitlines()
    (line,) = (line for line in lines if line.startswith(f"metronome_gate_{name}_total"))
    return float(line.split()[1])


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings of the gate."""
    assert {record.name for record in caplog.records} <= {"metronome_opt.gate"}
    return [record.getMessage() for record in caplog.records]
