"""Traffic that is stated instead of computed: what one worker sends in an iteration."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from metronome_opt.records import Positive, Record, refuse
from metronome_opt.scenario.traffic import Burst, Iteration
from metronome_opt.scenario.workload import Rational, rational

MAX_PHASES = 1024  # as many as a claim may have


def _moment(value: Any) -> Fraction:
    """Read a time, which unlike a length may be 0."""
    is_zero = isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
    return Fraction(0) if is_zero else rational(value)


Moment = Annotated[Fraction, BeforeValidator(_moment)]


class StatedPhase(Record):
    """One burst: `rate_mbps` during `length_ms` from `start_ms` on, counted from the iteration."""

    start_ms: Moment
    length_ms: Rational
    rate_mbps: Positive


class Traffic(Record):
    """The bursts of one iteration as they are, not yet in slots.

    Parameters
    ----------
    period_ms
        Length of the iteration.
    phases
        The bursts in order; they lie inside the period and do not overlap.
    """

    period_ms: Rational
    phases: Annotated[
        tuple[StatedPhase, ...], Field(strict=False, min_length=1, max_length=MAX_PHASES)
    ]

    @model_validator(mode="after")
    def _check(self) -> Self:
        end = Fraction(0)
        for index, phase in enumerate(self.phases):
            if phase.start_ms < end:
                refuse(
                    f"phases[{index}].start_ms",
                    f"{float(phase.start_ms):g}: is before the end of the burst before it, "
                    f"{float(end):g} ms; list bursts in order and apart",
                )
            end = phase.start_ms + phase.length_ms
            if end > self.period_ms:
                refuse(
                    f"phases[{index}].length_ms",
                    f"{float(phase.length_ms):g}: the burst ends at {float(end):g} ms, after the "
                    f"period of {float(self.period_ms):g} ms",
                )
        return self

    @property
    def fastest(self) -> int:
        """The largest rate, in Mbit/s."""
        return max(phase.rate_mbps for phase in self.phases)

    def iteration(self, rate: int) -> Iteration:
        """Return the iteration of a worker that may send at `rate` Mbit/s at most.

        Slowed down, bursts take longer and pauses do not, so that the iteration does too.
        """
        bursts, end = [], Fraction(0)
        for number, phase in enumerate(self.phases, start=1):
            volume = phase.rate_mbps * phase.length_ms / 1000
            slowed = min(rate, phase.rate_mbps)
            bursts.append(Burst(f"phase {number}", phase.start_ms - end, volume, slowed))
            end = phase.start_ms + phase.length_ms
        rest = self.period_ms - end
        compute = rest + sum(burst.after for burst in bursts)
        return Iteration(compute, tuple(bursts), rest)
