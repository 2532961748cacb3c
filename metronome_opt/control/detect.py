"""Findings: where what is measured is not what was claimed, beyond tolerance and doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from metronome_opt.control.claims import Claims
from metronome_opt.control.observation import Observation, SeenBurst, signed
from metronome_opt.errors import InputError, show
from metronome_opt.instance import Job


class Kind(StrEnum):
    """What may be found."""

    DRIFTED = "drifted"
    PERIOD = "period"
    TRAFFIC = "traffic"
    GONE = "gone"
    CAPACITY = "capacity"


@dataclass(frozen=True)
class Finding:
    """Something that is not as claimed.

    Attributes
    ----------
    name
        Of the job, of the link for a capacity.
    what
        What was compared, with its unit.
    claimed, measured
        Both values; None for a job that is gone. A drift is measured against a claim of 0.
    excess
        How many times as large as its tolerance the difference is; infinite for one that is gone.
    """

    kind: Kind
    name: str
    what: str
    claimed: float | None
    measured: float | None
    excess: float

    def __str__(self) -> str:
        if self.claimed is None or self.measured is None:
            return f"{self.name}: {self.what}"
        if self.kind is Kind.DRIFTED:
            return f"{self.name}: off its slot by {self.measured:+,.1f} ms"
        return f"{self.name}: {self.what} {self.measured:,.6g} instead of {self.claimed:,.6g}"


@dataclass(frozen=True)
class Tolerance:
    """What is left alone. A phase may be off by the cushion of its job, or half a slot.

    Attributes
    ----------
    period
        Share of the period, but half a slot at least.
    traffic
        Share of the volume, or of the length, of a burst; of a length one slot at least.
    start
        Share of the period by which a burst may begin elsewhere in it, but one slot at least.
    capacity
        Share of the capacity.
    """

    period: float = 0.01
    traffic: float = 0.1
    start: float = 0.05
    capacity: float = 0.05

    def of_period(self, period_ms: float, slot_ms: int, error_ms: float) -> float:
        """Return by how many ms a period may be off that is known up to an error."""
        return max(self.period * period_ms, slot_ms / 2, error_ms)


def detect(
    claims: Claims,
    observations: Mapping[str, Observation],
    capacities: Mapping[str, float] | None = None,
    tolerance: Tolerance | None = None,
) -> tuple[Finding, ...]:
    """Return what is not as claimed, job by job, then link by link.

    Parameters
    ----------
    claims
        What is in force.
    observations
        By job; one that is not named was not looked at. What others did to a job is to be taken
        out of them before, see `metronome_opt.control.heldup`: a burst that is longer than claimed
        counts as its own change here.
    capacities
        Mbit/s by link, as measured.
    tolerance
        What is left alone.

    Raises
    ------
    InputError
        If a job or a link is not one of the claims.
    """
    tolerance = tolerance or Tolerance()
    capacities = capacities or {}
    _check_known("observations", observations, [job.name for job in claims.instance.jobs])
    _check_known("capacities", capacities, [link.name for link in claims.instance.links])
    found: list[Finding] = []
    for job in claims.running.jobs:
        if job.name in observations:
            found += _of_job(claims, job, observations[job.name], tolerance)
    for link in claims.instance.links:
        # A link that has failed carries 1 Mbit/s in an instance.
        if link.name in capacities and max(1, round(capacities[link.name])) != link.capacity:
            found += _finding(
                Kind.CAPACITY,
                link.name,
                "capacity in Mbit/s",
                float(link.capacity),
                capacities[link.name],
                tolerance.capacity * link.capacity,
            )
    return tuple(found)


def _check_known(place: str, given: Mapping[str, object], known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError(f"{place}.{show(name)}: the claims do not name it; leave it out")


def _of_job(claims: Claims, job: Job, seen: Observation, tolerance: Tolerance) -> Iterator[Finding]:
    if seen.gone:
        yield Finding(Kind.GONE, job.name, "is gone", None, None, float("inf"))
        return
    slot_ms = claims.instance.slot_ms
    period_ms = float(job.period * slot_ms)
    changed = []
    if seen.period_ms is not None:
        allowed = tolerance.of_period(period_ms, slot_ms, seen.period_error_ms)
        changed = _finding(
            Kind.PERIOD, job.name, "period in ms", period_ms, seen.period_ms, allowed
        )
        yield from changed
    if seen.origin_ms is not None and not changed:
        due_ms = claims.epoch_ms + claims.offsets[job.name] * slot_ms
        drift = signed(seen.origin_ms - due_ms, period_ms)
        allowed = max(slot_ms * max(claims.cushions.get(job.name, 0), 0.5), seen.origin_error_ms)
        yield from _finding(Kind.DRIFTED, job.name, "off its slot in ms", 0.0, drift, allowed)
    if seen.bursts is not None:
        yield from _of_bursts(job, slot_ms, seen.bursts, tolerance)


def _of_bursts(
    job: Job, slot_ms: int, bursts: tuple[SeenBurst, ...], tolerance: Tolerance
) -> Iterator[Finding]:
    """Yield what is not as claimed of the bursts."""
    phases = sorted(job.phases, key=lambda phase: phase.start)
    if len(bursts) != len(phases):
        difference = abs(len(bursts) - len(phases))
        yield Finding(
            Kind.TRAFFIC,
            job.name,
            "number of bursts",
            len(phases),
            len(bursts),
            1.0 + difference / len(phases) / tolerance.traffic,
        )
        return
    period_ms = float(job.period * slot_ms)
    for index, (phase, burst) in enumerate(zip(phases, bursts, strict=True)):
        where = f"bursts[{index}]"
        volume = float(phase.length * slot_ms * phase.rate)
        doubt = burst.length_error_ms * burst.rate_mbps + burst.rate_error_mbps * burst.length_ms
        yield from _finding(
            Kind.TRAFFIC,
            job.name,
            f"{where} volume in Mbit",
            volume / 1000,
            burst.volume / 1000,
            max(tolerance.traffic * volume, doubt) / 1000,
        )
        length = float(phase.length * slot_ms)
        yield from _finding(
            Kind.TRAFFIC,
            job.name,
            f"{where} length in ms",
            length,
            burst.length_ms,
            max(tolerance.traffic * length, slot_ms, burst.length_error_ms),
        )
        start = float(phase.start * slot_ms)
        yield from _finding(
            Kind.TRAFFIC,
            job.name,
            f"{where} start in ms",
            start,
            start + signed(burst.start_ms - start, period_ms),
            max(tolerance.start * period_ms, slot_ms, burst.start_error_ms),
        )


def _finding(
    kind: Kind, name: str, what: str, claimed: float, measured: float, allowed: float
) -> list[Finding]:
    """Return the finding if the difference is more than what is allowed."""
    difference = abs(measured - claimed)
    if difference <= allowed:
        return []
    return [Finding(kind, name, what, claimed, measured, difference / allowed)]
