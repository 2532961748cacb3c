"""Running cases from the command line, up to the network: what is run, and on which machines."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import benchmarks.testbed.__main__ as bed
from benchmarks.testbed.cases import Case
from benchmarks.testbed.run import BedError, BedRun
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.files.journal import read_journal
from tests.benchmarks.testbed.bed import bed_run, begins, refused, stored
from tests.benchmarks.testbed.conftest import Command

ROOT = Path(__file__).parents[3]
SLOTS = {"a": 0, "b": 40}
PLAN = Plan(SLOTS, {"a": 100, "b": 100})

# ------------------------------------------------------------------ machines without namespaces


@pytest.mark.parametrize("arguments", [["run"], ["table"]])
def test_another_user_than_root_is_refused(
    arguments: list[str], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/bin/{tool}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    line = refused(command(*arguments))
    assert line == "network namespaces need root; run this as root\n"
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ run, without a network


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """Return the runs that are made from now on, none of them on a network."""
    made = []

    def run_case(case: Case, mode: str, repeat: int, planned: Plan | None) -> BedRun:
        assert planned == (None if mode == "free" else PLAN)
        made.append((case.name, mode, repeat))
        if (case.name, repeat) == ("tuned", 1):
            raise BedError("job a, rank 0: did not start: it said nothing")
        times = dict.fromkeys(case.job_names, begins(100))
        return bed_run(case.name, mode, times, repeat=repeat, offsets=planned and planned.offsets)

    monkeypatch.setattr(bed, "check_machine", lambda: None)
    monkeypatch.setattr(bed, "plan", lambda _, mode: None if mode == "free" else PLAN)
    monkeypatch.setattr(bed, "run_case", run_case)
    return made


def test_resume_repeats_only_disturbed_runs(
    command: Command, cases: Path, tmp_path: Path, played: list[tuple[str, str, int]]
) -> None:
    both = {"a": begins(100), "b": begins(100)}
    cut = {"a": {"begins_ms": (0.0, 1.0), "bursts_ms": ()}}
    records = stored(
        tmp_path / "runs.jsonl",
        bed_run("pair", "free", both),
        bed_run("pair", "free", both, repeat=1, busy=True),
        bed_run("pair", "gated", both, offsets=SLOTS, jobs={"a": {**cut["a"], "ended": "lost"}}),
    )
    with records.open("a") as stream:
        stream.write('{"case": "pa')  # somebody was killed here
    options = ["--cases", cases, "--modes", "free,gated", "--repeats", "2", "--output", records]
    assert "--resume" in refused(command("run", "pair", *options))
    assert played == []
    status, printed, _ = command("run", "pair", *options, "--resume")
    assert status == 0
    assert played == [("pair", "gated", 0), ("pair", "free", 1), ("pair", "gated", 1)]
    assert printed.endswith(f"{records}: 6 runs, 1 of them on a busy machine\n")
    assert len(read_journal([records], BedRun)) == 6
    command("run", "pair", *options, "--resume")
    assert len(played) == 3


def test_a_failed_run_is_reported_and_the_others_go_on(
    command: Command, cases: Path, tmp_path: Path, played: list[tuple[str, str, int]]
) -> None:
    records = tmp_path / "runs.jsonl"
    status, printed, _ = command(
        *("run", "tuned", "alone", "--cases", cases, "--modes", "free", "--repeats", "2"),
        *("--output", records),
    )
    assert status == 0
    assert "tuned, free, 1: job a, rank 0: did not start: it said nothing" in printed
    assert played == [(name, "free", each) for each in (0, 1) for name in ("tuned", "alone")]
    found = [(run.case, run.repeat) for run in read_journal([records], BedRun)]
    assert found == [("tuned", 0), ("alone", 0), ("alone", 1)]
