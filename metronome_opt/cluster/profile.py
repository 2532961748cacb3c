"""Traffic profiles: period, bursts and rates of a job, from samples, traces or records of gates.

Bursts of sampled throughput begin and end where the rate crosses a threshold. Cycles are found by
autocorrelation and followed from burst to burst, since their lengths vary. So throughput has to be
sampled at least eight times a period. Means over cycles, and their errors, are then those of a
record, which has every burst as it was. Collectives of a trace are one burst where less than a
hundredth of the period lies between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import correlate, find_peaks
from scipy.special import stdtrit

from metronome_opt.cluster.recorded import RecordedBurst
from metronome_opt.cluster.traces import Trace
from metronome_opt.errors import InputError

_Floats = NDArray[np.float64]
_Burst = tuple[float, float, float]  # start, length, volume

_SIDE = 0.975  # quantile of Student's distribution: 95 % lie between it and its negative
_MIN_SAMPLES = 32
_MIN_CYCLES = 4
_MIN_SAMPLES_A_PERIOD = 8
_MIN_SAMPLES_A_BURST = 1.2
_MIN_CORRELATION = 0.3
_STEADY = 1e-4  # of the mean rate: less may be what floats round off
_AS_HIGH = 0.8  # of the highest peak: an earlier one of this height is taken for the same pattern
_PROMINENCE = 0.1
_QUIET = 0.25  # share of the way from the lowest to the highest rate below which all is silence
_MAX_SPREAD = 0.25  # of the period, by which one cycle may be longer or shorter
_MIN_WHOLE = 0.6  # share of the cycles that are about as long as the pattern
_PAUSE = 3  # times the usual length: a longer iteration is a checkpoint or a restart
_BLUR = 0.25  # of a sample, by which edges of bursts are off at best
_CENT = 100  # parts of a millisecond that are printed
_GAP = 0.01  # of the period: collectives that are closer are one burst
_SLIGHT = 0.02  # of the longest burst: shorter ones count with the one before
_ALIKE = 0.9  # share of the cycles of a trace, and of its time, that are about as long as usual
_ROUNDED = 1e-6  # ms, by which floats may round
_SEARCHED = 2**14  # collectives at the beginning of a trace in which a pattern is looked for
_MIN_BINS, _BINS = 128, 16  # of time, in all and for each collective
_SMOOTH = (1.0, 2.0, 3.0, 2.0, 1.0)  # so that borders of bins do not matter


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
    cycles, cycle_ms
        Number of cycles that were seen, and the lengths of the shortest and the longest.
    jitter
        Standard deviation of computing times as a share of them, as files of jobs state it; None if
        it is not known.
    message_bytes
        Of all collectives of a period, as a trace tells them; None if it is not known. What a
        worker sends for them follows from rates.
    skew_ms
        Longest time from the first rank to the last that entered a collective; None if one rank
        was seen. Bursts begin with the last.
    reason
        Why there is no period; None if there is one.
    """

    traffic: dict[str, Any] | None = None
    period_error_ms: float = 0.0
    burst_error_ms: float = 0.0
    rate_error: float | None = 0.0
    cycles: int = 0
    cycle_ms: tuple[float, float] | None = None
    jitter: float | None = None
    message_bytes: float | None = None
    skew_ms: float | None = None
    reason: str | None = None


class _NoPeriodError(Exception):
    """Reason why samples show no period."""


def _averaged(rows: Sequence[Sequence[float]], blur_ms: float) -> Profile:
    """Return the profile of cycles: the length of each, then starts, lengths (ms), Mbit/s * ms."""
    table = np.array(rows)
    means = table.mean(axis=0)
    wide = float(stdtrit(len(table) - 1, _SIDE))
    errors = wide * table.std(axis=0, ddof=1) / math.sqrt(len(table))
    starts, lengths, sent = np.split(means[1:], 3)
    edges = np.hypot(errors[1 : 1 + 2 * len(starts)], blur_ms)
    of_lengths, of_sent = edges[len(starts) :], errors[1 + 2 * len(starts) :]
    return Profile(
        traffic=_stated(float(means[0]), np.array([starts, lengths, sent / lengths]).T.tolist()),
        period_error_ms=float(errors[0]),
        burst_error_ms=float(edges.max()),
        rate_error=float((of_lengths / lengths + of_sent / sent).max()),
        cycles=len(table),
        cycle_ms=(float(table[:, 0].min()), float(table[:, 0].max())),
    )


def _stated(period_ms: float, bursts: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return bursts (start and length in ms, rate in Mbit/s) as they are stated, in order."""
    phases, end = [], 0
    period = max(1, round(_CENT * period_ms))
    for start_ms, length_ms, rate in bursts:
        start = max(end, round(_CENT * start_ms))
        end = min(period, max(start + 1, round(_CENT * (start_ms + length_ms))))
        rates = {"rate_mbps": max(1, round(rate))}
        phases.append({"start_ms": start / _CENT, "length_ms": (end - start) / _CENT, **rates})
    return {"period_ms": period / _CENT, "phases": phases}


# ------------------------------------------------------------------ throughput


def profile_samples(times_s: _Floats, rates_mbps: _Floats) -> Profile:
    """Find the period of a job and its bursts, or say why there is none.

    Bursts of different rates that touch are one burst, which sends as much as they do.

    Parameters
    ----------
    times_s
        When each sample was taken, seconds, ascending, shape (n,).
    rates_mbps
        The mean rate since the sample before, Mbit/s, NaN where nothing was measured, shape (n,).
        Rates at single moments are no such means: what happens between two of them is lost.
    """
    try:
        step_ms, rates = _even(times_s, rates_mbps)
        lag = _first_lag(rates)
        rows = _cycles(_bursts(rates), lag)
    except _NoPeriodError as error:
        return Profile(reason=str(error))
    return _averaged([[step_ms * value for value in row] for row in rows], _BLUR * step_ms)


def _even(times_s: _Floats, rates: _Floats) -> tuple[float, _Floats]:
    """Return the usual time between samples, in ms, and mean rates of cells as long as that."""
    known = np.isfinite(rates)
    if known.sum() < max(_MIN_SAMPLES, 0.8 * len(rates)):
        raise _NoPeriodError(
            f"too short: {known.sum()} of {len(rates)} samples are known; {_MIN_SAMPLES} and four "
            "of five have to be"
        )
    step_s = float(np.median(np.diff(times_s)))
    times_s, rates = times_s[known], rates[known]
    if np.ptp(rates) <= _STEADY * rates.mean():
        raise _NoPeriodError("not periodic: the rate is constant")
    sent = np.concatenate(([0.0], np.cumsum(rates[1:] * np.diff(times_s))))
    borders = np.arange(times_s[0], times_s[-1] + step_s / 2, step_s)
    return 1000 * step_s, np.diff(np.interp(borders, times_s, sent)) / step_s


def _first_lag(rates: _Floats) -> int:
    """Return the number of samples after which the pattern repeats, about."""
    deviation = rates - rates.mean()
    lags = len(rates) // _MIN_CYCLES + 1
    products = correlate(deviation, deviation, method="fft")[len(rates) - 1 :][:lags]
    correlation = products / (len(rates) - np.arange(lags)) / deviation.var()
    peaks, _ = find_peaks(correlation, prominence=_PROMINENCE)
    if not peaks.size or correlation[peaks].max() < _MIN_CORRELATION:
        raise _NoPeriodError(f"not periodic: nothing repeats within {lags} samples")
    lag = int(peaks[correlation[peaks] >= _AS_HIGH * correlation[peaks].max()][0])
    if lag < _MIN_SAMPLES_A_PERIOD:
        raise _NoPeriodError(
            f"too coarse: something repeats about every {lag} samples, not "
            f"{_MIN_SAMPLES_A_PERIOD}; sample more often"
        )
    return lag


def _bursts(rates: _Floats) -> list[_Burst]:
    """Return the whole bursts in samples, and what each sends, in samples times Mbit/s.

    A burst is as long as its volume takes at its usual rate, around the middle of its volume.
    """
    lowest, highest = float(np.quantile(rates, 0.05)), float(rates.max())
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
    if lowest > highest / 2 or not lengths or np.median(lengths) < _MIN_SAMPLES_A_BURST:
        raise _NoPeriodError("too coarse: bursts are shorter than samples; sample more often")
    return bursts


def _cycles(bursts: Sequence[_Burst], lag: int) -> list[list[float]]:
    """Return a row for each whole cycle, as `_averaged` takes them."""
    starts = np.array([start for start, _, _ in bursts])
    ends = starts + [length for _, length, _ in bursts]
    if starts[-1] - starts[0] < _MIN_CYCLES * lag:
        raise _NoPeriodError(f"too short: fewer than {_MIN_CYCLES} cycles; measure for longer")
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
    rows = [row for row in rows if row[0] <= _PAUSE * usual]
    return replace(_averaged(rows, 0.0), jitter=_jitter(np.array(rows)))


def _jitter(table: _Floats) -> float | None:
    """Return the standard deviation of computing times as a share of them, given iterations."""
    lengths, (starts, bursts, _) = table[:, :1], np.split(table[:, 1:], 3, axis=1)
    computed = np.hstack([starts[:, 1:], lengths]) - starts - bursts
    mean, deviation = (
        float(np.linalg.norm(each))
        for each in (computed.mean(axis=0), computed.std(axis=0, ddof=1))
    )
    return round(min(1.0, deviation / mean), 4) if mean else None


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


# ------------------------------------------------------------------ traces


def profile_traces(traces: Sequence[Trace], rate_mbps: float | None = None) -> Profile:
    """Find the period of a job and its bursts in the trace of one rank, or of several.

    Cycles are the steps that a trace marks, from one beginning to the next, moved into the longest
    silence; where it marks none, they are found as those of samples are. A collective begins when
    the last rank enters it.

    Parameters
    ----------
    traces
        A trace of each rank, of the same steps.
    rate_mbps
        The rate of bursts if a trace does not tell bytes; rates are None without it.

    Raises
    ------
    InputError
        If ranks entered different numbers of collectives, or nothing is sent.
    """
    table, steps, skew_ms = _together(traces)
    try:
        borders = _marked(table, steps) if steps.size else _repeated(table)
        rows, message_bytes = _of_cycles(table, borders)
    except _NoPeriodError as error:
        return Profile(reason=str(error), skew_ms=skew_ms)
    count = len(rows[0]) // 3
    unknown = bool(np.isnan(rows).any())
    if unknown:
        rows[:, -count:] = rows[:, -2 * count : -count] * (rate_mbps or 1.0)
    result = _averaged(rows.tolist(), 0.0)
    if result.traffic is not None and unknown and rate_mbps is None:
        for phase in result.traffic["phases"]:
            phase["rate_mbps"] = None
        result = replace(result, rate_error=None)
    jitter = _jitter(rows) if len(rows) >= _MIN_CYCLES else None
    return replace(result, jitter=jitter, message_bytes=message_bytes, skew_ms=skew_ms)


def _together(traces: Sequence[Trace]) -> tuple[_Floats, _Floats, float | None]:
    """Return collectives, and beginnings and ends of steps by rank, in ms, and the skew of ranks.

    Rows of collectives are their beginning and end, and the bytes of the message and those sent.
    """
    counts = {len(trace.collectives) for trace in traces}
    if len(counts) > 1:
        raise InputError(
            f"ranks entered {min(counts)} to {max(counts)} collectives; give ranks that take part "
            "in the same ones of the same steps, or one rank"
        )
    stack = np.array(
        [sorted(trace.collectives, key=lambda each: each[:2]) for trace in traces],
        dtype=np.float64,
    )
    zero = stack[:, :, 0].min()
    stack[:, :, 1] += stack[:, :, 0]
    stack[:, :, :2] = (stack[:, :, :2] - zero) / 1000
    starts, ends, *sizes = np.moveaxis(stack, 2, 0)
    columns = [starts.max(axis=0), ends.max(axis=0), *(size.mean(axis=0) for size in sizes)]
    table = np.array(columns).T[np.argsort(columns[0], kind="stable")]
    marked = {len(trace.steps) for trace in traces}
    steps = [sorted(trace.steps) for trace in traces if len(marked) == 1]
    skew_ms = float(np.ptp(starts, axis=0).max()) if len(traces) > 1 else None
    return table, (np.array(steps) - zero) / 1000, skew_ms


def _marked(table: _Floats, steps: _Floats) -> _Floats:
    """Return the beginnings of marked steps, put off into the longest silence of each."""
    if steps.shape[1] < 2:
        spans = np.diff(steps, axis=2)
        raise _NoPeriodError(f"too short: 1 step of {_from_to(spans)} ms, not 2; trace more steps")
    means = steps.mean(axis=0)
    # The last step is as long as the profiler takes to stop, too, so it counts only beside one.
    begins = means[:, 0] if len(means) > 2 else np.append(means[:, 0], means[-1, 1])
    inside = table[(table[:, 0] >= begins[0]) & (table[:, 0] < means[-1, 1])]
    if not len(inside):
        raise _NoPeriodError("not periodic: no collective begins within a step")
    before = begins[np.searchsorted(begins, inside[:, 0], side="right") - 1]
    folded = inside[:, :2] - before[:, np.newaxis]
    folded = folded[np.argsort(folded[:, 0])]
    around = float(np.median(np.diff(begins))) - folded[:, 1].max() + folded[0, 0]
    at = int(np.argmax(np.append(around, _silences(folded))))
    return np.asarray(begins + folded[at, 0])


def _repeated(table: _Floats) -> _Floats:
    """Return where cycles begin that are not marked, by a pattern that fills most of the time."""
    head = table[:_SEARCHED]
    end = float(head[:, 1].max())
    bins = max(_MIN_BINS, _BINS * len(head))
    while bins >= _MIN_BINS:
        grid = np.linspace(0.0, end, bins + 1)
        busy = np.diff(_since(head[:, 0], grid) - _since(np.sort(head[:, 1]), grid))
        rates = np.convolve(busy, _SMOOTH, mode="same")
        bins //= 2
        with suppress(_NoPeriodError):
            if np.ptp(rates) > _STEADY * rates.mean():
                period = _first_lag(rates) * end / len(rates)
                lengths = np.diff(borders := _followed(table, period))
                alike = lengths[abs(lengths - period) <= _MAX_SPREAD * period]
                if len(alike) >= _MIN_CYCLES and alike.sum() >= _ALIKE * lengths.sum():
                    return borders
    raise _NoPeriodError(
        f"not periodic: no pattern of {len(head):,} collectives fills {end:,.1f} ms; trace more "
        "steps, and mark them, or have times recorded when collectives begin"
    )


def _followed(table: _Floats, period: float) -> _Floats:
    """Return beginnings of bursts about a period apart, each after a silence as long as can be."""
    starts, silences = table[:, 0], np.append(0.0, _silences(table))
    at = int(np.argmax(silences[: np.searchsorted(starts, 1.5 * period)]))
    borders = [at]
    while True:
        due = starts[at] + period
        low, high = np.searchsorted(
            starts, (due - _MAX_SPREAD * period, due + _MAX_SPREAD * period)
        )
        if low < high:
            at = low + int(np.argmax(silences[low:high] - abs(starts[low:high] - due)))
        elif high < len(starts):  # after a pause, such as a checkpoint
            at = high
        else:
            return np.asarray(starts[borders])
        borders.append(at)


def _silences(table: _Floats) -> _Floats:
    """Return the time from the end of all before to the beginning of each but the first."""
    return np.asarray(table[1:, 0] - np.maximum.accumulate(table[:, 1])[:-1])


def _since(events: _Floats, times: _Floats) -> _Floats:
    """Return how long ago all events were, in sum, at each time."""
    count = np.searchsorted(events, times)
    return np.asarray(count * times - np.append(0.0, np.cumsum(events))[count])


def _from_to(lengths: _Floats) -> str:
    ends = f"{lengths.min():,.1f}", f"{lengths.max():,.1f}"
    return " to ".join(dict.fromkeys(ends))


def _of_cycles(table: _Floats, borders: _Floats) -> tuple[_Floats, float | None]:
    """Return a row for each cycle, as `_averaged` takes them, and the bytes of messages in one."""
    lengths = np.diff(borders)
    usual = float(np.median(lengths))
    alike = abs(lengths - usual) <= _MAX_SPREAD * usual
    if alike.mean() < _ALIKE:
        raise _NoPeriodError(f"not periodic: {len(lengths)} steps of {_from_to(lengths)} ms")
    at = np.searchsorted(table[:, 0], borders - _ROUNDED)
    parts = [table[at[each] : at[each + 1]] for each in np.flatnonzero(alike)]
    if len({len(part) for part in parts}) > 1:
        parts = [_joined(part[np.newaxis], usual)[0] if len(part) else part for part in parts]
    counts = np.array([len(part) for part in parts])
    count = int(np.bincount(counts).argmax())
    if not count or (counts == count).sum() < max(2, _MIN_WHOLE * len(parts)):
        raise _NoPeriodError(
            f"not periodic: {len(parts)} steps of about {usual:,.1f} ms have {counts.min()} to "
            f"{counts.max()} bursts"
        )
    cube = _joined(np.array([part for part in parts if len(part) == count]), usual)
    taken = np.maximum(_ROUNDED, cube[:, :, 1] - cube[:, :, 0])
    mean = taken.mean(axis=0)
    kept = np.flatnonzero((mean >= _SLIGHT * mean.max()) & (cube[:, :, 3].mean(axis=0) != 0))
    if not len(kept):
        raise InputError("nothing is sent: collectives are empty, or of one rank alone")
    owner = np.maximum(0, np.searchsorted(kept, np.arange(len(mean)), side="right") - 1)
    sent = [8e-3 * cube[:, owner == each, 3].sum(axis=1) for each in range(len(kept))]
    starts = cube[:, kept, 0] - cube[:, kept[:1], 0]
    chosen = lengths[alike][counts == count]
    message = float(cube[:, :, 2].sum(axis=1).mean())
    rows = np.hstack([chosen[:, np.newaxis], starts, taken[:, kept], np.array(sent).T])
    return rows, None if math.isnan(message) else message


def _joined(cube: _Floats, usual: float) -> _Floats:
    """Return bursts instead of collectives, of cycles with as many collectives each."""
    ends = np.maximum.accumulate(cube[:, :, 1], axis=1)
    silences = (cube[:, 1:, 0] - ends[:, :-1]).mean(axis=0)
    first = np.append(0, 1 + np.flatnonzero(silences >= _GAP * usual))
    last = np.append(first[1:], cube.shape[1]) - 1
    sizes = np.add.reduceat(cube[:, :, 2:], first, axis=1)
    return np.concatenate([cube[:, first, :1], ends[:, last, np.newaxis], sizes], axis=2)
