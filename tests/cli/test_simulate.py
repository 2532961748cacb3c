"""``metronome simulate`` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.bench.simulations import FILE, SimulationRecord
from metronome_opt.journal import read_journal

Captured = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "metronome_opt", "simulate"]

SCENARIO: dict[str, Any] = {
    "format": "metronome-scenario/1",
    "name": "pair",
    "slot_ms": 5,
    "hyperperiod_ms": 1500,
    "cluster": {
        "topology": "single-switch",
        "nodes": 2,
        "gpus": 2,
        "nic_gbps": 50,
        "gpu": {"name": "any", "sustained_tflops": {"value": 20, "assumed": "for tests"}},
    },
    "jobs": [
        {
            "name": name,
            "model": "VGG19",
            "batch": 64,
            "workers": 2,
            "iterations": 10,
            "nodes": ["node-00", "node-01"],
        }
        for name in ("a", "b")
    ],
}
ENDLESS = [job | {"iterations": 10**9} for job in SCENARIO["jobs"]]
STUDY: dict[str, Any] = {
    **{key: value for key, value in SCENARIO.items() if key != "jobs"},
    "format": "metronome-study/1",
    "name": "endless",
    "draw": {"given": {"work": ENDLESS}},
    "grid": {"horizon_s": [1, 1_000_000_000]},
    "policies": ["default"],
    "seeds": 1,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run; it holds scenarios and a study, one cell of which takes for ever."""
    write(tmp_path / "pair.yaml", SCENARIO)
    write(tmp_path / "endless.yaml", STUDY)
    work = [job | {"workers": 4, "nodes": None} for job in SCENARIO["jobs"]]
    write(tmp_path / "large.yaml", SCENARIO | {"jobs": [job | {"workers": 8} for job in work]})
    jobs = [{key: job[key] for key in job if key != "iterations"} for job in SCENARIO["jobs"]]
    write(tmp_path / "short.yaml", SCENARIO | {"jobs": jobs})
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, document: Any) -> None:
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def records(folder: Path) -> list[SimulationRecord]:
    return read_journal([folder / FILE], SimulationRecord)


@pytest.mark.slow
def test_a_scenario_is_simulated_reported_and_resumed(folder: Path, capsys: Captured) -> None:
    arguments = ["simulate", "pair.yaml", "--seeds", "1", "--output", "out"]
    assert main([*arguments, "--policy", "default", "--set", "jitter=0.05"]) == 0
    printed = capsys.readouterr()
    assert "pair: 1 done" in printed.out
    assert "[1/1] pair default seed 0: " in printed.err

    assert main([*arguments, "--policy", "ideal"]) == 2
    assert "go on with --resume" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 2
    assert "other conditions (jitter was 0.05, now it is 0.0)" in capsys.readouterr().err
    assert main([*arguments, "--policy", "ideal,default", "--resume", "--set", "jitter=0.05"]) == 0
    assert "1 of 2 simulations are there" in capsys.readouterr().err
    assert [(record.policy, record.kind) for record in records(folder / "out")] == [
        ("default", "done"),
        ("ideal", "done"),
    ]

    written = {path: path.read_bytes() for path in (folder / "out").glob("*.*")}
    assert {path.name for path in written} >= {"jobs.csv", "links.csv", "report.md", FILE}
    assert "\n![Link node-00 as it happened in " in (folder / "out" / "report.md").read_text()
    assert (folder / "out" / "figures" / "link.svg").exists()
    table = pd.read_csv(folder / "out" / "jobs.csv")
    assert table[["study", "policy", "seed", "job"]].to_numpy().tolist() == [
        ["pair", policy, 0, job] for policy in ("default", "ideal") for job in ("a", "b")
    ]
    again = ["--policy", "default,ideal", "--resume", "--set", "jitter=0.05", "--json"]
    assert main([*arguments, *again]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kinds"] == {"done": 2}
    means = table.groupby("policy").completion_s.mean()
    for entry in document["policies"]:
        assert entry["completion_mean_s"] == pytest.approx(means[entry["policy"]])
    assert {path: path.read_bytes() for path in written} == written


@pytest.mark.slow
def test_cells_that_are_not_done_are_told(folder: Path, capsys: Captured) -> None:
    arguments = ["simulate", "endless.yaml", "--output", "out", "--jobs", "2"]
    assert main([*arguments, "--cells", "horizon_s=1"]) == 0
    assert "endless: 1 done" in capsys.readouterr().out
    assert main([*arguments, "--resume", "--time-limit", "1"]) == 1
    told = capsys.readouterr()
    assert "endless horizon_s=1000000000 default seed 0: out of time (killed 1.1 s" in told.err
    assert "endless: 1 done, 1 out of time" in told.out
    assert Counter(record.kind for record in records(folder / "out")) == {
        "done": 1,
        "out_of_time": 1,
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_is_recorded_stays_when_a_campaign_ends_early(
    number: signal.Signals, folder: Path
) -> None:
    output = folder / "out"
    with subprocess.Popen(
        [*COMMAND, "endless.yaml", "--output", str(output), "--jobs", "1"],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: (output / FILE).exists() and b"\n" in (output / FILE).read_bytes())
        wait_until(lambda: any(folder.glob("metronome-*")))
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    (record,) = records(output)
    assert record.cell == {"horizon_s": 1}
    assert "Traceback" not in told
    if number == signal.SIGINT:
        assert process.returncode == 130, told
        assert "with --resume goes on" in told
        assert len(pd.read_csv(output / "jobs.csv")) == 2
        assert (output / "report.md").exists()
        return
    arguments = ["simulate", "endless.yaml", "--output", str(output), "--resume"]
    assert main([*arguments, "--cells", "horizon_s=1"]) == 0
    assert records(output) == [record]
    assert len(pd.read_csv(output / "jobs.csv")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'SCENARIO'"),
        (["nothing"], "study: 'nothing' is not known: "),
        (["short.yaml"], "short.yaml: jobs[0].iterations: missing"),
        (["large.yaml"], "large.yaml: jobs[0]: a finds no room even in an empty cluster; there"),
        (["pair.yaml", "--policy", "best"], "--policy: 'best' is not known; choose from default"),
        (["pair.yaml", "--policy", ","], "--policy: ',' names none"),
        (["pair.yaml", "--seeds", "0"], "--seeds"),
        (["pair.yaml", "--jobs", "0"], "--jobs"),
        (["pair.yaml", "--time-limit", "0"], "--time-limit"),
        (["pair.yaml", "--memory-limit", "-1"], "--memory-limit"),
        (["pair.yaml", "--set", "jitter"], "--set: 'jitter' is not name=value"),
        (["pair.yaml", "--set", "noise=1"], "--set: 'noise' is not a condition; choose from"),
        (["pair.yaml", "--set", "jitter=2"], "--set: jitter: must be at most 0.3, got 2"),
        (["endless.yaml", "--set", "horizon_s=2"], "--set: horizon_s: is varied by the study"),
        (["pair.yaml", "--cells", "load=1"], "--cells: 'load' is not in the grid of pair"),
        (["endless.yaml", "--cells", "horizon_s=2"], "--cells: horizon_s: '2' is not in the grid"),
        (["pair.yaml", "--output", "taken"], "taken: holds files that are not of a campaign"),
        (["pair.yaml", "--output", "pair.yaml"], "pair.yaml: is not a folder"),
        (["pair.yaml", "--output", "pair.yaml/out"], "pair.yaml/out: cannot be made a folder"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], message: str, folder: Path, capsys: Captured
) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["simulate", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("metronome: error: ")
    assert message in line
    assert sorted(folder.rglob("*")) == before


def wait_until(condition: Callable[[], Any], patience_s: float = 90) -> None:
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
