"""Records of gates: they tell what the counters of the gate do; wrong lines are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.cluster.gates import COUNTERS
from metronome_opt.cluster.recorded import counters_of, read_record
from metronome_opt.errors import InputError
from tests.gate.clock import Clock, claim, total

AT = 1_700_000_000.0


def line(at: float, **more: Any) -> str:
    burst = {"at": at, "burst_ms": 50.0, "sent_bytes": 10**7, "job": "bert", "task": 0}
    return json.dumps({**burst, **more})


def write(folder: Path, *lines: str) -> Path:
    path = folder / "gate.jsonl"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def recorded(folder: Path) -> tuple[Path, dict[str, float]]:
    """Let a loop of 240 ms with bursts of 60 and 30 ms run through a gate; return its counters."""
    path = folder / "gate.jsonl"
    clock = Clock()
    gate = clock.gate(claim(40, 240, 0, 150), record=path)
    for index in range(100):
        clock.passes(40 + index % 7)
        with gate.burst(6_000_000):
            clock.passes(60)
        clock.passes(40 - index % 5)
        with gate.burst(1_500_000):
            clock.passes(30 + index % 3)
    counted = {name: total(gate, name) for name in COUNTERS}
    gate.close()
    return path, counted


def test_a_record_has_the_counters_of_its_gate(tmp_path: Path) -> None:
    path, counted = recorded(tmp_path)
    counters = counters_of(read_record(path))
    assert {each.name: each.values[-1] for each in counters} == pytest.approx(counted)
    assert {each.name: each.increase(0.0) for each in counters} == pytest.approx(counted)
    assert {each.job for each in counters} == {"bert"}


def test_lines_that_broke_off_are_left_out(tmp_path: Path) -> None:
    whole = [line(AT + 0.2 * index) for index in range(4)]
    broken = read_record(write(tmp_path, whole[0], whole[1][:40], *whole[1:], whole[0][:7]))
    assert broken == read_record(write(tmp_path, *whole))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["time,rate", "1,2"], "holds no bursts of a gate"),
        ([line(AT), "{7}"], "line 2: is not JSON"),
        (["[{}"], "line 1: is not JSON"),
        (["{}"], "line 1: at: missing"),
        ([line(AT, burst_ms=-1)], "line 1: burst_ms: must be at least 0.0, got -1"),
        ([line(AT, sent_bytes="x")], "line 1: sent_bytes: Input should be a valid number, got 'x'"),
        (['{"at": NaN, "burst_ms": 1}'], "line 1: at: Input should be a finite number, got nan"),
        (
            [line(AT), line(AT + 1, task=1)],
            "line 2: is of task 1 of job bert, those before of task 0 of job bert; give one",
        ),
        ([line(AT), line(AT + 0.04)], "line 2: at: 1700000000.04: before the end of the burst"),
    ],
)
def test_wrong_records_are_refused_in_one_line(tmp_path: Path, lines: list[str], said: str) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(InputError) as caught:
        read_record(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_record(tmp_path)
    (tmp_path / "x.jsonl").write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_record(tmp_path / "x.jsonl")
