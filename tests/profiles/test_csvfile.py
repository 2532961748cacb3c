from __future__ import annotations

from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.profiles import read_csv


def write(folder: Path, text: str) -> Path:
    path = folder / "link.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_seconds_and_the_only_column(tmp_path: Path) -> None:
    found = read_csv(write(tmp_path, "time,rate\n10,1\n11,\n12,3.5\n"))
    assert found.times_s.tolist() == [10.0, 11.0, 12.0]
    assert found.rates_mbps[[0, 2]].tolist() == [1.0, 3.5]
    assert found.missing == pytest.approx(1 / 3)


def test_iso_times_and_a_named_counter(tmp_path: Path) -> None:
    text = "time,in,out\n1970-01-01T00:00:00Z,0,0\n1970-01-01T00:00:02Z,1,1000000\n"
    found = read_csv(write(tmp_path, text), column="out", counter=True)
    assert found.times_s.tolist() == [2.0]
    assert found.rates_mbps.tolist() == pytest.approx([4.0])


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", None, "not a CSV file"),
        ("time\n1\n", None, r"0 columns beside times \(none\)"),
        ("time,in,out\n1,2,3\n", None, r"2 columns beside times \(in, out\)"),
        ("time,in,out\n1,2,3\n", "up", "no column 'up'; there are in, out"),
        ("time,rate\n1,2\nlunch,3\n", None, "line 3: 'lunch': no time"),
        ("time,rate\n1,2\n2,fast\n", None, "line 3: 'fast': no number"),
        ("time,rate\n1,2\n1,3\n", None, "given twice"),
        ("time;rate\n1;2\n", None, "line 1: 'time;rate': is it separated by commas"),
        ("time\trate\n1\t2\n", None, "is it separated by commas"),
        ("1,2\n2,3\n", None, "line 1: '1': a value in place of a heading"),
        ("2024-01-01T00:00:00Z,2\n2024-01-01T00:00:01Z,3\n", None, "in place of a heading"),
        ("time,rate\n1700000000000,2\n1700000000100,3\n", None, "after the year 2200; divide"),
        ("time,rate\n1,2\n2,\n3,-1\n", None, "line 4: '-1': below 0"),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, text: str, column: str | None, message: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as refusal:
        read_csv(path, column=column)
    assert str(path) in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_csv(tmp_path / "none.csv")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "link.csv"
    path.write_bytes(b"time,rate\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="not a CSV file"):
        read_csv(path)
