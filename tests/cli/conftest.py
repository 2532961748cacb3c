"""A folder that commands are typed in."""

from __future__ import annotations

from pathlib import Path

import pytest

from metronome_opt.problem.instance import write_instance
from tests.builders import two_jobs


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory; `two.json` in it has two jobs that fit."""
    write_instance(two_jobs(), tmp_path / "two.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path
