"""`metronome demo` writes verified schedules."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from metronome_opt.__main__ import main


@pytest.mark.slow
@pytest.mark.parametrize("time_limit", ["0", "5"])
def test_demo_writes_verified_schedules(
    time_limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--output", str(tmp_path), "--time-limit", time_limit]) == 0
    printed, notes = capsys.readouterr()
    headings = [" ".join(line.split()) for line in printed.splitlines()]
    assert "job spread nearest allocated" in headings
    assert "job without windows with windows" in headings
    assert len((printed + notes).splitlines()) <= 25
    for name in ("schedule.json", "fleet.json", "placements.svg", "windows.svg"):
        assert (tmp_path / name).stat().st_size > 0
        assert name in notes
    for scenario, name in (("eight-nodes", "schedule.json"), ("fleet", "fleet.json")):
        assert main(["verify", scenario, str(tmp_path / name)]) == 0
    claims = yaml.safe_load_all((tmp_path / "claims" / "claims.yaml").read_text())
    assert len(list(claims)) == 64  # workers of the fleet
