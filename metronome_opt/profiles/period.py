"""The period of a job: cycles of its throughput, or the reason why there are none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import find_peaks

from metronome_opt.profiles.folding import Folded, align, fold
from metronome_opt.profiles.samples import QUIET, Floats, Grid, Samples, regrid
from metronome_opt.profiles.tracking import CELLS, longest_silence, track

_LEAST_CYCLES = 4  # fewer repetitions could be chance
_LEAST_SAMPLES_A_PERIOD = 8  # fewer do not show when bursts begin and end
_LEAST_SAMPLES = 32
_LEAST_MEASURED = 0.05
_WANTED = 10  # samples a period to ask for
_STEADY = 1e-4  # of the mean rate: less may be what a float of an epoch in seconds rounds off
_PROMINENCE = 0.12
_AS_HIGH = 0.8  # of the highest peak: an earlier one of this height is taken for the same pattern
_LEAST_CORRELATION = 0.15
_LEAST_EXPLAINED = 0.7
_MOST_JITTER = 0.13
_SURE = 16  # cycles; fewer may be alike by chance and have to be the more so
_CLEARLY = 0.05  # more of the variance
_ROUNDS = 2


class NoPeriodError(Exception):
    """Why there is no pattern, and the share of the variance that the best one explains."""

    def __init__(self, reason: str, explained: float = 0.0) -> None:
        super().__init__(reason)
        self.explained = explained


@dataclass(frozen=True)
class Cycles:
    """A pattern that repeats."""

    folded: Folded
    errors_s: Floats  # standard errors of the beginnings, NaN for a cycle that was hardly measured
    jitter_s: float  # standard deviation of the lengths, without that of these errors
    explained: float  # share of the variance

    @property
    def period_error_s(self) -> float:
        """Standard error of the mean length."""
        lengths = max(1, int(np.isfinite(self.errors_s).sum()) - 1)
        ends = math.sqrt(2) * float(np.nanmedian(self.errors_s)) / lengths
        return math.hypot(self.jitter_s / math.sqrt(lengths), ends)


def find_cycles(samples: Samples, quiet: float = QUIET) -> Cycles:
    """Find the pattern that repeats, however its phase wanders.

    Cycles begin amid their longest silence: rates below `quiet`, a share of the highest. Of two
    patterns the later one counts only if it explains clearly more: multiples of a period explain as
    much as it does.

    Raises
    ------
    NoPeriodError
        If nothing repeats, or if samples are too few or too far apart to tell.
    """
    found = []
    for period in _likely_periods(samples):
        try:
            found.append(_follow(samples, period, quiet))
        except NoPeriodError as error:
            refused = error
    if not found:
        raise refused
    first, last = found[0], found[-1]
    return last if last.explained > first.explained + _CLEARLY else first


# ------------------------------------------------------------------ which periods are likely


def _likely_periods(samples: Samples) -> list[float]:
    """Return the periods in seconds that samples may have, most likely first."""
    begins, ends, rates = samples.measured()
    if len(rates) < _LEAST_SAMPLES:
        raise NoPeriodError(
            f"too short: {len(rates)} samples, at least {_LEAST_SAMPLES} are needed"
        )
    if not rates.any():
        raise NoPeriodError("silent: nothing was sent")
    if np.ptp(rates) <= _STEADY * abs(rates.mean()):
        raise NoPeriodError("not periodic: the rate is constant")
    usual = float(np.median(ends - begins))
    measured = float((ends - begins).sum() / (ends[-1] - begins[0]))
    if measured < _LEAST_MEASURED:
        raise NoPeriodError(
            f"too sparse: only {measured:.1%} of the time from the first sample to the last was "
            "measured; look at a shorter time"
        )
    grid = regrid(samples, usual)
    correlation = _autocorrelation(grid)
    lags = _likely_lags(correlation)
    if not lags:
        longest = (ends[-1] - begins[0]) / _LEAST_CYCLES
        raise NoPeriodError(f"not periodic: nothing repeats up to a period of {longest:.4g} s")
    first, height = lags[0] * grid.step_s, min(1.0, float(correlation[lags[0]]))
    if height < _LEAST_CORRELATION:
        raise NoPeriodError(
            f"not periodic: the correlation after {first:.4g} s, about the highest, is only "
            f"{height:.2f}",
            height,
        )
    if lags[0] < _LEAST_SAMPLES_A_PERIOD:
        raise NoPeriodError(
            f"too coarse: something repeats about every {1000 * first:.4g} ms, samples are "
            f"{1000 * grid.step_s:.4g} ms apart; sample every {1000 * first / _WANTED:.3g} ms",
            height,
        )
    return [lag * grid.step_s for lag in lags]


def _autocorrelation(grid: Grid) -> Floats:
    """Return the autocorrelation of the cells that are there, by lag in cells.

    Products of pairs of cells that were both measured are averaged, so that gaps neither lower nor
    raise it. Lags go as far as the pattern could have been seen `_LEAST_CYCLES` times.
    """
    known = np.isfinite(grid.rates)
    deviation = np.where(known, grid.rates - np.nanmean(grid.rates), 0.0)
    lags = len(known) // _LEAST_CYCLES + 1
    pairs = np.maximum(np.rint(_lagged(known.astype(np.float64), lags)), 1.0)
    mean = _lagged(deviation, lags) / pairs
    return np.asarray(mean / mean[0]) if mean[0] > 0 else np.zeros(lags)


def _lagged(values: Floats, lags: int) -> Floats:
    """Return the sums of products of values that are so many places apart."""
    length = next_fast_len(len(values) + lags, real=True)
    spectrum = rfft(values, length)
    return np.asarray(irfft(spectrum * spectrum.conj(), length)[:lags])


def _likely_lags(correlation: Floats) -> tuple[int, ...]:
    """Return the lags in cells at which the pattern may repeat, most likely first.

    Peaks that are nearly as high as the highest may be its parts, if bursts are much alike; it may
    be a multiple, as jitter lowers multiples and chance may raise them. So the first of these peaks
    and the highest are returned. None if there is no peak.
    """
    peaks, _ = find_peaks(correlation, prominence=_PROMINENCE)
    peaks = peaks[correlation[peaks] > 0]
    if not peaks.size:
        return ()
    # Heights are those of the parabola through three lags: a period that is no whole number of
    # cells is lower than its multiples that are, else.
    before, at, after = (correlation[peaks + shift] for shift in (-1, 0, 1))
    heights = at + (after - before) ** 2 / (8 * (2 * at - before - after))
    first, highest = int(np.argmax(heights >= _AS_HIGH * heights.max())), int(np.argmax(heights))
    return tuple(int(peaks[each]) for each in dict.fromkeys((first, highest)))


# ------------------------------------------------------------------ following one of them


def _follow(samples: Samples, period: float, quiet: float) -> Cycles:
    """Return the cycles of a period, about, that can be followed through the samples."""
    step = max(samples.step_s, period / CELLS)
    grid = regrid(samples, step)
    known = grid.rates[np.isfinite(grid.rates)]
    sparse = "too sparse: of cycles of about {:.4g} s too few were measured"
    if not len(known) or not np.ptp(known):
        raise NoPeriodError(sparse.format(period))
    starts = track(grid.rates, round(period / step), quiet)
    if starts is None or len(starts) < _LEAST_CYCLES:
        raise NoPeriodError(
            f"too short: fewer than {_LEAST_CYCLES} cycles were seen; measure for longer"
        )
    begins: Floats = grid.start_s + starts.astype(np.float64) * grid.step_s
    length = float(np.mean(np.diff(begins)))
    for _ in range(_ROUNDS):
        begins = begins + _to_amid_silence(fold(samples, begins, length), quiet)
        begins, errors = align(fold(samples, begins, length))
        seen = np.isfinite(errors)
        lengths = np.diff(begins)[seen[1:] & seen[:-1]]  # of which both ends were measured
        if len(lengths) < _LEAST_CYCLES - 1:
            raise NoPeriodError(sparse.format(length))
        length = float(lengths.mean())
    folded = fold(samples, begins, length)
    loose = 2 * float(np.nanmedian(errors)) ** 2
    jitter = math.sqrt(max(0.0, float(lengths.var()) - loose))
    explained = _explained(folded)
    most = _MOST_JITTER * min(1.0, len(lengths) / _SURE)
    if explained < _LEAST_EXPLAINED or jitter > most * length:
        raise NoPeriodError(
            f"not periodic: {len(lengths)} cycles of about {length:.4g} s explain {explained:.0%} "
            f"of the variance and their lengths vary by {jitter / length:.0%}",
            explained,
        )
    return Cycles(folded, errors, jitter, explained)


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


def _explained(folded: Folded) -> float:
    """Return the share of the variance that the mean cycle explains."""
    bins = folded.bins()
    off = folded.rates - np.interp(folded.since_s, bins.middles_s, bins.rates)
    cycles = len(folded.begins_s)
    by_chance = cycles / (cycles - 1)  # each cycle is a part of the mean cycle
    return float(max(0.0, 1 - by_chance * off.var() / folded.rates.var()))
