"""Which periods a job might have: peaks of the autocorrelation of its throughput."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import find_peaks

from metronome_opt.profiles.grid import Grid
from metronome_opt.profiles.samples import Floats

LEAST_CYCLES = 4
"""Fewer repetitions could be chance."""

Ints = NDArray[np.int64]

_PROMINENCE = 0.12
_AS_HIGH = 0.8  # of the highest peak: an earlier one of this height is taken for the same pattern


def autocorrelation(grid: Grid) -> Floats:
    """Return the autocorrelation of the cells that are there, by lag in cells.

    Products of pairs of cells that were both measured are averaged, so that gaps neither lower nor
    raise it. Lags go as far as the pattern could have been seen `LEAST_CYCLES` times.
    """
    known = np.isfinite(grid.rates)
    deviation = np.where(known, grid.rates - np.nanmean(grid.rates), 0.0)
    lags = len(known) // LEAST_CYCLES + 1
    products = _lagged(deviation, lags)
    pairs = np.maximum(np.rint(_lagged(known.astype(np.float64), lags)), 1.0)
    mean = products / pairs
    return np.asarray(mean / mean[0]) if mean[0] > 0 else np.zeros(lags)


def likely_lags(correlation: Floats) -> tuple[int, ...]:
    """Return the lags in cells at which the pattern may repeat, most likely first.

    Peaks that are nearly as high as the highest may be its parts, if bursts are much alike; it may
    be a multiple, as jitter lowers multiples and chance may raise them. So the first of these peaks
    and the highest are returned. None if there is no peak.
    """
    peaks, _ = find_peaks(correlation, prominence=_PROMINENCE)
    peaks = peaks[correlation[peaks] > 0]
    if not peaks.size:
        return ()
    heights = _between_lags(correlation, peaks)
    first, highest = int(np.argmax(heights >= _AS_HIGH * heights.max())), int(np.argmax(heights))
    return tuple(int(peaks[each]) for each in dict.fromkeys((first, highest)))


def _between_lags(correlation: Floats, peaks: Ints) -> Floats:
    """Return how high peaks are between lags: of the parabola through three of them.

    A period that is no whole number of cells is lower than its multiples that are, else.
    """
    before, at, after = (correlation[peaks + shift] for shift in (-1, 0, 1))
    return np.asarray(at + (after - before) ** 2 / (8 * (2 * at - before - after)))


def _lagged(values: Floats, lags: int) -> Floats:
    length = next_fast_len(len(values) + lags, real=True)
    spectrum = rfft(values, length)
    return np.asarray(irfft(spectrum * spectrum.conj(), length)[:lags])
