"""Policies of other packages are simulated; a broken one fails only where it is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.simulating import SCENARIO

TOY = '''
from metronome_opt.simulation.policies.baselines import SpreadPolicy


class Hesitant(SpreadPolicy):
    """Lets one job run at a time."""

    def admits(self, job, placement, state):
        return not state.running

'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files that another package installs, and a scenario."""
    (tmp_path / "toy.py").write_text(TOY)
    metadata = tmp_path / "toy-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[metronome_opt.policies]\nhesitant = toy:Hesitant\n"
    )
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
def test_registered_policy_is_simulated(folder: Path) -> None:
    command = ["-m", "metronome_opt", "simulate", "pair.yaml", "--policies", "hesitant,default"]
    ended = run(folder, *command, "--replications", "1", "--output", "out", "--json")
    assert ended.returncode == 0, ended.stderr
    policies = json.loads(ended.stdout)["policies"]
    assert {entry["policy"] for entry in policies} == {"hesitant", "default"}
    assert (folder / "out" / "estimates.csv").exists()


BROKEN = """
from metronome_opt.simulation.policies.baselines import Policy

class Lost(Policy):
    def place(self, job, state):
        return 1 / 0


class Quits(Policy):
    def place(self, job, state):
        raise SystemExit(7)

number = 3
"""
POINTS = """
[metronome_opt.solvers]
missing = toy:missing
[metronome_opt.policies]
lost = toy:Lost
quits = toy:Quits
missing = toy:missing
number = toy:number
ideal = toy:Lost
"""


SOLVE = "solve pair.yaml --objectives contention --json --solver"
SIMULATE = "simulate pair.yaml --replications 1 --json --policies"
CANNOT = "toy:missing cannot be loaded (AttributeError: "
AT_ONCE = {
    f"{SOLVE} greedy": "",
    f"{SOLVE} missing": f"solver: 'missing': {CANNOT}",
    f"{SIMULATE} missing": f"policy: 'missing': {CANNOT}",
    f"{SIMULATE} number": "policy: 'number': toy:number must be a subclass of Policy; mend",
}
SIMULATED = {
    f"{SIMULATE} ideal": "",
    f"{SIMULATE} lost": "policy lost failed (ZeroDivisionError: division by zero); mend",
    f"{SIMULATE} quits": "policy quits failed (SystemExit: 7); mend",
}


@pytest.mark.slow
@pytest.mark.parametrize("cases", [AT_ONCE, SIMULATED])
def test_broken_plug_in_fails_only_where_used(cases: dict[str, str], folder: Path) -> None:
    (folder / "toy.py").write_text(BROKEN)
    (folder / "toy-1.dist-info" / "entry_points.txt").write_text(POINTS)
    code = """
import json, sys
from metronome_opt.__main__ import main
for number, line in enumerate(sys.stdin):
    status = main([*line.split(), "--output", f"out-{number}"])
    print(flush=True)
    print(status, file=sys.stderr, flush=True)
"""
    lines = iter(run(folder, "-c", code, typed="\n".join(cases)).stderr.splitlines())
    for message in cases.values():
        printed = []
        while not (line := next(lines)).isdigit():
            printed.append(line)
        assert int(line) == (0 if not message else 1 if "failed" in message else 2), printed
        if "failed" in message:
            assert message in printed[0]
            assert "Traceback (most recent call last):" in printed
            place = next(each for each in printed if "toy.py" in each)
            assert "in place" in place
            assert "1 simulation crashed; out-" in printed[-1]
        elif message:
            assert len(printed) <= 2  # the case, and the error
            assert message in printed[-1]
            assert "Traceback" not in "".join(printed)
