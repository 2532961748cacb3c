"""What was measured of a job, and how a profile of its throughput is laid over what it claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from metronome_opt.control.claims import signed
from metronome_opt.errors import InputError, show
from metronome_opt.instance import Job, Phase
from metronome_opt.profiles import Burst, Profile

_AS_GOOD = 0.98  # of the best match: where a pattern repeats itself, the least drift decides
_SLOW = 0.5  # of a rate
_MOST_TIMES = 4  # iterations that a profile may take for one
_ALIKE = 0.2  # of a claimed volume: how far those of such iterations may be off
_IN_PLACE = 0.1  # of the period: how far their bursts may be off the place of one another


@dataclass(frozen=True)
class Observation:
    """One job at a time. What is None was not measured, and decides nothing.

    Raises
    ------
    InputError
        If a value is not finite, a period is not above 0, or an error is negative.
    """

    period_ms: float | None = None  # from one iteration to the next
    origin_ms: float | None = None  # a recent moment at which an iteration began, its slot 0
    bursts: tuple[Burst, ...] | None = None  # of one flow, by the time since the iteration began
    period_error_ms: float = 0.0
    origin_error_ms: float = 0.0
    gone: bool = False  # whether the job is there no more

    def __post_init__(self) -> None:
        for name in ("period_ms", "origin_ms", "period_error_ms", "origin_error_ms"):
            value = getattr(self, name)
            if value is None:
                continue
            place, otherwise = f"{name}: {show(value)}", "leave out what was not measured"
            if not math.isfinite(value):
                raise InputError(f"{place}: must be a finite number; {otherwise}")
            if name == "period_ms" and value <= 0:
                raise InputError(f"{place}: must be above 0; {otherwise}")
            if name.endswith("error_ms") and value < 0:
                raise InputError(f"{place}: must be at least 0")


def from_profile(profile: Profile, job: Job, *, slot_ms: int, due_ms: float) -> Observation:
    """Return what a profile of throughput says of a job that makes a claim.

    A profile knows neither what was claimed nor what others do, so that it is read in three steps:

    1. A burst that meets others for a part of its length is slower there and looks like several.
       Where more bursts are seen than claimed, touching ones are joined until they are as many,
       such that they carry most nearly what is claimed.
    2. If every second burst meets others, two iterations look like one; so do up to four. A period
       that is that many times the claimed one, with bursts that repeat about as claimed, is taken
       for so many iterations, of which the mean one is told.
    3. A profile does not know where in its pattern an iteration begins. Its bursts are laid over
       those that the job claims such that most of them coincides, each without what it takes
       longer than at its claimed rate; where several ways are as good, because bursts are alike,
       that of least drift is taken.

    Parameters
    ----------
    profile
        Of one flow of the job. One without a period says nothing.
    job
        Its bursts as claimed, its period as stretched.
    slot_ms
        Length of a slot.
    due_ms
        A moment at which the job was to begin an iteration.
    """
    period, origin = profile.period_ms, profile.origin_s
    if period is None or origin is None or not profile.bursts:
        return Observation()
    phases = sorted(job.phases, key=lambda phase: phase.start)
    volumes = [float(phase.length * slot_ms * phase.rate) for phase in phases]
    times = round(period / (job.period * slot_ms))
    mean = _folded(profile.bursts, volumes, times, period, slot_ms)
    if mean is None:
        times = 1
    seen = mean or _joined(profile.bursts, volumes, 1, slot_ms)
    period /= times
    common = _shifts(seen, phases, period, slot_ms)
    best = max(common.values())

    def drift(shift: float) -> float:
        return abs(signed(1000 * origin - shift - due_ms, period))

    shift = min((at for at in common if common[at] >= _AS_GOOD * best), key=drift)
    moved = [replace(burst, start_ms=(burst.start_ms + shift) % period) for burst in seen]
    return Observation(
        period_ms=period,
        origin_ms=1000 * origin - shift,
        bursts=tuple(sorted(moved, key=lambda burst: burst.start_ms)),
        period_error_ms=(profile.period_error_ms or 0.0) / times,
        origin_error_ms=1000 * (profile.origin_error_s or 0.0),
    )


# ------------------------------------------------------------------ what looks like several


def _joined(
    bursts: Sequence[Burst], volumes: Sequence[float], times: int, slot_ms: int
) -> Sequence[Burst]:
    """Join touching bursts until there are as many as claimed in so many iterations, if it can be.

    Pauses of up to a slot do not part them.
    """
    surplus = len(bursts) - times * len(volumes)
    touching = [
        index
        for index in range(1, len(bursts))
        if bursts[index].start_ms - bursts[index - 1].start_ms
        <= bursts[index - 1].length_ms + slot_ms
    ]
    if not 0 < surplus <= len(touching):
        return bursts
    ways = (_without_cuts(bursts, cuts) for cuts in combinations(touching, surplus))
    return min(ways, key=lambda way: _misfit(way, volumes))


def _without_cuts(bursts: Sequence[Burst], cuts: Sequence[int]) -> list[Burst]:
    """Join some bursts each to the one before it."""
    joined: list[Burst] = []
    for index, burst in enumerate(bursts):
        joined.append(_one_of(joined.pop(), burst) if index in cuts else burst)
    return joined


def _one_of(first: Burst, second: Burst) -> Burst:
    """Return two bursts as one, which takes as long as both and carries what both do.

    It begins with the second one if the first is slower than half of that: profiles are means, and
    most iterations did not send yet.
    """
    most = first if first.rate_mbps >= _SLOW * second.rate_mbps else second
    length = first.length_ms + second.length_ms
    doubt = sum(burst.rate_error_mbps * burst.length_ms for burst in (first, second))
    return Burst(
        most.start_ms,
        length,
        (first.volume + second.volume) / length,
        most.start_error_ms,
        max(first.length_error_ms, second.length_error_ms),
        doubt / length,
    )


def _misfit(bursts: Sequence[Burst], volumes: Sequence[float]) -> float:
    """Return by how much the volumes are off those claimed, whichever of these comes first."""
    count = len(volumes)
    return min(
        sum(
            abs(burst.volume - volumes[(first + index) % count])
            for index, burst in enumerate(bursts)
        )
        for first in range(count)
    )


def _folded(
    bursts: Sequence[Burst], volumes: Sequence[float], times: int, period: float, slot_ms: int
) -> list[Burst] | None:
    """Return the mean iteration, if so many of them look like one; None if they do not."""
    if not 1 < times <= _MOST_TIMES:
        return None
    bursts = _joined(bursts, volumes, times, slot_ms)
    count = len(volumes)
    if len(bursts) != times * count or _misfit(bursts, volumes) > _ALIKE * sum(volumes):
        return None
    mean = []
    for first in range(count):
        group = bursts[first::count]
        starts = [burst.start_ms - index * period / times for index, burst in enumerate(group)]
        if max(starts) - min(starts) > _IN_PLACE * period / times:
            return None
        length = sum(burst.length_ms for burst in group) / times
        mean.append(
            Burst(
                sum(starts) / times,
                length,
                sum(burst.volume for burst in group) / times / length,
                max(burst.start_error_ms for burst in group),
                max(burst.length_error_ms for burst in group),
                max(burst.rate_error_mbps for burst in group),
            )
        )
    return mean


# ------------------------------------------------------------------ where an iteration begins


def _shifts(
    seen: Sequence[Burst], phases: Sequence[Phase], period: float, slot_ms: int
) -> dict[float, float]:
    """Return by what the bursts may be shifted, and for how long both send then, in ms.

    If they are as many as claimed, the first one that is claimed has to be one of them: what comes
    later in an iteration is late if that one was held up.
    """
    claimed = [(phase.start * slot_ms, phase.length * slot_ms) for phase in phases]
    if len(seen) != len(phases):
        shifts = [start - burst.start_ms for start, _ in claimed for burst in seen]
        return {shift: _overlap(seen, claimed, shift, period) for shift in shifts}
    ways = {}
    for first in range(len(seen)):
        order = [*seen[first:], *seen[:first]]
        shift = claimed[0][0] - order[0].start_ms
        ways[shift] = _overlap(_alone(order, phases), claimed, shift, period)
    return ways


def _alone(bursts: Sequence[Burst], phases: Sequence[Phase]) -> Iterator[Burst]:
    """Yield bursts as they would be at the claimed rates, each as much earlier as others are."""
    lost = 0.0
    for burst, phase in zip(bursts, phases, strict=True):
        longer = burst.longer_than_at(phase.rate)
        yield replace(burst, start_ms=burst.start_ms - lost, length_ms=burst.length_ms - longer)
        lost += longer


def _overlap(
    seen: Iterable[Burst], claimed: Sequence[tuple[int, int]], shift: float, period: float
) -> float:
    """Return for how long both send in an iteration, in ms."""
    return sum(
        max(0.0, min(end, start + length) - max(begin, start))
        for burst in seen
        for begin, end in _pieces(burst.start_ms + shift, burst.length_ms, period)
        for start, length in claimed
    )


def _pieces(start: float, length: float, period: float) -> Iterator[tuple[float, float]]:
    """Yield a burst as it lies in a period, in two pieces if it goes on in the next one."""
    begin = start % period
    yield begin, min(begin + length, period)
    if begin + length > period:
        yield 0.0, begin + length - period
