"""Where each cycle begins: tracking a pattern whose phase wanders.

Jitter of the computing times adds up from cycle to cycle, so that folding a long stretch at one
period would smear it. Cycles are tracked instead, as beats of music are: by dynamic programming
(D. Ellis, "Beat Tracking by Dynamic Programming", J. New Music Research 36, 2007), over how well
a template fits at each cell and how far the time since the last fit is from the period.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import correlate
from scipy.special import fdtrc

from metronome_opt.profiles.samples import Floats, Ints

CELLS = 64
"""Cells of a cycle that are enough to track it."""

_ROUNDS = 3
_SHORTEST, _LONGEST = 0.6, 1.4  # cycles, in periods
_SPREAD = 0.15  # of cycle lengths, in periods, that is nothing unusual
_PRICE = 0.3  # of a length that is off by `_SPREAD`; a perfect fit is worth 1
_MOST_JOINED = 8
_LEAST_TURNS = 4  # how often each turn must have been seen
_CHANCE = 1e-5
_TRIFLE = 0.012  # differences of means that do not matter, in periods and shares
_NOTHING = 1e-6  # of the highest rate, of a period
_POINT = 0.3  # cells: the spread of what was sent within one


def track(rates: Floats, lag: int, quiet: float) -> Ints | None:
    """Return the cell in which each cycle begins, amid silence, shape (cycles,).

    The pattern repeats after about `lag` cells; None if it cannot be followed. What repeats may
    turn out to be a part of the pattern, bursts that are alike at first sight and take turns. Then
    as many are joined as are needed for cycles to be alike.
    """
    deviation = np.nan_to_num(rates - np.nanmean(rates))
    deviation = np.asarray(deviation / np.sqrt(np.mean(deviation**2)))
    template = _seed(deviation, lag)
    for _ in range(_ROUNDS):
        if not np.ptp(template):
            return None
        starts = _best_starts(_fit(deviation, template), lag)
        if len(starts) < 2:
            return None
        mean = _segments(deviation, starts, lag).mean(axis=0)
        shift = _to_silence(mean, quiet)
        template, starts = np.roll(mean, -shift), starts + shift
    inside = starts[(starts >= 0) & (starts <= len(rates))]
    cycle = _mean_cycle(rates, starts, lag)
    if not cycle.any():
        return None
    joined = _turns(rates, inside, cycle)
    starts = starts[::joined]
    return starts + _to_silence(_mean_cycle(rates, starts, joined * lag), quiet)


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


def _mean_cycle(rates: Floats, starts: Ints, length: int) -> Floats:
    """Return the mean of the cells that were measured."""
    segments = _segments(rates, starts, length, fill=np.nan)
    known = np.isfinite(segments)
    total = np.where(known, segments, 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(1, known.sum(axis=0)))


def _to_silence(cycle: Floats, quiet: float) -> int:
    """Return by how many cells a cycle should begin later to begin amid its longest silence."""
    begin, length = longest_silence(cycle, quiet)
    shift = (begin + length // 2) % len(cycle)
    return shift - len(cycle) if shift > len(cycle) // 2 else shift


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


# ------------------------------------------------------------------ cycles that take turns


def _turns(rates: Floats, starts: Ints, template: Floats) -> int:
    """Return of how many cycles, taking turns, the pattern consists.

    Cycles are compared by what hardly depends on where samples happen to fall: volume, distance
    between centres of gravity, spread about these. They are not alike if the means by turn differ
    by more than chance (F test of an analysis of variance), by more than a trifle, and by more than
    cells can make them differ: where samples fall may take turns as well.

    The template is the mean cycle, for cells that are missing.
    """
    features = _features(rates, starts, template)
    least = np.maximum(_TRIFLE, _by_cells(template))
    for count in range(2, min(_MOST_JOINED, len(features) // _LEAST_TURNS) + 1):
        if _take_turns(features, count, least):
            return count * _turns(rates, starts[::count], np.tile(template, count))
    return 1


def _take_turns(features: Floats, turns: int, least: Floats) -> bool:
    """Whether a feature differs by turn, more than chance and more than the least that matters."""
    turn = np.arange(len(features)) % turns
    counts = np.bincount(turn)[:, None]
    means = np.array([features[turn == each].mean(axis=0) for each in range(turns)])
    between = (counts * (means - features.mean(axis=0)) ** 2).sum(axis=0)
    within = ((features - means[turn]) ** 2).sum(axis=0)
    free = len(features) - turns
    ratio = between / (turns - 1) / (within / free + _NOTHING**2)
    matters = np.sqrt(between / len(features)) > least
    return bool((matters & (fdtrc(turns - 1, free, ratio) < _CHANCE)).any())


def _features(rates: Floats, starts: Ints, template: Floats) -> Floats:
    """Return volume, distance to the next centre and spread of each cycle, shape (cycles - 1, 3).

    All are shares of their means or of the mean length of a cycle.
    """
    cells = rates[starts[0] : starts[-1]].copy()
    place = np.arange(len(cells)) + starts[0]
    since = place - starts[np.searchsorted(starts, place, side="right") - 1]
    missing = np.isnan(cells)
    cells[missing] = template[np.minimum(since[missing], len(template) - 1)]
    weight = _above_silence(cells)
    volume, first, second = (
        np.add.reduceat(weight * place**power, (starts - starts[0])[:-1]) for power in range(3)
    )
    centre = first / volume
    spread = np.sqrt(np.maximum(0.0, second / volume - centre**2))
    length = np.mean(np.diff(starts))
    return np.column_stack(
        (volume[:-1] / volume.mean(), np.diff(centre) / length, spread[:-1] / length)
    )


def _by_cells(template: Floats) -> Floats:
    """Return by how much the features of like cycles may differ for where cells fall, shape (3,).

    A cell in which the rate changes by h tells how much was sent in it, but not when: the sum of
    volume times place may be off by h / 8, if the change is in the middle of the cell, and that of
    volume times the square of the distance from the centre by twice that distance times as much.
    """
    weight, place = _above_silence(template), np.arange(len(template))
    volume = float(weight.sum())
    centre = float(weight @ place) / volume
    spread = math.sqrt(float(weight @ (place - centre) ** 2) / volume) + _POINT
    changes = np.abs(np.diff(weight)) / 8
    far = np.abs(place[1:] - centre)
    by_centre = float(changes.sum()) / volume
    by_spread = float(changes @ far) / volume / spread
    return np.array([0.0, by_centre, by_spread]) / len(template)


def _above_silence(cells: Floats) -> Floats:
    """Return the rates above the lowest ones, and hardly anything for these."""
    least = _NOTHING * float(np.max(cells))
    return np.asarray(np.maximum(cells - np.quantile(cells, 0.05), 0.0) + least)
