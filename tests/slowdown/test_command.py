"""``metronome solve`` without objectives: what is printed and written, and that it is true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.instance import Instance, write_instance
from metronome_opt.schedule import read_schedule
from tests.builders import job, network
from tests.slowdown.cases import ALTERNATING, TIGHT

Captured = pytest.CaptureFixture[str]


def file_of(instance: Instance, folder: Path) -> str:
    path = folder / "instance.json"
    write_instance(instance, path)
    return str(path)


def solved(capsys: Captured, *arguments: str) -> list[str]:
    """Return the lines that solve prints."""
    assert main(["solve", *arguments, "--workers", "1"]) == 0
    return capsys.readouterr().out.splitlines()


def test_solve_prints_gated_jobs(tmp_path: Path, capsys: Captured) -> None:
    path, out = file_of(ALTERNATING, tmp_path), tmp_path / "schedule.json"
    lines = solved(capsys, path, "--output", str(out))
    assert lines[0].startswith("auto: feasible, slowdown 1.00")
    assert any("2 of 2 jobs gated" in line for line in lines)
    row = next(line for line in lines if line.startswith("a "))
    assert "200.2" in row  # computing times vary, and there is no idle time
    assert row.rstrip().endswith("none")
    assert read_schedule(out).gated == {"a": True, "b": True}
    assert main(["verify", path, str(out)]) == 0


def test_json_is_the_schedule_itself(tmp_path: Path, capsys: Captured) -> None:
    document = json.loads("\n".join(solved(capsys, file_of(ALTERNATING, tmp_path), "--json")))
    assert document["gated"] == {"a": True, "b": True}
    times = [float(Fraction(text)) for text in document["expected_ms"].values()]
    assert times == pytest.approx([200, 200], rel=0.005)
    assert float(Fraction(document["objectives"]["slowdown"])) == pytest.approx(sum(times) / 400)
    assert document["lower_bound"] == "1"
    assert "stretch_limit" not in document


def test_a_stretch_limit_is_typed_as_a_share(tmp_path: Path, capsys: Captured) -> None:
    path, out = file_of(TIGHT, tmp_path), tmp_path / "schedule.json"
    lines = solved(capsys, path, "--stretch-limit", "20%", "--output", str(out))
    assert any("3 of 3 jobs gated" in line for line in lines)
    assert main(["verify", path, str(out)]) == 0
    document = json.loads(out.read_text())
    longest = max(document["stretch"].values())
    assert Fraction(document.pop("stretch_limit")) == Fraction(longest, 20)
    out.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["verify", path, str(out)]) == 1
    assert f"stated {longest}, but it must be in [0, 0]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objectives", "slowdown,wait"], "slowdown stands alone"),
        (
            ["--objectives", "slowdown", "--solver", "greedy"],
            "greedy does not minimise slowdown",
        ),
        (["--stretch-limit", "much"], "stretch_limit: must be an exact number"),
        (["--stretch-limit", "-1"], "stretch_limit: must be at least 0"),
        (["--stretch-limit", "5%", "--objectives", "wait"], "stretch_limit: is for slowdown alone"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: Captured
) -> None:
    assert main(["solve", file_of(ALTERNATING, tmp_path), *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.slow
def test_a_short_limit_is_not_used_up_by_loading(tmp_path: Path) -> None:
    arguments = ["solve", file_of(ALTERNATING, tmp_path), "--time-limit", "2", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "metronome_opt", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 jobs gated" in done.stdout


def test_verify_refuses_a_false_time(tmp_path: Path, capsys: Captured) -> None:
    path, out = file_of(ALTERNATING, tmp_path), tmp_path / "schedule.json"
    solved(capsys, path, "--output", str(out))
    document = json.loads(out.read_text())
    document["expected_ms"]["b"] = "199"
    out.write_text(json.dumps(document))
    assert main(["verify", path, str(out)]) == 1
    said = capsys.readouterr().err
    assert "expected_ms.b: stated 199, but it takes 200 ms at least" in said
    assert "objectives.slowdown: stated " in said


def test_of_many_jobs_the_most_affected_are_printed(tmp_path: Path, capsys: Captured) -> None:
    # In groups of two; only those of the last group meet unshifted, so that slots change them most.
    jobs = [
        job(f"j{n}", 20, (0, 6, 100), links={f"l{n // 2}": 1}, ready=10 * (n % 2) if n < 40 else 0)
        for n in range(42)
    ]
    many = network(*jobs, **{f"l{n}": 100 for n in range(21)})
    lines = solved(capsys, file_of(many, tmp_path), "--objectives", "contention")
    rows = [line.split()[0] for line in lines if re.match(r"j\d+ ", line)]
    assert set(rows[:2]) == {"j40", "j41"}
    assert len(rows) == 20
    assert "20 of 42 jobs, most affected; all with --output or --json" in lines
    document = json.loads(
        "\n".join(solved(capsys, file_of(many, tmp_path), "--objectives", "contention", "--json"))
    )
    assert len(document["offsets"]) == 42
    few = many.replace(jobs=many.jobs[2:])
    lines = solved(capsys, file_of(few, tmp_path), "--objectives", "contention")
    assert len([line for line in lines if re.match(r"j\d+ ", line)]) == 40
