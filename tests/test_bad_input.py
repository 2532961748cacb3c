"""Every file under tests/data/bad ends in one line, exit status 2, and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main

BAD = Path(__file__).parent / "data" / "bad"
EXPECTED: dict[str, str] = yaml.safe_load((BAD / "expected.yaml").read_text(encoding="utf-8"))
PROBLEMS = [name for name in EXPECTED if not name.startswith("schedules/")]
SCHEDULES = [name for name in EXPECTED if name.startswith("schedules/")]

GOOD_INSTANCE: dict[str, Any] = {
    "format": "metronome-instance/1",
    "name": "two-jobs",
    "slot_ms": 5,
    "links": [{"name": "node-0", "capacity": 50000}],
    "jobs": [
        {
            "name": name,
            "period": 40,
            "phases": [{"start": 0, "length": 12, "rate": 40000}],
            "links": {"node-0": 1},
        }
        for name in ("vgg19-0", "bert-0")
    ],
}
GOOD_SCHEDULE: dict[str, Any] = {
    "format": "metronome-schedule/1",
    "instance": "two-jobs",
    "offsets": {"vgg19-0": 0, "bert-0": 12},
    "stretch": {"vgg19-0": 0, "bert-0": 0},
    "status": "feasible",
    "objectives": {"contention": "0", "latency": "0"},
    "lower_bound": "0",
    "solver": "auto",
    "seed": 0,
    "runtime_s": 0.41,
    "versions": {},
}
GOOD_SCENARIO = """
format: metronome-scenario/1
name: small
slot_ms: 5
cluster:
  topology: single-switch
  nodes: 2
  gpus: 1
  nic_gbps: 50
  gpu: {name: A100, sustained_tflops: {value: 100, assumed: a round number}}
jobs:
  - {name: vgg, model: vgg19, batch: 32, workers: 2}
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return a folder of its own for what must not be written."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def refused(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Run the command line and return what it writes to standard error, a line for each fault."""
    status = main(arguments)
    printed, said = capfd.readouterr()
    assert status == 2
    assert printed == ""
    assert said.endswith("\n")
    for line in said.splitlines():
        assert line.startswith("metronome: error: ")
        assert len(line) < 500
    return said


def test_every_bad_file_has_an_expected_message() -> None:
    files = {path.relative_to(BAD).as_posix() for path in BAD.rglob("*") if path.is_file()}
    assert files == {*EXPECTED, "expected.yaml"}
    assert all(EXPECTED.values())


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_bad_problem_is_refused(name: str, out: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = refused(["solve", str(BAD / name), "--output", str(out / "schedule.json")], capfd)
    assert f"{BAD / name}: " in said
    assert EXPECTED[name] in said
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_bad_schedule_is_refused(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    instance = tmp_path / "instance.json"
    instance.write_text(json.dumps(GOOD_INSTANCE))
    said = refused(["verify", str(instance), str(BAD / name)], capfd)
    assert f"{BAD / name}: " in said
    assert EXPECTED[name] in said


def test_good_input_is_accepted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What the bad files are variations of."""
    files = {
        "instance.json": json.dumps(GOOD_INSTANCE),
        "schedule.json": json.dumps(GOOD_SCHEDULE),
        "scenario.yaml": GOOD_SCENARIO,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = {name: str(tmp_path / name) for name in files}
    assert main(["verify", paths["instance.json"], paths["schedule.json"]]) == 0
    for name in ("instance.json", "scenario.yaml"):
        output = tmp_path / f"{name}.out"
        words = ["--solver", "unshifted", "--objectives", "contention", "--output", str(output)]
        assert main(["solve", paths[name], *words]) == 0
        assert output.exists()
    assert all(line.startswith("wrote ") for line in capfd.readouterr().err.splitlines())


# ------------------------------------------------------------------ files too large to keep


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lists.json", '{"format": ' + "[" * 10**6 + "]" * 10**6),
        ("mappings.json", '{"format": ' * 10**6 + "}" * 10**6),
        ("mappings.yaml", "{a: " * 10**6 + "}" * 10**6),
        ("never-closed.yaml", "- " * 10**6),
    ],
    ids=lambda value: value[:20],
)
def test_a_million_levels(
    name: str, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    said = refused(["solve", str(path), "--output", str(tmp_path / "out.json")], capfd)
    assert f"{path}: " in said
    assert "nested deeper than 40 levels" in said
    assert list(tmp_path.iterdir()) == [path]


# ------------------------------------------------------------------ a real process


@pytest.mark.parametrize("name", ["phases-overlap.json", "name-lone-surrogate.json"])
def test_a_process_ends_with_status_2(name: str, out: Path) -> None:
    arguments = ["solve", str(BAD / name), "--output", str(out / "schedule.json")]
    done = subprocess.run(
        [sys.executable, "-m", "metronome_opt", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": ""},
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"{BAD / name}: {EXPECTED[name]}" in done.stderr
    assert list(out.iterdir()) == []
