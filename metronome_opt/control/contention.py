"""Correction for contention: what others did to a job, taken out of what was measured of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from metronome_opt.control.claims import Claims, signed
from metronome_opt.control.detect import Tolerance
from metronome_opt.control.observation import Observation
from metronome_opt.instance import Job
from metronome_opt.profiles import Burst


def undisturbed(
    claims: Claims,
    observations: Mapping[str, Observation],
    capacities: Mapping[str, float] | None = None,
    tolerance: Tolerance | None = None,
) -> dict[str, Observation]:
    """Return what would have been measured had nobody held up anybody.

    A burst that is held up carries what it has to in more time. So if a burst

    - is longer than its volume takes at its claimed rate, and
    - can have been held up: on one of its links it and those that it meets ask for more together
      than the link carries,

    it is taken to have the claimed rate, and what it took longer is taken off the beginnings of
    the bursts after it and off the period, as far as these are late. A job with slack makes up for
    it in the same iteration, so that its period is the claimed one all the same.

    Bursts meet if they coincide as measured, or as claimed where nothing was measured. Those of a
    job whose iterations are not as long as claimed slide along those of others; they may have met
    any.

    From outside some things cannot be told apart. A job that sends more slowly by itself is taken
    for held up as long as it may meet others; only one that is alone on its links, or that keeps
    its period and is out of the way of others, is found. If a burst is held up and computing takes
    longer as well, the latter is found only by as much as the period is longer than the burst.

    Parameters
    ----------
    claims
        What is in force.
    observations
        By job. One whose bursts are not as many as claimed is left as it is.
    capacities
        Mbit/s by link, as far as they were measured; else as claimed.
    tolerance
        What is no difference.
    """
    everybody = [
        _sending(claims, job, observations.get(job.name), tolerance or Tolerance())
        for job in claims.running.jobs
    ]
    carries = {link.name: float(link.capacity) for link in claims.instance.links}
    carries |= capacities or {}
    alone = dict(observations)
    for mine in everybody:
        job, seen = mine.job, observations.get(mine.job.name)
        if seen is not None and seen.bursts and len(seen.bursts) == len(job.phases):
            alone[job.name] = _alone(mine, seen, claims.instance.slot_ms, everybody, carries)
    return alone


@dataclass(frozen=True)
class _Sending:
    """When and how fast a job sends, as far as it is known."""

    job: Job
    bursts: tuple[tuple[float, float], ...]  # begin by the clock of the claims, and length, in ms
    rate: float
    doubt_ms: float  # by how much they may be earlier or later
    slides: bool  # it does not keep its period, or it is not known when it sends


def _sending(claims: Claims, job: Job, seen: Observation | None, tolerance: Tolerance) -> _Sending:
    slot_ms = claims.instance.slot_ms
    rate = float(max(phase.rate for phase in job.phases))
    begin, doubt = claims.due_ms(job.name), float(claims.cushions.get(job.name, 0) * slot_ms)
    bursts = [(float(phase.start * slot_ms), float(phase.length * slot_ms)) for phase in job.phases]
    slides = False
    if seen is not None:
        if seen.gone:
            bursts = []
        elif seen.bursts:
            bursts = [(burst.start_ms, burst.length_ms) for burst in seen.bursts]
            rate = max(rate, *(burst.rate_mbps for burst in seen.bursts))
        if seen.origin_ms is not None:
            begin, doubt = seen.origin_ms, seen.origin_error_ms
        claimed = float(job.period * slot_ms)
        off = 0.0 if seen.period_ms is None else abs(seen.period_ms - claimed)
        allowed = tolerance.of_period(claimed, slot_ms, seen.period_error_ms)
        slides = seen.origin_ms is None or off > allowed
    placed = tuple((begin + start, length) for start, length in bursts)
    return _Sending(job, placed, rate, doubt, slides)


def _can_be_held_up(
    mine: _Sending,
    burst: tuple[float, float],
    rate: int,
    slot_ms: int,
    everybody: list[_Sending],
    carries: Mapping[str, float],
) -> bool:
    """Whether a link of a job carries less than its burst and those that it meets ask for."""
    asked = {link: float(flows * rate) for link, flows in mine.job.links.items()}
    for other in everybody:
        shared = asked.keys() & other.job.links.keys()
        if other is not mine and shared and _meets(mine, burst, other, slot_ms):
            for link in shared:
                asked[link] += other.job.links[link] * other.rate
    return any(asked[link] > carries[link] for link in asked)


def _meets(mine: _Sending, burst: tuple[float, float], other: _Sending, slot_ms: int) -> bool:
    """Whether a burst coincides with one of another job in some iteration of both."""
    if mine.slides or other.slides:
        return bool(other.bursts)
    every = math.gcd(mine.job.period, other.job.period) * slot_ms
    doubt = mine.doubt_ms + other.doubt_ms
    begin, length = burst
    return any(
        (start - begin + doubt) % every < length + 2 * doubt
        or (begin - start + doubt) % every < theirs + 2 * doubt
        for start, theirs in other.bursts
    )


def _alone(
    mine: _Sending,
    seen: Observation,
    slot_ms: int,
    everybody: list[_Sending],
    carries: Mapping[str, float],
) -> Observation:
    """Return what would have been measured of one job, of which as many bursts were as claimed."""
    bursts = seen.bursts or ()
    phases = sorted(mine.job.phases, key=lambda phase: phase.start)
    longer = []
    for burst, placed, phase in zip(bursts, mine.bursts, phases, strict=True):
        more = burst.longer_than_at(phase.rate)
        held = more and _can_be_held_up(mine, placed, phase.rate, slot_ms, everybody, carries)
        longer.append(more if held else 0.0)
    lost = sum(longer)
    if not lost:
        return seen
    claimed_ms = float(mine.job.period * slot_ms)
    doubt = sum(burst.length_error_ms for burst, more in zip(bursts, longer, strict=True) if more)
    dues = [float(phase.start * slot_ms) for phase in phases]
    return replace(
        seen,
        period_ms=None if seen.period_ms is None else _less(seen.period_ms, lost, claimed_ms),
        period_error_ms=seen.period_error_ms + doubt,
        bursts=tuple(_put_back(bursts, dues, longer, claimed_ms)),
    )


def _put_back(
    bursts: tuple[Burst, ...], dues: list[float], longer: list[float], period_ms: float
) -> Iterator[Burst]:
    lost = 0.0
    for burst, due, more in zip(bursts, dues, longer, strict=True):
        start = due + signed(burst.start_ms - due, period_ms)
        length = burst.length_ms - more
        yield replace(
            burst,
            start_ms=_less(start, lost, due),
            length_ms=length,
            rate_mbps=burst.volume / length,
        )
        lost += more


def _less(measured: float, lost: float, claimed: float) -> float:
    """Return what was measured less what was lost, but not beyond what was claimed."""
    return min(measured, max(claimed, measured - lost))
