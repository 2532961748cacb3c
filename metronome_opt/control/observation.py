"""What was measured of a job: whether it is there, its period, its bursts, when it began."""

from __future__ import annotations

import math
from dataclasses import dataclass

from metronome_opt.errors import InputError, show


@dataclass(frozen=True)
class SeenBurst:
    """A burst as it was measured. The errors are half-widths; 0 where nothing is known of them.

    Attributes
    ----------
    start_ms
        From the beginning of the iteration.
    length_ms, rate_mbps
        Of one flow.

    Raises
    ------
    InputError
        If a value is not finite, or one that cannot be negative is.
    """

    start_ms: float
    length_ms: float
    rate_mbps: float
    start_error_ms: float = 0.0
    length_error_ms: float = 0.0
    rate_error_mbps: float = 0.0

    def __post_init__(self) -> None:
        _check_finite("start_ms", self.start_ms)
        for name in (
            "length_ms",
            "rate_mbps",
            "start_error_ms",
            "length_error_ms",
            "rate_error_mbps",
        ):
            _check_not_negative(name, getattr(self, name))

    @property
    def volume(self) -> float:
        """What one flow sends in it, Mbit/s * ms."""
        return self.length_ms * self.rate_mbps

    def longer_than_at(self, rate_mbps: float) -> float:
        """Return by how many ms it is longer than its volume takes at a rate; never negative."""
        return max(0.0, self.length_ms - self.volume / rate_mbps)


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

    Raises
    ------
    InputError
        If a value is not finite, a period is not above 0, or an error is negative.
    """

    period_ms: float | None = None
    origin_ms: float | None = None
    bursts: tuple[SeenBurst, ...] | None = None
    period_error_ms: float = 0.0
    origin_error_ms: float = 0.0
    gone: bool = False

    def __post_init__(self) -> None:
        if self.period_ms is not None:
            _check_finite("period_ms", self.period_ms)
            if self.period_ms <= 0:
                raise InputError(
                    f"period_ms: {show(self.period_ms)}: must be above 0; leave it out if it was "
                    "not measured"
                )
        if self.origin_ms is not None:
            _check_finite("origin_ms", self.origin_ms)
        _check_not_negative("period_error_ms", self.period_error_ms)
        _check_not_negative("origin_error_ms", self.origin_error_ms)


def signed(difference: float, period: float) -> float:
    """Return a difference of phases, in [-period / 2, period / 2)."""
    return (difference + period / 2) % period - period / 2


def _check_finite(place: str, value: float) -> None:
    if not math.isfinite(value):
        raise InputError(
            f"{place}: {show(value)}: must be a finite number; leave out what was not measured"
        )


def _check_not_negative(place: str, value: float) -> None:
    _check_finite(place, value)
    if value < 0:
        raise InputError(f"{place}: {show(value)}: must be at least 0")
