"""The commands as a user types them: what is printed, what is written, how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.cli.app import COMMANDS
from metronome_opt.instance import Instance, Job, Link, Phase, write_instance
from metronome_opt.schedule import read_schedule
from tests.builders import job, network, two_jobs

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def instance_file(tmp_path: Path) -> Path:
    path = tmp_path / "two-jobs.json"
    write_instance(two_jobs(), path)
    return path


@pytest.fixture
def schedule_file(tmp_path: Path, instance_file: Path) -> Path:
    path = tmp_path / "schedule.json"
    assert main(["solve", str(instance_file), "--output", str(path)]) == 0
    return path


def test_solve_writes_a_schedule_that_verify_accepts(
    instance_file: Path, schedule_file: Path, capsys: Captured
) -> None:
    schedule = read_schedule(schedule_file)
    assert schedule.lower_bound == 1
    assert 1 <= schedule.objectives["slowdown"] < 1.02  # type: ignore[operator]
    assert schedule.objectives["contention"] == 0
    assert schedule.gated == {"a": True, "b": True}
    # b repeats every 20 slots: 12 free slots, a needs 8, which leaves 2 on either side.
    assert schedule.objectives["cushion"] == 2
    assert main(["verify", str(instance_file), str(schedule_file)]) == 0
    printed = capsys.readouterr().out
    assert "true" in printed
    assert "proof not checked" in printed


def test_solve_prints_what_the_schedule_brings(instance_file: Path, capsys: Captured) -> None:
    assert main(["solve", str(instance_file), "--objectives", "contention"]) == 0
    printed = capsys.readouterr()
    # Unshifted both burst in 8 of 40 slots, 30,000 of weight 1 unserved: 6,000 on average.
    assert "6,000.0" in printed.out
    assert "optimal" in printed.out
    assert printed.err == ""


def test_json_is_the_schedule_itself(instance_file: Path, capsys: Captured) -> None:
    assert (
        main(
            [
                "solve",
                str(instance_file),
                "--solver",
                "unshifted",
                "--objectives",
                "contention",
                "--json",
            ]
        )
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "metronome-schedule/1"
    assert document["objectives"]["contention"] == "6000"
    assert document["lower_bound"] is None


def test_verify_names_each_false_number(
    instance_file: Path, schedule_file: Path, capsys: Captured
) -> None:
    document = json.loads(schedule_file.read_text())
    document["objectives"] |= {"contention": "1/3", "wait": "7"}
    schedule_file.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["verify", str(instance_file), str(schedule_file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert any("objectives.contention: stated 1/3, but it is 0" in line for line in lines)
    assert any("objectives.wait: stated 7" in line for line in lines)
    assert main(["verify", str(instance_file), str(schedule_file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["valid"] is False
    assert {"objectives.contention", "objectives.wait"} <= {row["place"] for row in told["false"]}


def test_claims_writes_what_was_decided(
    instance_file: Path, schedule_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path / "claims"
    arguments = ["claims", str(instance_file), str(schedule_file), "--output", str(folder)]
    assert main(arguments) == 0
    assert "every link is taken for a node" in capsys.readouterr().err
    claims = list(yaml.safe_load_all((folder / "claims.yaml").read_text()))
    offsets = read_schedule(schedule_file).offsets
    decided = {
        claim["spec"]["job"]: claim["spec"]["allocation"]["offsetMicroseconds"] for claim in claims
    }
    assert decided == {name: offset * 5000 for name, offset in offsets.items()}
    assert main([*arguments, "--namespace", "training", "--group", "net.example.org"]) == 0
    assert "net.example.org" in (folder / "crds.yaml").read_text()


@pytest.mark.parametrize("format_", ["lp", "mps", "cpsat", "mzn"])
def test_export_writes_a_file_or_prints(
    format_: str, instance_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / f"model.{format_}"
    arguments = ["export", str(instance_file), "--format", format_]
    assert main([*arguments, "--output", str(path)]) == 0
    assert capsys.readouterr() == ("", f"wrote {path}\n")
    assert main(arguments) == 0
    assert capsys.readouterr().out == path.read_text()


def test_solve_draws_and_claims_on_the_way(instance_file: Path, tmp_path: Path) -> None:
    picture, folder = tmp_path / "out.svg", tmp_path / "claims"
    arguments = [
        "--solver",
        "greedy",
        "--objectives",
        "contention",
        "--plot",
        str(picture),
        "--claims",
        str(folder),
    ]
    assert main(["solve", str(instance_file), *arguments]) == 0
    assert picture.stat().st_size > 1000
    assert (folder / "claims.yaml").exists()


def test_notes_go_to_standard_error(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "two.json"
    write_instance(two_jobs(), path)
    order = ["--solver", "cassini", "--objectives", "contention", "--time-limit", "0"]
    assert main(["solve", str(path), *order]) == 0
    printed, noted = capsys.readouterr()
    assert "search was cut short" in noted
    assert "cut short" not in printed


def solved(capsys: Captured, *arguments: str) -> list[str]:
    """Return the lines that solve prints."""
    capsys.readouterr()
    assert main(["solve", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def row(lines: list[str], name: str) -> list[str]:
    return next(line.split() for line in lines if line.startswith(f"{name} "))


def test_objectives_in_order_are_told_one_by_one(instance_file: Path, capsys: Captured) -> None:
    lines = solved(capsys, str(instance_file), "--objectives", "contention,wait")
    # The lighter one waits 8 slots, until the burst of the other is over.
    assert lines[1:3] == ["1. contention 0 (proved)", "2. wait 8 (proved)"]
    assert row(lines, "wait")[1:3] == ["0.0", "8.0"]
    alone = solved(capsys, str(instance_file), "--objectives", "contention")
    assert not alone[1].startswith("1. ")


def test_a_weighted_sum_is_told_as_one(instance_file: Path, capsys: Captured) -> None:
    lines = solved(capsys, str(instance_file), "--objectives", "contention=1/2,latency=1/2")
    assert lines[1] == "1. weighted sum 0 (proved)"


def test_a_reserve_is_part_of_the_schedule(
    instance_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "reserve.json"
    arguments = [str(instance_file), "--cushion-slots", "2", "--output", str(path)]
    assert "all values are those of longer bursts, by 2 slots" in solved(capsys, *arguments)
    assert read_schedule(path).cushion_slots == 2
    assert main(["verify", str(instance_file), str(path)]) == 0


def test_classes_are_shown_where_there_are_any(
    instance_file: Path, tmp_path: Path, capsys: Captured
) -> None:
    order = ("--objectives", "contention")
    assert any("faster" in line for line in solved(capsys, str(instance_file), *order))
    path = tmp_path / "alike.json"
    write_instance(network(job("a", 4, (0, 1, 60)), job("b", 4, (0, 1, 60))), path)
    assert not any("faster" in line for line in solved(capsys, str(path), *order))


def test_solve_says_who_is_gated(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "fitting.json"
    write_instance(two_jobs(), path)
    lines = solved(capsys, str(path))
    assert lines[0].startswith("auto: feasible, slowdown 1.0")
    assert lines[1].startswith("2 of 2 jobs gated: ")
    assert row(lines, "a")[3] == "200"  # ms from one slot to the next
    # With a third job that sends nearly all the time nobody can keep out of its way.
    crowded = job("c", 20, (0, 19, 40_000), links={"node-0": 1})
    write_instance(two_jobs().replace(jobs=(*two_jobs().jobs[:1], crowded)), path)
    assert solved(capsys, str(path))[1].startswith("0 of 2 jobs gated: ")


def test_what_fit_drops_may_have_no_hyperperiod_with_the_others(tmp_path: Path) -> None:
    """Beside a and b at 997 slots, c would repeat after 997 * 1009; only stretched it would fit."""
    path, out = tmp_path / "jobs.json", tmp_path / "kept.json"
    jobs = [
        job("a", 997, (0, 400, 60), weight=5),
        job("b", 997, (0, 400, 60), weight=5),
        job("c", 1009, (0, 300, 60), max_stretch=2000),
    ]
    write_instance(network(*jobs), path)
    limit = ("--hyperperiod-limit", "10000")
    assert main(["fit", str(path), "--drop", "--output", str(out), *limit]) == 0
    assert read_schedule(out).gated == {"a": True, "b": True, "c": False}
    for command in (
        ["verify", str(path), str(out)],
        ["claims", str(path), str(out), "--output", str(tmp_path / "claims")],
        ["report", str(out), str(path), "--output", str(tmp_path / "page.html")],
    ):
        assert main([*command, *limit]) == 0, command


def test_fit_says_yes_or_who_stands_in_the_way(tmp_path: Path, capsys: Captured) -> None:
    path, out = tmp_path / "jobs.json", tmp_path / "kept.json"
    jobs = [job("a", 10, (0, 4, 60), weight=3), job("b", 10, (0, 4, 60)), job("c", 15, (0, 4, 60))]
    write_instance(network(*jobs[:2]), path)
    assert main(["fit", str(path), "--output", str(out)]) == 0
    assert "2 of 2 jobs keep slots" in capsys.readouterr().out
    assert main(["verify", str(path), str(out)]) == 0
    # Bursts of 4 and 4 do not fit into 5, the divisor of 10 and 15; stretched to 20, c fits.
    write_instance(network(*jobs), path)
    capsys.readouterr()
    assert main(["fit", str(path)]) == 1
    assert "not together, periods in slots: a at 10, c at 15" in capsys.readouterr().out
    assert main(["fit", str(path), "--drop", "--output", str(out)]) == 0
    assert "2 of 3 jobs keep slots; leaves out weight: 1 (proved)" in capsys.readouterr().out
    assert main(["verify", str(path), str(out)]) == 0
    assert main(["fit", str(path), "--drop", "--stretch-limit", "10%"]) == 2
    assert main(["fit", str(path), "--stretch-limit", "-1"]) == 2
    assert main(["fit", str(path), "--cushion-slots", "9"]) == 1


@pytest.mark.slow
def test_stretched_jobs_are_told_drawn_and_verified(tmp_path: Path, capsys: Captured) -> None:
    # Bursts of 3 and 4 slots never fit into periods of 6 and 9; they do if both take 7 or more.
    jobs = (job("a", 6, (0, 3, 60), max_stretch=3), job("b", 9, (0, 4, 60)))
    path, picture, out = tmp_path / "i.json", tmp_path / "p.svg", tmp_path / "s.json"
    write_instance(network(*jobs), path)
    files = ["--output", str(out), "--plot", str(picture)]
    lines = solved(capsys, str(path), "--objectives", "contention,stretch", *files)
    # Alone it takes 30 ms, and its slots are 45 ms apart.
    assert row(lines, "a")[1:4] == ["1", "30.0", "45"]
    assert read_schedule(out).stretch == {"a": 3, "b": 0}
    assert picture.stat().st_size
    assert main(["verify", str(path), str(out)]) == 0
    kept = solved(capsys, str(path), "--objectives", "contention", "--plot", str(picture))
    assert row(kept, "a")[1:4] == ["1", "30.0", "30"]
    assert "stretched periods" not in picture.read_text()


def test_what_was_before_is_not_known_where_jobs_must_be_stretched(
    tmp_path: Path, capsys: Captured
) -> None:
    jobs = (job("a", 7, (0, 2, 60), max_stretch=1), job("b", 8, (0, 2, 60), weight=2))
    path, picture = tmp_path / "i.json", tmp_path / "p.svg"
    write_instance(network(*jobs), path)
    lines = solved(
        capsys,
        str(path),
        "--hyperperiod-limit",
        "10",
        "--objectives",
        "contention,stretch",
        "--plot",
        str(picture),
    )
    assert row(lines, "contention")[1:3] == ["-", "0.0"]
    assert row(lines, "a")[2:4] == ["35.0", "40"]  # alone, and stretched by a slot
    assert float(row(lines, "a")[6]) == pytest.approx(40, rel=0.05)
    assert row(lines, "all")[-2:] == ["-", "0.0"]
    assert picture.exists()


def test_a_shipped_scenario_goes_by_its_name(tmp_path: Path, capsys: Captured) -> None:
    schedule, folder = tmp_path / "schedule.json", tmp_path / "claims"
    arguments = ["--solver", "greedy", "--objectives", "contention", "--output", str(schedule)]
    assert main(["solve", "paper-24", *arguments]) == 0
    assert main(["claims", "paper-24", str(schedule), "--output", str(folder)]) == 0
    assert capsys.readouterr().err.splitlines() == [f"wrote {schedule}", f"wrote {folder}"]


def test_names_that_look_like_markup_are_printed_as_they_are(
    tmp_path: Path, capsys: Captured
) -> None:
    names = ("j[/b]", "[red]x", ":smile:", "é日")
    burst = (Phase(start=0, length=1, rate=10),)
    instance = Instance(
        name="odd [bold]",
        slot_ms=1,
        links=(Link(name="l", capacity=10),),
        jobs=tuple(Job(name=name, period=8, phases=burst, links={"l": 1}) for name in names),
    )
    path = tmp_path / "odd[1].json"
    write_instance(instance, path)
    schedule = tmp_path / "odd [x].json"
    assert (
        main(
            [
                "solve",
                str(path),
                "--solver",
                "greedy",
                "--objectives",
                "contention",
                "--output",
                str(schedule),
            ]
        )
        == 0
    )
    printed, told = capsys.readouterr()
    for text in names:
        assert text in printed
    assert told == f"wrote {schedule}\n"


def test_a_small_value_is_not_shown_as_0(tmp_path: Path, capsys: Captured) -> None:
    burst = (Phase(start=0, length=1, rate=51),)
    jobs = tuple(
        Job(name=name, period=999, phases=burst, links={"l": 1}, fixed_offset=0) for name in "ab"
    )
    instance = Instance(name="i", slot_ms=1, links=(Link(name="l", capacity=100),), jobs=jobs)
    path = tmp_path / "small.json"
    write_instance(instance, path)
    assert main(["solve", str(path), "--solver", "greedy", "--objectives", "contention"]) == 0
    printed = capsys.readouterr().out  # 2 of weight 1 in one slot of 999
    assert "contention 0.002002" in printed
    assert "0.002" in printed.splitlines()[3]


def test_help_and_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "metronome-opt 0.1.0\n"
    assert main(["--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, sentence in COMMANDS.items():
        assert f"{name} {sentence}" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_sentence(name: str, capsys: Captured) -> None:
    assert main([name, "--help"]) == 0
    assert COMMANDS[name] in " ".join(capsys.readouterr().out.split())
