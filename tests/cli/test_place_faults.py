"""``metronome place`` with wrong files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from tests.cli.placing import Folder, job, lines

Captured = pytest.CaptureFixture[str]


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
def test_wrong_job_is_refused_and_changes_nothing(
    document: dict[str, Any], said: str, folder: Folder, capsys: Captured
) -> None:
    before = folder.content()
    assert main(["place", str(folder.state), folder.file(document)]) == 2
    assert said in lines(capsys)[0]  # further faults have a line each
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
