"""Claims put right: the jobs as they were measured, where they were measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Finding, Kind
from metronome_opt.control.observation import Observation, SeenBurst
from metronome_opt.instance import Job, Link, Phase

_MOST_IDLE = 10  # a job whose period changed is stretched by up to a tenth to fit the others
_MOST_STRETCHED = 4  # the same by up to a quarter, if periods have to divide a hyperperiod
_NEARLY = 1e-6  # of a slot: what rounding of floats may make too much


@dataclass(frozen=True)
class PutRight:
    """Claims put right.

    Attributes
    ----------
    claims
        As measured.
    kept
        By job, why its claim is as before although it was found to do something else.
    """

    claims: Claims
    kept: Mapping[str, str]


def put_right(
    claims: Claims,
    findings: Collection[Finding],
    observations: Mapping[str, Observation],
    capacities: Mapping[str, float],
) -> PutRight:
    """Return the claims with what was found in place of what was claimed.

    Nobody is moved: a job that has drifted gets the slot that it is in, to the nearest one. A job
    keeps its claim if its iteration fits no divisor of the hyperperiod that is longer by up to a
    quarter: to slow it down by more would be worse than what it does now.

    Parameters
    ----------
    findings
        What to put right. The rest stays as claimed, however it was measured. A job is left.
    observations, capacities
        What was measured, without what others did; there has to be one for each finding.

    Raises
    ------
    InputError
        If periods have to divide no hyperperiod, and a changed one fits those of others so badly
        that theirs is above the limit.
    """
    kinds: dict[str, set[Kind]] = {}
    for finding in findings:
        if finding.kind is not Kind.CAPACITY:
            kinds.setdefault(finding.name, set()).add(finding.kind)
    narrow = {finding.name for finding in findings if finding.kind is Kind.CAPACITY}
    stay = [job for job in claims.instance.jobs if Kind.GONE not in kinds.get(job.name, ())]
    jobs, stretch, kept = [], dict(claims.stretch), {}
    for job in stay:
        seen = observations.get(job.name)
        found = kinds.get(job.name, set())
        if seen is not None and found:
            own = _own(claims, job, seen, found)
            together = _fitting(claims, own, stay)
            if together is None:
                kept[job.name] = (
                    f"{job.name} keeps its claim: no period from {own.period} to "
                    f"{_longest(own)} slots divides the hyperperiod of {claims.hyperperiod}"
                )
            else:
                job, stretch[job.name] = _stretched(own, together), together - own.period
        jobs.append(job)
    left = {job.name for job in jobs}
    links = tuple(
        Link(name=link.name, capacity=max(1, round(capacities[link.name])))
        if link.name in narrow
        else link
        for link in claims.instance.links
    )
    right = replace(
        claims,
        instance=claims.instance.replace(links=links, jobs=tuple(jobs)),
        stretch={name: slots for name, slots in stretch.items() if name in left},
        cushions={name: slots for name, slots in claims.cushions.items() if name in left},
    )
    return PutRight(right, kept)


def _own(claims: Claims, job: Job, seen: Observation, found: set[Kind]) -> Job:
    """Return a job as it was measured, not stretched; its offset may be beyond its period."""
    slot_ms = claims.instance.slot_ms
    phases, period = job.phases, job.period
    if Kind.PERIOD in found and seen.period_ms is not None:
        period = max(1, round(seen.period_ms / slot_ms))
    if Kind.TRAFFIC in found and seen.bursts is not None:
        phases = phases_of(seen.bursts, slot_ms, period)
    offset = claims.offsets[job.name]
    if found & {Kind.DRIFTED, Kind.PERIOD} and seen.origin_ms is not None:
        offset = round((seen.origin_ms - claims.epoch_ms) / slot_ms)
    period = max(period, *(phase.end for phase in phases))
    return job.model_copy(update={"phases": phases, "period": period, "current_offset": offset})


def _stretched(job: Job, together: int) -> Job:
    """Return a job that can be stretched to a period, at an offset below it."""
    offset = (job.current_offset or 0) % together
    longer = max(job.max_stretch, together - job.period)
    return job.model_copy(update={"current_offset": offset, "max_stretch": longer})


def _fitting(claims: Claims, job: Job, everybody: Sequence[Job]) -> int | None:
    """Return the stretched period of a job as it was measured; None if none is to be had.

    The one that is claimed if that is long enough. Else one not much longer that makes the
    hyperperiod with those around least; where all periods have to divide one, the next that does.
    """
    before = claims.period(job.name)
    if job.period <= before:
        return before
    if claims.hyperperiod is not None:
        lengths = range(job.period, _longest(job) + 1)
        return next((length for length in lengths if claims.hyperperiod % length == 0), None)
    around = [
        claims.period(other.name)
        for other in everybody
        if other.name != job.name and not set(other.links).isdisjoint(job.links)
    ]
    longest = job.period + max(job.max_stretch, job.period // _MOST_IDLE)
    return min(range(job.period, longest + 1), key=lambda length: math.lcm(length, *around))


def _longest(job: Job) -> int:
    return job.period + job.period // _MOST_STRETCHED


def phases_of(bursts: Sequence[SeenBurst], slot_ms: int, period: int) -> tuple[Phase, ...]:
    """Return measured bursts in slots.

    A burst gets whole slots enough to carry it as fast as it was, and then the lowest whole rate
    that carries it in these. One that reaches beyond the period goes on at its beginning. Where
    rounding lets bursts overlap, the later one gives way.

    Parameters
    ----------
    bursts
        From the beginning of the iteration.
    slot_ms
        Length of a slot.
    period
        Slots of an iteration.
    """
    pieces = []
    for burst in bursts:
        start = round(burst.start_ms / slot_ms) % period
        length = min(period, max(1, math.ceil(burst.length_ms / slot_ms - _NEARLY)))
        rate = max(1, math.ceil(burst.volume / (length * slot_ms) - _NEARLY))
        within = min(length, period - start)
        pieces.append((start, within, rate))
        if length > within:
            pieces.append((0, length - within, rate))
    phases: list[Phase] = []
    for start, length, rate in sorted(pieces):
        begin = max(start, phases[-1].end if phases else 0)
        if begin < start + length:
            phases.append(Phase(start=begin, length=start + length - begin, rate=rate))
    return tuple(phases)
