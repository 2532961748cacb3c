"""`metronome pareto` writes every point as a verified schedule."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.problem.instance import Instance, write_instance
from metronome_opt.problem.schedule import read_schedule
from metronome_opt.verify import verify_schedule
from tests.builders import hard_instance, job, network
from tests.cli.typed import COMMAND, Captured, error_of, metronome
from tests.running import let_work

# By enumeration of all schedules.
CONTENTION = ["5", "20/3", "25/3", "10"]
LATENCY = ["6/91", "5/91", "4/91", "3/91"]


def overloaded() -> Instance:
    """Return three jobs on a link that always overload it a little."""
    return network(
        job("a", 12, (0, 4, 50), weight=8),
        job("b", 12, (0, 6, 60), weight=4),
        job("c", 12, (0, 5, 70)),
    )


@pytest.fixture
def folder(two: Path) -> Path:
    write_instance(overloaded(), "overloaded.json")
    return two / "results"


FRONT = "pareto overloaded.json --output results"


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / "front.csv").read_text())))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_each_point_is_a_schedule_that_verify_accepts(folder: Path, capsys: Captured) -> None:
    assert metronome(FRONT) == 0
    printed = capsys.readouterr()
    assert "by-hand: front of contention, latency: 4 points, complete" in printed.out
    line = next(line for line in printed.out.splitlines() if "point-002.json" in line)
    assert line.split()[:3] == ["2", "6.7", "5.5%"]
    assert printed.err == "wrote results/front.csv\nwrote results/front.svg\n"
    table = rows(folder)
    assert [row["contention"] for row in table] == CONTENTION
    assert [row["latency"] for row in table] == LATENCY
    assert [row["point"] for row in table] == ["1", "2", "3", "4"]
    for row in table:
        assert float(row["latency_float"]) == pytest.approx(float(Fraction(row["latency"])))
        schedule = read_schedule(folder / row["schedule"])
        assert str(schedule.objectives["contention"]) == row["contention"]
        assert metronome(f"verify overloaded.json results/{row['schedule']}") == 0
    points = {f"point-00{number}.json" for number in (1, 2, 3, 4)}
    assert names(folder) == points | {"front.csv", "front.svg"}
    assert "<svg" in (folder / "front.svg").read_text()


@pytest.mark.usefixtures("folder")
def test_json_states_the_points(capsys: Captured) -> None:
    assert metronome(f"{FRONT} --json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is True
    assert document["open_intervals"] == []
    assert [each["objectives"]["latency"] for each in document["points"]] == LATENCY
    assert document["points"][0]["schedule"] == "results/point-001.json"


def test_points_of_an_earlier_front_go_and_foreign_files_stay(folder: Path) -> None:
    folder.mkdir()
    foreign = {
        "letter.txt": "dear",
        "point-099.json": '{"format": "mine"}',
        "point-1.json": "{}",
        "point-007.yaml": "a: 1",
    }
    for name, text in foreign.items():
        (folder / name).write_text(text)
    assert metronome(FRONT) == 0
    assert len(rows(folder)) == 4
    assert metronome(f"{FRONT} --objectives contention,stretch") == 0
    # No job can be stretched.
    assert [(row["contention"], row["stretch"]) for row in rows(folder)] == [("5", "0")]
    assert names(folder) == {"point-001.json", "front.csv", "front.svg", *foreign}
    assert {name: (folder / name).read_text() for name in foreign} == foreign


def test_input_is_never_replaced(folder: Path, capsys: Captured) -> None:
    folder.mkdir()
    mine = folder / "point-001.json"
    write_instance(overloaded(), mine)
    before = mine.read_bytes()
    line = "pareto results/point-001.json --output results"
    assert "name another file to write" in error_of(capsys, line)
    assert mine.read_bytes() == before


@pytest.mark.slow
def test_signal_keeps_points(folder: Path) -> None:
    write_instance(hard_instance(), "hard.json")
    with subprocess.Popen(
        [*COMMAND, "pareto", "hard.json", "--output", "results"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        let_work(process, 6.0)
        process.send_signal(signal.SIGTERM)
        printed, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "Traceback" not in error
    assert "not proved complete" in printed
    table = rows(folder)
    assert table
    for row in table:
        assert verify_schedule(hard_instance(), read_schedule(folder / row["schedule"])) == ()
