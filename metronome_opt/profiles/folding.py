"""Samples by the time since their cycle began, and finding where exactly each cycle began."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metronome_opt.profiles.samples import Floats, Ints, Samples

_LEAST_BINS, _MOST_BINS = 16, 240
_PARTS = 8
_SAMPLES_PER_BIN = 4
_BEYOND = 0.15  # of a period: how much longer than usual a cycle may be to count to its end
_LONG = 1.5  # usual spans; what was averaged for longer says little
_SEEN = 0.3  # of what a whole cycle says about its beginning, for it to count
_IN_STEP = 0.8  # mean of unit vectors that turn once a span
_ROUNDS = 4


@dataclass(frozen=True)
class Folded:
    """Spans and the cycles they belong to."""

    begins_s: Floats  # of each cycle, seconds since the epoch
    cycle: Ints  # of each span
    middles_s: Floats  # of each span, seconds since the epoch
    rates: Floats  # of each span, its mean in Mbit/s
    span_s: float  # their usual length
    period_s: float  # mean length of a cycle

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
    """The mean cycle, by the time since it begins."""

    middles_s: Floats  # of each bin
    rates: Floats  # of each bin, its mean in Mbit/s
    counts: Floats  # spans in each bin
    span_s: float  # length of a span
    parts: Floats  # rates over parts of the cycles, shape (parts, bins), NaN where there is none

    @property
    def variance(self) -> float:
        """Of the mean cycle, (Mbit/s)^2."""
        return float(np.cov(self.rates, aweights=self.counts, ddof=0))


def fold(samples: Samples, begins_s: Floats, period_s: float) -> Folded:
    """Assign each span to the cycle in which its middle lies; leave out what lies in none."""
    begin, end, rates = samples.measured()
    usual = float(np.median(end - begin))
    middles = (begin + end) / 2
    cycle = np.searchsorted(begins_s, middles, side="right") - 1
    inside = (cycle >= 0) & (end - begin <= _LONG * usual)
    since = middles - begins_s[np.maximum(cycle, 0)]
    inside &= since < (1 + _BEYOND) * period_s
    inside &= (cycle < len(begins_s) - 1) | (since < (1 - _BEYOND) * period_s)
    return Folded(begins_s, cycle[inside], middles[inside], rates[inside], usual, period_s)


def align(folded: Folded) -> tuple[Floats, Floats]:
    """Shift each cycle so that its samples fit the mean cycle best, by Gauss-Newton.

    The mean cycle becomes sharper with the shifts, so it is taken anew each time.

    Returned with the beginnings, in seconds since the epoch, are their standard deviations from the
    noise of the samples; NaN for a cycle of which too little was measured.
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
    return begins, np.asarray(errors)


def _mean_and_slope(folded: Folded) -> tuple[Floats, Floats]:
    """Return the mean cycle and its derivative where each span is."""
    bins, half, since = folded.bins(), folded.span_s / 2, folded.since_s
    mean, ahead, behind = (
        np.interp(since + shift, bins.middles_s, bins.rates) for shift in (0.0, half, -half)
    )
    return mean, (ahead - behind) / (2 * half)
