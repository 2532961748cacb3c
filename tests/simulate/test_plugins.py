"""Policies and generators of other packages, known everywhere by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.simulating import SCENARIO

TOY = '''
from metronome_opt.scenario import DescribedJob
from metronome_opt.simulate.draws import Generator
from metronome_opt.simulate.policies import Registration
from metronome_opt.simulate.policies.plain import Default


class Hesitant(Default):
    """Lets one job run at a time."""

    def admits(self, job, placement, state):
        return not state.running


hesitant = Registration("one job at a time", Hesitant, line=("#123456", "-", 1.0))


class Twins(Generator):
    """So many jobs that are all alike."""

    count: int = 2

    def jobs(self, setup, seed):
        made = dict(model="VGG16", batch=8, workers=2, iterations=3 + seed)
        return tuple(DescribedJob(name=f"twin-{number}", **made) for number in range(self.count))
'''
STUDY = """
format: metronome-study/1
name: pairs
cluster: {topology: single-switch, nodes: 2, gpus: 4, nic_gbps: 50, gpu: {name: GPU,
    sustained_tflops: {value: 23, assumed: for the test}}}
slot_ms: 5
draw: {twins: {}}
grid: {count: [1, 2]}
policies: [default]
seeds: 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What another package would install, and a scenario."""
    (tmp_path / "toy.py").write_text(TOY)
    told = tmp_path / "toy-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (told / "entry_points.txt").write_text(
        "[metronome_opt.policies]\nhesitant = toy:hesitant\n"
        "[metronome_opt.draws]\ntwins = toy:Twins\n"
    )
    (tmp_path / "pairs.yaml").write_text(STUDY)
    (tmp_path / "pair.yaml").write_text(json.dumps(SCENARIO))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_commands_campaigns_and_figures_know_the_policy_of_another_package(folder: Path) -> None:
    command = ["-m", "metronome_opt", "simulate", "pair.yaml", "--policy", "hesitant,default"]
    found = run(folder, *command, "--seeds", "1", "--output", "out", "--json")
    assert found.returncode == 0, found.stderr
    means = {
        entry["policy"]: entry["completion_mean_s"]
        for entry in json.loads(found.stdout)["policies"]
    }
    # One after the other: neither meets anybody, and the second waits as long as the first runs.
    assert set(means) == {"hesitant", "default"}
    assert (folder / "out" / "report.html").exists()
    drawn = "from metronome_opt.plot.style import line_styles; print(line_styles(['hesitant']))"
    assert "#123456" in run(folder, "-c", drawn).stdout


def test_a_study_draws_the_jobs_of_the_generator_of_another_package(folder: Path) -> None:
    read = "from metronome_opt.simulate.study import read_study; s = read_study('pairs.yaml'); "
    told = run(folder, "-c", read + "print([j.iterations for j in s.scenario(s.cells[1], 1).jobs])")
    assert told.stdout == "[4, 4]\n", told.stderr


BROKEN = """
from metronome_opt.simulate.draws import Generator
from metronome_opt.simulate.policies import Registration
from metronome_opt.simulate.policies.plain import Default

class Lost(Default):
    def place(self, job, state):
        return 1 / 0

class Quits(Generator):
    def jobs(self, setup, seed):
        raise SystemExit(7)

lost = Registration("fails", Lost)
number = 3
"""
POINTS = """
[metronome_opt.solvers]
missing = toy:missing
[metronome_opt.policies]
lost = toy:lost
missing = toy:missing
number = toy:number
ideal = toy:lost
[metronome_opt.draws]
quits = toy:Quits
missing = toy:missing
static = toy:Quits
"""


def test_broken_plug_in_is_one_line_and_only_for_a_run_that_asks_for_it(folder: Path) -> None:
    (folder / "toy.py").write_text(BROKEN)
    (folder / "toy-1.dist-info" / "entry_points.txt").write_text(POINTS)
    study = STUDY.replace("grid: {count: [1, 2]}\n", "")
    (folder / "quits.yaml").write_text(study.replace("twins", "quits"))
    (folder / "missing.yaml").write_text(study.replace("twins", "missing"))
    code = """
import json, sys
from metronome_opt.__main__ import main
for number, line in enumerate(sys.stdin):
    status = main([*line.split(), "--output", f"out-{number}"])
    print(flush=True)
    print(status, file=sys.stderr, flush=True)
"""
    solve = "solve pair.yaml --objectives contention --json --solver"
    simulate = "simulate pair.yaml --seeds 1 --json --policy"
    cannot = "toy:missing cannot be loaded (AttributeError: "
    cases = {
        f"{solve} greedy": "",
        f"{solve} missing": f"solver: 'missing': {cannot}",
        f"{simulate} ideal": "",
        f"{simulate} lost": "policy lost failed (ZeroDivisionError: division by zero); mend",
        f"{simulate} missing": f"policy: 'missing': {cannot}",
        f"{simulate} number": "policy: 'number': toy:number must be a Registration; mend",
        "simulate quits.yaml --json --policy ideal": "its generator failed (SystemExit: 7); mend",
        "simulate missing.yaml --json --policy ideal": f"draw: 'missing': {cannot}",
    }
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(cases),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = iter(done.stderr.splitlines())
    for arguments, message in cases.items():
        printed = []
        while not (line := next(lines)).isdigit():
            printed.append(line)
        assert int(line) == (2 if message else 0), (arguments, printed)
        if message:
            assert len(printed) <= 2  # the case, and the error
            assert message in printed[-1]
            assert "Traceback" not in "".join(printed)
