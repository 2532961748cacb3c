"""Samples from files: tables of throughput (CSV), and the record of a gate (lines of JSON)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metronome_opt.errors import InputError, show
from metronome_opt.profiles.samples import Floats, Samples, from_series

if TYPE_CHECKING:
    import pandas as pd

_FINE = 64  # samples between the beginnings of two bursts
_STEP_S = 0.001  # at least
_PAUSE = 10  # times the usual distance of bursts: no iteration is that long
_MOST = 2_000_000  # samples, of which a profile takes half a minute
_MBIT = 8e-6  # per byte


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
        raise InputError(f"line 1: {show(first)}: is it separated by commas? It has to be")
    is_number = pd.notna(pd.to_numeric(first, errors="coerce"))
    if is_number or pd.notna(pd.to_datetime(first, utc=True, format="ISO8601", errors="coerce")):
        raise InputError(
            f"line 1: {show(first)}: a value in place of a heading; begin with a line "
            "like time,rate"
        )
    known = ", ".join(names) or "none"
    if column is None and len(names) != 1:
        raise InputError(f"has {len(names)} columns beside times ({known}); name one of them")
    if column is not None and column not in names:
        raise InputError(f"has no column {show(column)}; there are {known}")
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
        raise InputError(f"line {first + 2}: {show(cells.iloc[first])}: {fault}")
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
                    f"at: {show(begin)}: before the end of the burst before; the clock was set, "
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
    return f"task {show(task)} of job {show(job)}"


def _record(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{show(line)}: is not JSON") from None
    if not isinstance(record, dict):
        raise InputError(f"{show(record)}: is no burst of a gate")
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
            raise InputError(f"{name}: {show(value)}: must be a number, at least 0")
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
