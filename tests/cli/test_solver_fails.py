"""The best schedule of a user's solver that raises is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt.bench.solver_runs import read_records
from tests.cli.typed import Captured, metronome, printed

SOLVERS = """
def late(search):
    search.offer([job.period // 2 * (n % 2) for n, job in enumerate(search.instance.jobs)])
    return {}["table"]


def early(search):
    return {}["table"]
"""


@pytest.fixture(autouse=True)
def mine(two: Path) -> None:
    """Write solvers into the working directory."""
    (two / "mine.py").write_text(SOLVERS)


def test_traceback_is_shown_and_schedule_kept(capsys: Captured) -> None:
    line = "solve two.json --solver mine.py:late"
    assert metronome(f"{line} --output best.json") == 1
    _, error = capsys.readouterr()
    assert error.index("wrote best.json") < error.index("Traceback (most recent call last)")
    assert 'mine.py", line 4, in late' in error
    failure = "failed (KeyError: 'table'); its best schedule is"
    assert error.splitlines()[-1].endswith(f"{failure} kept in best.json")
    assert printed(capsys, "verify two.json best.json")
    document = json.loads("".join(printed(capsys, f"{line} --json", status=1)))
    assert document["offsets"] == json.loads(Path("best.json").read_text())["offsets"]
    assert metronome(line) == 1
    assert capsys.readouterr().err.endswith(f"{failure} printed; --output writes it\n")


def test_nothing_is_written_if_nothing_was_found(capsys: Captured) -> None:
    line = "solve two.json --solver mine.py:early --output best.json"
    assert metronome(line) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert 'mine.py", line 8, in early' in error
    assert error.splitlines()[-1].endswith("failed (KeyError: 'table')")
    assert not Path("best.json").exists()


def test_campaign_prints_traceback_and_keeps_trajectory(two: Path, capsys: Captured) -> None:
    (two / "some").mkdir()
    (two / "two.json").rename(two / "some" / "two.json")
    metronome("bench run --suite some --solvers mine.py:late --time-limit 1 --split all")
    error = capsys.readouterr().err
    assert error.count("Traceback (most recent call last)") == 1
    assert 'mine.py", line 4, in late' in error
    (record,) = read_records([Path("campaign.jsonl")])
    assert record.kind == "crash"
    assert record.trajectory
    assert "in late" in "".join(record.notes)
