"""Variables of a process configure its gate, as docs/gate.md says; an invalid one is a warning."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from metronome_opt.gate import Claim, Gate
from metronome_opt.gate.checks import FIELDS
from metronome_opt.gate.files import ClaimFile
from metronome_opt.kubernetes.profiles.measure import profile_file
from tests.gate.clock import MS, said

OFFSET, PERIOD = "METRONOME_OFFSET_MS", "METRONOME_PERIOD_MS"
STARTS, CUSHION = "METRONOME_STARTS_MS", "METRONOME_CUSHION_MS"
GATED, TASK = "METRONOME_GATED", "METRONOME_TASK"
CLASS = "METRONOME_TRAFFIC_CLASS"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({OFFSET: "40", PERIOD: "240"}, Claim(40 * MS, 240 * MS)),
        ({OFFSET: " 0.1 ", PERIOD: "333.333333"}, Claim(100_000, 333_333_333)),
        (
            {OFFSET: "0", PERIOD: "1e2", STARTS: "0, 50.5", CUSHION: "5", "METRONOME_JOB": "a"},
            Claim(0, 100 * MS, (0, 50_500_000), 5 * MS, "a"),
        ),
        ({OFFSET: "1", PERIOD: "2", GATED: " True "}, Claim(MS, 2 * MS)),
        ({OFFSET: "1", PERIOD: "2", CLASS: "7"}, Claim(MS, 2 * MS, traffic_class=7)),
    ],
)
def test_numbers_are_taken_exactly(
    environ: dict[str, str], expected: Claim, caplog: pytest.LogCaptureFixture
) -> None:
    assert Gate.from_environment(environ).claim == expected
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "no claim: set METRONOME_CLAIM, or"),
        ({OFFSET: "4"}, f"{PERIOD}: not set, though {OFFSET} is; set it as well"),
        (
            {OFFSET: "x", PERIOD: "4"},
            f"{OFFSET}: 'x': must be a number of milliseconds, such as 12.5",
        ),
        (
            {OFFSET: "0", PERIOD: "sNaN"},
            f"{PERIOD}: 'sNaN': must be a number of milliseconds, such",
        ),
        ({OFFSET: "0", PERIOD: "9", GATED: "no"}, f"{GATED}: 'no': must be true or false"),
        ({OFFSET: "0", PERIOD: "9", CLASS: "-1"}, f"{CLASS}: '-1': must be a whole number"),
        ({"METRONOME_CLAIM": "/nowhere"}, "/nowhere: cannot be read (No such file or directory)"),
    ],
)
def test_invalid_variable_is_one_warning(
    environ: dict[str, str], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate.from_environment(environ)
    with gate.burst() as burst:
        pass
    assert burst.window_at is None
    assert gate.claim is None
    (line,) = said(caplog)
    assert line.startswith(message)
    assert line.endswith("; bursts do not wait")


def test_all_variables_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "claim").write_text(json.dumps({"offset_ms": 0, "period_ms": 1, "job": "bert"}))
    for name, value in {
        "METRONOME_CLAIM": str(tmp_path / "claim"),
        OFFSET: "nothing that counts",
        "METRONOME_JOB": "bert",
        TASK: "7",
        "METRONOME_RECORD": str(tmp_path / "gate.jsonl"),
        "METRONOME_METRICS": "127.0.0.1:0",
    }.items():
        monkeypatch.setenv(name, value)
    gate = Gate.from_environment()
    with gate.burst():
        pass
    assert gate.address is not None
    assert 'job="bert",task="7"' in gate.metrics()
    gate.close()
    (line,) = (tmp_path / "gate.jsonl").read_text().splitlines()
    assert (json.loads(line)["job"], json.loads(line)["task"]) == ("bert", 7)
    assert said(caplog) == []


def test_arguments_override_variables() -> None:
    environ = {OFFSET: "0", PERIOD: "1", "METRONOME_JOB": "a"}
    assert Gate.from_environment(environ, job="b").counters.job == "b"


@pytest.mark.parametrize("task", ["-1", "9" * 11, "²"])
def test_invalid_task_is_dropped(task: str, caplog: pytest.LogCaptureFixture) -> None:
    assert Gate.from_environment({OFFSET: "0", PERIOD: "1", TASK: task}).counters.task is None
    (line,) = said(caplog)
    assert line.startswith("METRONOME_TASK: ")
    assert line.endswith(": must be a number from 0; it is dropped")


# ------------------------------------------------------------------ docs/gate.md

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")


def test_every_variable_and_series_is_named() -> None:
    names = {*FIELDS, "claim", "job", "task", "record", "metrics"}
    assert {name for name in names if f"`METRONOME_{name.upper()}`" not in TEXT} == set()
    series = re.findall(r"# TYPE metronome_gate_(\w+)", Gate(Claim(0, 1)).metrics())
    assert {name for name in series if f"`{name}`" not in TEXT} == set()


def test_the_claim_and_the_line_shown_are_read(tmp_path: Path) -> None:
    claim, line = re.findall(r"^    (\{.*\})$", TEXT, re.MULTILINE)
    (tmp_path / "claim").write_text(claim)
    expected = Claim(65 * MS, 240 * MS, (0, 130 * MS), 5 * MS)
    assert ClaimFile(tmp_path / "claim", "", None).current() == expected
    (tmp_path / "gate.jsonl").write_text(line + "\n" + line.replace("0.14", "0.24") + "\n")
    found = profile_file(tmp_path / "gate.jsonl")
    assert found.reason == "too short: 1 whole iterations, not 4"
