"""Claims put right: the jobs as they were measured, where they were measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from metronome_opt.control.claims import Claims
from metronome_opt.control.detect import Finding, Kind
from metronome_opt.control.observation import Observation, SeenBurst
from metronome_opt.errors import InputError
from metronome_opt.instance import Job, Link, Phase

_MOST_IDLE = 10  # a job whose period changed is stretched by up to a tenth to fit the others
_NEARLY = 1e-6  # of a slot: what rounding of floats may make too much


def put_right(
    claims: Claims,
    findings: Collection[Finding],
    observations: Mapping[str, Observation],
    capacities: Mapping[str, float],
) -> Claims | None:
    """Return the claims with what was found in place of what was claimed; None if no job is left.

    Nobody is moved: a job that has drifted gets the slot that it is in, to the nearest one.

    Parameters
    ----------
    findings
        What to put right. The rest stays as claimed, however it was measured.
    observations, capacities
        What was measured; there has to be one for each finding.

    Raises
    ------
    InputError
        If a changed period fits those of others so badly that the hyperperiod is above the limit.
    """
    kinds: dict[str, set[Kind]] = {}
    for finding in findings:
        if finding.kind is not Kind.CAPACITY:
            kinds.setdefault(finding.name, set()).add(finding.kind)
    narrow = {finding.name for finding in findings if finding.kind is Kind.CAPACITY}
    stay = [job for job in claims.instance.jobs if Kind.GONE not in kinds.get(job.name, ())]
    if not stay:
        return None
    jobs, stretch = [], dict(claims.stretch)
    for job in stay:
        seen = observations.get(job.name)
        found = kinds.get(job.name, set())
        if seen is not None and found:
            job, stretch[job.name] = _seen(claims, job, seen, found, stay)
        jobs.append(job)
    kept = {job.name for job in jobs}
    links = tuple(
        Link(name=link.name, capacity=max(1, round(capacities[link.name])))
        if link.name in narrow
        else link
        for link in claims.instance.links
    )
    return replace(
        claims,
        instance=claims.instance.replace(links=links, jobs=tuple(jobs)),
        stretch={name: slots for name, slots in stretch.items() if name in kept},
        cushions={name: slots for name, slots in claims.cushions.items() if name in kept},
    )


def _seen(
    claims: Claims, job: Job, seen: Observation, found: set[Kind], everybody: Sequence[Job]
) -> tuple[Job, int]:
    """Return a job as it was measured, and by how many slots it is stretched."""
    slot_ms = claims.instance.slot_ms
    phases, period = job.phases, job.period
    if Kind.PERIOD in found and seen.period_ms is not None:
        period = max(1, round(seen.period_ms / slot_ms))
    if Kind.TRAFFIC in found and seen.bursts is not None:
        phases = phases_of(seen.bursts, slot_ms, period)
    period = max(period, *(phase.end for phase in phases))
    together = claims.period(job.name)
    if period > together:
        together = _fitting(claims, job, period, everybody)
    offset = claims.offsets[job.name]
    moved = found & {Kind.DRIFTED, Kind.PERIOD}
    if moved and seen.origin_ms is not None:
        offset = round((seen.origin_ms - claims.epoch_ms) / slot_ms)
    changes = {
        "phases": phases,
        "period": period,
        "current_offset": offset % together,
        "max_stretch": max(job.max_stretch, together - period),
    }
    return job.model_copy(update=changes), together - period


def _fitting(claims: Claims, job: Job, period: int, everybody: Sequence[Job]) -> int:
    """Return a period not much longer that makes the hyperperiod with those around least.

    Where all periods have to divide one hyperperiod, the next one that does.
    """
    if claims.hyperperiod is not None:
        whole = claims.hyperperiod
        for length in range(period, whole + 1):
            if whole % length == 0:
                return length
        raise InputError(
            f"{job.name}: period: measured are {period} slots, more than the hyperperiod of "
            f"{whole}; make a state with a longer one"
        )
    around = [
        claims.period(other.name)
        for other in everybody
        if other.name != job.name and not set(other.links).isdisjoint(job.links)
    ]
    longest = period + max(job.max_stretch, period // _MOST_IDLE)
    return min(range(period, longest + 1), key=lambda length: math.lcm(length, *around))


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
        volume = burst.length_ms * burst.rate_mbps
        rate = max(1, math.ceil(volume / (length * slot_ms) - _NEARLY))
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
