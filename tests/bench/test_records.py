"""Records: exact on the way out and back, appended whole, torn lines left out."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.bench.records import Record, read_records
from metronome_opt.errors import InputError
from metronome_opt.journal import Journal, dump_line

RECORD = Record(
    kind="schedule",
    suite="pair",
    split="test",
    instance="two-jobs",
    instance_sha256="ab" * 32,
    solver="auto",
    seed=0,
    time_limit_s=10.0,
    memory_limit_mb=4096,
    workers=2,
    status="feasible",
    objective=Fraction(199, 5),
    lower_bound=Fraction(1, 3),
    stop="time limit",
    runtime_s=10.25,
    build_s=0.0,
    wall_s=12.5,
    peak_memory_mb=312.5,
    trajectory=((0.5, Fraction(40), None, "greedy"), (1.5, Fraction(199, 5), Fraction(1, 3), "x")),
    offsets={"a": 3, "é": 0},
    notes=("a note",),
    error=None,
    faults=(),
    started="2026-11-20T21:00:00Z",
    machine={"processor": "a", "cores": 2, "memory_mb": 100, "system": "b"},
    versions={"python": "3.11"},
    commit="abc1234+",
)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(dump_line(RECORD), encoding="utf-8")
    assert read_records([path, path]) == [RECORD, RECORD]
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["format"] == "metronome-record/1"
    assert document["objective"] == "199/5"
    assert document["trajectory"][0] == [0.5, "40", None, "greedy"]


def test_the_key_tells_cases_apart() -> None:
    others = [
        replace(RECORD, instance_sha256="cd" * 32),
        replace(RECORD, solver="greedy"),
        replace(RECORD, seed=1),
        replace(RECORD, time_limit_s=11.0),
        replace(RECORD, memory_limit_mb=None),
        replace(RECORD, workers=1),
    ]
    assert len({record.key for record in (RECORD, *others)}) == 7
    assert replace(RECORD, kind="crash", commit=None, wall_s=1.0).key == RECORD.key


def test_only_what_the_judge_accepts_has_a_value() -> None:
    assert RECORD.value == Fraction(199, 5)
    assert replace(RECORD, kind="invalid", faults=("false",)).value is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "document: Invalid JSON"),
        ('{"format":"metronome-record/2"}', "format: "),
        (dump_line(RECORD)[:-1].replace('"seed":0', '"seed":-1'), "seed: must be at least 0"),
        (dump_line(RECORD)[:-1].replace("199/5", "39.8"), "objective: must be an exact number"),
        (dump_line(RECORD)[:-1].replace('"schedule"', '"success"'), "kind: must be 'schedule'"),
        ("", "document: Invalid JSON"),
    ],
)
def test_any_other_line_that_is_no_record_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(dump_line(RECORD) + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"r\.jsonl: line 2: {message}"):
        read_records([path])
    with pytest.raises(InputError, match="line 2"):
        Journal(path, Record, resume=True)
