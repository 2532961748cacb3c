"""Measured throughput, from tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metronome_opt.errors import InputError, quote

_MBIT = 8e-6  # per byte


@dataclass(frozen=True)
class Throughput:
    """Rates over time.

    Attributes
    ----------
    times_s
        When each sample was taken, seconds, ascending, shape (n,).
    rates_mbps
        The mean rate since the sample before, Mbit/s, NaN where nothing was measured, shape (n,).
        Rates at single moments are no such means: what happens between two of them is lost.
    """

    times_s: NDArray[np.float64]
    rates_mbps: NDArray[np.float64]


def read_csv(path: str | Path, *, counter: bool = False) -> Throughput:
    """Read throughput from a CSV file of two columns with a line of headings.

    Parameters
    ----------
    path
        The file. Its first column holds times in seconds, ascending, the second one throughput. An
        empty cell is a sample that is missing.
    counter
        Whether values count the bytes that were sent, and not mean rates in Mbit/s. What was sent
        before a counter began anew is not known.

    Raises
    ------
    InputError
        If the file cannot be read, has no two columns, or holds what is no number, a negative rate,
        or times that do not ascend.
    """
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, skipinitialspace=True, skip_blank_lines=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None
    if len(table.columns) != 2:
        raise InputError(
            f"{path}: must have two columns, times and throughput, separated by commas, not "
            f"{len(table.columns)}"
        )
    frame = table.apply(pd.to_numeric, errors="coerce").replace(np.inf, np.nan)
    frame.columns = pd.Index(["time", "value"])
    wrong = (frame.isna() & table.notna().set_axis(frame.columns, axis=1)).any(axis=1)
    wrong |= frame["time"].isna() | (frame["time"].diff() <= 0) | (frame["value"] < 0)
    if wrong.any():
        first = int(wrong.to_numpy().argmax())
        raise InputError(
            f"{path}: line {first + 2}: {quote(','.join(map(str, table.iloc[first])))}: must be a "
            "time in seconds, after the one before, and a number that is not negative"
        )
    if counter:
        frame = frame.dropna()
        sent = frame["value"].diff()
        frame["value"] = sent.mask(sent < 0) * _MBIT / frame["time"].diff()
        frame = frame.iloc[1:]
    return Throughput(frame["time"].to_numpy(), frame["value"].to_numpy())
