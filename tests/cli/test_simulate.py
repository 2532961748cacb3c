"""`metronome simulate` records every simulation once, and resumes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from metronome_opt.bench.simulations import FILE, SimulationRecord
from metronome_opt.files.journal import read_journal
from tests.bench.test_campaign import processes
from tests.cli.simulating import write_files
from tests.cli.typed import COMMAND, Captured, error_of, metronome, printed
from tests.running import wait_until


@pytest.fixture
def folder(two: Path) -> Path:
    """Return the working directory with scenarios and a study, one cell of which takes for ever."""
    write_files(two)
    return two


def records(folder: Path) -> list[SimulationRecord]:
    return read_journal([folder / FILE], SimulationRecord)


@pytest.mark.slow
def test_a_scenario_is_simulated_reported_and_resumed(folder: Path, capsys: Captured) -> None:
    line = "simulate pair.yaml --replications 1 --output out"
    assert metronome(f"{line} --policies default --conditions jitter=0.05") == 0
    out, error = capsys.readouterr()
    assert "pair: 1 done" in out
    assert "[1/1] pair default seed 0: " in error
    files = (FILE, "jobs.csv", "links.csv", "estimates.csv")
    assert error.splitlines()[-4:] == [f"wrote out/{name}" for name in files]

    assert "go on with --resume" in error_of(capsys, f"{line} --policies ideal")
    other = "other conditions (jitter was 0.05, now it is 0.0)"
    assert other in error_of(capsys, f"{line} --resume")
    assert metronome(f"{line} --policies ideal,default --resume --conditions jitter=0.05") == 0
    out, error = capsys.readouterr()
    assert "1 of 2 cases recorded already" in error
    (ideal,) = (line for line in out.splitlines() if line.startswith("ideal "))
    assert ideal.split()[-2] == "-"  # before unfinished jobs
    assert [(record.policy, record.kind) for record in records(folder / "out")] == [
        ("default", "done"),
        ("ideal", "done"),
    ]

    written = {path: path.read_bytes() for path in (folder / "out").glob("*.*")}
    assert {path.name for path in written} >= {"jobs.csv", "links.csv", "estimates.csv", FILE}
    table = pd.read_csv(folder / "out" / "jobs.csv")
    assert table[["study", "policy", "seed", "job"]].to_numpy().tolist() == [
        ["pair", policy, 0, job] for policy in ("default", "ideal") for job in ("a", "b")
    ]
    line = f"{line} --policies default,ideal --resume --conditions jitter=0.05 --json"
    document = json.loads("".join(printed(capsys, line)))
    assert document["kinds"] == {"done": 2}
    means = table.groupby("policy").completion_s.mean()
    for entry in document["policies"]:
        assert entry["completion_mean_s"] == pytest.approx(means[entry["policy"]])
    used, unknown = (entry["utilisation_used"] for entry in document["policies"])
    assert 0 < used <= 1
    assert unknown is None  # of ideal, whose links carry whatever is sent
    assert {path: path.read_bytes() for path in written} == written


@pytest.mark.parametrize("option", ["--network tcp", "--conditions network=tcp"])
def test_network_is_a_condition(option: str, folder: Path) -> None:
    line = f"simulate pair.yaml --output out --policies default --replications 1 {option}"
    assert metronome(line) == 0
    (record,) = records(folder / "out")
    assert record.conditions.sharing == "tcp"


def test_jobs_without_iterations_run_a_thousand(folder: Path, capsys: Captured) -> None:
    assert metronome("simulate unstated.yaml --output out --policies ideal") == 0
    assert (
        "note: no job states how many iterations it runs: each runs 1,000"
        in capsys.readouterr().err
    )
    assert pd.read_csv(folder / "out" / "jobs.csv").iterations.tolist() == [1000, 1000]


@pytest.mark.slow
def test_unfinished_cells_are_reported(folder: Path, capsys: Captured) -> None:
    line = "simulate endless.yaml --output out --processes 2"
    assert "endless: 1 done" in "".join(printed(capsys, f"{line} --cells horizon_s=1"))
    assert metronome(f"{line} --resume --time-limit 1") == 1
    out, error = capsys.readouterr()
    assert "endless horizon_s=1000000000 default seed 0: out of time (killed 1.1 s" in error
    assert "endless: 1 done, 1 out of time" in out
    assert Counter(record.kind for record in records(folder / "out")) == {
        "done": 1,
        "out_of_time": 1,
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_records_stay_when_a_campaign_ends_early(number: signal.Signals, folder: Path) -> None:
    output = folder / "out"
    with subprocess.Popen(
        [*COMMAND, "simulate", "endless.yaml", "--output", "out", "--processes", "1"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: (output / FILE).exists() and b"\n" in (output / FILE).read_bytes())
        wait_until(lambda: any(folder.glob("metronome-*")))
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    wait_until(lambda: not processes(folder))  # they notice the end of their input
    (record,) = records(output)
    assert record.cell == {"horizon_s": 1}
    assert "Traceback" not in stderr
    if number == signal.SIGINT:
        assert process.returncode == 130, stderr
        assert "with --resume goes on" in stderr
        assert len(pd.read_csv(output / "jobs.csv")) == 2
        assert (output / "estimates.csv").exists()
        return
    assert metronome("simulate endless.yaml --output out --resume --cells horizon_s=1") == 0
    assert records(output) == [record]
    assert len(pd.read_csv(output / "jobs.csv")) == 2


@pytest.mark.slow
def test_trace_in_place_of_jobs(folder: Path, capsys: Captured) -> None:
    (folder / "trace.csv").write_text("timestamp,duration,num_gpus\n2017-10-03 23:40:02,9,16\n")
    options = "--policies nearest --replications 1 --cells sharing=fair,jitter=0.01"
    assert metronome(f"simulate muri --trace trace.csv {options} --output one") == 0
    (record,) = records(folder / "one")
    assert record.jobs is not None
    assert record.jobs["workers"] == (2,)
    error = error_of(capsys, f"simulate muri {options} --output two")
    assert "draw.trace.file: missing; name the trace with --trace FILE" in error
    error = error_of(capsys, f"simulate muri --trace none.csv {options} --output two")
    assert "none.csv: cannot be read" in error
