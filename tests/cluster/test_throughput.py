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


def test_seconds_and_rates(tmp_path: Path) -> None:
    throughput = read_csv(write_csv(tmp_path, "time, rate\n10, 1\n11,\n12, 3.5\n"))
    assert throughput.times_s.tolist() == [10.0, 11.0, 12.0]
    assert throughput.rates_mbps[[0, 2]].tolist() == [1.0, 3.5]
    assert np.isnan(throughput.rates_mbps[1])


def test_a_counter_that_begins_anew(tmp_path: Path) -> None:
    path = write_csv(tmp_path, "time,sent\n0,0\n2,1000000\n3,0\n")
    throughput = read_csv(path, counter=True)
    assert throughput.times_s.tolist() == [2.0, 3.0]
    assert throughput.rates_mbps[0] == pytest.approx(4.0)
    assert np.isnan(throughput.rates_mbps[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a CSV file"),
        ("time\n1\n", "must have two columns, .* not 1"),
        ("time,in,out\n1,2,3\n", "must have two columns, .* not 3"),
        ("time,rate\n1,2\nlunch,3\n", "line 3: 'lunch,3': must be a time"),
        ("time,rate\n1,2\n2,fast\n", "line 3: "),
        ("time,rate\n1,2\n,3\n", "line 3: "),
        ("time,rate\n1,2\n2,inf\n", "line 3: "),
        ("time,rate\n1,2\n1,3\n", "line 3: "),
        ("time,rate\n1,2\n2,\n3,-1\n", "line 4: '3,-1': "),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write_csv(tmp_path, text)
    with pytest.raises(InputError, match=message) as refusal:
        read_csv(path)
    assert str(path) in str(refusal.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_csv(tmp_path / "none.csv")
    path = tmp_path / "link.csv"
    path.write_bytes(b"time,rate\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="not a CSV file"):
        read_csv(path)
