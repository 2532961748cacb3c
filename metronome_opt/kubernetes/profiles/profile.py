"""Traffic profiles: period, bursts and rates of a job, as means of cycles; from records of gates.

A record holds every burst. `sampled` finds cycles in samples of throughput, `collectives` in traces
of training jobs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError
from scipy.special import stdtrit

from metronome_opt.errors import InputError, error_context, sanitize
from metronome_opt.files.records import explain
from metronome_opt.kubernetes.profiles.source import Source, read_lines
from metronome_opt.scenario.traffic import Traffic

Floats = NDArray[np.float64]
_Number = Annotated[float, Field(ge=0, lt=1e18, allow_inf_nan=False, strict=True)]

MIN_CYCLES = 4
MAX_SPREAD = 0.25  # of the period: deviation of the length of a cycle
MIN_WHOLE = 0.6  # share of the cycles whose length deviates less
_SIDE = 0.975  # quantile of Student's distribution: 95 % lie between it and its negative
_PAUSE = 3  # median lengths: a longer iteration holds a checkpoint or a restart
_CENT = 100  # printed parts of a millisecond


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Measured traffic of a job.

    True values are within errors in about 95 % of cases; too few cycles tell none.
    """

    traffic: dict[str, Any] | None = None  # as in job files; the first burst begins at 0
    period_error_ms: float | None = 0.0
    burst_error_ms: float | None = 0.0  # of starts and lengths
    rate_error: float | None = 0.0  # as a share of rates
    cycles: int = 0
    cycle_ms: tuple[float, float] | None = None  # the shortest and the longest
    jitter: float | None = None  # standard deviation of computing times as a share of them
    message_bytes: float | None = None  # of all collectives of a period, by a trace
    skew_ms: float | None = None  # at most, between ranks that enter a collective
    reason: str | None = None  # why there is no period
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse traffic that no job file takes, unless its rates are not known."""
        if self.traffic and None not in (phase["rate_mbps"] for phase in self.traffic["phases"]):
            try:
                Traffic.model_validate(self.traffic)
            except ValidationError as error:
                raise InputError(f"measured traffic: {explain(error)}") from None


class NoPeriodError(Exception):
    """Reason why samples show no period."""


@contextmanager
def finite_floats() -> Iterator[None]:
    """Refuse numbers that floats do not hold in this block."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            yield
    except (FloatingPointError, OverflowError) as error:
        raise InputError(f"times or rates are too large or too small ({error})") from None


def mean_profile(rows: Sequence[Sequence[float]], blur_ms: float) -> Profile:
    """Return the profile of cycles: the length of each, then starts, lengths (ms), Mbit/s * ms."""
    table = np.array(rows)
    means = table.mean(axis=0)
    wide = float(stdtrit(len(table) - 1, _SIDE))
    errors = wide * table.std(axis=0, ddof=1) / math.sqrt(len(table))
    starts, lengths, sent = np.split(means[1:], 3)
    edges = np.hypot(errors[1 : 1 + 2 * len(starts)], blur_ms)
    of_lengths, of_sent = edges[len(starts) :], errors[1 + 2 * len(starts) :]
    is_known = len(table) >= MIN_CYCLES
    return Profile(
        traffic=_stated(float(means[0]), np.array([starts, lengths, sent / lengths]).T.tolist()),
        period_error_ms=float(errors[0]) if is_known else None,
        burst_error_ms=float(edges.max()) if is_known else None,
        rate_error=float((of_lengths / lengths + of_sent / sent).max()) if is_known else None,
        cycles=len(table),
        cycle_ms=(float(table[:, 0].min()), float(table[:, 0].max())),
    )


def _stated(period_ms: float, bursts: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return bursts (start and length in ms, rate in Mbit/s) in the format of job files."""
    phases, end = [], 0
    period = max(1, round(_CENT * period_ms))
    for start_ms, length_ms, rate in bursts:
        start = max(end, round(_CENT * start_ms))
        end = min(period, max(start + 1, round(_CENT * (start_ms + length_ms))))
        if end <= start:
            raise InputError(f"bursts of less than {1 / _CENT:g} ms, which no job file states")
        rates = {"rate_mbps": max(1, round(rate))}
        phases.append({"start_ms": start / _CENT, "length_ms": (end - start) / _CENT, **rates})
    return {"period_ms": period / _CENT, "phases": phases}


def jitter_of(table: Floats) -> float | None:
    """Return the standard deviation of computing times of cycles, as a share of them."""
    lengths, (starts, bursts, _) = table[:, :1], np.split(table[:, 1:], 3, axis=1)
    computed = np.hstack([starts[:, 1:], lengths]) - starts - bursts
    mean = float(np.linalg.norm(computed.mean(axis=0)))
    deviation = float(np.linalg.norm(computed.std(axis=0, ddof=1)))
    return round(min(1.0, deviation / mean), 4) if mean else None


# ------------------------------------------------------------------ records of gates


class RecordedBurst(BaseModel):
    """A line of the record of a gate; times in ms, but ``at`` in seconds since the epoch.

    ``iteration_ms`` is the time since the iteration before began, in its first burst only.
    """

    at: _Number
    burst_ms: _Number
    phase: Annotated[int, Field(ge=0)] = 0
    waited_ms: _Number = 0.0
    iteration_ms: _Number | None = None
    sent_bytes: _Number | None = None
    job: str = ""
    task: int | None = None


def read_record(source: Source) -> list[RecordedBurst]:
    """Read the record of one task of one job, in which bursts do not overlap.

    A line that was cut off when the job was killed is omitted.
    """
    bursts: list[RecordedBurst] = []
    for number, line in enumerate(read_lines(source), start=1):
        if line.endswith("}"):
            with error_context(f"line {number}"):
                bursts.append(_parse(line, bursts[-1] if bursts else None))
    if not bursts:
        raise InputError("holds no bursts of a gate")
    return bursts


def _parse(line: str, before: RecordedBurst | None) -> RecordedBurst:
    try:
        burst = RecordedBurst.model_validate(json.loads(line))
    except ValidationError as error:
        raise InputError(explain(error)) from None
    except (ValueError, RecursionError):
        raise InputError("is not JSON") from None
    if before and (burst.job, burst.task) != (before.job, before.task):
        own, other = (f"task {one.task} of job {sanitize(one.job, 60)}" for one in (burst, before))
        raise InputError(f"is of {own}, those before of {other}; give one task in each file")
    if before and burst.at < before.at + before.burst_ms / 1000:
        reason = "the clock was set, or two programs wrote here"
        raise InputError(f"at: {burst.at!r}: before the end of the burst before; {reason}")
    return burst


@finite_floats()
def profile_record(bursts: Sequence[RecordedBurst]) -> Profile:
    """Return the mean iteration of a record with bytes of bursts, without waits for windows.

    Iterations that are much longer than the median, such as those with a checkpoint, are omitted.
    """
    silent = next((burst for burst in bursts if burst.sent_bytes is None), None)
    if silent is not None:
        remedy = "enter gate.burst(sent_bytes=...), or set sent_bytes before it ends"
        raise InputError(f"sent_bytes: null at {silent.at!r}: not known; {remedy}")
    rows = _iterations(bursts)
    if len(rows) < MIN_CYCLES:
        return Profile(reason=f"too short: {len(rows)} whole iterations, not {MIN_CYCLES}")
    usual = np.median([row[0] for row in rows])
    rows = [row for row in rows if row[0] <= _PAUSE * usual]
    return replace(mean_profile(rows, 0.0), jitter=jitter_of(np.array(rows)))


def _iterations(bursts: Sequence[RecordedBurst]) -> list[list[float]]:
    """Return a row for each whole iteration, as `mean_profile` takes them."""
    count = 1 + max(burst.phase for burst in bursts)
    rows = []
    for first in range(len(bursts) - count):
        inside, following = bursts[first : first + count], bursts[first + count]
        if [burst.phase for burst in inside] != list(range(count)) or not following.iteration_ms:
            continue
        waited = np.cumsum([burst.waited_ms for burst in inside])
        starts = [1000 * (burst.at - inside[0].at) for burst in inside]
        length = following.iteration_ms - float(waited[-1] - waited[0]) - following.waited_ms
        rows.append(
            [
                length,
                *(np.array(starts) - waited + waited[0]).tolist(),
                *(max(burst.burst_ms, 1e-6) for burst in inside),
                *((burst.sent_bytes or 0.0) * 8e-3 for burst in inside),
            ]
        )
    return rows
