"""`metronome pareto` as a user types it: files, table, picture, exit status, going on."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.instance import Instance, read_instance, write_instance
from metronome_opt.report.tables import CUSHION_LEGEND
from metronome_opt.schedule import read_schedule
from metronome_opt.verify import check
from tests.builders import hard_instance, job, network
from tests.running import let_work

Captured = pytest.CaptureFixture[str]

# What looking at all schedules finds.
CONTENTION = ["5", "20/3", "25/3", "10"]
LATENCY = ["6/91", "5/91", "4/91", "3/91"]


def crowd() -> Instance:
    """Return three jobs on a link that always overload it a little."""
    return network(
        job("a", 12, (0, 4, 50), weight=8),
        job("b", 12, (0, 6, 60), weight=4),
        job("c", 12, (0, 5, 70)),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "crowd.json"
    write_instance(crowd(), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "results"


def rows(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / "front.csv").read_text())))


def told(folder: Path) -> list[str]:
    """Return what the command says that it wrote."""
    return [f"wrote {folder / name}" for name in ("front.csv", "front.svg", "front.json")]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_each_point_is_a_schedule_that_verify_accepts(
    file: Path, folder: Path, capsys: Captured
) -> None:
    assert main(["pareto", str(file), "--output", str(folder)]) == 0
    table = rows(folder)
    assert [row["contention"] for row in table] == CONTENTION
    assert [row["latency"] for row in table] == LATENCY
    assert [row["point"] for row in table] == ["1", "2", "3", "4"]
    for row in table:
        assert float(row["latency_float"]) == pytest.approx(float(Fraction(row["latency"])))
        schedule = read_schedule(folder / row["schedule"])
        assert str(schedule.objectives["contention"]) == row["contention"]
        assert main(["verify", str(file), str(folder / row["schedule"])]) == 0
    assert names(folder) == {
        *(f"point-00{number}.json" for number in (1, 2, 3, 4)),
        *("front.csv", "front.svg", "front.json"),
    }
    assert "<svg" in (folder / "front.svg").read_text()
    assert capsys.readouterr().err.splitlines() == told(folder)


def test_the_table_says_what_there_is(file: Path, folder: Path, capsys: Captured) -> None:
    assert main(["pareto", str(file), "--output", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "by-hand: front of contention, latency: 4 points, complete" in printed
    line = next(line for line in printed.splitlines() if "point-002.json" in line)
    assert line.split()[:3] == ["2", "6.7", "5.5%"]


def test_the_hypervolume_is_the_dominated_share_of_the_box(
    file: Path, folder: Path, capsys: Captured
) -> None:
    arguments = ["pareto", str(file), "--output", str(folder)]
    assert main([*arguments, "--reference", "contention=20,latency=6/91"]) == 0
    # The first is on the edge; the others take a sixth of the height each, as wide as is left.
    share = Fraction(40, 3) / 20 / 6 + Fraction(35, 3) / 20 / 6 + Fraction(10, 20) / 6
    printed = capsys.readouterr().out
    assert f"hypervolume {float(share):.4f} of the box from 0 to contention 20.0" in printed
    assert "(unshifted)" not in printed
    assert main(arguments) == 0
    # Unshifted: 80 above capacity in four slots, 30 in one; the light job first, then b.
    contention = Fraction(4 * (70 * 1 + 10 * 4) + 30, 12)
    assert f"contention {float(contention):,.1f}, latency 38.5% (unshifted)" in (
        capsys.readouterr().out
    )


def test_without_a_reference_there_is_a_note(file: Path, folder: Path, capsys: Captured) -> None:
    arguments = ["pareto", str(file), "--output", str(folder), "--objectives"]
    assert main([*arguments, "contention,wait"]) == 0
    printed = capsys.readouterr()
    assert "hypervolume" not in printed.out
    assert printed.err.splitlines() == [
        *told(folder),
        "note: no hypervolume: the wait of the unshifted schedule is 0; say --reference wait=VALUE",
    ]
    assert main([*arguments, "contention,cushion"]) == 0
    assert "how much cushion matters is not known" in capsys.readouterr().err
    assert main([*arguments, "contention,wait", "--reference", "wait=100"]) == 0
    assert "hypervolume 0." in capsys.readouterr().out


def test_without_moocore_the_front_is_still_there(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "moocore", None)
    assert main(["pareto", str(file), "--output", str(folder)]) == 0
    assert len(rows(folder)) == 4
    assert capsys.readouterr().err.splitlines() == [
        *told(folder),
        "note: the hypervolume needs moocore, which is not installed: pip install moocore",
    ]


def test_json_is_for_programs(file: Path, folder: Path, capsys: Captured) -> None:
    assert main(["pareto", str(file), "--output", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is True
    assert [each["objectives"]["latency"] for each in document["points"]] == LATENCY
    assert document["points"][0]["schedule"] == str(folder / "point-001.json")
    assert document["reference"] == {"contention": "235/6", "latency": "5/13"}
    assert 0 < document["hypervolume"] < 1
    assert set(document["others"]) == {"greedy", "cassini", "unshifted"}


def test_a_picture_is_drawn_where_one_is_wanted(file: Path, folder: Path, tmp_path: Path) -> None:
    inside, outside = folder / "inside.png", tmp_path / "outside.pdf"
    for picture in (inside, outside):
        assert main(["pareto", str(file), "--output", str(folder), "--plot", str(picture)]) == 0
        assert picture.stat().st_size > 1000


def test_points_of_an_earlier_front_go_and_foreign_files_stay(file: Path, folder: Path) -> None:
    folder.mkdir()
    foreign = {
        "letter.txt": "dear",
        "point-099.json": '{"format": "mine"}',
        "point-1.json": "{}",
        "point-007.yaml": "a: 1",
    }
    for name, text in foreign.items():
        (folder / name).write_text(text)
    assert main(["pareto", str(file), "--output", str(folder)]) == 0
    assert main(["pareto", str(file), "--output", str(folder), "--epsilon", "latency=5/91"]) == 0
    assert [row["latency"] for row in rows(folder)] == LATENCY[1:]
    assert {name for name in names(folder) if name.startswith("point")} == {
        *("point-001.json", "point-002.json", "point-003.json"),
        *("point-099.json", "point-1.json", "point-007.yaml"),
    }
    assert {name: (folder / name).read_text() for name in foreign} == foreign


def test_a_reserve_is_said_and_verified(file: Path, folder: Path, capsys: Captured) -> None:
    assert main(["pareto", str(file), "--output", str(folder), "--cushion-slots", "1"]) == 0
    assert "longer bursts, by 1 slot\n" in capsys.readouterr().out
    for row in rows(folder):
        assert read_schedule(folder / row["schedule"]).cushion_slots == 1
        assert main(["verify", str(file), str(folder / row["schedule"])]) == 0


def test_a_cushion_without_limit_is_infinite_in_the_table(
    tmp_path: Path, folder: Path, capsys: Captured
) -> None:
    path = tmp_path / "alone.json"
    write_instance(network(job("a", 4, (0, 1, 60)), job("b", 4, (0, 1, 60), links={})), path)
    arguments = ["pareto", str(path), "--output", str(folder)]
    assert main([*arguments, "--objectives", "contention,cushion"]) == 0
    (row,) = rows(folder)
    assert (row["cushion"], float(row["cushion_float"])) == ("no limit", float("inf"))
    assert CUSHION_LEGEND in capsys.readouterr().out


def test_a_damaged_memory_is_a_note(file: Path, folder: Path, capsys: Captured) -> None:
    folder.mkdir()
    (folder / "front.json").write_text("{")
    assert main(["pareto", str(file), "--output", str(folder)]) == 0
    *files, line = capsys.readouterr().err.splitlines()
    assert files == told(folder)
    assert line.startswith(f"note: {folder / 'front.json'}: ")
    assert json.loads((folder / "front.json").read_text())["parts"]


def test_the_input_is_never_replaced(file: Path, folder: Path, capsys: Captured) -> None:
    folder.mkdir()
    mine = folder / "point-001.json"
    mine.write_text(file.read_text())
    assert main(["pareto", str(mine), "--output", str(folder)]) == 2
    assert "name another place to write" in capsys.readouterr().err
    assert mine.read_text() == file.read_text()
    assert main(["pareto", str(file), "--output", str(folder), "--plot", str(file)]) == 2


@pytest.mark.slow
def test_a_signal_still_writes_what_was_found(tmp_path: Path, folder: Path) -> None:
    instance = tmp_path / "hard.json"
    write_instance(hard_instance(), instance)
    with subprocess.Popen(
        [sys.executable, "-m", "metronome_opt", "pareto", str(instance), "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        let_work(process, 6.0)
        process.send_signal(signal.SIGTERM)
        printed, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "not proved complete" in printed
    found = rows(folder)
    assert found
    for row in found:
        assert check(read_instance(instance), read_schedule(folder / row["schedule"])) == ()
