"""Jobs whose every edge is known."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from benchmarks.throughput import Floats, Truth, run_alone
from metronome_opt.profiles import Samples
from metronome_opt.simulate.runner import Pattern


def pattern(pauses: Sequence[int], bursts: Sequence[tuple[int, int]]) -> Pattern:
    """Return a job that computes for `pauses` ms before each burst, of (ms, Mbit/s)."""
    return Pattern(
        (*map(Fraction, pauses), Fraction(0)),
        tuple(Fraction(length * rate) for length, rate in bursts),
        tuple(Fraction(rate) for _, rate in bursts),
    )


ONE_BURST = pattern([700], [(300, 10_000)])


def job(of: Pattern = ONE_BURST, *, cycles: int = 60, jitter: float = 0.0, seed: int = 0) -> Truth:
    return run_alone(of, cycles, jitter, seed)


def period_ms(truth: Truth) -> float:
    """Return the mean length of an iteration as it turned out."""
    return 1000 * float(np.diff(truth.begins_s).mean())


def samples_of(rates: Sequence[float] | Floats, step_s: float = 0.1) -> Samples:
    values = np.asarray(rates, dtype=np.float64)
    return Samples(1.7e9 + step_s * np.arange(len(values), dtype=np.float64), values)
