"""Records that gates write: a line of JSON for each burst."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from metronome_opt.cluster.gates import COUNTERS, GateCounter
from metronome_opt.errors import InputError
from metronome_opt.records import explain

_EACH = 16  # bursts, of which the fastest is counted

_Number = Annotated[float, Field(ge=0, lt=1e18, allow_inf_nan=False, strict=True)]


class RecordedBurst(BaseModel):
    """A line of the record of a gate; times in ms, but ``at`` in seconds since the epoch.

    ``iteration_ms`` is the time since the iteration before began, in its first burst only.
    """

    at: _Number
    burst_ms: _Number
    iteration: int = 0
    phase: Annotated[int, Field(ge=0)] = 0
    waited_ms: _Number = 0.0
    late_ms: _Number | None = None
    iteration_ms: _Number | None = None
    sent_bytes: _Number | None = None
    job: str = ""
    task: int | None = None


def read_record(path: str | Path) -> list[RecordedBurst]:
    """Read the record of one task of one job.

    A line that broke off, because the job was killed, is left out.

    Raises
    ------
    InputError
        If the file cannot be read, or holds lines that are none of a gate, bursts of several tasks,
        or bursts that overlap because the clock was set.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8") from None
    bursts: list[RecordedBurst] = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith("}"):
            continue
        try:
            burst = RecordedBurst.model_validate(json.loads(line))
        except ValidationError as error:
            raise InputError(f"{path}: line {number}: {explain(error)}") from None
        except (ValueError, RecursionError):
            raise InputError(f"{path}: line {number}: is not JSON") from None
        if bursts and (burst.job, burst.task) != (bursts[0].job, bursts[0].task):
            raise InputError(
                f"{path}: line {number}: is of task {burst.task} of job {burst.job}, those before "
                f"of task {bursts[0].task} of job {bursts[0].job}; give one task in each file"
            )
        if bursts and burst.at < bursts[-1].at + bursts[-1].burst_ms / 1000:
            raise InputError(
                f"{path}: line {number}: at: {burst.at!r}: before the end of the burst before; the "
                "clock was set, or two programs wrote here"
            )
        bursts.append(burst)
    if not bursts:
        raise InputError(f"{path}: holds no bursts of a gate")
    return bursts


def counters_of(bursts: Iterable[RecordedBurst]) -> list[GateCounter]:
    """Return what the counters of the gate would have been at the end of each burst."""
    bursts = list(bursts)
    rows = [[0.0] * len(COUNTERS)]
    fastest: RecordedBurst | None = None
    for number, burst in enumerate(bursts, start=1):
        sent, seconds = burst.sent_bytes or 0.0, burst.burst_ms / 1000
        if sent and (fastest is None or _rate(burst) > _rate(fastest)):
            fastest = burst
        row = {
            "iterations": float(burst.iteration_ms is not None),
            "iteration_seconds": (burst.iteration_ms or 0.0) / 1000,
            "bursts": 1.0,
            "burst_seconds": seconds,
            "waited_seconds": burst.waited_ms / 1000,
            "late_seconds": (burst.late_ms or 0.0) / 1000,
            "sent_bytes": sent,
        }
        if fastest is not None and number % _EACH == 0:
            row["fastest_bytes"] = fastest.sent_bytes or 0.0
            row["fastest_seconds"] = fastest.burst_ms / 1000
            fastest = None
        rows.append([row.get(name, 0.0) for name in COUNTERS])
    times = np.array([bursts[0].at, *(burst.at + burst.burst_ms / 1000 for burst in bursts)])
    return [
        GateCounter(bursts[0].job, name, times, np.array(list(accumulate(column))))
        for name, column in zip(COUNTERS, zip(*rows, strict=True), strict=True)
    ]


def _rate(burst: RecordedBurst) -> float:
    """Return bytes by ms; a burst of no length is no measurement."""
    return (burst.sent_bytes or 0.0) / burst.burst_ms if burst.burst_ms else 0.0
