"""Samples from tables, and from the record of a gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.profiles import profile, read_csv, read_gate
from tests.gate.clock import Clock, claim

# ------------------------------------------------------------------ tables


def write_csv(folder: Path, text: str) -> Path:
    path = folder / "link.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_seconds_and_the_only_column(tmp_path: Path) -> None:
    found = read_csv(write_csv(tmp_path, "time,rate\n10,1\n11,\n12,3.5\n"))
    assert found.times_s.tolist() == [10.0, 11.0, 12.0]
    assert found.rates_mbps[[0, 2]].tolist() == [1.0, 3.5]
    assert found.missing == pytest.approx(1 / 3)


def test_iso_times_and_a_named_counter(tmp_path: Path) -> None:
    text = "time,in,out\n1970-01-01T00:00:00Z,0,0\n1970-01-01T00:00:02Z,1,1000000\n"
    found = read_csv(write_csv(tmp_path, text), column="out", counter=True)
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
    path = write_csv(tmp_path, text)
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


# ------------------------------------------------------------------ the record of a gate

AT = 1_700_000_000.0


def burst(at: float, **more: Any) -> str:
    record = {"at": at, "burst_ms": 50.0, "sent_bytes": 10**7, "job": "bert", "task": 0}
    return json.dumps({**record, **more})


def write(folder: Path, *lines: str) -> Path:
    path = folder / "gate.jsonl"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def recorded(folder: Path) -> Path:
    """Let a loop of 240 ms with bursts of 60 and 30 ms run through a gate."""
    path = folder / "gate.jsonl"
    clock = Clock()
    gate = clock.gate(claim(40, 240, 0, 150), record=path)
    for index in range(100):
        clock.passes(40 + index % 7)
        with gate.burst(6_000_000):
            clock.passes(60)
        clock.passes(40 - index % 5)
        with gate.burst(1_500_000):
            clock.passes(30)
    gate.close()
    return path


def test_a_profile_finds_period_bursts_and_rates(tmp_path: Path) -> None:
    found = profile(read_gate(recorded(tmp_path)))
    assert found.period_ms == pytest.approx(240, abs=0.1)
    first, second = sorted(found.bursts, key=lambda each: -each.length_ms)
    assert (first.length_ms, second.length_ms) == pytest.approx((60, 30), abs=0.5)
    assert (first.rate_mbps, second.rate_mbps) == pytest.approx((800, 400), rel=0.01)
    assert (second.start_ms - first.start_ms) % 240 == pytest.approx(150, abs=0.5)


def test_no_byte_is_lost(tmp_path: Path) -> None:
    samples = read_gate(write(tmp_path, burst(AT), burst(AT + 0.2), burst(AT + 0.4)))
    sent = (samples.rates_mbps * samples.spans_s).sum() / 8e-6
    assert sent == pytest.approx(3 * 10**7)
    assert np.isfinite(samples.rates_mbps).all()


def test_lines_that_broke_off_are_left_out(tmp_path: Path) -> None:
    whole = [burst(AT + 0.2 * index) for index in range(4)]
    broken = read_gate(write(tmp_path, whole[0], whole[1][:40], *whole[1:], whole[0][:7]))
    assert np.array_equal(broken.times_s, read_gate(write(tmp_path, *whole)).times_s)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has 0 bursts, from which no period can be told"),
        (["time,rate", "1,2"], "has 0 bursts"),
        ([burst(AT)], "has 1 bursts"),
        ([burst(AT), "{7}"], "line 2: '{7}': is not JSON"),
        (["[{}"], "line 1: '[{}': is not JSON"),
        (
            [burst(AT), burst(AT + 1, sent_bytes=None)],
            "line 2: sent_bytes: null: nobody told what the burst sent, so its rate is not known",
        ),
        (["{}"], "line 1: at: None: must be a number, at least 0"),
        ([burst(AT, burst_ms=-1)], "line 1: burst_ms: -1: must be a number, at least 0"),
        ([burst(AT, sent_bytes="x")], "line 1: sent_bytes: 'x': must be a number, at least 0"),
        (['{"at": NaN}'], "line 1: at: nan: must be a number, at least 0"),
        (
            [burst(AT), burst(AT + 1, task=1)],
            "line 2: is of task '1' of job 'bert', those before of task '0' of job 'bert'; profile",
        ),
        ([burst(AT), burst(AT + 0.04)], "line 2: at: 1700000000.04: before the end of the burst"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(InputError) as caught:
        read_gate(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_gate(tmp_path)
    (tmp_path / "x.jsonl").write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_gate(tmp_path / "x.jsonl")


def test_the_command_takes_a_record_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(recorded(tmp_path))
    assert main(["profile", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["period_ms"] == pytest.approx(240, abs=0.1)
    assert main(["profile", path, "--counter"]) == 2
    assert "is a gate's record, which --column, --counter, --unit do not suit" in (
        capsys.readouterr().err
    )


def test_of_two_runs_in_one_record_the_longer_one_counts(tmp_path: Path) -> None:
    """40 bursts every 200 ms, and after two minutes 60 every 250 ms."""
    first = [burst(AT + 0.2 * index) for index in range(40)]
    second = [burst(AT + 128 + 0.25 * index) for index in range(60)]
    samples = read_gate(write(tmp_path, *first, *second))
    assert samples.times_s[0] == pytest.approx(AT + 128, abs=0.01)
    assert profile(samples).period_ms == pytest.approx(250, rel=0.001)
