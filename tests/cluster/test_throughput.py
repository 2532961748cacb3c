"""Throughput from tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metronome_opt.cluster.throughput import read_csv
from metronome_opt.errors import InputError


def write_csv(folder: Path, text: str) -> Path:
    path = folder / "link.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_seconds_in_any_order_and_the_only_column(tmp_path: Path) -> None:
    found = read_csv(write_csv(tmp_path, "time,rate\n12,3.5\n10,1\n11,\n"))
    assert found.times_s.tolist() == [10.0, 11.0, 12.0]
    assert found.rates_mbps[[0, 2]].tolist() == [1.0, 3.5]
    assert np.isnan(found.rates_mbps[1])


def test_iso_times_and_a_named_counter_that_begins_anew(tmp_path: Path) -> None:
    rows = "1970-01-01T00:00:00Z,0,0\n1970-01-01T00:00:02Z,1,1000000\n1970-01-01T00:00:03Z,1,0\n"
    path = write_csv(tmp_path, f"time,in,out\n{rows}")
    found = read_csv(path, column="out", counter=True)
    assert found.times_s.tolist() == [2.0, 3.0]
    assert found.rates_mbps[0] == pytest.approx(4.0)
    assert np.isnan(found.rates_mbps[1])


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", None, "not a CSV file"),
        ("time\n1\n", None, r"beside times there are 0 columns \(none\)"),
        ("time,in,out\n1,2,3\n", None, r"there are 2 columns \(in, out\); name one"),
        ("time,in,out\n1,2,3\n", "up", "no column 'up'; there are in, out"),
        ("time,rate\n1,2\nlunch,3\n", None, "line 3: 'lunch': no time"),
        ("time,rate\n1,2\n2,fast\n", None, "line 3: 'fast': no number"),
        ("time,rate\n1,2\n2,inf\n", None, "line 3: 'inf': no number"),
        ("time,rate\n1,2\n1,3\n", None, "given twice"),
        ("time;rate\n1;2\n", None, "line 1: must be headings, separated by commas"),
        ("time,rate\n1700000000000,2\n1700000000100,3\n", None, "after the year 2200; divide"),
        ("time,rate\n1,2\n2,\n3,-1\n", None, "line 4: '-1': no number"),
    ],
)
def test_wrong_tables_are_refused(
    tmp_path: Path, text: str, column: str | None, message: str
) -> None:
    path = write_csv(tmp_path, text)
    with pytest.raises(InputError, match=message) as refusal:
        read_csv(path, column=column)
    assert str(path) in str(refusal.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_csv(tmp_path / "none.csv")
    path = tmp_path / "link.csv"
    path.write_bytes(b"time,rate\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="not a CSV file"):
        read_csv(path)
