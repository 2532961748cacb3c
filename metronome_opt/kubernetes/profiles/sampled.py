"""Traffic profiles from samples of throughput.

Bursts begin and end where the rate crosses a threshold. Cycles are found by autocorrelation and
followed from burst to burst, since their lengths vary. Throughput has to be sampled at least eight
times a period.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from scipy.signal import correlate, find_peaks

from metronome_opt.errors import InputError, quote
from metronome_opt.kubernetes.profiles.profile import (
    MAX_SPREAD,
    MIN_CYCLES,
    MIN_WHOLE,
    Floats,
    NoPeriodError,
    Profile,
    finite_floats,
    mean_profile,
)
from metronome_opt.kubernetes.profiles.source import Source, read_lines

_Burst = tuple[float, float, float]  # start, length, volume

STEADY = 1e-4  # of the mean rate: less may be rounding
_MAX = 1e18  # of times and rates
_MAX_CELLS = 2**21
_MIN_SAMPLES = 32
_MIN_SAMPLES_A_PERIOD = 8
_MIN_SAMPLES_A_BURST = 1.2
_MIN_CORRELATION = 0.3
_AS_HIGH = 0.8  # of the highest peak: the first peak of this height is the period
_PROMINENCE = 0.1
_QUIET = 0.25  # threshold between the lowest and the highest rate, below which nothing is sent
_BLUR = 0.25  # of a sample: least error of edges of bursts


def read_samples(source: Source) -> Floats:
    """Return times in seconds, ascending, and rates of a CSV file, NaN if missing, shape (2, n)."""
    rows: list[tuple[float, float]] = []
    before = -math.inf
    for number, row in islice(enumerate(_split(source), start=1), 1, None):
        try:
            time_s, rate = (float(cell.strip() or "nan") for cell in row)
        except ValueError:
            time_s, rate = math.nan, math.nan
        if not before < time_s < _MAX or not (math.isnan(rate) or 0 <= rate < _MAX):
            must = "must be a later time in seconds, a comma, and a number from 0 to 1e18"
            raise InputError(f"line {number}: {quote(','.join(row))}: {must}")
        rows.append((time_s, rate))
        before = time_s
    return np.array(rows, dtype=np.float64).reshape(-1, 2).T


def _split(source: Source) -> Iterator[list[str]]:
    """Yield the cells of each line."""
    try:
        yield from csv.reader(read_lines(source))
    except csv.Error as error:
        raise InputError(f"no CSV file ({error}); give seconds, Mbit/s") from None


@finite_floats()
def profile_samples(times_s: Floats, rates_mbps: Floats) -> Profile:
    """Find the period of a job and its bursts, or say why there is none.

    Bursts of different rates without a pause between them are one burst of their volume. Rates are
    means since the sample before, NaN where nothing was measured; rates at single moments do not
    serve, since traffic between two of them is lost. Times ascend; both have shape (n,).
    """
    try:
        step_ms, rates = _even(times_s, rates_mbps)
        lag = first_lag(rates)
        rows = _cycles(_bursts(rates), lag)
    except NoPeriodError as error:
        return Profile(reason=str(error))
    return mean_profile([[step_ms * value for value in row] for row in rows], _BLUR * step_ms)


def _even(times_s: Floats, rates: Floats) -> tuple[float, Floats]:
    """Return the median time between samples in ms, and mean rates of cells of this length."""
    known = np.isfinite(rates)
    if known.sum() < max(_MIN_SAMPLES, 0.8 * len(rates)):
        must = f"{_MIN_SAMPLES} and four of five have to be"
        raise NoPeriodError(f"too short: {known.sum()} of {len(rates)} samples are known; {must}")
    step_s = float(np.median(np.diff(times_s)))
    times_s, rates = times_s[known], rates[known]
    if np.ptp(rates) <= STEADY * rates.mean():
        raise NoPeriodError("not periodic: the rate is constant")
    if times_s[-1] - times_s[0] > _MAX_CELLS * step_s:
        spread = f"{times_s[-1] - times_s[0]:.3g} s, most of them within {step_s:.3g} s"
        raise NoPeriodError(f"too long: samples over {spread}; give a shorter record")
    sent = np.concatenate(([0.0], np.cumsum(rates[1:] * np.diff(times_s))))
    borders = np.arange(times_s[0], times_s[-1] + step_s / 2, step_s)
    return 1000 * step_s, np.diff(np.interp(borders, times_s, sent)) / step_s


def first_lag(rates: Floats) -> int:
    """Return the approximate number of samples after which the pattern repeats."""
    deviation = rates - rates.mean()
    lags = len(rates) // MIN_CYCLES + 1
    products = correlate(deviation, deviation, method="fft")[len(rates) - 1 :][:lags]
    correlation = products / (len(rates) - np.arange(lags)) / deviation.var()
    peaks, _ = find_peaks(correlation, prominence=_PROMINENCE)
    if not peaks.size or correlation[peaks].max() < _MIN_CORRELATION:
        raise NoPeriodError(f"not periodic: nothing repeats within {lags} samples")
    lag = int(peaks[correlation[peaks] >= _AS_HIGH * correlation[peaks].max()][0])
    if lag < _MIN_SAMPLES_A_PERIOD:
        often = f"about every {lag} samples, not {_MIN_SAMPLES_A_PERIOD}; sample more often"
        raise NoPeriodError(f"too coarse: something repeats {often}")
    return lag


def _bursts(rates: Floats) -> list[_Burst]:
    """Return the whole bursts in samples, with volumes: as long as volume over median rate."""
    lowest, highest = float(np.quantile(rates, 0.05)), float(rates.max())
    active = rates > lowest + _QUIET * (highest - lowest)
    changes = np.flatnonzero(np.diff(active.astype(np.int8)))
    first = 0 if not active[0] else 1  # a burst that began before the first sample is not whole
    bursts = []
    for begin, end in zip(changes[first::2] + 1, changes[first + 1 :: 2] + 1, strict=False):
        part = rates[begin - 1 : end + 1]  # a little of the silence belongs to blurred edges
        usual = float(np.median(part[part >= 0.7 * part.max()]))
        volume = float(part.sum())
        middle = float(part @ (np.arange(begin - 1, begin - 1 + len(part)) + 0.5)) / volume
        length = volume / usual
        bursts.append((middle - length / 2, length, volume))
    lengths = [length for _, length, _ in bursts]
    if lowest > highest / 2 or not lengths or np.median(lengths) < _MIN_SAMPLES_A_BURST:
        raise NoPeriodError("too coarse: bursts are shorter than samples; sample more often")
    return bursts


def _cycles(bursts: Sequence[_Burst], lag: int) -> list[list[float]]:
    """Return a row for each whole cycle, as `mean_profile` takes them."""
    starts = np.array([start for start, _, _ in bursts])
    ends = starts + [length for _, length, _ in bursts]
    if starts[-1] - starts[0] < MIN_CYCLES * lag:
        raise NoPeriodError(f"too short: fewer than {MIN_CYCLES} cycles; measure for longer")
    count = max(1, round(lag * (len(starts) - 1) / (starts[-1] - starts[0])))
    # Cycles begin after the longest silence, so that bursts of one cycle stay together.
    at = 1 + int(np.argmax((starts[1:] - ends[:-1])[:count]))
    rows, cycles = [], 0
    while at + count < len(starts):
        length, cycles = starts[at + count] - starts[at], cycles + 1
        if abs(length - lag) <= MAX_SPREAD * lag:
            inside = np.array(bursts[at : at + count])
            inside[:, 0] -= starts[at]
            rows.append([length, *inside.T.ravel().tolist()])
            at += count
        else:  # a burst is missing, or one too many
            at += 1 + int(np.argmin(abs(starts[at + 1 :] - starts[at] - lag)))
    if len(rows) < max(MIN_CYCLES, MIN_WHOLE * cycles):
        few = f"{len(rows)} of {cycles} cycles of about {lag} samples are alike"
        raise NoPeriodError(f"not periodic: {few}")
    return rows
