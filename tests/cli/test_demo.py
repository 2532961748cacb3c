"""`metronome demo` writes a verified schedule."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from metronome_opt.__main__ import main


@pytest.mark.slow
@pytest.mark.parametrize("time_limit", ["0", "5"])
def test_demo_writes_a_verified_schedule(
    time_limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--output", str(tmp_path), "--time-limit", time_limit]) == 0
    printed, notes = capsys.readouterr()
    assert f"{tmp_path / 'schedule.json'}: verified" in printed
    headings = [" ".join(line.split()) for line in printed.splitlines()]
    assert "job spread nearest allocated" in headings
    assert "waits" not in printed  # there is room for all; what is not simulated is not known
    for name in ("schedule.json", "placements.svg"):
        assert (tmp_path / name).stat().st_size > 0
        assert str(tmp_path / name) in notes
    claims = yaml.safe_load_all((tmp_path / "claims" / "claims.yaml").read_text())
    assert len(list(claims)) == 28  # workers in the scenario
