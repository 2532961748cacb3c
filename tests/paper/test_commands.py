"""``python -m paper`` does what it says, and tells a mistake in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from paper.__main__ import app
from paper.prose import HOME


def test_plan_is_printed_without_running_anything() -> None:
    told = CliRunner().invoke(app, ["results", "--plan"])
    assert told.exit_code == 0
    assert "metronome simulate snapshot --seeds 5" in told.stdout


@pytest.mark.slow
def test_fault_is_one_line_and_exit_status_2(tmp_path: Path) -> None:
    words = ["record", "solvers", str(tmp_path / "none.jsonl"), "--command", "c"]
    ended = subprocess.run(
        [sys.executable, "-m", "paper", *words],
        cwd=HOME.parent,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert (
        ended.stderr == f"{tmp_path / 'none.jsonl'}: cannot be read (No such file or directory)\n"
    )
