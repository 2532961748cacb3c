"""Differences between measured and claimed traffic, and corrected claims.

A job that others delay has longer bursts and perhaps longer iterations, but it is still the job
that it claims to be; `undisturbed` takes that out before anything is compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from metronome_opt.cluster.gates import LATE, Observation
from metronome_opt.instance import Job, Phase
from metronome_opt.slowdown.claims import Claims

_PERIOD = 0.01  # share of the period, but half a slot at least
_LENGTH = 0.1  # share of the length of all bursts, but one slot at least
_NEARLY = 1e-6  # of a slot: what rounding of floats may make too much


@dataclass(frozen=True)
class Finding:
    """Something that is not as claimed, beyond its tolerance.

    A job is ``late`` if its iterations are too long though nothing of its own has changed.
    """

    kind: Literal["period", "traffic", "late"]
    job: str
    what: str  # was compared, with its unit
    claimed: float
    measured: float

    def __str__(self) -> str:
        return f"{self.job}: {self.what} {self.measured:,.6g} instead of {self.claimed:,.6g}"


def find_differences(claims: Claims, observations: Mapping[str, Observation]) -> list[Finding]:
    """Return what is not as claimed, job by job; jobs without an observation are left out.

    What others did to a job is to be taken out before, see `undisturbed`: a burst that is longer
    than claimed counts as a change of its own here.
    """
    findings: list[Finding] = []
    for job in claims.instance.jobs:
        if job.name in observations:
            findings += _of_job(claims, job, observations[job.name])
    return findings


def _of_job(claims: Claims, job: Job, seen: Observation) -> Iterator[Finding]:
    slot_ms = claims.instance.slot_ms
    own, stretched = float(job.period * slot_ms), float(claims.period(job.name) * slot_ms)
    if abs(seen.own_ms - own) > _tolerated_ms(own, slot_ms, seen.error_ms):
        yield Finding("period", job.name, "period without waiting in ms", own, seen.own_ms)
    elif claims.is_gated(job.name) and seen.period_ms - stretched > LATE * stretched:
        yield Finding("late", job.name, "iteration in ms", stretched, seen.period_ms)
    claimed = float(slot_ms * _busy(job))
    if abs(seen.burst_ms - claimed) > max(_LENGTH * claimed, slot_ms):
        yield Finding("traffic", job.name, "bursts in ms", claimed, seen.burst_ms)


def _busy(job: Job) -> int:
    """Return how many slots of an iteration a job sends in."""
    return sum(phase.length for phase in job.phases)


def _tolerated_ms(period_ms: float, slot_ms: int, error_ms: float) -> float:
    return max(_PERIOD * period_ms, slot_ms / 2, error_ms)


# ------------------------------------------------------------------ without what others did


def undisturbed(claims: Claims, observations: Mapping[str, Observation]) -> dict[str, Observation]:
    """Return what would have been measured if no job had delayed another.

    A burst that is delayed sends what it has to in more time. So if bursts

    - take longer than they would at their claimed rates, and
    - can have been delayed: on one of their links a burst and those that it meets ask for more
      together than the link carries,

    they are taken to have the claimed rates. Bursts meet if they coincide as claimed: gates begin
    them in their slots. Those of a job without slots, or whose iterations do not fit its period,
    slide along those of others; they may have met any.
    """
    slides = {
        job.name: _slides(claims, job, observations.get(job.name)) for job in claims.running.jobs
    }
    return {
        name: seen if seen.alone else _undelayed(claims, name, seen, slides)
        for name, seen in observations.items()
    }


def _slides(claims: Claims, job: Job, seen: Observation | None) -> bool:
    """Return whether the bursts of a running job are known not to stay where they are claimed."""
    if seen is None:
        return False
    period_ms = float(job.period * claims.instance.slot_ms)
    delayed = max(0.0, seen.burst_ms - seen.claimed_ms)
    off = seen.own_ms - delayed - period_ms
    allowed = _tolerated_ms(period_ms, claims.instance.slot_ms, seen.error_ms)
    return not claims.is_gated(job.name) or off > allowed


def _undelayed(
    claims: Claims, name: str, seen: Observation, slides: Mapping[str, bool]
) -> Observation:
    """Return what would have been measured of one job if no other had delayed it."""
    job = claims.running.job(name)
    lost = seen.burst_ms - seen.claimed_ms
    if lost <= 0 or not any(_can_be_delayed(claims, job, each, slides) for each in job.phases):
        return seen
    stretched_ms = float(job.period * claims.instance.slot_ms)
    period_ms = min(seen.period_ms, max(stretched_ms, seen.period_ms - lost))
    return replace(seen, period_ms=period_ms, burst_ms=seen.claimed_ms)


def _can_be_delayed(claims: Claims, job: Job, burst: Phase, slides: Mapping[str, bool]) -> bool:
    """Return whether a link carries less than a burst and those that it meets ask for."""
    carries = {link.name: link.capacity for link in claims.instance.links}
    asked = {link: flows * burst.rate for link, flows in job.links.items()}
    for other in claims.running.jobs:
        shared = asked.keys() & other.links.keys()
        any_time = slides[job.name] or slides[other.name]
        if other.name != job.name and shared and (any_time or _meet(claims, job, burst, other)):
            fastest = max(phase.rate for phase in other.phases)
            for link in shared:
                asked[link] += other.links[link] * fastest
    return any(asked[link] > carries[link] for link in asked)


def _meet(claims: Claims, job: Job, burst: Phase, other: Job) -> bool:
    """Return whether a burst may coincide with one of another job in some iteration of both."""
    every = math.gcd(job.period, other.period)
    doubt = sum(claims.cushions.get(name, 0) for name in (job.name, other.name))
    begin = claims.offsets[job.name] + burst.start
    starts = ((claims.offsets[other.name] + phase.start, phase.length) for phase in other.phases)
    return any(
        (start - begin + doubt) % every < burst.length + 2 * doubt
        or (begin - start + doubt) % every < length + 2 * doubt
        for start, length in starts
    )


# ------------------------------------------------------------------ corrected claims


def correct_claims(
    claims: Claims, findings: Collection[Finding], observations: Mapping[str, Observation]
) -> tuple[Claims, dict[str, str]]:
    """Return the claims with what was measured in place of what was claimed.

    Jobs stay in the slots of their first bursts. A job keeps its claim if its iteration is longer
    than the hyperperiod; returned second is, by job, why its claim is as before although it does
    something else.
    """
    changed = {finding.job for finding in findings if finding.kind != "late"}
    jobs, stretch, kept = [], dict(claims.stretch), {}
    for job in claims.instance.jobs:
        if job.name in changed:
            own = _as_measured(claims, job, observations[job.name])
            period = _fitting(claims, own)
            if period is None:
                kept[job.name] = (
                    f"{job.name} keeps its claim: its iteration of {own.period} slots is longer "
                    f"than the hyperperiod of {claims.hyperperiod}"
                )
            else:
                stretch[job.name] = idle = period - own.period
                changes = {
                    "current_offset": (own.current_offset or 0) % period,
                    "max_stretch": max(own.max_stretch, idle),
                }
                job = own.model_copy(update=changes)
        jobs.append(job)
    instance = claims.instance.replace(jobs=tuple(jobs))
    return replace(claims, instance=instance, stretch=stretch), kept


def _as_measured(claims: Claims, job: Job, seen: Observation) -> Job:
    """Return a job as it was measured, not stretched; its offset may be beyond its period.

    Bursts grow alike, and so do pauses. Each burst keeps its rate: if it takes longer without
    sending more, a link carries less, and the burst fills that.
    """
    slot_ms, busy = claims.instance.slot_ms, _busy(job)
    before = sorted(job.phases, key=lambda phase: phase.start)
    pauses = max(0.0, seen.computing_ms) / max(1, (job.period - busy) * slot_ms)
    bursts = seen.burst_ms / (busy * slot_ms)
    phases, end, sent = [], 0, 0
    for phase in before:
        start = max(end, round(pauses * (phase.start - sent) + bursts * sent))
        sent += phase.length
        length = max(1, math.ceil(bursts * phase.length - _NEARLY))
        phases.append(Phase(start=start, length=length, rate=phase.rate))
        end = start + length
    changes = {
        "phases": tuple(phases),
        "period": max(1, round(seen.own_ms / slot_ms), end),
        # A gate keeps the slot of the first burst.
        "current_offset": claims.offsets[job.name] + before[0].start - phases[0].start,
    }
    return job.model_copy(update=changes)


def _fitting(claims: Claims, job: Job) -> int | None:
    """Return the stretched period of a job as it was measured; None if none fits.

    The one that is claimed if that is long enough, else the next that divides the hyperperiod.
    """
    before, whole = claims.period(job.name), claims.hyperperiod
    if job.period <= before:
        return before
    return next((each for each in range(job.period, whole + 1) if whole % each == 0), None)
