"""Policies of other packages: one file, one registration, known everywhere by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.simulating import SCENARIO

TOY = '''
from metronome_opt.simulate.policies import Registration
from metronome_opt.simulate.policies.plain import Default


class Hesitant(Default):
    """Lets one job run at a time."""

    def admits(self, job, placement, state):
        return not state.running


hesitant = Registration("one job at a time", Hesitant, line=("#123456", "-", 1.0))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What another package would install, and a scenario."""
    (tmp_path / "toy.py").write_text(TOY)
    told = tmp_path / "toy-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[metronome_opt.policies]\nhesitant = toy:hesitant\n")
    (tmp_path / "pair.yaml").write_text(json.dumps(SCENARIO), encoding="utf-8")
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
    assert (folder / "out" / "report.md").exists()
    drawn = "from metronome_opt.plot.style import line_styles; print(line_styles(['hesitant']))"
    assert "#123456" in run(folder, "-c", drawn).stdout


def test_a_name_that_is_taken_is_refused(folder: Path) -> None:
    points = folder / "toy-1.dist-info" / "entry_points.txt"
    points.write_text("[metronome_opt.policies]\nideal = toy:hesitant\n")
    found = run(folder, "-m", "metronome_opt", "simulate", "pair.yaml", "--policy", "ideal")
    assert found.returncode == 2
    assert found.stderr.startswith("metronome: error: metronome_opt.policies: ideal: toy:hesitant:")
