"""The table of a test bed on records."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.testbed.bed import bed_run, begins, stored
from tests.benchmarks.testbed.conftest import Command


def test_table_shows_slowdowns_of_recorded_runs(command: Command, tmp_path: Path) -> None:
    """Three bursts of 120 in 400 take 360 if they meet under fair sharing: 640, for ever."""
    slots = {"a": 0, "b": 120, "c": 240}
    records = stored(
        tmp_path / "runs.jsonl",
        bed_run("three-80-24", "free", dict.fromkeys("abc", begins(640, 440, 400))),
        bed_run("three-80-24", "gated", dict.fromkeys("abc", begins(400, 404)), offsets=slots),
        bed_run("three-80-24", "gated-2", dict.fromkeys("abc", begins(400, 408)), offsets=slots),
    )
    picture = tmp_path / "bursts.svg"
    status, printed, _ = command("table", "--records", records, "--picture", picture)
    assert status == 0
    free, gated = [line.split() for line in printed.splitlines() if "%" in line]
    assert (free[:3], free[4]) == (["three-80-24", "free", "+60.0%"], "+5.0%")
    assert gated == ["gated", "+0.0%", "+0.0%", "+1.0%"]
    assert printed.endswith(f"wrote {picture}\n")
    assert picture.read_text().startswith("<?xml")
