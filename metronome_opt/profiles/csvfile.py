"""Samples from a CSV file: times in its first column, throughput in another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from metronome_opt.errors import InputError, show
from metronome_opt.profiles.samples import Samples, from_series

if TYPE_CHECKING:
    import pandas as pd


_NEGATIVE = "below 0, which no throughput is; if it is a counter, say so"


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
    table = _read_table(Path(path))
    _check_headings(table, path)
    name = _choose(table, column, path)
    try:
        times = _times(table.iloc[:, 0])
        values = _numbers(table[name])
        if not counter:
            _check(table[name], values.mask(values < 0).where(values.notna(), 0.0), _NEGATIVE)
        return from_series(values.set_axis(times), counter=counter, unit=unit)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path, dtype=str, skipinitialspace=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None


def _check_headings(table: pd.DataFrame, path: str | Path) -> None:
    """Refuse a first line that holds another separator, or values already."""
    import pandas as pd

    first = str(table.columns[0])
    if ";" in first or "\t" in first:
        raise InputError(f"{path}: line 1: {show(first)}: is it separated by commas? It has to be")
    is_number = pd.notna(pd.to_numeric(first, errors="coerce"))
    if is_number or pd.notna(pd.to_datetime(first, utc=True, format="ISO8601", errors="coerce")):
        raise InputError(
            f"{path}: line 1: {show(first)}: a value in place of a heading; begin with a line "
            "like time,rate"
        )


def _choose(table: pd.DataFrame, column: str | None, path: str | Path) -> str:
    names = [str(name) for name in table.columns[1:]]
    if column is None and len(names) == 1:
        return names[0]
    known = ", ".join(names) or "none"
    if column is None:
        raise InputError(
            f"{path}: has {len(names)} columns beside times ({known}); name one of them"
        )
    if column not in names:
        raise InputError(f"{path}: has no column {show(column)}; there are {known}")
    return column


def _times(cells: pd.Series) -> pd.Index:
    """Return times that are all written as the first one is."""
    import pandas as pd

    seconds = pd.to_numeric(cells, errors="coerce")
    if seconds.iloc[:1].notna().all():
        _check(cells, seconds, "no time in seconds, as the first one is")
        return pd.Index(seconds.astype("float64"))
    moments = pd.to_datetime(cells, utc=True, format="ISO8601", errors="coerce")
    _check(cells, moments, "no time; use seconds or ISO 8601")
    return pd.DatetimeIndex(moments)


def _numbers(cells: pd.Series) -> pd.Series:
    import pandas as pd

    numbers = pd.to_numeric(cells, errors="coerce")
    _check(cells, numbers.where(cells.notna(), 0.0), "no number")
    return numbers.astype("float64")


def _check(cells: pd.Series, understood: pd.Series, fault: str) -> None:
    """Refuse the first cell that was not understood."""
    wrong = understood.isna().to_numpy()
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"line {first + 2}: {show(cells.iloc[first])}: {fault}")
