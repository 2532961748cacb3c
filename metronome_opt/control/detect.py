"""Findings: where what is measured is not what was claimed; claims put right accordingly."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from metronome_opt.control.claims import Claims, signed
from metronome_opt.control.observation import Observation, Tolerance
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Job, Phase
from metronome_opt.profiles import Burst

_MOST_IDLE = 10  # a job whose period changed is stretched by up to a tenth to fit the others
MOST_STRETCH = Fraction(1, 4)
"""By how much of its period a job is stretched so that it divides a hyperperiod."""
_NEARLY = 1e-6  # of a slot: what rounding of floats may make too much


class Kind(StrEnum):
    """What may be found."""

    DRIFTED = "drifted"
    PERIOD = "period"
    TRAFFIC = "traffic"
    GONE = "gone"
    CAPACITY = "capacity"
    LATE = "late"  # though nothing of its own has changed


@dataclass(frozen=True)
class Finding:
    """Something that is not as claimed."""

    kind: Kind
    name: str  # of the job, of the link for a capacity
    what: str  # was compared, with its unit
    claimed: float | None  # None for a job that is gone, 0 for a drift
    measured: float | None
    excess: float  # the difference over its tolerance; infinite for a job that is gone

    def __str__(self) -> str:
        if self.claimed is None or self.measured is None:
            return f"{self.name}: {self.what}"
        if self.kind is Kind.DRIFTED:
            return f"{self.name}: off its slot by {self.measured:+,.1f} ms"
        return f"{self.name}: {self.what} {self.measured:,.6g} instead of {self.claimed:,.6g}"


def detect(
    claims: Claims,
    observations: Mapping[str, Observation],
    capacities: Mapping[str, float] | None = None,
    tolerance: Tolerance | None = None,
) -> tuple[Finding, ...]:
    """Return what is not as claimed, job by job, then link by link.

    A job without an observation was not looked at. What others did to a job is to be taken out
    before, see `undisturbed`: a burst that is longer than claimed counts as its own change here.
    Capacities are those measured, in Mbit/s by link.

    Raises
    ------
    InputError
        If a job or a link is not one of the claims.
    """
    tolerance, capacities = tolerance or Tolerance(), capacities or {}
    for place, given, known in (
        ("observations", observations, claims.instance.jobs),
        ("capacities", capacities, claims.instance.links),
    ):
        for name in given:
            if all(name != each.name for each in known):
                raise InputError(f"{place}.{quote(name)}: the claims do not name it; leave it out")
    found: list[Finding] = []
    for job in claims.running.jobs:
        if job.name in observations:
            found += _of_job(claims, job, observations[job.name], tolerance)
    for link in claims.instance.links:
        # A link that has failed carries 1 Mbit/s in an instance.
        measured = capacities.get(link.name)
        if measured is not None and max(1, round(measured)) != link.capacity:
            what, allowed = "capacity in Mbit/s", tolerance.capacity * link.capacity
            found += _beyond(
                Kind.CAPACITY, link.name, what, float(link.capacity), measured, allowed
            )
    return tuple(found)


def _beyond(
    kind: Kind, name: str, what: str, claimed: float, measured: float, allowed: float
) -> list[Finding]:
    """Return the finding if the difference is more than what is allowed."""
    difference = abs(measured - claimed)
    if difference <= allowed:
        return []
    return [Finding(kind, name, what, claimed, measured, difference / allowed)]


def _of_job(claims: Claims, job: Job, seen: Observation, tolerance: Tolerance) -> Iterator[Finding]:
    if seen.gone:
        yield Finding(Kind.GONE, job.name, "is gone", None, None, math.inf)
        return
    slot_ms = claims.instance.slot_ms
    period_ms = float(job.period * slot_ms)
    changed = []
    if seen.own_ms is not None:
        claimed = float(claims.instance.job(job.name).period * slot_ms)
        what = "period without waiting in ms"
        allowed = tolerance.of_period(claimed, slot_ms, seen.period_error_ms)
        changed = _beyond(Kind.PERIOD, job.name, what, claimed, seen.own_ms, allowed)
    elif seen.period_ms is not None:
        allowed = tolerance.of_period(period_ms, slot_ms, seen.period_error_ms)
        changed = _beyond(Kind.PERIOD, job.name, "period in ms", period_ms, seen.period_ms, allowed)
    yield from changed
    if seen.own_ms is not None and seen.period_ms is not None and claims.is_gated(job.name):
        # What the gate counts as waiting is no lateness: that shows in the period alone.
        late = max(0.0, seen.period_ms - period_ms)
        if not changed:
            what = "iteration in ms"
            yield from _beyond(
                Kind.LATE, job.name, what, period_ms, period_ms + late, tolerance.late * period_ms
            )
    if seen.origin_ms is not None and not changed:
        drift = claims.drift_ms(job.name, seen.origin_ms)
        allowed = max(slot_ms * max(claims.cushions.get(job.name, 0), 0.5), seen.origin_error_ms)
        yield from _beyond(Kind.DRIFTED, job.name, "off its slot in ms", 0.0, drift, allowed)
    if seen.bursts is not None:
        yield from _of_bursts(job, slot_ms, seen, seen.bursts, tolerance)


def _of_bursts(
    job: Job,
    slot_ms: int,
    seen: Observation,
    bursts: tuple[Burst, ...],
    tolerance: Tolerance,
) -> Iterator[Finding]:
    """Yield what is not as claimed of the bursts."""
    phases = sorted(job.phases, key=lambda phase: phase.start)
    if len(bursts) != len(phases):
        excess = 1.0 + abs(len(bursts) - len(phases)) / len(phases) / tolerance.traffic
        what = "number of bursts"
        yield Finding(Kind.TRAFFIC, job.name, what, len(phases), len(bursts), excess)
        return
    period_ms, share = float(job.period * slot_ms), tolerance.traffic
    for index, (phase, burst) in enumerate(zip(phases, bursts, strict=True)):
        volume = float(phase.length * slot_ms * phase.rate)
        doubt = burst.length_error_ms * burst.rate_mbps + burst.rate_error_mbps * burst.length_ms
        length, start = float(phase.length * slot_ms), float(phase.start * slot_ms)
        begin = start + signed(burst.start_ms - start, period_ms)
        longer = max(share * length, slot_ms, burst.length_error_ms)
        later = max(tolerance.start * period_ms, slot_ms, burst.start_error_ms)
        heavier = max(share * volume, doubt) / 1000
        for what, claimed, measured, allowed in (
            ("volume in Mbit", volume / 1000, burst.volume / 1000, heavier),
            ("length in ms", length, burst.length_ms, longer),
            ("start in ms", start, begin, later),
        ):
            if seen.own_ms is not None and what == "volume in Mbit":
                continue  # what gates saw is claimed by its length alone
            where = f"bursts[{index}] {what}"
            yield from _beyond(Kind.TRAFFIC, job.name, where, claimed, measured, allowed)


# ------------------------------------------------------------------ claims put right


def put_right(
    claims: Claims,
    findings: Collection[Finding],
    observations: Mapping[str, Observation],
    capacities: Mapping[str, float],
    most_stretch: Fraction | None = MOST_STRETCH,
) -> tuple[Claims, dict[str, str]]:
    """Return the claims with what was found in place of what was claimed.

    Nobody is moved: a job that has drifted gets the slot that it is in, to the nearest one. A job
    keeps its claim if its iteration fits no divisor of the hyperperiod that is longer by up to
    `most_stretch`, a share of it: to slow it down by more would be worse than what it does now.

    All findings are put right, so that what they are about has to be in `observations` and
    `capacities`, without what others did; a job that is gone is left out. Returned are the claims
    and, by job, why its claim is as before although it does something else.

    Raises
    ------
    InputError
        If periods have to divide no hyperperiod, and a changed one fits those of others so badly
        that theirs is above the limit.
    """
    kinds: dict[str, set[Kind]] = {}
    for finding in findings:
        kinds.setdefault(finding.name, set()).add(finding.kind)
    narrow = {finding.name for finding in findings if finding.kind is Kind.CAPACITY}
    stay = [job for job in claims.instance.jobs if Kind.GONE not in kinds.get(job.name, ())]
    jobs, stretch, kept = [], dict(claims.stretch), {}
    for job in stay:
        seen, found = (
            observations.get(job.name),
            kinds.get(job.name, set()) - {Kind.CAPACITY, Kind.LATE},
        )
        if seen is not None and found:
            own = _own(claims, job, seen, found)
            longest = claims.hyperperiod or own.period
            if most_stretch is not None:
                longest = own.period + int(most_stretch * own.period)
            together = _fitting(claims, own, stay, longest)
            if together is None:
                kept[job.name] = (
                    f"{job.name} keeps its claim: no period from {own.period} to "
                    f"{longest} slots divides the hyperperiod of {claims.hyperperiod}"
                )
            else:
                stretch[job.name] = together - own.period
                changes = {
                    "current_offset": (own.current_offset or 0) % together,
                    "max_stretch": max(own.max_stretch, together - own.period),
                }
                job = own.model_copy(update=changes)
        jobs.append(job)
    left = {job.name for job in jobs}
    links = tuple(
        link.model_copy(update={"capacity": max(1, round(capacities[link.name]))})
        if link.name in narrow
        else link
        for link in claims.instance.links
    )
    right = replace(
        claims,
        instance=claims.instance.replace(links=links, jobs=tuple(jobs)),
        stretch={name: slots for name, slots in stretch.items() if name in left},
        cushions={name: slots for name, slots in claims.cushions.items() if name in left},
        gated={name: keeps for name, keeps in claims.gated.items() if name in left},
    )
    return right, kept


def _own(claims: Claims, job: Job, seen: Observation, found: set[Kind]) -> Job:
    """Return a job as it was measured, not stretched; its offset may be beyond its period."""
    slot_ms = claims.instance.slot_ms
    phases, period = job.phases, job.period
    by_gates = seen.own_ms is not None
    measured = seen.own_ms if by_gates else seen.period_ms
    if measured is not None and (Kind.PERIOD in found or by_gates):
        period = max(1, round(measured / slot_ms))
    offset = claims.offsets[job.name]
    if found & {Kind.DRIFTED, Kind.PERIOD} and seen.origin_ms is not None and not by_gates:
        offset = round((seen.origin_ms - claims.epoch_ms) / slot_ms)
    if seen.bursts is not None and (Kind.TRAFFIC in found or by_gates):
        if by_gates:
            phases = _in_a_row(seen.bursts, job.phases, slot_ms)
            # A gate keeps the slot of the first burst.
            offset += min(p.start for p in job.phases) - phases[0].start
        else:
            phases = _phases_of(seen.bursts, slot_ms, period)
    period = max(period, *(phase.end for phase in phases))
    changes = {"phases": phases, "period": period, "current_offset": offset}
    return job.model_copy(update=changes)


def _fitting(claims: Claims, job: Job, everybody: Sequence[Job], longest: int) -> int | None:
    """Return the stretched period of a job as it was measured; None if none is to be had.

    The one that is claimed if that is long enough. Else one not much longer that makes the
    hyperperiod with those around least; where all periods have to divide one, the next that does.
    """
    before = claims.period(job.name)
    if job.period <= before:
        return before
    if claims.hyperperiod is not None:
        lengths = range(job.period, longest + 1)
        return next((length for length in lengths if claims.hyperperiod % length == 0), None)
    around = [
        claims.period(other.name)
        for other in everybody
        if other.name != job.name and not set(other.links).isdisjoint(job.links)
    ]
    longest = job.period + max(job.max_stretch, job.period // _MOST_IDLE)
    return min(range(job.period, longest + 1), key=lambda length: math.lcm(length, *around))


def _in_a_row(bursts: Sequence[Burst], claimed: Sequence[Phase], slot_ms: int) -> tuple[Phase, ...]:
    """Return bursts that gates saw in slots, one after the other.

    A gate counts bursts, so there are as many phases as the loop has bursts. Each keeps its rate:
    if it takes longer without sending more, a link carries less, and the burst fills that.
    """
    phases: list[Phase] = []
    end = 0
    for burst, before in zip(bursts, sorted(claimed, key=lambda p: p.start), strict=True):
        start = max(end, round(burst.start_ms / slot_ms))
        length = _slots_of(burst, slot_ms)
        phases.append(Phase(start=start, length=length, rate=before.rate))
        end = start + length
    return tuple(phases)


def _slots_of(burst: Burst, slot_ms: int) -> int:
    return max(1, math.ceil(burst.length_ms / slot_ms - _NEARLY))


def _phases_of(bursts: Sequence[Burst], slot_ms: int, period: int) -> tuple[Phase, ...]:
    """Return measured bursts in slots.

    A burst gets whole slots enough to carry it as fast as it was, and then the lowest whole rate
    that carries it in these. One that reaches beyond the period goes on at its beginning. Where
    rounding lets bursts overlap, the later one gives way.
    """
    pieces = []
    for burst in bursts:
        start = round(burst.start_ms / slot_ms) % period
        length = min(period, _slots_of(burst, slot_ms))
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
