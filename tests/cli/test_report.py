"""`metronome report` writes one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typed import Captured, metronome

pytestmark = pytest.mark.usefixtures("two")


def test_a_schedule_becomes_one_file(capsys: Captured) -> None:
    assert metronome("solve two.json --output s.json") == 0
    assert metronome("report s.json -o page.html") == 0
    assert capsys.readouterr().err.splitlines()[-1] == "wrote page.html"
    text = Path("page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "two-jobs" in text
    assert "{{" not in text.partition("<script")[0]  # all fields are filled in
