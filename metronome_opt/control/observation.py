"""What was measured of a job: whether it is there, its period, its bursts, when it began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metronome_opt.instance import Job

if TYPE_CHECKING:
    from metronome_opt.profiles.profile import Profile

_AS_GOOD = 0.98  # of the best match: where a pattern repeats itself, the least drift decides


@dataclass(frozen=True)
class SeenBurst:
    """A burst as it was measured. The errors are half-widths; 0 where nothing is known of them.

    Attributes
    ----------
    start_ms
        From the beginning of the iteration.
    length_ms, rate_mbps
        Of one flow.
    """

    start_ms: float
    length_ms: float
    rate_mbps: float
    start_error_ms: float = 0.0
    length_error_ms: float = 0.0
    rate_error_mbps: float = 0.0


@dataclass(frozen=True)
class Observation:
    """One job at a time. What is None was not measured, and decides nothing.

    Attributes
    ----------
    period_ms
        From one iteration to the next.
    origin_ms
        A recent moment at which an iteration began, slot 0 of the job's pattern.
    bursts
        Of an iteration, in their order.
    gone
        Whether the job is there no more.
    """

    period_ms: float | None = None
    origin_ms: float | None = None
    bursts: tuple[SeenBurst, ...] | None = None
    period_error_ms: float = 0.0
    origin_error_ms: float = 0.0
    gone: bool = False


def from_profile(profile: Profile, job: Job, *, slot_ms: int, due_ms: float) -> Observation:
    """Return what a profile of throughput says of a job that makes a claim.

    A profile does not know where in its pattern an iteration begins. Its bursts are laid over those
    that the job claims such that most of them coincides; where several ways are as good, because
    bursts are alike, that of least drift is taken.

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
    seen = [
        SeenBurst(
            burst.start_ms,
            burst.length_ms,
            burst.rate_mbps,
            burst.start_error_ms,
            burst.length_error_ms,
            burst.rate_error_mbps,
        )
        for burst in profile.bursts
    ]
    claimed = [(phase.start * slot_ms, phase.length * slot_ms) for phase in job.phases]
    shifts = [start - burst.start_ms for start, _ in claimed for burst in seen]
    common = {shift: _overlap(seen, claimed, shift, period) for shift in shifts}
    best = max(common.values())

    def drift(shift: float) -> float:
        return abs(signed(1000 * origin - shift - due_ms, period))

    shift = min((at for at in shifts if common[at] >= _AS_GOOD * best), key=drift)
    bursts = sorted(
        (_moved(burst, shift, period) for burst in seen), key=lambda burst: burst.start_ms
    )
    return Observation(
        period_ms=period,
        origin_ms=1000 * origin - shift,
        bursts=tuple(bursts),
        period_error_ms=profile.period_error_ms or 0.0,
        origin_error_ms=1000 * (profile.origin_error_s or 0.0),
    )


def signed(difference: float, period: float) -> float:
    """Return a difference of phases, in [-period / 2, period / 2)."""
    return (difference + period / 2) % period - period / 2


def _moved(burst: SeenBurst, shift: float, period: float) -> SeenBurst:
    start = (burst.start_ms + shift) % period
    return SeenBurst(
        start,
        burst.length_ms,
        burst.rate_mbps,
        burst.start_error_ms,
        burst.length_error_ms,
        burst.rate_error_mbps,
    )


def _overlap(
    seen: list[SeenBurst], claimed: list[tuple[int, int]], shift: float, period: float
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
