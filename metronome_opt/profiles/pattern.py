"""From samples to cycles, or to the reason why there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metronome_opt.profiles.autocorrelation import LEAST_CYCLES, autocorrelation, likely_lags
from metronome_opt.profiles.cycles import CELLS, QUIET, longest_silence, track
from metronome_opt.profiles.folding import Folded, align, fold
from metronome_opt.profiles.grid import regrid, spans
from metronome_opt.profiles.samples import Floats, Samples

LEAST_SAMPLES_A_PERIOD = 8
"""Fewer do not show when bursts begin and end."""

_LEAST_SAMPLES = 32
_LEAST_MEASURED = 0.05
_WANTED = 10  # samples a period to ask for
_STEADY = 1e-4  # of the mean rate: less may be what a float of an epoch in seconds rounds off
_LEAST_CORRELATION = 0.15
_LEAST_EXPLAINED = 0.7
_MOST_JITTER = 0.13
_SURE = 16  # cycles; fewer may be alike by chance and have to be the more so
_CLEARLY = 0.05  # more of the variance
_ROUNDS = 2


@dataclass(frozen=True)
class Cycles:
    """A pattern that repeats.

    Attributes
    ----------
    folded
        The samples by cycle.
    errors_s
        Standard errors of the beginnings of cycles; NaN for a cycle that was hardly measured.
    jitter_s
        Standard deviation of the lengths of cycles, without that of these errors.
    explained
        Share of the variance that the pattern explains.
    """

    folded: Folded
    errors_s: Floats
    jitter_s: float
    explained: float

    @property
    def period_error_s(self) -> float:
        """Standard error of the mean length."""
        lengths = max(1, int(np.isfinite(self.errors_s).sum()) - 1)
        ends = math.sqrt(2) * float(np.nanmedian(self.errors_s)) / lengths
        return math.hypot(self.jitter_s / math.sqrt(lengths), ends)


@dataclass(frozen=True)
class Nothing:
    """Why there is no pattern, and the share of the variance that the best one explains."""

    reason: str
    explained: float = 0.0


def find_cycles(samples: Samples, quiet: float = QUIET) -> Cycles | Nothing:
    """Find the pattern that repeats, however its phase wanders.

    Cycles begin amid their longest silence: rates below `quiet`, a share of the highest.
    """
    begins, ends, rates = spans(samples)
    if len(rates) < _LEAST_SAMPLES:
        return Nothing(f"too short: {len(rates)} samples, at least {_LEAST_SAMPLES} are needed")
    if not rates.any():
        return Nothing("silent: nothing was sent")
    if np.ptp(rates) <= _STEADY * abs(rates.mean()):
        return Nothing("not periodic: the rate is constant")
    usual = float(np.median(ends - begins))
    measured = float((ends - begins).sum() / (ends[-1] - begins[0]))
    if measured < _LEAST_MEASURED:
        return Nothing(
            f"too sparse: only {measured:.1%} of the time from the first sample to the last was "
            "measured; look at a shorter time"
        )
    grid = regrid(samples, usual)
    correlation = autocorrelation(grid)
    lags = likely_lags(correlation)
    if not lags:
        longest = (ends[-1] - begins[0]) / LEAST_CYCLES
        return Nothing(f"not periodic: nothing repeats up to a period of {longest:.4g} s")
    first, height = lags[0] * grid.step_s, min(1.0, float(correlation[lags[0]]))
    if height < _LEAST_CORRELATION:
        return Nothing(
            f"not periodic: the correlation after {first:.4g} s, about the highest, is only "
            f"{height:.2f}",
            height,
        )
    if lags[0] < LEAST_SAMPLES_A_PERIOD:
        return Nothing(
            f"too coarse: something repeats about every {1000 * first:.4g} ms, samples are "
            f"{1000 * grid.step_s:.4g} ms apart; sample every {1000 * first / _WANTED:.3g} ms",
            height,
        )
    return _better([_follow(samples, lag * grid.step_s, quiet) for lag in lags])


def _better(found: Sequence[Cycles | Nothing]) -> Cycles | Nothing:
    """Return the pattern that explains most; a later one only if it explains clearly more.

    Multiples of the period explain as much as it does.
    """
    best = found[0]
    for other in found[1:]:
        gained = isinstance(other, Cycles) and other.explained > best.explained + _CLEARLY
        if gained or isinstance(best, Nothing):
            best = other
    return best


def _follow(samples: Samples, period: float, quiet: float) -> Cycles | Nothing:
    step = max(samples.step_s, period / CELLS)
    grid = regrid(samples, step)
    known = grid.rates[np.isfinite(grid.rates)]
    if not len(known) or not np.ptp(known):
        return Nothing(f"too sparse: of cycles of about {period:.4g} s too few were measured")
    starts = track(grid, round(period / step), quiet)
    if starts is None or len(starts) < LEAST_CYCLES:
        return Nothing(f"too short: fewer than {LEAST_CYCLES} cycles were seen; measure for longer")
    begins: Floats = grid.start_s + starts.astype(np.float64) * grid.step_s
    length = float(np.mean(np.diff(begins)))
    for _ in range(_ROUNDS):
        folded = fold(samples, begins, length)
        begins = begins + _to_amid_silence(folded, quiet)
        alignment = align(fold(samples, begins, length))
        begins = alignment.begins_s
        lengths = _observed_lengths(begins, alignment.errors_s)
        if len(lengths) < LEAST_CYCLES - 1:
            return Nothing(f"too sparse: of cycles of about {length:.4g} s too few were measured")
        length = float(lengths.mean())
    folded = fold(samples, begins, length)
    loose = 2 * float(np.nanmedian(alignment.errors_s)) ** 2
    jitter = math.sqrt(max(0.0, float(lengths.var()) - loose))
    explained = _explained(folded)
    most = _MOST_JITTER * min(1.0, len(lengths) / _SURE)
    if explained < _LEAST_EXPLAINED or jitter > most * length:
        return Nothing(
            f"not periodic: {len(lengths)} cycles of about {length:.4g} s explain {explained:.0%} "
            f"of the variance and their lengths vary by {jitter / length:.0%}",
            explained,
        )
    return Cycles(folded, alignment.errors_s, jitter, explained)


def _to_amid_silence(folded: Folded, quiet: float) -> float:
    """Return by how much cycles should begin later for the beginning to lie amid silence."""
    bins = folded.bins()
    inside = bins.middles_s < folded.period_s
    count = max(CELLS, int(inside.sum()))
    even = (np.arange(count) + 0.5) / count * folded.period_s
    rates = np.interp(even, bins.middles_s[inside], bins.rates[inside], period=folded.period_s)
    begin, length = longest_silence(rates, quiet)
    shift = (begin + length / 2) / count
    return (shift - 1 if shift > 0.5 else shift) * folded.period_s


def _observed_lengths(begins: Floats, errors: Floats) -> Floats:
    """Return the lengths of cycles of which both ends were measured."""
    seen = np.isfinite(errors)
    return np.asarray(np.diff(begins)[seen[1:] & seen[:-1]])


def _explained(folded: Folded) -> float:
    bins = folded.bins()
    off = folded.rates - np.interp(folded.since_s, bins.middles_s, bins.rates)
    cycles = len(folded.begins_s)
    by_chance = cycles / (cycles - 1)  # each cycle is a part of the mean cycle
    return float(max(0.0, 1 - by_chance * off.var() / folded.rates.var()))
