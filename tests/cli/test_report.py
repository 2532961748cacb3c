"""`metronome report` as a user types it: one file, exit status, one line for every mistake."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.instance import write_instance
from metronome_opt.schedule import read_schedule, write_schedule
from tests.builders import two_jobs

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder with an instance and its schedule the working directory."""
    monkeypatch.chdir(tmp_path)
    write_instance(two_jobs(), "two.json")
    assert main(["solve", "two.json", "--output", "s.json"]) == 0
    return tmp_path


def test_a_schedule_becomes_one_file(files: Path, capsys: Captured) -> None:
    assert main(["report", "s.json", "-o", "page.html"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "wrote page.html"
    text = (files / "page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "two-jobs" in text
    assert main(["report", "s.json", "two.json"]) == 0
    assert (files / "report.html").read_text() == text


def test_a_front_becomes_one_file(files: Path, capsys: Captured) -> None:
    arguments = ["pareto", "two.json", "--objectives", "contention,wait", "--output", "front"]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main(["report", "front"]) == 0
    points = sorted(path.name for path in (files / "front").glob("point-*.json"))
    assert len(points) > 1
    text = (files / "report.html").read_text()
    assert all(point in text for point in points)
    assert capsys.readouterr() == ("", "wrote report.html\n")


def test_the_group_of_the_claims_can_be_set(files: Path) -> None:
    assert main(["report", "s.json", "--group", "net.example.org", "--namespace", "lab"]) == 0
    text = (files / "report.html").read_text()
    assert "apiVersion: net.example.org/v1alpha1" in text
    assert "namespace: lab" in text


def test_a_false_schedule_is_refused_with_status_1(files: Path, capsys: Captured) -> None:
    schedule = read_schedule("s.json")
    false = schedule.model_copy(update={"objectives": {"contention": Fraction(1)}})
    write_schedule(false, "s.json")
    capsys.readouterr()
    assert main(["report", "s.json"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "s.json: objectives.contention: stated 1, but it is 0" in message
    assert not (files / "report.html").exists()
