"""The command `demo`: what it prints and writes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.schedule import read_schedule


@pytest.mark.slow
def test_demo_writes_a_verified_schedule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for time_limit in ("5", "0.2"):  # the second run replaces the first
        assert main(["demo", "--output", str(tmp_path), "--time-limit", time_limit]) == 0
        printed, notes = capsys.readouterr()
        assert f"{tmp_path / 'schedule.json'}: true" in printed
        for name in ("schedule.json", "placements.svg"):
            assert (tmp_path / name).stat().st_size > 0
            assert str(tmp_path / name) in notes
        if time_limit == "5":  # five jobs on a node each, and the sixth at 660 instead of 450 ms
            slowdown = read_schedule(tmp_path / "schedule.json").objectives["slowdown"]
            assert slowdown is not None
            assert slowdown < Fraction(108, 100)
    claims = yaml.safe_load_all((tmp_path / "claims" / "claims.yaml").read_text())
    assert len(list(claims)) == 28  # workers in the scenario
