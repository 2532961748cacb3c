"""Records have an origin, and changes of them are noticed."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from metronome_opt.errors import InputError
from metronome_opt.journal import dump_line
from paper.recorded import (
    INDEX,
    RESULTS,
    SOLVERS,
    name_of,
    read_index,
    record_solvers,
    simulation_records,
    solver_records,
)
from paper.subsample import subsample_simulation
from tests.bench.report_examples import record
from tests.bench.simulation_examples import job, simulation

MOST_BYTES = 5_000_000


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


# ------------------------------------------------------------------ the paper's


def test_index_lists_recorded_files() -> None:
    present = {
        path.relative_to(RESULTS).as_posix()
        for path in RESULTS.rglob("*")
        if path.is_file() and path.name != INDEX
    }
    assert {entry.file for entry in read_index().files} == present


def test_recorded_files_are_complete() -> None:
    for entry in read_index().files:
        assert all(entry.commands), entry.file
        assert not {"unknown", "unknown machine"} & {*entry.commits, *entry.machines}, entry.file
        assert entry.first <= entry.last
        if entry.file == SOLVERS:
            assert len(solver_records()) == entry.records
        elif entry.file.startswith("studies/"):
            assert len(simulation_records(name_of(entry.file))) == entry.records
    assert sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file()) <= MOST_BYTES


# ------------------------------------------------------------------ recording


def test_campaign_round_trip(tmp_path: Path) -> None:
    records = [record("one", "auto", "1/3", lower_bound="1/3"), record("two", "auto")]
    file = write(tmp_path / "records.jsonl", *map(dump_line, records))
    entry = record_solvers([file], ["metronome bench run"], tmp_path / "results")
    assert solver_records(tmp_path / "results") == records
    assert entry.records == 2
    assert entry.seconds == 21.0  # each took 10.5 s
    assert entry.commits == ("abc1234",)
    assert entry.machines == ("a chip, 2 cores",)


def test_changed_or_missing_file_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "records.jsonl", dump_line(record("one", "auto", 1)))
    record_solvers([file], ["c"], tmp_path)
    (tmp_path / SOLVERS).write_bytes(lzma.compress(b""))
    with pytest.raises(InputError, match="its checksum is"):
        solver_records(tmp_path)
    (tmp_path / SOLVERS).unlink()
    with pytest.raises(InputError, match="cannot be read"):
        solver_records(tmp_path)


# ------------------------------------------------------------------ thinning


def test_stored_simulation_keeps_columns_of_measures() -> None:
    run = simulation("metronome", [job("a", completion_s=100.0 / 3)])
    kept = subsample_simulation(run)
    assert kept.jobs is not None
    assert kept.jobs["completion_s"] == (33.3333333,)
    assert kept.jobs["finished"] == (True,)
    assert "nodes" not in kept.jobs
    assert subsample_simulation(kept) == kept
    failed = simulation("metronome", kind="crash")
    assert subsample_simulation(failed) == failed
