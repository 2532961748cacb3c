"""Traffic of more than one period, as of two jobs that one counter counts together.

It looks like that of one job if one of the two sends much more, or if some iterations of the one
take about as long as some of the other. Either can be told:

- In the silence of the stronger job there is traffic of the other, again and again after the same
  time, and at ever other moments of the cycle. What a single job does beside its pattern, as
  checkpoints, keeps to its cycle or is rare; and bursts that others hold up leave silence silent.
- The mean of cycles that hold p iterations of the one and q of the other is a sum of a pattern that
  comes p times and one that comes q times: its harmonics are multiples of p or of q.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft
from scipy.signal import correlate, find_peaks

from metronome_opt.profiles.samples import Floats
from metronome_opt.profiles.steps import Bins, Fit, Folded

_EDGE = 3.0  # standard deviations of an edge, beside which nothing counts as silence
_USUAL = 0.25  # of what is left in cycles on average: if it is less in half of them, it is rare
_FAR = 2.0  # times what is left in such a cycle: what is farther off counts as this
_LEAST_SHARE = 0.01  # of the variance, that repeats in silence
_PARTS = 4  # of what was measured, in each of which the same has to repeat
_LEAST_PAIRS = 30  # of samples in each part
_LEAST_ALIKE = 0.35  # correlation in each part
_PROMINENCE = 0.15
_KEEPS = 0.2  # of a cycle: what comes back this near to a whole number of cycles keeps to them

_MOST_ITERATIONS = 8  # of a job in a cycle of two
_HARMONICS = 40
_WEAKER = 0.03  # of the variance, at least, for the weaker of two patterns
_NEITHER = 0.25  # of that, at most, for the harmonics of neither


def second_period(folded: Folded, bins: Bins, fit: Fit) -> tuple[float, float] | None:
    """Return the two periods of the traffic in seconds; None if it has no more than one."""
    return _within(folded.period_s, bins) or _beside(folded, bins, fit)


def _within(period_s: float, bins: Bins) -> tuple[float, float] | None:
    """Return the periods of two patterns of which the mean cycle is made up, both several times."""
    even = (np.arange(4 * _HARMONICS) + 0.5) / (4 * _HARMONICS) * period_s
    power = np.abs(rfft(np.interp(even, bins.middles_s, bins.rates)))[1 : _HARMONICS + 1] ** 2
    number = np.arange(1, _HARMONICS + 1)
    for p, q in itertools.combinations(range(2, _MOST_ITERATIONS + 1), 2):
        of_p, of_q = number % p == 0, number % q == 0
        weaker = min(power[of_p & ~of_q].sum(), power[of_q & ~of_p].sum())
        made_up = power[~of_p & ~of_q].sum() <= _NEITHER * weaker
        if math.gcd(p, q) == 1 and made_up and weaker >= _WEAKER * power.sum():
            return period_s / q, period_s / p
    return None


def _beside(folded: Folded, bins: Bins, fit: Fit) -> tuple[float, float] | None:
    """Return the period of the cycles, and that of what comes in their silence."""
    silent = _in_silence(folded, fit)
    if not silent.any():
        return None
    off = folded.rates - np.interp(folded.since_s, bins.middles_s, bins.rates)
    off = off[silent]
    spans = np.bincount(folded.cycle[silent])
    by_cycle = np.bincount(folded.cycle[silent], off**2)[spans > 0] / spans[spans > 0]
    usual = float(np.median(by_cycle))
    if usual < _USUAL * by_cycle.mean():
        return None
    most = _FAR * math.sqrt(usual)
    off = np.clip(off, -most, most)
    share = float(np.mean(off**2) / folded.rates.var())
    if share < _LEAST_SHARE:
        return None
    lengths = np.append(np.diff(folded.begins_s), folded.period_s)[folded.cycle]
    place = folded.cycle + np.minimum(1.0, folded.since_s / lengths)
    width = folded.span_s / folded.period_s
    cells = np.full(int(place.max() / width) + 1, np.nan)
    cells[(place[silent] / width).astype(np.int64)] = off
    alike = _alike(cells)
    least = max(_LEAST_ALIKE, _LEAST_SHARE / share)
    peaks, _ = find_peaks(alike, height=least, prominence=_PROMINENCE)
    apart = np.abs(peaks * width - np.rint(peaks * width))
    if not (apart > _KEEPS).any():
        return None
    return folded.period_s, float(peaks[0]) * folded.span_s


def _in_silence(folded: Folded, fit: Fit) -> NDArray[np.bool_]:
    """Return which spans lie wholly in silence, or amid the lowest rate if there is none."""
    edges, rates = fit.steps.edges_s, fit.steps.rates
    low = fit.silent if fit.silent.any() else rates == rates.min()
    apart = np.abs(folded.since_s[:, None] - edges)
    apart = np.minimum(apart, np.abs(folded.period_s - apart))
    clear = (apart > folded.span_s / 2 + _EDGE * fit.steps.blurs_s).all(axis=1)
    return np.asarray(clear & low[np.searchsorted(edges, folded.since_s)])


def _alike(cells: Floats) -> Floats:
    """Return the correlation by lag in cells, the lowest of all parts; 0 where too little is known.

    What repeats does so in each part: a few large events that are alike by chance do not.
    """
    known = np.isfinite(cells)
    value, there = np.where(known, cells, 0.0), known.astype(np.float64)
    lags = len(cells) // _PARTS
    lowest = np.ones(lags)
    for begin, end in itertools.pairwise(np.linspace(0, len(cells) - lags, _PARTS + 1, dtype=int)):
        part, far = slice(begin, end), slice(begin, end + lags - 1)
        together = correlate(value[far], value[part], mode="valid", method="fft")
        own = correlate(there[far], value[part] ** 2, mode="valid", method="fft")
        others = correlate(value[far] ** 2, there[part], mode="valid", method="fft")
        pairs = correlate(there[far], there[part], mode="valid", method="fft")
        scale = np.sqrt(np.maximum(own * others, 0.0))
        enough = (pairs > _LEAST_PAIRS) & (scale > 0)
        found = np.divide(together, scale, out=np.zeros(lags), where=enough)
        lowest = np.minimum(lowest, found)
    return lowest
