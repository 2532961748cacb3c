"""Measurements of a job laid over its claim, without what others did."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from metronome_opt.control.claims import Claims, signed
from metronome_opt.errors import InputError, quote
from metronome_opt.instance import Job, Phase
from metronome_opt.profiles import Burst, Profile

_AS_GOOD = 0.98  # of the best match: where a pattern repeats itself, the least drift decides
_SLOW = 0.5  # of a rate
_MOST_TIMES = 4  # iterations that a profile may take for one
_ALIKE = 0.2  # of a claimed volume: how far those of such iterations may be off
_IN_PLACE = 0.1  # of the period: how far their bursts may be off the place of one another


@dataclass(frozen=True)
class Tolerance:
    """What is left alone. A phase may be off by the cushion of its job, or half a slot."""

    period: float = 0.01  # share of the period, but half a slot at least
    traffic: float = 0.1  # share of volume or length of a burst; of a length one slot at least
    start: float = 0.05  # share of the period by which a burst is elsewhere, one slot at least
    capacity: float = 0.05  # share of the capacity
    late: float = 0.02  # share of the period by which a gated job that fits its slots takes longer

    def of_period(self, period_ms: float, slot_ms: int, error_ms: float) -> float:
        """Return by how many ms a period may be off that is known up to an error."""
        return max(self.period * period_ms, slot_ms / 2, error_ms)


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
    own_ms: float | None = None  # the period without what it waited for its slots
    alone: bool = False  # whether nothing is left of what others did to it

    def __post_init__(self) -> None:
        for name in ("period_ms", "own_ms", "origin_ms", "period_error_ms", "origin_error_ms"):
            value = getattr(self, name)
            if value is None:
                continue
            place, otherwise = f"{name}: {quote(value)}", "leave out what was not measured"
            if not math.isfinite(value):
                raise InputError(f"{place}: must be a finite number; {otherwise}")
            if name in ("period_ms", "own_ms") and value <= 0:
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

    The profile is of one flow of the job; one without a period says nothing. The job has its bursts
    as claimed and its period as stretched, and was to begin an iteration at `due_ms`.
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

    Of a job seen by its gates it is known when its bursts begin, and how long it computes. As long
    as that fits its period it does not slide, and it meets those that it meets as claimed: if these
    are none, whatever makes its bursts longer is to be kept apart.

    From outside some things cannot be told apart. A job that sends more slowly by itself is taken
    for held up as long as it may meet others; only one that is alone on its links, or that keeps
    its period and is out of the way of others, is found. If a burst is held up and computing takes
    longer as well, the latter is found only by as much as the period is longer than the burst.

    An observation whose bursts are not as many as claimed is left as it is. Capacities are those
    measured, in Mbit/s by link; others are as claimed.
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
        if seen is None or seen.alone or not seen.bursts:
            continue
        if len(seen.bursts) == len(job.phases):
            alone[job.name] = _alone_of(mine, seen, claims.instance.slot_ms, everybody, carries)
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
        elif seen.bursts and seen.own_ms is None:
            bursts = [(burst.start_ms, burst.length_ms) for burst in seen.bursts]
            rate = max(rate, *(burst.rate_mbps for burst in seen.bursts))
        if seen.origin_ms is not None and seen.own_ms is None:
            begin, doubt = seen.origin_ms, seen.origin_error_ms
        claimed = float(job.period * slot_ms)
        off = 0.0 if seen.period_ms is None else abs(seen.period_ms - claimed)
        if seen.own_ms is not None:
            off = seen.own_ms - _longer_than_claimed(job, seen) - claimed
        allowed = tolerance.of_period(claimed, slot_ms, seen.period_error_ms)
        slides = seen.origin_ms is None or off > allowed
    placed = tuple((begin + start, length) for start, length in bursts)
    return _Sending(job, placed, rate, doubt, slides)


def _longer_than_claimed(job: Job, seen: Observation) -> float:
    """Return by how much all bursts are longer than at their claimed rates, ms."""
    phases = sorted(job.phases, key=lambda phase: phase.start)
    pairs = zip(seen.bursts or (), phases, strict=False)
    return sum(burst.longer_than_at(phase.rate) for burst, phase in pairs)


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


def _alone_of(
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
        own_ms=None if seen.own_ms is None else seen.own_ms - lost,
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
