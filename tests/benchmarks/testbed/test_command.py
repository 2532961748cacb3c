"""Output of the command line on records, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.testbed.bed import bed_run, begins, stored
from tests.benchmarks.testbed.conftest import Command

SLOTS = {"a": 0, "b": 40}


def table_rows(text: str) -> dict[str, list[float]]:
    """Return the rows of the tables of figures by their labels."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: [float(each) for each in row[1:]] for row in rows if len(row) == 5}


# ------------------------------------------------------------------ compare

RUNS = (
    bed_run("alone", "free", {"a": begins(110, 110)}),
    bed_run("alone", "gated", {"a": begins(100, 100)}, offsets={"a": 0}),
    bed_run("alike", "free", {"a": begins(125)}),
    bed_run("alike", "gated", {"a": begins(500)}, offsets={"a": 0}, busy=True),
    bed_run("tuned", "free", {"a": begins(400)}),
)


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.xz"])
def test_compare_tells_how_far_off_the_simulator_is(
    name: str, command: Command, cases: Path, tmp_path: Path
) -> None:
    """Simulated 100, seen 110, 100 and 125: off by an eleventh, nothing and a fifth."""
    status, printed, said = command("compare", stored(tmp_path / name, *RUNS), "--cases", cases)
    assert (status, said) == (0, "")
    fair, tcp = printed.split("sharing tcp")
    assert "fair: how far mean iteration times are off (test cases)" in fair
    for part in (fair, tcp.partition("the worst")[0]):
        lines = [line for line in part.splitlines() if line.split()[:1] != ["jobs"]]
        found = table_rows("\n".join(lines))
        assert found["free"] == [2, 0.1455, 0.1891, 0.2]
        assert found["gated"] == [1, 0, 0, 0]
        assert found["bbr"] == [1, 0.2, 0.2, 0.2]
        assert found["cubic"] == [2, 0.0455, 0.0818, 0.0909]
        assert "   3  0.0909       0.1782      0.2" in part
    worst = [line.split() for line in tcp.partition("the worst:\n")[2].splitlines()[1:4]]
    assert [(row[0], row[3], float(row[-1])) for row in worst] == [
        ("alike", "free", -0.2),
        ("alone", "free", -0.091),
        ("alone", "gated", 0),
    ]
    assert "come apart" not in printed  # nobody was alone with another job


# ------------------------------------------------------------------ table


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
