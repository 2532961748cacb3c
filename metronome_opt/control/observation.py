"""What was measured of a job: whether it is there, its period, its bursts, when it began."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    period_ms: float | None = None
    origin_ms: float | None = None
    bursts: tuple[SeenBurst, ...] | None = None
    period_error_ms: float = 0.0
    origin_error_ms: float = 0.0
    gone: bool = False


def signed(difference: float, period: float) -> float:
    """Return a difference of phases, in [-period / 2, period / 2)."""
    return (difference + period / 2) % period - period / 2
