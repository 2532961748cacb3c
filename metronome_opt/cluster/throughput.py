"""Measured throughput, from tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote

if TYPE_CHECKING:
    import pandas as pd

_LATEST_S = 7_258_118_400.0  # the year 2200
_MBIT = 8e-6  # per byte


@dataclass(frozen=True)
class Throughput:
    """Rates over time.

    Attributes
    ----------
    times_s
        When each sample was taken, seconds since the epoch, ascending, shape (n,).
    rates_mbps
        The mean rate since the sample before, Mbit/s, NaN where nothing was measured, shape (n,).
        Rates at single moments are no such means: what happens between two of them is lost.
    """

    times_s: NDArray[np.float64]
    rates_mbps: NDArray[np.float64]


def read_csv(path: str | Path, *, column: str | None = None, counter: bool = False) -> Throughput:
    """Read throughput from a CSV file with a line of headings, separated by commas.

    Parameters
    ----------
    path
        The file. Its first column holds times, as seconds since the epoch or as ISO 8601 (UTC if no
        zone is named), in any order. An empty cell is a sample that is missing.
    column
        Heading of the throughput; None if there is only one column besides the times.
    counter
        Whether values count the bytes that were sent, and not mean rates in Mbit/s. What was sent
        before a counter began anew is not known.

    Raises
    ------
    InputError
        If the file cannot be read, has no headings or no such column, or holds what is no time, no
        number or a negative rate.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, skipinitialspace=True)
        cells = table[_column(table, column)]
        values = pd.to_numeric(cells, errors="coerce")
        if not counter:
            values = values.mask(values < 0)
        _refuse_unread(cells, values, "no number that can be meant; bytes are read with --counter")
        frame = pd.DataFrame({"time": _seconds(table.iloc[:, 0]), "value": values})
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    frame = frame.sort_values("time", kind="stable")
    repeated = frame["time"][frame["time"].duplicated()]
    if len(repeated):
        raise InputError(f"{path}: time {quote(float(repeated.iloc[0]))}: given twice; keep one")
    if counter:
        frame = frame.dropna()
        sent = frame["value"].diff()
        frame["value"] = sent.mask(sent < 0) * _MBIT / frame["time"].diff()
        frame = frame.iloc[1:]
    return Throughput(frame["time"].to_numpy(), frame["value"].to_numpy())


def _column(table: pd.DataFrame, column: str | None) -> str:
    """Return the heading of the throughput."""
    _, *names = (str(name) for name in table.columns)
    known = ", ".join(names) or "none"
    if column is None and len(names) != 1:
        raise InputError(
            f"line 1: must be headings, separated by commas; beside times there are {len(names)} "
            f"columns ({known}); name one of them"
        )
    if column is not None and column not in names:
        raise InputError(f"has no column {quote(column)}; there are {known}")
    return column or names[0]


def _seconds(cells: pd.Series) -> pd.Series:
    """Return times, which are all written as the first one is, in seconds since the epoch."""
    import pandas as pd

    cells = cells.fillna("")
    seconds = pd.to_numeric(cells, errors="coerce")
    if seconds.iloc[:1].isna().all():
        moments = pd.to_datetime(cells, utc=True, format="ISO8601", errors="coerce")
        seconds = (moments - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    _refuse_unread(cells, seconds, "no time; use seconds or ISO 8601")
    if (seconds > _LATEST_S).any():
        raise InputError(
            f"time {quote(float(seconds.max()))}: in seconds that is after the year 2200; divide "
            "milliseconds by 1,000"
        )
    return seconds


def _refuse_unread(cells: pd.Series, values: pd.Series, fault: str) -> None:
    """Refuse the first cell that is not empty and was not understood."""
    wrong = ((values.isna() | np.isinf(values)) & cells.notna()).to_numpy()
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"line {first + 2}: {quote(cells.iloc[first])}: {fault}")
