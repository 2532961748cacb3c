"""The command `report`: one file, exit status."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.schedule import read_schedule, write_schedule
from tests.cli.typed import Captured, error_of, metronome

pytestmark = pytest.mark.usefixtures("two")


def test_a_schedule_becomes_one_file(capsys: Captured) -> None:
    assert metronome("solve two.json --output s.json") == 0
    assert metronome("report s.json -o page.html --namespace lab") == 0
    assert capsys.readouterr().err.splitlines()[-1] == "wrote page.html"
    text = Path("page.html").read_text()
    assert text.startswith("<!doctype html>")
    for part in ("two-jobs", "apiVersion: metronome.x-k8s.io/v1alpha1", "namespace: lab"):
        assert part in text
    assert "{{" not in text.partition("<script")[0]  # all fields are filled in


def test_a_front_becomes_one_file(capsys: Captured) -> None:
    assert metronome("pareto two.json --objectives contention,wait --output front") == 0
    capsys.readouterr()
    assert metronome("report front") == 0
    points = sorted(path.name for path in Path("front").glob("point-*.json"))
    assert len(points) > 1
    text = Path("report.html").read_text()
    assert all(point in text for point in points)
    assert capsys.readouterr() == ("", "wrote report.html\n")


def test_a_false_schedule_is_refused_with_status_1(capsys: Captured) -> None:
    assert metronome("solve two.json --output s.json") == 0
    false = {"objectives": {"contention": Fraction(1)}}
    write_schedule(read_schedule("s.json").model_copy(update=false), "s.json")
    message = error_of(capsys, "report s.json", 1)
    assert "s.json: objectives.contention: stated 1, but it is 0" in message
    assert not Path("report.html").exists()
