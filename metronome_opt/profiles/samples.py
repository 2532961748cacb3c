"""Measured throughput: rates over time, from series of rates, counters of bytes, and files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote

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
_FINE = 64  # samples between the beginnings of two bursts
_STEP_S = 0.001  # at least
_PAUSE = 10  # times the usual distance of bursts: no iteration is that long
_MOST = 2_000_000  # samples, of which a profile takes half a minute
_MBIT = 8e-6  # per byte


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
        raise InputError(f"{name}[{first}]: {quote(float(values[first]))}: {fault}")


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
        raise InputError(f"unit: {quote(unit)} is not known; choose from {', '.join(UNITS)}")
    times, values = _seconds(series), _numbers(series) * UNITS[unit]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    repeated = np.flatnonzero(np.diff(times) == 0)
    if repeated.size:
        raise InputError(f"time {quote(float(times[repeated[0]]))}: given twice; keep one of them")
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
            f"index: {quote(str(index[0]))} is no time; use a DatetimeIndex or seconds"
        ) from None
    if not np.isfinite(seconds).all():
        raise InputError("index: holds a time that is missing or infinite; drop it")
    if (seconds > _LATEST_S).any():
        raise InputError(
            f"time {quote(float(seconds.max()))}: in seconds that is after the year 2200; divide "
            "milliseconds by 1,000"
        )
    return seconds


def _numbers(series: pd.Series) -> Floats:
    try:
        values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"series {quote(series.name)}: holds values that are no numbers") from None
    if np.isinf(values).any():
        raise InputError(f"series {quote(series.name)}: holds an infinite value; use NaN")
    return values


def read_csv(
    path: str | Path, *, column: str | None = None, counter: bool = False, unit: str | None = None
) -> Samples:
    """Read samples from a CSV file with a line of headings, separated by commas.

    Parameters
    ----------
    path
        The file. Its first column holds times, as seconds since the epoch or as ISO 8601 (UTC if no
        zone is named), in any order. An empty cell is a sample that is missing.
    column
        Heading of the throughput; None if there is only one column besides the times. Values are
        means over the time since the line before, see `Samples`.
    counter, unit
        See `from_series`.

    Raises
    ------
    InputError
        If the file cannot be read, has no headings or no such column, or holds what is no time, no
        number or a negative rate.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, skipinitialspace=True)
        values = table[_column(table, column)]
        rates = _understood(values, pd.to_numeric(values, errors="coerce"), "no number")
        if not counter:
            fault = "below 0, which no throughput is; if it is a counter, say so"
            _understood(values, rates.mask(rates < 0), fault)
        return from_series(rates.set_axis(_times(table.iloc[:, 0])), counter=counter, unit=unit)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _column(table: pd.DataFrame, column: str | None) -> str:
    """Return the heading of the throughput; refuse a first line that holds no headings."""
    import pandas as pd

    first, *names = (str(name) for name in table.columns)
    if ";" in first or "\t" in first:
        raise InputError(f"line 1: {quote(first)}: is it separated by commas? It has to be")
    is_number = pd.notna(pd.to_numeric(first, errors="coerce"))
    if is_number or pd.notna(pd.to_datetime(first, utc=True, format="ISO8601", errors="coerce")):
        raise InputError(
            f"line 1: {quote(first)}: a value in place of a heading; begin with a line "
            "like time,rate"
        )
    known = ", ".join(names) or "none"
    if column is None and len(names) != 1:
        raise InputError(f"has {len(names)} columns beside times ({known}); name one of them")
    if column is not None and column not in names:
        raise InputError(f"has no column {quote(column)}; there are {known}")
    return column or names[0]


def _times(cells: pd.Series) -> pd.Index:
    """Return times that are all written as the first one is."""
    import pandas as pd

    seconds = pd.to_numeric(cells, errors="coerce")
    if seconds.iloc[:1].notna().all():
        fault = "no time in seconds, as the first one is"
        return pd.Index(_understood(cells.fillna(""), seconds, fault).astype("float64"))
    moments = pd.to_datetime(cells, utc=True, format="ISO8601", errors="coerce")
    fault = "no time; use seconds or ISO 8601"
    return pd.DatetimeIndex(_understood(cells.fillna(""), moments, fault))


def _understood(cells: pd.Series, found: pd.Series, fault: str) -> pd.Series:
    """Return what cells say; refuse the first that is not empty and was not understood."""
    wrong = (found.isna() & cells.notna()).to_numpy()
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"line {first + 2}: {quote(cells.iloc[first])}: {fault}")
    return found


def read_gate(path: str | Path) -> Samples:
    """Read the record of a gate, which has a line of JSON for each burst.

    What a burst sent is spread evenly over its length, on a grid as fine as a scraper could hardly
    be. Of a record with pauses, as between two runs, the longest stretch counts. The rate of a
    burst whose bytes nobody told is not known, and a guess would end up in a claim; so such a
    record is refused.

    Parameters
    ----------
    path
        The file, of one task of one job. A line that broke off, because the job was killed, is left
        out.

    Raises
    ------
    InputError
        If the file cannot be read, holds fewer than two bursts, those of several tasks, lines that
        are none of a gate, bursts without their bytes, or bursts that overlap because the clock
        was set.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8") from None
    bursts: list[tuple[float, float, float]] = []
    whose: tuple[str, str] | None = None
    for number, line in enumerate(lines, start=1):
        if not line.endswith("}"):
            continue
        try:
            record = _record(line)
            who = (str(record.get("task")), str(record.get("job")))
            begin, end, sent = _burst(record)
            if whose is not None and who != whose:
                raise InputError(
                    f"is of {_name(*who)}, those before of {_name(*whose)}; profile one of them"
                )
            if bursts and begin < bursts[-1][1]:
                raise InputError(
                    f"at: {quote(begin)}: before the end of the burst before; the clock was set, "
                    "or two programs wrote here: profile a part by itself"
                )
        except InputError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        whose = who
        bursts.append((begin, end, sent))
    if len(bursts) < 2:
        raise InputError(f"{path}: has {len(bursts)} bursts, from which no period can be told")
    return _spread(*_longest(*np.array(bursts).T))


def _name(task: str, job: str) -> str:
    return f"task {quote(task)} of job {quote(job)}"


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{quote(line)}: is not JSON") from None
    if not isinstance(record, dict):
        raise InputError(f"{quote(record)}: is no burst of a gate")
    return record


def _burst(record: dict[str, Any]) -> tuple[float, float, float]:
    """Return when a burst began and ended, in seconds, and its bytes."""
    if record.get("sent_bytes", 0) is None:
        raise InputError(
            "sent_bytes: null: nobody told what the burst sent, so its rate is not known; "
            "enter gate.burst(sent_bytes=...), or set sent_bytes of the burst before it ends"
        )
    for name in ("at", "burst_ms", "sent_bytes"):
        value = record.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e18:
            raise InputError(f"{name}: {quote(value)}: must be a number, at least 0")
    begin = float(record["at"])
    return begin, begin + float(record["burst_ms"]) / 1000, float(record["sent_bytes"])


def _longest(begins: Floats, ends: Floats, sent: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the longest stretch of bursts without a pause, as between two runs of a job."""
    usual = float(np.median(np.diff(begins)))
    breaks = np.flatnonzero(begins[1:] - ends[:-1] > _PAUSE * usual) + 1
    edges = np.concatenate(([0], breaks, [len(begins)]))
    first = int(np.argmax(np.diff(edges)))
    part = slice(int(edges[first]), int(edges[first + 1]))
    return begins[part], ends[part], sent[part]


def _spread(begins: Floats, ends: Floats, sent: Floats) -> Samples:
    """Return samples on an even grid of what bursts sent."""
    step = max(_STEP_S, float(np.median(np.diff(begins))) / _FINE, (ends[-1] - begins[0]) / _MOST)
    knots = np.stack([begins, ends], axis=1).ravel()
    total = np.stack([np.cumsum(sent) - sent, np.cumsum(sent)], axis=1).ravel()
    times = np.arange(begins[0] - step, ends[-1] + 2 * step, step)
    volumes = np.diff(np.interp(times, knots, total))
    return Samples(times[1:], volumes * _MBIT / np.diff(times), np.diff(times))
