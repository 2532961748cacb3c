"""The period of a job: cycles of its throughput, or the reason why there are none.

Jitter of the computing times adds up from cycle to cycle, so that folding a long stretch at one
period would smear it. Cycles are tracked instead, as beats of music are: by dynamic programming
(D. Ellis, "Beat Tracking by Dynamic Programming", J. New Music Research 36, 2007), over how well
a template fits at each cell and how far the time since the last fit is from the period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import correlate, find_peaks
from scipy.special import fdtrc

from metronome_opt.profiles.samples import QUIET, Floats, Grid, Ints, Samples, regrid
from metronome_opt.profiles.steps import Folded, align, fold

_CELLS = 64
"""Cells of a cycle that are enough to track it."""

_TEMPLATES = 3
_SHORTEST, _LONGEST = 0.6, 1.4  # cycles, in periods
_SPREAD = 0.15  # of cycle lengths, in periods, that is nothing unusual
_PRICE = 0.3  # of a length that is off by `_SPREAD`; a perfect fit is worth 1
_MOST_JOINED = 8
_LEAST_TURNS = 4  # how often each turn must have been seen
_CHANCE = 1e-5
_TRIFLE = 0.012  # differences of means that do not matter, in periods and shares
_NOTHING = 1e-6  # of the highest rate, of a period
_POINT = 0.3  # cells: the spread of what was sent within one
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


def _track(rates: Floats, lag: int, quiet: float) -> Ints | None:
    """Return the cell in which each cycle begins, amid silence, shape (cycles,).

    The pattern repeats after about `lag` cells; None if it cannot be followed. What repeats may
    turn out to be a part of the pattern, bursts that are alike at first sight and take turns. Then
    as many are joined as are needed for cycles to be alike.
    """
    deviation = np.nan_to_num(rates - np.nanmean(rates))
    deviation = np.asarray(deviation / np.sqrt(np.mean(deviation**2)))
    template = _seed(deviation, lag)
    for _ in range(_TEMPLATES):
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
    begin, length = _longest_silence(cycle, quiet)
    shift = (begin + length // 2) % len(cycle)
    return shift - len(cycle) if shift > len(cycle) // 2 else shift


def _longest_silence(cycle: Floats, quiet: float) -> tuple[int, int]:
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
    step = max(samples.step_s, period / _CELLS)
    grid = regrid(samples, step)
    known = grid.rates[np.isfinite(grid.rates)]
    sparse = "too sparse: of cycles of about {:.4g} s too few were measured"
    if not len(known) or not np.ptp(known):
        raise NoPeriodError(sparse.format(period))
    starts = _track(grid.rates, round(period / step), quiet)
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
    count = max(_CELLS, int(inside.sum()))
    even = (np.arange(count) + 0.5) / count * folded.period_s
    rates = np.interp(even, bins.middles_s[inside], bins.rates[inside], period=folded.period_s)
    begin, length = _longest_silence(rates, quiet)
    shift = (begin + length / 2) / count
    return (shift - 1 if shift > 0.5 else shift) * folded.period_s


def _explained(folded: Folded) -> float:
    """Return the share of the variance that the mean cycle explains."""
    bins = folded.bins()
    off = folded.rates - np.interp(folded.since_s, bins.middles_s, bins.rates)
    cycles = len(folded.begins_s)
    by_chance = cycles / (cycles - 1)  # each cycle is a part of the mean cycle
    return float(max(0.0, 1 - by_chance * off.var() / folded.rates.var()))
