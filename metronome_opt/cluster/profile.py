"""Traffic profiles: period, bursts and rates of a job, from measured throughput.

Throughput has to be sampled at least eight times a period: cycles are found by autocorrelation and
followed one by one, since their lengths vary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import correlate, find_peaks

from metronome_opt.cluster.throughput import Throughput
from metronome_opt.scenario.traffic import Traffic

_Floats = NDArray[np.float64]

NORMAL = 1.96  # standard errors on either side of 95 % of a normal distribution
_PARTS = 4  # of the cycles, each of which tells where bursts begin and end
_STUDENT = 3.18  # standard errors on either side of 95 %, if four parts tell the standard error
_MIN_SAMPLES = 32
MIN_CYCLES = 4
_MIN_SAMPLES_A_PERIOD = 8
_MIN_SAMPLES_A_BURST = 1.2
_MIN_CORRELATION = 0.3
_MIN_EXPLAINED = 0.6  # share of the variance
_MAX_MISSING = 0.2
_STEADY = 1e-4  # of the mean rate: less may be what floats round off
_AS_HIGH = 0.8  # of the highest peak: an earlier one of this height is taken for the same pattern
_PROMINENCE = 0.1
_SPREAD = 0.25  # of the period, by which one cycle may be longer or shorter
_ROUNDS = 3
_QUIET = 0.15  # share of the way from the lowest to the highest rate below which all is silence
_BINS = 2  # of the mean cycle, for each sample
_CENT = 100  # parts of a millisecond that are printed


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Traffic of a job as measured. Errors hold the true value in about 95 % of cases.

    Attributes
    ----------
    traffic
        Period and bursts, as files of jobs state them; the first burst begins at 0. None if no
        period was found.
    period_error_ms, burst_error_ms, rate_error
        Of the period, of the beginnings and lengths of bursts, and of rates as a share of them.
    cycles
        Number of cycles that were seen.
    mean_mbps
        Over all that was measured; None where that is not known.
    reason
        Why there is no period; None if there is one.
    """

    traffic: Traffic | None = None
    period_error_ms: float | None = None
    burst_error_ms: float | None = None
    rate_error: float | None = None
    cycles: int = 0
    mean_mbps: float | None = None
    reason: str | None = None


class _NoPeriodError(Exception):
    """Reason why samples show no period."""


def stated_traffic(period_ms: float, bursts: Sequence[tuple[float, float, float]]) -> Traffic:
    """Return bursts (start and length in ms, rate in Mbit/s) as they are stated, in order."""
    phases, end = [], 0
    period = max(1, round(_CENT * period_ms))
    for start_ms, length_ms, rate in bursts:
        start = max(end, round(_CENT * start_ms))
        end = min(period, max(start + 1, round(_CENT * (start_ms + length_ms))))
        rates = {"rate_mbps": max(1, round(rate))}
        phases.append({"start_ms": start / _CENT, "length_ms": (end - start) / _CENT, **rates})
    return Traffic.model_validate({"period_ms": period / _CENT, "phases": phases})


# ------------------------------------------------------------------ throughput


def profile_throughput(measured: Throughput) -> Profile:
    """Find the period of a job and its bursts, or say why there is none.

    Bursts of different rates that touch are one burst, which sends as much as they do.
    """
    mean = float(np.nanmean(measured.rates_mbps)) if measured.rates_mbps.size else None
    try:
        step_s, rates = _even(measured)
        starts = _track(rates, _first_lag(rates, step_s))
        lengths = np.diff(starts)
        period = float(lengths.mean())
        cycle = _mean_cycle(rates, starts, period)
        explained = _explained(rates, starts, cycle)
        if explained < _MIN_EXPLAINED:
            raise _NoPeriodError(
                f"not periodic: cycles of about {1000 * period * step_s:.4g} ms explain "
                f"{explained:.0%} of the variance"
            )
        bursts = _bursts(cycle, period, step_s)
        # Parts of the cycles tell how far the bursts of the whole may be off.
        ends = [
            _edges(_mean_cycle(rates, part, period), bursts)
            for part in np.array_split(starts, _PARTS)
        ]
    except _NoPeriodError as error:
        return Profile(mean_mbps=mean, reason=str(error))
    step_ms = 1000 * step_s
    deviation = np.std(ends, axis=0, ddof=1).max() / math.sqrt(_PARTS)
    burst_error = math.hypot(_STUDENT * float(deviation), 0.25)  # samples
    period_error = NORMAL * float(lengths.std(ddof=1)) / math.sqrt(len(lengths))
    shortest = min(length for _, length, _ in bursts)
    if burst_error > shortest / 2:
        reason = f"too coarse: bursts differ from cycle to cycle by {burst_error * step_ms:.4g} ms"
        return Profile(mean_mbps=mean, reason=f"{reason}; sample more often, or for longer")
    return Profile(
        traffic=stated_traffic(
            period * step_ms,
            [
                ((start - bursts[0][0]) * step_ms, length * step_ms, rate)
                for start, length, rate in bursts
            ],
        ),
        period_error_ms=period_error * step_ms,
        burst_error_ms=burst_error * step_ms,
        rate_error=burst_error / shortest,
        cycles=len(lengths),
        mean_mbps=mean,
    )


def _even(measured: Throughput) -> tuple[float, _Floats]:
    """Return the usual time between samples, and mean rates of cells as long as that."""
    times, rates = measured.times_s, measured.rates_mbps
    known = np.isfinite(rates)
    if known.sum() < _MIN_SAMPLES:
        raise _NoPeriodError(f"too short: {known.sum()} samples, not {_MIN_SAMPLES}")
    step_s = float(np.median(np.diff(times)))
    times, rates = times[known], rates[known]
    missing = 1 - len(times) / (1 + (times[-1] - times[0]) / step_s)
    if missing > _MAX_MISSING:
        raise _NoPeriodError(f"too sparse: {missing:.0%} of the samples are missing")
    if not rates.any():
        raise _NoPeriodError("silent: nothing was sent")
    if np.ptp(rates) <= _STEADY * rates.mean():
        raise _NoPeriodError("not periodic: the rate is constant")
    sent = np.concatenate(([0.0], np.cumsum(rates[1:] * np.diff(times))))
    borders = np.arange(times[0], times[-1] + step_s / 2, step_s)
    return step_s, np.diff(np.interp(borders, times, sent)) / step_s


def _first_lag(rates: _Floats, step_s: float) -> int:
    """Return the number of samples after which the pattern repeats, about."""
    deviation = rates - rates.mean()
    lags = len(rates) // MIN_CYCLES + 1
    products = correlate(deviation, deviation, method="fft")[len(rates) - 1 :][:lags]
    correlation = products / (len(rates) - np.arange(lags)) / deviation.var()
    peaks, _ = find_peaks(correlation, prominence=_PROMINENCE)
    if not peaks.size or correlation[peaks].max() < _MIN_CORRELATION:
        raise _NoPeriodError(
            f"not periodic: nothing repeats up to a period of {lags * step_s:.4g} s"
        )
    lag = int(peaks[correlation[peaks] >= _AS_HIGH * correlation[peaks].max()][0])
    if lag < _MIN_SAMPLES_A_PERIOD:
        raise _NoPeriodError(
            f"too coarse: something repeats about every {1000 * lag * step_s:.4g} ms, samples are "
            f"{1000 * step_s:.4g} ms apart; sample every "
            f"{1000 * lag * step_s / _MIN_SAMPLES_A_PERIOD:.3g} ms"
        )
    return lag


def _track(rates: _Floats, lag: int) -> _Floats:
    """Return where each whole cycle begins, in samples, following the pattern from one to the next.

    Each begins where the mean of all cycles fits best, near one period after the cycle before.
    """
    shortest, longest = round((1 - _SPREAD) * lag), round((1 + _SPREAD) * lag)
    # At first the stretch that is most like the next one.
    deviation = rates - rates.mean()
    alike = np.concatenate(([0.0], np.cumsum(deviation[:-lag] * deviation[lag:])))
    begin = int(np.argmax(alike[lag:] - alike[:-lag]))
    template = rates[begin : begin + lag]
    for _ in range(_ROUNDS):
        fit = correlate(rates, template - template.mean(), mode="valid")
        starts = [int(np.argmax(fit[:lag]))]
        while starts[-1] + longest < len(fit):
            near = fit[starts[-1] + shortest : starts[-1] + longest + 1]
            starts.append(starts[-1] + shortest + int(np.argmax(near)))
        mean = np.mean([rates[start : start + lag] for start in starts], axis=0)
        # Cycles that begin in silence are not cut amid a burst, however their lengths vary.
        template = np.roll(mean, -_amid_silence(mean))
    if len(starts) <= MIN_CYCLES:
        raise _NoPeriodError(f"too short: {len(starts)} cycles were seen; measure for longer")
    inner = np.clip(starts, 1, len(fit) - 2)
    before, at, after = (fit[inner + shift] for shift in (-1, 0, 1))
    curved = np.minimum(before - 2 * at + after, -1e-12 * abs(at) - 1e-300)
    # The top of the parabola through three values lies within a sample of the highest.
    return np.asarray(inner + np.clip((before - after) / curved / 2, -1, 1))


def _mean_cycle(rates: _Floats, starts: _Floats, period: float) -> _Floats:
    """Return the mean rate by the time since a cycle begins, in equal bins."""
    middles = np.arange(len(rates)) + 0.5
    cycle = np.searchsorted(starts, middles, side="right") - 1
    inside = cycle >= 0
    since = middles[inside] - starts[cycle[inside]]
    bins = round(_BINS * period)
    place = (since / period * bins).astype(np.int64)
    place, values = place[place < bins], rates[inside][place < bins]
    counts = np.bincount(place, minlength=bins)
    filled = np.flatnonzero(counts)
    means = np.bincount(place, values, bins)[filled] / counts[filled]
    return np.interp(np.arange(bins), filled, means, period=bins)


def _explained(rates: _Floats, starts: _Floats, cycle: _Floats) -> float:
    """Return the share of the variance that the mean cycle explains."""
    middles = np.arange(len(rates)) + 0.5
    number = np.searchsorted(starts, middles, side="right") - 1
    inside = (number >= 0) & (number < len(starts) - 1)
    lengths = np.diff(starts)
    since = (middles - starts[number])[inside] / lengths[number[inside]]
    left = rates[inside] - cycle[np.minimum((since * len(cycle)).astype(np.int64), len(cycle) - 1)]
    return 1 - float(left.var() / rates[inside].var())


def _is_active(cycle: _Floats) -> NDArray[np.bool_]:
    """Return where a cycle is no silence."""
    lowest = float(np.quantile(cycle, 0.05))
    return np.asarray(cycle > lowest + _QUIET * (cycle.max() - lowest))


def _amid_silence(cycle: _Floats) -> int:
    """Return the index of the middle of the longest silence of a cycle."""
    active = _is_active(cycle)
    begins = np.flatnonzero(active & ~np.roll(active, 1)).tolist()
    silences = {begin: int(np.argmax(np.roll(active[::-1], begin))) for begin in begins}
    longest = max(silences, key=silences.__getitem__, default=0)
    return longest - (1 + silences.get(longest, 0)) // 2


def _bursts(cycle: _Floats, period: float, step_s: float) -> list[tuple[float, float, float]]:
    """Return start, length (in samples) and rate of each burst of a cycle that begins in silence.

    A burst begins and ends where its rate crosses half of its usual height.
    """
    if float(np.quantile(cycle, 0.05)) > cycle.max() / 2:
        raise _NoPeriodError(
            f"too coarse: rates swing only between {cycle.min():.4g} and {cycle.max():.4g} Mbit/s; "
            f"sample every {1000 * step_s / 10:.3g} ms"
        )
    changes = np.flatnonzero(np.diff(_is_active(cycle).astype(np.int8), prepend=0, append=0))
    first_bins, last_bins = changes[::2], changes[1::2]
    # A little of the silence on either side belongs to a burst whose edges are blurred.
    lower = np.maximum(first_bins - _BINS, np.append(0, last_bins[:-1]))
    upper = np.minimum(last_bins + _BINS, np.append(first_bins[1:], len(cycle)))
    bursts = []
    for begin, end in zip(lower.tolist(), upper.tolist(), strict=True):
        part = cycle[begin:end]
        first, last = _half_height(part)
        length = (last - first) / _BINS
        rate = float(part.sum()) / _BINS / length
        bursts.append(((begin + first) / _BINS, length, rate))
    shortest = min(length for _, length, _ in bursts)
    if shortest < _MIN_SAMPLES_A_BURST:
        raise _NoPeriodError(
            f"too coarse: the period is {1000 * period * step_s:.4g} ms, but a burst seems to take "
            f"{1000 * shortest * step_s:.3g} ms, with samples {1000 * step_s:.4g} ms apart; sample "
            f"every {1000 * shortest * step_s / 3:.3g} ms"
        )
    return bursts


def _half_height(part: _Floats) -> tuple[float, float]:
    """Return where a burst crosses half of its usual height, first and last, in bins."""
    usual = float(np.median(part[part >= 0.7 * part.max()]))
    above = np.flatnonzero(part >= usual / 2)
    first, last = int(above[0]), int(above[-1])

    def crossing(outside: int, inside: int) -> float:
        if not 0 <= outside < len(part):
            return float(inside)
        return float((usual / 2 - part[outside]) / (part[inside] - part[outside]))

    left = first - 1 + crossing(first - 1, first) if first else 0.0
    right = last + 1 - crossing(last + 1, last) if last + 1 < len(part) else float(last)
    # Bins are counted by their middles.
    return left + 0.5, right + 0.5


def _edges(cycle: _Floats, bursts: Sequence[tuple[float, float, float]]) -> list[float]:
    """Return where bursts begin and end in the mean cycle of some cycles, in samples."""
    edges = []
    for start, length, _ in bursts:
        margin = min(_BINS, len(cycle) // 8)
        begin, end = round(_BINS * start) - margin, round(_BINS * (start + length)) + margin
        part = np.take(cycle, np.arange(begin, end), mode="wrap")
        edges += [(begin + edge) / _BINS for edge in _half_height(part)]
    return edges
