"""``metronome place`` with wrong files, in use, and killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.cluster.store import Store
from tests.cli.placing import Folder, job
from tests.cli.typed import COMMAND, Captured, error_of


@pytest.fixture
def folder(two: Path) -> Folder:
    made = Folder(two)
    made.make()
    return made


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (job("a", tasts=2), "job.yaml: tasts: unknown field"),
        (
            job("a", tasks=3, phases=[{"start": 0, "length": 9, "rate": 50_001}]),
            "phases[0].rate: 50001 Mbit/s is more than any interface carries; use at most 50000",
        ),
        (job("a\nb"), "job.yaml: name: must be printable text"),
        ([1], "job.yaml: the top level must be a mapping"),
        (job("b"), "name: 'b' runs already; remove it with --remove, or rename it"),
    ],
)
def test_a_wrong_job_is_one_line_and_changes_nothing(
    document: dict[str, Any], said: str, folder: Folder, capsys: Captured
) -> None:
    assert folder.place(job("b")) == 0
    before = folder.content()
    folder.file(document)
    assert said in error_of(capsys, "place state job.yaml")
    assert folder.content() == before


def test_a_wrong_job_leaves_no_new_state_behind(two: Path, capsys: Captured) -> None:
    Folder(two).file(job("a", colour="red"))
    line = "place state job.yaml --cluster paper-24"
    assert "colour: unknown field" in error_of(capsys, line)
    assert not (two / "state").exists()


def test_a_state_in_use_is_left_alone(folder: Folder, capsys: Captured) -> None:
    folder.file(job("a"))
    with Store(folder.state) as store:
        assert "another process" in error_of(capsys, "place state job.yaml")
        assert not store.state.claims


@pytest.mark.slow
def test_of_processes_at_once_each_places_its_job_or_refuses(folder: Folder) -> None:
    names = ["a", "b"]
    processes = [
        subprocess.Popen(
            [*COMMAND, "place", "state", folder.file(job(name, tasks=1), f"{name}.yaml")],
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
    for _, error, status in ends:
        assert status in (0, 2)
        (line,) = error.splitlines()
        assert status or line == "wrote state"


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
main(["place", "state", {folder.file(job("a"))!r}])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert run.returncode == -9
    assert run.stdout == b""
    assert ("a" in folder.offsets()) is there
    assert folder.place(job("b", tasks=1)) == 0
