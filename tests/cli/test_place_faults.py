"""``metronome place`` with wrong files, in use, and killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.cluster.store import Store
from tests.cli.placing import Folder, job, lines

Captured = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "metronome_opt", "place"]


@pytest.fixture
def folder(tmp_path: Path, capsys: Captured) -> Folder:
    made = Folder(tmp_path)
    made.make()
    capsys.readouterr()
    return made


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (job("a", period=290), "allow a max_stretch of 10"),
        (
            {**{k: v for k, v in job("a").items() if k != "tasks"}, "tasts": 2},
            "job.yaml: tasts: unknown field (perhaps tasks), got 2",
        ),
        (
            job("a", tasks=3, phases=[{"start": 0, "length": 9, "rate": 50_001}]),
            "phases[0].rate: 50001 Mbit/s is more than any interface carries; use at most 50000",
        ),
        (job("a\nb"), "job.yaml: name: must be printable text"),
        ([1], "job.yaml: the top level must be a mapping"),
        (job("a", weight=10**30), "costs may not fit 64-bit integers; lower its weight"),
    ],
)
def test_a_wrong_job_is_one_line_and_changes_nothing(
    document: dict[str, Any], said: str, folder: Folder, capsys: Captured
) -> None:
    before = folder.content()
    assert main(["place", str(folder.state), folder.file(document)]) == 2
    line, *_ = lines(capsys)
    assert said in line
    assert folder.content() == before


def test_a_wrong_job_leaves_no_new_state_behind(tmp_path: Path, capsys: Captured) -> None:
    made = Folder(tmp_path)
    assert made.place(job("a", colour="red"), "--cluster", "paper-24") == 2
    assert "colour: unknown field" in lines(capsys)[0]
    assert not made.state.exists()


def test_a_job_that_runs_already_is_refused(folder: Folder, capsys: Captured) -> None:
    folder.place(job("a"))
    capsys.readouterr()
    assert folder.place(job("a")) == 2
    (line,) = lines(capsys)
    assert "name: 'a' runs already; remove it with --remove, or rename it" in line


def test_a_damaged_state_is_one_line(folder: Folder, capsys: Captured) -> None:
    path = folder.state / "state.json"
    path.write_text(path.read_text()[:100])
    before = folder.content()
    assert folder.place(job("a")) == 2
    (line,) = lines(capsys)
    assert f"{path}: " in line
    assert "not JSON" in line
    assert folder.content() == before


def test_a_state_that_is_in_use_is_left_alone(folder: Folder, capsys: Captured) -> None:
    with Store(folder.state) as store:
        assert folder.place(job("a")) == 2
        (line,) = lines(capsys)
        assert "another process" in line
        assert not store.state.claims


@pytest.mark.slow
def test_of_processes_at_once_each_places_its_job_or_says_why_not(folder: Folder) -> None:
    names = ["a", "b"]
    processes = [
        subprocess.Popen(
            [*COMMAND, str(folder.state), folder.file(job(name, tasks=1), f"{name}.yaml")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    ends = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    placed = {name for name, (_, _, status) in zip(names, ends, strict=True) if not status}
    assert placed
    assert set(folder.offsets()) == placed
    for _, told, status in ends:
        assert status in (0, 2)
        (line,) = told.splitlines()
        assert status or line == f"wrote {folder.state}"


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "there"), [("before", False), ("after", True)])
def test_a_job_is_placed_or_not_whenever_the_process_is_killed(
    moment: str, there: bool, folder: Folder
) -> None:
    code = f"""
import os, signal
from metronome_opt.__main__ import main
from metronome_opt.journal import Journal

write = Journal.append
def append(journal, record):
    if {moment == "after"}:
        write(journal, record)
    os.kill(os.getpid(), signal.SIGKILL)
Journal.append = append
main(["place", {str(folder.state)!r}, {folder.file(job("a"))!r}])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert run.returncode == -9
    assert run.stdout == b""
    assert ("a" in folder.offsets()) is there
    assert folder.place(job("b", tasks=1)) == 0
