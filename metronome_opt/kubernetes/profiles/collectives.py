"""Traffic profiles from traces of training jobs.

Collectives with less than a hundredth of the period between them are one burst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from metronome_opt.errors import InputError, pluralise
from metronome_opt.kubernetes.profiles.entries import Trace
from metronome_opt.kubernetes.profiles.messages import KINDS
from metronome_opt.kubernetes.profiles.profile import (
    MAX_SPREAD,
    MIN_CYCLES,
    MIN_WHOLE,
    Floats,
    NoPeriodError,
    Profile,
    finite_floats,
    jitter_of,
    mean_profile,
)
from metronome_opt.kubernetes.profiles.sampled import STEADY, first_lag

_Cycles = tuple[Floats, Floats, Floats]

MIN_MARKS = 2
_CLOCKS = 0.02  # share of the period by which marks of the CPU may differ from it
_GAP = 0.01  # of the period: collectives that are closer are one burst
_SLIGHT = 0.02  # of the longest burst: shorter ones count with the burst before
_MIN_REGULAR = 0.9  # share of the cycles of a trace, and of its time, of about the median length
_ROUNDED = 1e-6  # ms: rounding of floats
_SEARCHED = 2**14  # collectives at the beginning of a trace in which a pattern is searched
_MIN_BINS, _BINS = 128, 16  # of time, in all and per collective
_SMOOTH = (1.0, 2.0, 3.0, 2.0, 1.0)  # so that borders of bins do not matter


@finite_floats()
def profile_traces(traces: Sequence[Trace], rate_mbps: float | None = None) -> Profile:
    """Find the period of a job and its bursts in the trace of one rank, or of several.

    Cycles are the steps that a trace marks, on the GPU where it does, from the longest silence on;
    without marks, they are found like cycles of samples. A collective begins when the last rank
    enters it. If a trace holds no bytes rates are `rate_mbps`, None without it.
    """
    table, steps, gpu_steps, skew_ms = _together(traces)
    notes = [*dict.fromkeys(note for trace in traces for note in trace.notes)]
    try:
        cycles, more = _periodic(table, steps, gpu_steps)
        rows, messages, kinds = cycles
        count = len(rows[0]) // 3
        unknown = bool(np.isnan(rows).any())
        if unknown:
            rows[:, -count:] = rows[:, -2 * count : -count] * (rate_mbps or 1.0)
        result = mean_profile(rows.tolist(), 0.0)
    except NoPeriodError as error:
        return Profile(reason=str(error), skew_ms=skew_ms, notes=tuple(notes))
    result = replace(result, notes=(*notes, *more))
    if result.traffic is not None and unknown and rate_mbps is None:
        for phase in result.traffic["phases"]:
            phase["rate_mbps"] = None
        result = replace(result, rate_error=None)
    if result.traffic is not None:
        names, everyone = [*KINDS.values()], np.nanmax(np.append(table[:, 5], 0.0))
        bursts = zip(result.traffic["phases"], messages, kinds, strict=True)
        for phase, size, (kind, ranks) in bursts:
            if ranks == everyone and size >= 1 and not math.isnan(kind):
                phase |= {"collective": names[int(kind)], "bytes": round(size)}
    jitter = jitter_of(rows) if len(rows) >= MIN_CYCLES else None
    whole = float(messages.sum())
    known = None if math.isnan(whole) else whole
    return replace(result, jitter=jitter, message_bytes=known, skew_ms=skew_ms)


def _periodic(table: Floats, steps: Floats, gpu_steps: Floats) -> tuple[_Cycles, list[str]]:
    """Return the cycles of a table by marks, if there are some, and notes on them.

    The CPU may run ahead of the GPU, so that its marks say how many cycles there are, but not how
    long they take.
    """
    on_gpu = gpu_steps.shape[1] > min(MIN_MARKS, steps.shape[1])
    spans = gpu_steps if on_gpu else steps
    if not spans.size:
        return _of_cycles(table, _repeated(table)), []
    if spans.shape[1] < MIN_MARKS + on_gpu:
        said = (
            f"{pluralise(spans.shape[1] - on_gpu, 'step')} of {_from_to(np.diff(spans, axis=2))} ms"
        )
        raise NoPeriodError(f"too short: {said}, not 2; trace more steps")
    who, marks = ("CPU", steps) if steps.shape[1] > 1 else ("GPU", gpu_steps)
    marked = np.diff(marks.mean(axis=0)[:, 0]).mean() if marks.shape[1] > 1 else 0.0
    try:
        cycles = _of_cycles(table, _marked(table, spans.mean(axis=0)))
    except NoPeriodError as error:
        try:
            cycles = _of_cycles(table, _repeated(table))
        except NoPeriodError:
            whose = "" if on_gpu else ", by marks of the CPU, which may run ahead of the GPU"
            raise NoPeriodError(f"{error}{whose}") from None
        if cycles[0][:, 0].mean() < (1 - MAX_SPREAD) * marked:  # a pattern within a step
            raise
    own = cycles[0][:, 0].mean()
    if not marked or abs(own - marked) <= _CLOCKS * own:
        return cycles, []
    said = f"clocks disagree: the {who} marks steps every {marked:,.2f} ms"
    if spans.shape[1] == MIN_MARKS:
        raise NoPeriodError(f"too short: {said}, and the GPU lags; trace more steps")
    what = "its kernels repeat" if on_gpu and who == "GPU" else "the GPU repeats"
    return cycles, [f"{said}, {what} every {own:,.2f} ms, which counts"]


def _together(traces: Sequence[Trace]) -> tuple[Floats, Floats, Floats, float | None]:
    """Return collectives, starts and ends of steps by rank, in ms, and the skew of ranks.

    Rows of collectives are start, end, bytes of the message, bytes sent, number of the kind, ranks.
    Steps are those of the CPU, then of the GPU.
    """
    counts = {len(trace.collectives) for trace in traces}
    if len(counts) > 1:
        entered = f"ranks entered {min(counts)} to {max(counts)} collectives"
        raise InputError(f"{entered}; give ranks that enter the same ones, or one rank")
    ranks = [sorted(trace.collectives, key=lambda entered: entered[:2]) for trace in traces]
    stack = np.array(ranks, dtype=np.float64)
    zero = stack[:, :, 0].min()
    stack[:, :, 1] += stack[:, :, 0]
    stack[:, :, :2] = (stack[:, :, :2] - zero) / 1000
    starts, ends, *sizes = np.moveaxis(stack, 2, 0)
    columns = [starts.max(axis=0), ends.max(axis=0), *(size.mean(axis=0) for size in sizes)]
    table = np.array(columns).T[np.argsort(columns[0], kind="stable")]
    skew_ms = float(np.ptp(starts, axis=0).max()) if len(traces) > 1 else None
    marks = []
    for spans in zip(*((trace.steps, trace.gpu_steps) for trace in traces), strict=True):
        own = [sorted(rank) for rank in spans if len({len(rank) for rank in spans}) == 1]
        stacked = np.array(own or [[]], dtype=np.float64)
        marks.append((stacked.reshape(len(stacked), -1, 2) - zero) / 1000)
    return table, marks[0], marks[1], skew_ms


def _marked(table: Floats, means: Floats) -> Floats:
    """Return the first collectives of marked steps after the longest silence of a step."""
    # The last step includes the stop of the profiler, so that it counts only beside one other.
    begins = means[:, 0] if len(means) > MIN_MARKS else np.append(means[:, 0], means[-1, 1])
    inside = table[(table[:, 0] >= begins[0]) & (table[:, 0] < means[-1, 1])]
    if not len(inside):
        raise NoPeriodError("not periodic: no collective begins within a step")
    before = begins[np.searchsorted(begins, inside[:, 0], side="right") - 1]
    folded = inside[:, :2] - before[:, np.newaxis]
    folded = folded[np.argsort(folded[:, 0])]
    usual = float(np.median(np.diff(begins)))
    if usual <= _ROUNDED:
        raise NoPeriodError("not periodic: marked steps take no time")
    around = usual - folded[:, 1].max() + folded[0, 0]
    borders = begins + folded[int(np.argmax(np.append(around, _silences(folded)))), 0]
    # From here on only the times of kernels count.
    firsts = np.append(table[:, 0], math.inf)[np.searchsorted(table[:, 0], borders - _ROUNDED)]
    late = firsts - borders
    return np.asarray(borders + np.where(late <= usual, late, np.median(late[late <= usual])))


def _repeated(table: Floats) -> Floats:
    """Return starts of cycles without marks, of a pattern that fills most of the time."""
    head = table[:_SEARCHED]
    end = float(head[:, 1].max())
    bins = max(_MIN_BINS, _BINS * len(head))
    while bins >= _MIN_BINS:
        grid = np.linspace(0.0, end, bins + 1)
        busy = np.diff(_since(head[:, 0], grid) - _since(np.sort(head[:, 1]), grid))
        rates = np.convolve(busy, _SMOOTH, mode="same")
        bins //= 2
        with suppress(NoPeriodError):
            if np.ptp(rates) > STEADY * rates.mean():
                period = first_lag(rates) * end / len(rates)
                lengths = np.diff(borders := _followed(table, period))
                alike = lengths[abs(lengths - period) <= MAX_SPREAD * period]
                if len(alike) >= MIN_CYCLES and alike.sum() >= _MIN_REGULAR * lengths.sum():
                    return borders
    fault = f"no pattern of {len(head):,} collectives fills {end:,.1f} ms"
    raise NoPeriodError(f"not periodic: {fault}; trace more steps, and mark them")


def _followed(table: Floats, period: float) -> Floats:
    """Return starts of bursts about a period apart, after the longest silences."""
    starts, silences = table[:, 0], np.append(0.0, _silences(table))
    at = int(np.argmax(silences[: np.searchsorted(starts, starts[0] + 1.5 * period)]))
    borders = [at]
    while True:
        due = starts[at] + period
        low, high = np.searchsorted(starts, (due - MAX_SPREAD * period, due + MAX_SPREAD * period))
        if low < high:
            at = low + int(np.argmax(silences[low:high] - abs(starts[low:high] - due)))
        elif high < len(starts):  # after a pause, such as a checkpoint
            at = high
        else:
            return np.asarray(starts[borders])
        borders.append(at)


def _silences(table: Floats) -> Floats:
    """Return times between the end of all earlier collectives and the start of the next one."""
    return np.asarray(table[1:, 0] - np.maximum.accumulate(table[:, 1])[:-1])


def _since(events: Floats, times: Floats) -> Floats:
    """Return by time the sum of the times since all earlier events."""
    count = np.searchsorted(events, times)
    return np.asarray(count * times - np.append(0.0, np.cumsum(events))[count])


def _from_to(lengths: Floats) -> str:
    ends = f"{lengths.min():,.1f}", f"{lengths.max():,.1f}"
    return " to ".join(dict.fromkeys(ends))


def _of_cycles(table: Floats, borders: Floats) -> _Cycles:
    """Return rows of cycles for `mean_profile`, and messages and kinds of bursts.

    Messages are bytes of the collectives of a burst; kinds are numbers of the kind and of ranks,
    NaN where collectives differ or nothing is known.
    """
    lengths = np.diff(borders)
    usual = float(np.median(lengths))
    alike = abs(lengths - usual) <= MAX_SPREAD * usual
    if alike.mean() < _MIN_REGULAR:
        raise NoPeriodError(f"not periodic: {len(lengths)} steps of {_from_to(lengths)} ms")
    at = np.searchsorted(table[:, 0], borders - _ROUNDED)
    parts = [table[at[cycle] : at[cycle + 1]] for cycle in np.flatnonzero(alike)]
    if len({len(part) for part in parts}) > 1:
        parts = [_joined(part[np.newaxis], usual)[0] if len(part) else part for part in parts]
    counts = np.array([len(part) for part in parts])
    count = int(np.bincount(counts).argmax())
    if not count or (counts == count).sum() < max(2, MIN_WHOLE * len(parts)):
        steps = f"{len(parts)} steps of about {usual:,.1f} ms"
        raise NoPeriodError(f"not periodic: {steps} have {counts.min()} to {counts.max()} bursts")
    cube = _joined(np.array([part for part in parts if len(part) == count]), usual)
    taken = np.maximum(_ROUNDED, cube[:, :, 1] - cube[:, :, 0])
    mean = taken.mean(axis=0)
    kept = np.flatnonzero((mean >= _SLIGHT * mean.max()) & (cube[:, :, 3].mean(axis=0) != 0))
    if not len(kept):
        raise InputError("nothing is sent: collectives are empty, or of one rank alone")
    owner = np.maximum(0, np.searchsorted(kept, np.arange(len(mean)), side="right") - 1)
    bursts = [cube[:, owner == number] for number in range(len(kept))]
    sent = [8e-3 * burst[:, :, 3].sum(axis=1) for burst in bursts]
    rows = [burst[:, :, 4:].reshape(-1, 2) for burst in bursts]
    kinds = np.array([np.where((row == row[0]).all(axis=0), row[0], math.nan) for row in rows])
    messages = np.array([burst[:, :, 2].sum(axis=1).mean() for burst in bursts])
    starts = cube[:, kept, 0] - cube[:, kept[:1], 0]
    chosen = lengths[alike][counts == count]
    cycles = np.hstack([chosen[:, np.newaxis], starts, taken[:, kept], np.array(sent).T])
    return cycles, messages, kinds


def _joined(cube: Floats, usual: float) -> Floats:
    """Return bursts instead of collectives, of cycles with equal numbers of collectives."""
    ends = np.maximum.accumulate(cube[:, :, 1], axis=1)
    silences = (cube[:, 1:, 0] - ends[:, :-1]).mean(axis=0)
    first = np.append(0, 1 + np.flatnonzero(silences >= _GAP * usual))
    last = np.append(first[1:], cube.shape[1]) - 1
    sizes = np.add.reduceat(cube[:, :, 2:4], first, axis=1)
    lowest = np.minimum.reduceat(cube[:, :, 4:], first, axis=1)
    highest = np.maximum.reduceat(cube[:, :, 4:], first, axis=1)
    kinds = np.where(lowest == highest, lowest, math.nan)
    return np.concatenate([cube[:, first, :1], ends[:, last, np.newaxis], sizes, kinds], axis=2)
