"""Where each cycle begins: tracking a pattern whose phase wanders.

Jitter of the computing times adds up from cycle to cycle, so that folding a long stretch at one
period would smear it. Cycles are tracked instead, as beats of music are: by dynamic programming
(D. Ellis, "Beat Tracking by Dynamic Programming", J. New Music Research 36, 2007), over how well
a template fits at each cell and how far the time since the last fit is from the period.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.signal import correlate

from metronome_opt.profiles.grid import Grid
from metronome_opt.profiles.samples import Floats
from metronome_opt.profiles.turns import turns

CELLS = 64
"""Cells of a cycle that are enough to track it."""

QUIET = 0.15
"""Share of the highest rate below which all is silence, if nothing else is said."""

_ROUNDS = 3
_SHORTEST, _LONGEST = 0.6, 1.4  # cycles, in periods
_SPREAD = 0.15  # of cycle lengths, in periods, that is nothing unusual
_PRICE = 0.3  # of a length that is off by `_SPREAD`; a perfect fit is worth 1

Ints = NDArray[np.int64]


def track(grid: Grid, lag: int, quiet: float) -> Ints | None:
    """Return the cell in which each cycle begins, amid silence, shape (cycles,).

    The pattern repeats after about `lag` cells; None if it cannot be followed. What repeats may
    turn out to be a part of the pattern, bursts that are alike at first sight and take turns. Then
    as many are joined as are needed for cycles to be alike.
    """
    deviation = _standardised(grid.rates)
    template = _seed(deviation, lag)
    for _ in range(_ROUNDS):
        if not np.ptp(template):
            return None
        starts = _best_starts(_fit(deviation, template), lag)
        if len(starts) < 2:
            return None
        mean = _segments(deviation, starts, lag).mean(axis=0)
        template, shift = _begin_in_silence(mean, quiet)
        starts = starts + shift
    inside = starts[(starts >= 0) & (starts <= len(grid.rates))]
    cycle = _mean_cycle(grid.rates, starts, lag)
    if not cycle.any():
        return None
    joined = turns(grid.rates, inside, cycle)
    starts = starts[::joined]
    _, shift = _begin_in_silence(_mean_cycle(grid.rates, starts, joined * lag), quiet)
    return starts + shift


def _standardised(rates: Floats) -> Floats:
    deviation = np.nan_to_num(rates - np.nanmean(rates))
    return np.asarray(deviation / np.sqrt(np.mean(deviation**2)))


def _seed(deviation: Floats, lag: int) -> Floats:
    """Return the stretch that is most like the next one."""
    alike = deviation[:-lag] * deviation[lag:]
    summed = np.concatenate(([0.0], np.cumsum(alike)))
    start = int(np.argmax(summed[lag:] - summed[:-lag]))
    return (deviation[start : start + lag] + deviation[start + lag : start + 2 * lag]) / 2


def _fit(deviation: Floats, template: Floats) -> Floats:
    """Return how well the template fits at each cell: 1 if perfectly, 0 by chance."""
    level = template - template.mean()
    padded = np.concatenate((deviation, np.zeros(len(template) - 1)))
    fit = correlate(padded, level, mode="valid", method="fft")
    return np.asarray(fit / np.sum(level**2))


def _best_starts(fit: Floats, lag: int) -> Ints:
    """Return the cells whose fits are worth most, less the price of uneven lengths."""
    least, most = max(1, round(_SHORTEST * lag)), round(_LONGEST * lag)
    lengths = np.arange(most, least - 1, -1)
    price = _PRICE * ((lengths / lag - 1) / _SPREAD) ** 2
    value = np.concatenate((np.zeros(most), fit))
    before = np.full(len(value), -1)
    for begin in range(most, len(value), least):
        # No length is below `least`, so these cells do not depend on one another.
        end = min(begin + least, len(value))
        earlier = sliding_window_view(value[begin - most : end - least], len(lengths))
        worth = earlier - price
        best = np.argmax(worth, axis=1)
        cells = np.arange(begin, end)
        value[begin:end] += worth[np.arange(len(cells)), best]
        before[begin:end] = cells - lengths[best]
    return _trace(value, before, most)


def _trace(value: Floats, before: Ints, most: int) -> Ints:
    cell = len(value) - most + int(np.argmax(value[-most:]))
    found = []
    while cell >= most:
        found.append(cell - most)
        cell = int(before[cell])
    return np.array(found[::-1], dtype=np.int64)


def _segments(values: Floats, starts: Ints, length: int, fill: float = 0.0) -> Floats:
    """Return the cells after each start, shape (cycles, length); `fill` beyond the ends."""
    before = max(0, -int(starts[0]))
    after = max(0, int(starts[-1]) + length - len(values))
    padded = np.pad(values, (before, after), constant_values=fill)
    return np.asarray(sliding_window_view(padded, length)[starts + before])


def _begin_in_silence(template: Floats, quiet: float) -> tuple[Floats, int]:
    """Turn a cycle so that it begins amid its longest silence; return by how many cells."""
    begin, length = longest_silence(template, quiet)
    shift = (begin + length // 2) % len(template)
    turned = np.roll(template, -shift)
    return turned, shift - len(template) if shift > len(template) // 2 else shift


def longest_silence(cycle: Floats, quiet: float) -> tuple[int, int]:
    """Return where the longest silence of a cycle begins, and its length, in cells.

    Silence is what is no farther above the lowest rates than `quiet` of the way to the highest.
    Were it more, a weak burst would count as silence, and a cycle might begin amid it: then where
    samples fall would decide how much of it belongs to which cycle. It may go round the end.
    """
    lowest, highest = np.quantile(cycle, (0.05, 0.95))
    low = cycle < lowest + quiet * (highest - lowest)
    if low.all() or not low.any():
        return 0, 0
    first = int(np.argmin(low))  # no silence goes round the end of a cycle that begins here
    marks = np.flatnonzero(np.diff(np.concatenate(([False], np.roll(low, -first), [False]))))
    begins, ends = marks[::2], marks[1::2]
    longest = int(np.argmax(ends - begins))
    return int(begins[longest] + first) % len(cycle), int((ends - begins)[longest])


def _mean_cycle(rates: Floats, starts: Ints, length: int) -> Floats:
    """Return the mean of the cells that were measured."""
    segments = _segments(rates, starts, length, fill=np.nan)
    known = np.isfinite(segments)
    total = np.where(known, segments, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(1, known.sum(axis=0)))
