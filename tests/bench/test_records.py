"""Records: exact on the way out and back, appended whole, torn lines left out."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.bench.records import Record, RecordFile, dump_record, read_records
from metronome_opt.errors import InputError

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
    path.write_text(dump_record(RECORD), encoding="utf-8")
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


@pytest.mark.parametrize("torn", ['{"format":"metronome-re', "{", dump_record(RECORD)[:-1]])
def test_a_torn_last_line_is_left_out_and_cut_off(torn: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(dump_record(RECORD) + torn, encoding="utf-8")
    assert read_records([path]) == [RECORD]
    with RecordFile(path, resume=True) as file:
        assert file.records == (RECORD,)
        file.append(replace(RECORD, seed=1))
    assert [record.seed for record in read_records([path])] == [0, 1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "document: Invalid JSON"),
        ('{"format":"metronome-record/2"}', "format: "),
        (dump_record(RECORD)[:-1].replace('"seed":0', '"seed":-1'), "seed: must be at least 0"),
        (dump_record(RECORD)[:-1].replace("199/5", "39.8"), "objective: must be an exact number"),
        (dump_record(RECORD)[:-1].replace('"schedule"', '"success"'), "kind: must be 'schedule'"),
        ("", "document: Invalid JSON"),
    ],
)
def test_any_other_line_that_is_no_record_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(dump_record(RECORD) + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"r\.jsonl: line 2: {message}"):
        read_records([path])
    with pytest.raises(InputError, match="line 2"):
        RecordFile(path, resume=True)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.jsonl: cannot be read"):
        read_records([tmp_path / "none.jsonl"])


def test_a_file_with_records_is_not_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with RecordFile(path, resume=False) as file:
        file.append(RECORD)
    with pytest.raises(InputError, match="go on with --resume"):
        RecordFile(path, resume=False)
    assert read_records([path]) == [RECORD]


def test_two_campaigns_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with (
        RecordFile(path, resume=True),
        pytest.raises(InputError, match="another process is writing it"),
    ):
        RecordFile(path, resume=True)
    with RecordFile(path, resume=True) as file:
        assert file.records == ()


def test_a_place_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "folder.jsonl", Path("/dev/null")):
        with pytest.raises(InputError, match=str(path)):
            RecordFile(path, resume=False)
