"""Traffic profiles: period, bursts and rates of a job, from samples or from the record of a gate.

Bursts of sampled throughput begin and end where the rate crosses a threshold. Cycles are found by
autocorrelation and followed from burst to burst, since their lengths vary. So throughput has to be
sampled at least eight times a period. Means over cycles, and their errors, are then those of a
record, which has every burst as it was.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import correlate, find_peaks

from metronome_opt.cluster.recorded import RecordedBurst
from metronome_opt.cluster.throughput import Throughput
from metronome_opt.errors import InputError
from metronome_opt.scenario.traffic import Traffic

_Floats = NDArray[np.float64]
_Burst = tuple[float, float, float]  # start, length, volume

_NORMAL = 1.96  # standard errors on either side of 95 % of a normal distribution
_MIN_SAMPLES = 32
_MIN_CYCLES = 4
_MIN_SAMPLES_A_PERIOD = 8
_MIN_SAMPLES_A_BURST = 1.2
_MIN_CORRELATION = 0.3
_MAX_MISSING = 0.2
_STEADY = 1e-4  # of the mean rate: less may be what floats round off
_AS_HIGH = 0.8  # of the highest peak: an earlier one of this height is taken for the same pattern
_PROMINENCE = 0.1
_QUIET = 0.25  # share of the way from the lowest to the highest rate below which all is silence
_MAX_SPREAD = 0.25  # of the period, by which one cycle may be longer or shorter
_MIN_WHOLE = 0.6  # share of the cycles that are about as long as the pattern
_PAUSE = 3  # times the usual length: a longer iteration is a checkpoint or a restart
_BLUR = 0.25  # of a sample, by which edges of bursts are off at best
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


def _averaged(rows: Sequence[Sequence[float]], blur_ms: float, mean_mbps: float | None) -> Profile:
    """Return the profile of cycles: the length of each, then starts, lengths (ms), Mbit/s * ms."""
    table = np.array(rows)
    means = table.mean(axis=0)
    errors = _NORMAL * table.std(axis=0, ddof=1) / math.sqrt(len(table))
    period_ms, starts, lengths, sent = means[0], *np.split(means[1:], 3)
    edges = np.hypot(errors[1 : 1 + 2 * len(starts)], blur_ms)
    of_lengths, of_sent = edges[len(starts) :], errors[1 + 2 * len(starts) :]
    bursts = zip(starts, lengths, sent / lengths, strict=True)
    return Profile(
        traffic=_stated(float(period_ms), [tuple(map(float, each)) for each in bursts]),
        period_error_ms=float(errors[0]),
        burst_error_ms=float(edges.max()),
        rate_error=float((of_lengths / lengths + of_sent / sent).max()),
        cycles=len(table),
        mean_mbps=float(sent.sum() / period_ms) if mean_mbps is None else mean_mbps,
    )


def _stated(period_ms: float, bursts: Sequence[tuple[float, ...]]) -> Traffic:
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
        lag = _first_lag(rates, step_s)
        rows = _cycles(_bursts(rates, step_s), lag)
    except _NoPeriodError as error:
        return Profile(mean_mbps=mean, reason=str(error))
    step_ms = 1000 * step_s
    in_ms = [[step_ms * value for value in row] for row in rows]
    return _averaged(in_ms, _BLUR * step_ms, mean)


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
    lags = len(rates) // _MIN_CYCLES + 1
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


def _bursts(rates: _Floats, step_s: float) -> list[_Burst]:
    """Return the whole bursts in samples, and what each sends, in samples times Mbit/s.

    A burst is as long as its volume takes at its usual rate, around the middle of its volume.
    """
    lowest, highest = float(np.quantile(rates, 0.05)), float(rates.max())
    if lowest > highest / 2:
        raise _NoPeriodError(
            f"too coarse: rates swing only between {rates.min():.4g} and {highest:.4g} Mbit/s; "
            f"sample every {1000 * step_s / 10:.3g} ms"
        )
    active = rates > lowest + _QUIET * (highest - lowest)
    changes = np.flatnonzero(np.diff(active.astype(np.int8)))
    first = 0 if not active[0] else 1  # the one that began before the first sample is not whole
    bursts = []
    for begin, end in zip(changes[first::2] + 1, changes[first + 1 :: 2] + 1, strict=False):
        part = rates[begin - 1 : end + 1]  # a little of the silence belongs to blurred edges
        usual = float(np.median(part[part >= 0.7 * part.max()]))
        volume = float(part.sum())
        middle = float(part @ (np.arange(begin - 1, begin - 1 + len(part)) + 0.5)) / volume
        length = volume / usual
        bursts.append((middle - length / 2, length, volume))
    lengths = [length for _, length, _ in bursts]
    if not lengths or np.median(lengths) < _MIN_SAMPLES_A_BURST:
        raise _NoPeriodError(
            f"too coarse: bursts are shorter than samples, which are {1000 * step_s:.4g} ms apart; "
            "sample more often"
        )
    return bursts


def _cycles(bursts: Sequence[_Burst], lag: int) -> list[list[float]]:
    """Return a row for each whole cycle, as `_averaged` takes them."""
    starts = np.array([start for start, _, _ in bursts])
    ends = starts + [length for _, length, _ in bursts]
    if starts[-1] - starts[0] < _MIN_CYCLES * lag:
        seen = int((starts[-1] - starts[0]) / lag)
        raise _NoPeriodError(f"too short: {seen} cycles were seen; measure for longer")
    count = max(1, round(lag * (len(starts) - 1) / (starts[-1] - starts[0])))
    # Cycles begin after the longest silence, so that none is cut amid its bursts.
    at = 1 + int(np.argmax((starts[1:] - ends[:-1])[:count]))
    rows, cycles = [], 0
    while at + count < len(starts):
        length, cycles = starts[at + count] - starts[at], cycles + 1
        if abs(length - lag) <= _MAX_SPREAD * lag:
            inside = np.array(bursts[at : at + count])
            inside[:, 0] -= starts[at]
            rows.append([length, *inside.T.ravel().tolist()])
            at += count
        else:  # a burst was missed, or there is one more
            at += 1 + int(np.argmin(abs(starts[at + 1 :] - starts[at] - lag)))
    if len(rows) < max(_MIN_CYCLES, _MIN_WHOLE * cycles):
        raise _NoPeriodError(
            f"not periodic: {len(rows)} of {cycles} cycles of about {lag} samples are alike"
        )
    return rows


# ------------------------------------------------------------------ records of gates


def profile_record(bursts: Sequence[RecordedBurst]) -> Profile:
    """Return the mean iteration of a record, without what it waited for its slots.

    Iterations that are much longer than usual, as those with a checkpoint, are left out.

    Raises
    ------
    InputError
        If the record does not tell what bursts sent, so that rates would be a guess.
    """
    silent = next((burst for burst in bursts if burst.sent_bytes is None), None)
    if silent is not None:
        raise InputError(
            f"sent_bytes: null at {silent.at!r}: what the burst sent is not known; enter "
            "gate.burst(sent_bytes=...), or set sent_bytes of the burst before it ends"
        )
    rows = _iterations(bursts)
    if len(rows) < _MIN_CYCLES:
        return Profile(reason=f"too short: {len(rows)} whole iterations, not {_MIN_CYCLES}")
    usual = np.median([row[0] for row in rows])
    return _averaged([row for row in rows if row[0] <= _PAUSE * usual], 0.0, None)


def _iterations(bursts: Sequence[RecordedBurst]) -> list[list[float]]:
    """Return a row for each whole iteration, as `_averaged` takes them."""
    count = 1 + max(burst.phase for burst in bursts)
    rows = []
    for first in range(len(bursts) - count):
        inside, following = bursts[first : first + count], bursts[first + count]
        if [burst.phase for burst in inside] != list(range(count)) or not following.iteration_ms:
            continue
        waited = np.cumsum([burst.waited_ms for burst in inside])
        starts = [1000 * (burst.at - inside[0].at) for burst in inside]
        length = following.iteration_ms - float(waited[-1] - waited[0]) - following.waited_ms
        rows.append(
            [
                length,
                *(np.array(starts) - waited + waited[0]).tolist(),
                *(max(burst.burst_ms, 1e-6) for burst in inside),
                *((burst.sent_bytes or 0.0) * 8e-3 for burst in inside),
            ]
        )
    return rows
