"""Policies and generators that other packages register."""

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
    """Return a folder with files that another package installs, and a scenario."""
    (tmp_path / "toy.py").write_text(TOY)
    metadata = tmp_path / "toy-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[metronome_opt.policies]\nhesitant = toy:hesitant\n"
        "[metronome_opt.draws]\ntwins = toy:Twins\n"
    )
    (tmp_path / "pairs.yaml").write_text(STUDY)
    (tmp_path / "pair.yaml").write_text(json.dumps(SCENARIO))
    return tmp_path


def run(folder: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return subprocess.run(
        [sys.executable, *arguments],
        input=typed,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_registered_policy_is_simulated_and_drawn(folder: Path) -> None:
    command = ["-m", "metronome_opt", "simulate", "pair.yaml", "--policy", "hesitant,default"]
    ended = run(folder, *command, "--seeds", "1", "--output", "out", "--json")
    assert ended.returncode == 0, ended.stderr
    policies = json.loads(ended.stdout)["policies"]
    assert {entry["policy"] for entry in policies} == {"hesitant", "default"}
    assert (folder / "out" / "estimates.csv").exists()
    drawn = "from metronome_opt.plot.style import line_styles; print(line_styles(['hesitant']))"
    assert "#123456" in run(folder, "-c", drawn).stdout


def test_registered_generator_draws_jobs(folder: Path) -> None:
    read = "from metronome_opt.simulate.study import read_study; s = read_study('pairs.yaml'); "
    draw = "print([j.iterations for j in s.scenario(s.cells[1], 1).jobs])"
    ended = run(folder, "-c", read + draw)
    assert ended.stdout == "[4, 4]\n", ended.stderr


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


def test_broken_plug_in_fails_only_where_used_in_one_line(folder: Path) -> None:
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
    lines = iter(run(folder, "-c", code, typed="\n".join(cases)).stderr.splitlines())
    for arguments, message in cases.items():
        printed = []
        while not (line := next(lines)).isdigit():
            printed.append(line)
        assert int(line) == (2 if message else 0), (arguments, printed)
        if message:
            assert len(printed) <= 2  # the case, and the error
            assert message in printed[-1]
            assert "Traceback" not in "".join(printed)
