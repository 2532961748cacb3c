"""Jobs whose every edge is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.profiles import bursts_of
from benchmarks.throughput import Floats, Truth, run_alone
from metronome_opt.profiles import Samples
from metronome_opt.simulate.runner import Pattern

pattern = bursts_of
ONE_BURST = pattern([700], [(300, 10_000)])


def job(of: Pattern = ONE_BURST, *, cycles: int = 60, jitter: float = 0.0, seed: int = 0) -> Truth:
    return run_alone(of, cycles, jitter, seed)


def period_ms(truth: Truth) -> float:
    """Return the mean length of an iteration as it turned out."""
    return 1000 * float(np.diff(truth.begins_s).mean())


def samples_of(rates: Sequence[float] | Floats, step_s: float = 0.1) -> Samples:
    values = np.asarray(rates, dtype=np.float64)
    return Samples(1.7e9 + step_s * np.arange(len(values), dtype=np.float64), values)
