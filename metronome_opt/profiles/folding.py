"""Samples by the time since their cycle began, and finding where exactly each cycle began."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from metronome_opt.profiles.grid import spans
from metronome_opt.profiles.samples import Floats, Samples

_LEAST_BINS, _MOST_BINS = 16, 240
_PARTS = 8
_SAMPLES_PER_BIN = 4
_BEYOND = 0.15  # of a period: how much longer than usual a cycle may be to count to its end
_LONG = 1.5  # usual spans; what was averaged for longer says little
_SEEN = 0.3  # of what a whole cycle says about its beginning, for it to count
_IN_STEP = 0.8  # mean of unit vectors that turn once a span
_ROUNDS = 4


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Folded:
    """Spans and the cycles they belong to.

    Attributes
    ----------
    begins_s
        When each cycle begins, seconds since the epoch, shape (cycles,).
    cycle, middles_s, rates
        Of each span the cycle it belongs to, its middle in seconds since the epoch, and its mean
        rate, shape (spans,).
    span_s
        The usual length of a span.
    period_s
        Mean length of a cycle.
    """

    begins_s: Floats
    cycle: Ints
    middles_s: Floats
    rates: Floats
    span_s: float
    period_s: float

    @property
    def since_s(self) -> Floats:
        """Time from the beginning of its cycle to the middle of each span, shape (spans,)."""
        return self.middles_s - self.begins_s[self.cycle]

    @property
    def in_step(self) -> bool:
        """Whether samples fall on the same moments of all cycles, so that cycles tell no more."""
        turns = np.exp(2j * np.pi * self.since_s / self.span_s)
        return bool(abs(turns.mean()) > _IN_STEP)

    def bins(self) -> Bins:
        """Return mean rates by time since the beginning."""
        since, end = self.since_s, (1 + _BEYOND) * self.period_s
        count = int(np.clip(len(since) // _SAMPLES_PER_BIN, _LEAST_BINS, _MOST_BINS))
        place = np.clip((since / end * count).astype(np.int64), 0, count - 1)
        filled, place, spans_in = np.unique(place, return_inverse=True, return_counts=True)
        counts = spans_in.astype(np.float64)
        return Bins(
            np.bincount(place, since) / counts,
            np.bincount(place, self.rates) / counts,
            counts,
            self.span_s,
            self._parts(place, len(filled)),
        )

    def _parts(self, place: Ints, bins: int) -> Floats:
        """Return the means over parts of the cycles, neighbours together."""
        parts = min(_PARTS, len(self.begins_s))
        cell = self.cycle * parts // len(self.begins_s) * bins + place
        total = np.bincount(cell, self.rates, parts * bins)
        counts = np.bincount(cell, minlength=parts * bins)
        means = np.divide(total, counts, out=np.full(parts * bins, np.nan), where=counts > 0)
        return np.asarray(means.reshape(parts, bins))


@dataclass(frozen=True)
class Bins:
    """The mean cycle.

    Attributes
    ----------
    middles_s, rates, counts
        Time since the beginning, mean rate in Mbit/s and number of spans, each of shape (bins,).
    span_s
        Length of a span.
    parts
        Mean rates over parts of the cycles, NaN where a part has none, shape (parts, bins).
    """

    middles_s: Floats
    rates: Floats
    counts: Floats
    span_s: float
    parts: Floats


def fold(samples: Samples, begins_s: Floats, period_s: float) -> Folded:
    """Assign each span to the cycle in which its middle lies; leave out what lies in none."""
    begin, end, rates = spans(samples)
    usual = float(np.median(end - begin))
    middles = (begin + end) / 2
    cycle = np.searchsorted(begins_s, middles, side="right") - 1
    inside = (cycle >= 0) & (end - begin <= _LONG * usual)
    since = middles - begins_s[np.maximum(cycle, 0)]
    inside &= since < (1 + _BEYOND) * period_s
    inside &= (cycle < len(begins_s) - 1) | (since < (1 - _BEYOND) * period_s)
    return Folded(begins_s, cycle[inside], middles[inside], rates[inside], usual, period_s)


@dataclass(frozen=True)
class Alignment:
    """Where cycles begin, as exactly as their samples say.

    Attributes
    ----------
    begins_s
        Seconds since the epoch, shape (cycles,).
    errors_s
        Standard deviations of these from the noise of the samples; NaN for a cycle of which too
        little was measured, shape (cycles,).
    """

    begins_s: Floats
    errors_s: Floats


def align(folded: Folded) -> Alignment:
    """Shift each cycle so that its samples fit the mean cycle best, by Gauss-Newton.

    The mean cycle becomes sharper with the shifts, so it is taken anew each time.
    """
    begins, cycles, reach = folded.begins_s, len(folded.begins_s), folded.span_s
    for _ in range(_ROUNDS):
        folded = replace(folded, begins_s=begins)
        mean, slope = _mean_and_slope(folded)
        off = folded.rates - mean
        told = np.bincount(folded.cycle, slope**2, cycles)
        usable = told > _SEEN * np.median(told)
        shift = -np.bincount(folded.cycle, off * slope, cycles) / np.where(usable, told, np.inf)
        begins = begins + np.clip(shift, -reach, reach)
    noise = np.sqrt(np.mean(off**2))
    errors = np.where(usable, noise / np.sqrt(np.where(usable, told, 1.0)), np.nan)
    return Alignment(begins, errors)


def _mean_and_slope(folded: Folded) -> tuple[Floats, Floats]:
    """Return the mean cycle and its derivative where each span is."""
    bins, half = folded.bins(), folded.span_s / 2
    since = folded.since_s
    ahead, behind = (
        np.interp(since + shift, bins.middles_s, bins.rates) for shift in (half, -half)
    )
    return np.interp(since, bins.middles_s, bins.rates), (ahead - behind) / (2 * half)
