"""The command line of the test bed in this process, and a file of cases for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.program import run_app
from benchmarks.testbed.__main__ import app
from benchmarks.testbed.network import missing

CASES = """\
format: metronome-testbed/1
cases:
- {name: alone, split: test, seconds: 1, jobs: [{period: 100, bursts: [[0, 40]]}]}
- {name: tuned, split: tuning, seconds: 1, jobs: [{period: 100, bursts: [[0, 40]]}]}
- name: pair
  split: tuning
  seconds: 1
  jobs:
  - {period: 100, bursts: [[0, 40]]}
  - {period: 100, bursts: [[0, 50]]}
"""

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what gives the status of a command line, and what it has printed and said."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["testbed", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run_app(app)
        return (int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.yaml"
    path.write_text(CASES)
    return path


@pytest.fixture
def namespaces() -> None:
    """Skip on a machine, or for a user, without network namespaces."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
