"""The wheel works away from the checkout: built, installed in an empty environment, run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return next(folder.glob("metronome_opt-*.whl"))


def constraints() -> str:
    """Return the locked versions, without their hashes."""
    lock = (ROOT / "requirements.lock").read_text()
    return "\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE)) + "\n"


def test_the_wheel_holds_the_data_and_the_type_marker(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "metronome_opt/py.typed" in names
    assert "metronome_opt/models/scenarios/paper-24.yaml" in names
    assert "metronome_opt/models/formulations/rotation.mzn" in names
    assert sum(name.startswith("metronome_opt/models/workloads/") for name in names) == 13
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


@pytest.mark.timeout(600)
def test_the_demo_runs_from_the_wheel_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pinned = tmp_path / "constraints.txt"
    pinned.write_text(constraints())
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [str(environment / "bin/python"), *install, "-c", str(pinned), str(wheel)],
        check=True,
        capture_output=True,
        env=kept,
    )
    away = tmp_path / "away"
    away.mkdir()
    metronome = str(environment / "bin/metronome")
    run = subprocess.run(
        [metronome, "demo", "--time-limit", "3"],
        check=False,
        cwd=away,
        env=kept,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "(verified)" in run.stdout
    made = away / "demo-output"
    assert (made / "claims" / "claims.yaml").exists()
    checked = subprocess.run(
        [metronome, "verify", str(made / "instance.json"), str(made / "schedule.json")],
        check=False,
        cwd=away,
        env=kept,
    )
    assert checked.returncode == 0
