"""What README shows happens: its sessions print what they show, all commands work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from tests.transcripts import ROOT, agrees, commands, run, section, session

ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "COLUMNS": "100",
}


@pytest.mark.slow
def test_the_quick_start_prints_what_it_shows(tmp_path: Path) -> None:
    for command, expected in session("README.md", "Quick start"):
        printed = run(command, tmp_path, ENVIRONMENT)
        assert agrees(printed, expected), (command, printed)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "claims" / "claims.yaml").exists()


@pytest.mark.slow
def test_the_commands_of_each_user_work(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    *_, block = re.findall(r"```sh\n(.*?)```", section("README.md", "Quick start"), re.DOTALL)
    subprocess.run(["bash", "-ec", block], cwd=tmp_path, env=ENVIRONMENT, check=True)
    for written in ("compared/report.html", "simulation/estimates.csv", "scenario.yaml"):
        assert (tmp_path / written).exists()


@pytest.mark.slow
def test_the_commands_work_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    shutil.copytree(ROOT / "benchmarks" / "studies", tmp_path / "benchmarks" / "studies")
    monkeypatch.chdir(tmp_path)
    for command in commands("docs/howto.md", "All commands"):
        shorter = command.replace("--time-limit 10", "--time-limit 2")
        program, *words = shorter.split()
        assert program == "metronome"
        monkeypatch.setattr(sys, "argv", [program, *words])
        assert main() == 0, (command, capsys.readouterr().err)
    for written in (
        "picture.svg",
        "claims",
        "front",
        "rotation.mps",
        "simulation",
        "scenario.yaml",
    ):
        assert (tmp_path / written).exists(), written
