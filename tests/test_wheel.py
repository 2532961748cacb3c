"""The wheel works away from the checkout: built, installed, run. It says what it needs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.test_layers import imports

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
    assert "metronome_opt/kubernetes/claims/crds.yaml" in names
    assert "metronome_opt/models/scenarios/paper-24.yaml" in names
    assert "metronome_opt/models/formulations/rotation.mzn" in names
    assert "metronome_opt/models/studies/snapshot.yaml" in names
    assert "metronome_opt/models/suites/single/index.json" in names
    assert sum(name.startswith("metronome_opt/models/workloads/") for name in names) == 13
    assert sum("models/measured/h200-" in name for name in names) == 13 + 8
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]


def installed(wheel: Path, environment: Path, *how: str, extra: str = "") -> Path:
    """Install the wheel in a new environment, by the pip of this one; return its command."""
    venv = ["-m", "venv", "--without-pip", str(environment)]
    subprocess.run([sys.executable, *venv], check=True)
    pip = ["-m", "pip", "--python", str(environment / "bin/python"), "install", "--quiet"]
    subprocess.run(
        [sys.executable, *pip, "--disable-pip-version-check", *how, f"{wheel}{extra}"],
        check=True,
        capture_output=True,
    )
    return environment / "bin/metronome"


def check_run(metronome: Path, away: Path, command: Sequence[str], scenario: str) -> None:
    """Run a command in a folder, with nothing set that tells Python where to look."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = subprocess.run(
        [metronome, *command, "--time-limit", "1"],
        check=False,
        cwd=away,
        env=kept,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    (claims,) = away.rglob("claims.yaml")
    checked = subprocess.run(
        [metronome, "verify", scenario, str(claims.parents[1] / "schedule.json")],
        check=False,
        cwd=away,
        env=kept,
    )
    assert checked.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_solve_runs_from_the_wheel_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """It takes its dependencies from here, and compiles its kernels."""
    metronome = installed(wheel, tmp_path / "environment", "--no-deps", "--no-index")
    (packages,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    # A path file that is found by way of a path file, that of the checkout, is not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    away = tmp_path / "away"
    away.mkdir()
    words = "solve paper-24 --plot picture.svg --claims claims"
    command = [*words.split(), "--output", "schedule.json"]
    check_run(metronome, away, command, "paper-24")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_demo_runs_from_the_wheel_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    pinned = tmp_path / "constraints.txt"
    pinned.write_text(constraints())
    metronome = installed(wheel, tmp_path / "environment", "-c", str(pinned), extra="[plot]")
    away = tmp_path / "away"
    away.mkdir()
    check_run(metronome, away, ["demo"], "eight-nodes")


def names(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that requirements name, without those of their extras."""
    return {
        re.split(r"[^\w.-]", each)[0].lower().replace("_", "-")
        for each in requirements
        if "extra ==" not in each
    }


# What others are made of and show, by the distribution that requires it.
BROUGHT = {"pydantic": {"pydantic-core"}}

# What is there where a module imports it: PyTorch for the hook of the gate, IPython in a notebook.
PRESENT = {"gate/ddp.py": {"torch"}, "bar.py": {"IPython"}}


def test_all_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = names([*project["dependencies"], *(each for extra in extras for each in extra)])
    for name in declared & set(BROUGHT):
        declared |= BROUGHT[name] & names(importlib.metadata.requires(name) or [])
    providers = importlib.metadata.packages_distributions()
    undeclared = {
        module
        for path in (ROOT / "metronome_opt").rglob("*.py")
        for module in imports(path)
        if (top := module.split(".")[0]) not in {*sys.stdlib_module_names, "metronome_opt"}
        and top not in PRESENT.get(path.relative_to(ROOT / "metronome_opt").as_posix(), set())
        and not names(providers.get(top, [])) & declared
    }
    assert undeclared == set()
