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
from metronome_opt.problem.instance import Instance, write_instance
from tests.allocation.slots.cases import ALTERNATING, UNEVEN
from tests.builders import job, network

Captured = pytest.CaptureFixture[str]


def file_of(instance: Instance, folder: Path) -> str:
    path = folder / "instance.json"
    write_instance(instance, path)
    return str(path)


def solved(capsys: Captured, *arguments: str) -> list[str]:
    """Return the lines that a command prints."""
    assert main([*arguments, "--threads", "1"]) == 0
    return capsys.readouterr().out.splitlines()


def test_json_is_the_schedule(tmp_path: Path, capsys: Captured) -> None:
    document = json.loads(
        "\n".join(solved(capsys, "allocate", file_of(ALTERNATING, tmp_path), "--json"))
    )
    assert document["gated"] == {"a": True, "b": True}
    times = [float(Fraction(text)) for text in document["expected_ms"].values()]
    assert times == pytest.approx([200, 200], rel=0.01)
    assert float(Fraction(document["objectives"]["slowdown"])) == pytest.approx(sum(times) / 400)
    assert document["lower_bound"] == "1"
    assert "stretch_limit" not in document


def test_stretch_limit_is_a_share(tmp_path: Path, capsys: Captured) -> None:
    path, out = file_of(UNEVEN, tmp_path), tmp_path / "schedule.json"
    lines = solved(capsys, "allocate", path, "--stretch-limit", "20%", "--output", str(out))
    assert any("2 of 2 jobs have windows" in line for line in lines)
    assert main(["verify", path, str(out)]) == 0
    document = json.loads(out.read_text())
    longest = document["stretch"]["a"]
    assert Fraction(document.pop("stretch_limit")) == Fraction(longest, 20)
    out.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["verify", path, str(out)]) == 1
    assert f"stated {longest}, but it must be in [0, 0]" in capsys.readouterr().err


@pytest.mark.slow
def test_delay_and_its_front_are_stated(tmp_path: Path, capsys: Captured) -> None:
    path, out = file_of(ALTERNATING, tmp_path), tmp_path / "front"
    lines = solved(capsys, "allocate", path, "--objectives", "slowdown,delay", "--max-loss", "5%")
    assert [line[:3] for line in lines if line[1:3] == ". "] == ["1. ", "2. "]
    front = ["--objectives", "slowdown,delay", "--output", str(out), "--threads", "1"]
    assert main(["pareto", path, *front, "--time-limit", "60"]) == 0
    assert main(["verify", path, str(out / "point-001.json")]) == 0
    assert (out / "front.csv").read_text().startswith("point,schedule,slowdown,")


@pytest.mark.slow
def test_loading_does_not_use_time_limit(tmp_path: Path) -> None:
    arguments = ["allocate", file_of(ALTERNATING, tmp_path), "--time-limit", "2", "--threads", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "metronome_opt", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 jobs have windows" in done.stdout


def test_most_affected_of_many_jobs_are_printed(tmp_path: Path, capsys: Captured) -> None:
    # In groups of two; only those of the last group meet unshifted, so windows change them most.
    jobs = [
        job(f"j{n}", 20, (0, 6, 100), links={f"l{n // 2}": 1}, ready=ready, jitter=0.0)
        for n in range(42)
        for ready in [10 * (n % 2) if n < 40 else 0]
    ]
    many = network(*jobs, **{f"l{n}": 100 for n in range(21)})
    lines = solved(capsys, "solve", file_of(many, tmp_path))
    rows = [line.split()[0] for line in lines if re.match(r"j\d+ ", line)]
    assert set(rows[:2]) == {"j40", "j41"}
    assert len(rows) == 20
    assert "20 of 42 jobs, most affected; all with --output or --json" in lines
    document = json.loads("\n".join(solved(capsys, "solve", file_of(many, tmp_path), "--json")))
    assert len(document["offsets"]) == 42
    few = many.replace(jobs=many.jobs[2:])
    lines = solved(capsys, "solve", file_of(few, tmp_path))
    assert len([line for line in lines if re.match(r"j\d+ ", line)]) == 40
