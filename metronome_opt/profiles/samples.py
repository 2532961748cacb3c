"""Measured throughput: rates over time, from a series of rates or from a counter of bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, show

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNITS = {"bit": 1e-6, "byte": 8e-6, "kbit": 1e-3, "Mbit": 1.0, "Gbit": 1e3}
"""Mbit per unit."""

QUIET = 0.15
"""Share of the highest rate below which all is silence, if nothing else is said."""

_LATEST_S = 7_258_118_400.0  # the year 2200
_LEAST_COVERED = 0.5  # of a cell, for its mean to count


@dataclass(frozen=True)
class Samples:
    """Throughput over time.

    Attributes
    ----------
    times_s
        When each sample was taken, strictly increasing, seconds since the epoch, shape (n,).
    rates_mbps
        The mean rate over the span that ends at that time, as differences of a counter are, Mbit/s,
        NaN where nothing was measured, shape (n,). Rates at single moments are no such means:
        from them nobody can tell when a burst begins, nor how much it sends, and what falls between
        two of them looks like another period (aliasing).
    averaged_s
        Length of that span in seconds, shape (n,); None for the time since the sample before, but
        no longer than usual.
    """

    times_s: Floats
    rates_mbps: Floats
    averaged_s: Floats | None = None

    def __post_init__(self) -> None:
        times, rates = self.times_s, self.rates_mbps
        for name, values in (("rates_mbps", rates), ("averaged_s", self.averaged_s)):
            if values is not None and (times.ndim != 1 or values.shape != times.shape):
                raise InputError(
                    f"{name}: shape {values.shape}: must be that of times_s, {times.shape}, "
                    "with one dimension"
                )
        _refuse("times_s", times, ~np.isfinite(times), "not a time")
        known = "use NaN where nothing was measured"
        _refuse("rates_mbps", rates, np.isinf(rates), f"not a rate; {known}")
        _refuse("rates_mbps", rates, rates < 0, f"must be at least 0; {known}")
        again = np.append(False, times[1:] <= times[:-1])[: len(times)]
        said = "not after the time before; sort the samples and drop repetitions"
        _refuse("times_s", times, again, said)

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def step_s(self) -> float:
        """The usual time between samples, their median; NaN for fewer than two."""
        return float(np.median(np.diff(self.times_s))) if len(self) > 1 else math.nan

    @property
    def spans_s(self) -> Floats:
        """How long each rate is the mean of, in seconds, shape (n,)."""
        if self.averaged_s is not None:
            return self.averaged_s
        if len(self) < 2:
            return np.zeros(len(self))
        step = self.step_s
        return np.minimum(np.diff(self.times_s, prepend=self.times_s[0] - step), step)

    @property
    def missing(self) -> float:
        """Share of samples that are missing: not measured, or left out of an even sequence."""
        if len(self) < 2:
            return float(np.isnan(self.rates_mbps).sum()) / max(1, len(self))
        expected = 1 + np.maximum(1, np.round(np.diff(self.times_s) / self.step_s)).sum()
        return 1 - float(np.isfinite(self.rates_mbps).sum()) / float(expected)

    def measured(self) -> tuple[Floats, Floats, Floats]:
        """Return begin, end and rate of each span that was measured, in order and disjoint."""
        known = np.isfinite(self.rates_mbps)
        ends = self.times_s[known]
        begins = ends - self.spans_s[known]
        begins[1:] = np.maximum(begins[1:], ends[:-1])
        return begins, ends, self.rates_mbps[known]


def _refuse(name: str, values: Floats, wrong: NDArray[np.bool_], fault: str) -> None:
    """Refuse the first value that is wrong."""
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"{name}[{first}]: {show(float(values[first]))}: {fault}")


@dataclass(frozen=True)
class Grid:
    """Mean rates of equal cells."""

    start_s: float  # where the first cell begins
    step_s: float
    rates: Floats  # Mbit/s, NaN where less than half of a cell was measured


def regrid(samples: Samples, step_s: float) -> Grid:
    """Spread samples over cells of `step_s`; every cell gets what was sent in it.

    Within the span of a sample its rate is taken for constant.
    """
    begins, ends, rates = samples.measured()
    knots = np.column_stack((begins, ends)).ravel()
    measured = np.column_stack((np.zeros(len(ends)), ends - begins)).ravel().cumsum()
    sent = np.column_stack((np.zeros(len(ends)), rates * (ends - begins))).ravel().cumsum()
    cells = max(1, int((ends[-1] - begins[0]) / step_s))
    borders = begins[0] + step_s * np.arange(cells + 1)
    covered = np.diff(np.interp(borders, knots, measured))
    volume = np.diff(np.interp(borders, knots, sent))
    enough = covered >= _LEAST_COVERED * step_s
    means = np.divide(volume, covered, out=np.full(cells, np.nan), where=enough)
    return Grid(float(begins[0]), step_s, means)


def from_series(series: pd.Series, *, counter: bool = False, unit: str | None = None) -> Samples:
    """Return the samples of a pandas series.

    Parameters
    ----------
    series
        Indexed by time, a DatetimeIndex or seconds since the epoch, in any order. Values are means
        over the time since the one before, see `Samples`; those that are NaN or missing are samples
        that are missing.
    counter
        Whether values count what was sent since some moment. Each rate is then that between
        neighbouring samples, as ``irate`` of Prometheus has it, and unknown where the counter
        began anew: what was sent before that was lost.
    unit
        One of `UNITS`, per second if it is not a counter. None is Mbit, or byte for a counter.

    Raises
    ------
    InputError
        If an index is no time, is repeated or is beyond the year 2200, a value is no number,
        infinite or a negative rate, or the unit is not known.
    """
    unit = unit or ("byte" if counter else "Mbit")
    if unit not in UNITS:
        raise InputError(f"unit: {show(unit)} is not known; choose from {', '.join(UNITS)}")
    times, values = _seconds(series), _numbers(series) * UNITS[unit]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    repeated = np.flatnonzero(np.diff(times) == 0)
    if repeated.size:
        raise InputError(f"time {show(float(times[repeated[0]]))}: given twice; keep one of them")
    if not counter:
        return Samples(times, values)
    known = np.isfinite(values)
    times, values = times[known], values[known]
    spans, sent = np.diff(times), np.diff(values)
    return Samples(times[1:], np.where(sent < 0, np.nan, sent / spans), spans)


def _seconds(series: pd.Series) -> Floats:
    import pandas as pd

    index = series.index
    if isinstance(index, pd.DatetimeIndex):
        if index.hasnans:
            raise InputError("index: holds a time that is missing; drop it")
        aware = index.tz_localize("UTC") if index.tz is None else index
        whole = aware.as_unit("ns").asi8
        return np.asarray(whole // 10**9 + whole % 10**9 / 1e9, dtype=np.float64)
    try:
        seconds = np.asarray(index, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"index: {show(str(index[0]))} is no time; use a DatetimeIndex or seconds"
        ) from None
    if not np.isfinite(seconds).all():
        raise InputError("index: holds a time that is missing or infinite; drop it")
    if (seconds > _LATEST_S).any():
        raise InputError(
            f"time {show(float(seconds.max()))}: in seconds that is after the year 2200; divide "
            "milliseconds by 1,000"
        )
    return seconds


def _numbers(series: pd.Series) -> Floats:
    try:
        values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"series {show(series.name)}: holds values that are no numbers") from None
    if np.isinf(values).any():
        raise InputError(f"series {show(series.name)}: holds an infinite value; use NaN")
    return values
