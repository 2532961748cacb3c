"""The commit of a package: that of its checkout, if it is in one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from metronome_opt.bench.process import describe_machine, find_commit, find_versions


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that is committed, in a checkout with a file that is not."""
    folder = tmp_path / "checkout" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    git(folder, *who, "commit", "--quiet", "--message", "first")
    (folder.parent / "notes.txt").write_text("not of the package")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = find_commit(package)
    assert commit == git(package, "rev-parse", "--short", "HEAD")
    (package / "new.py").write_text("")
    assert find_commit(package) == f"{commit}+"
    installed = package.parent / "environment" / "package"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    assert find_commit(installed) is None  # git does not track it
    (tmp_path / "away").mkdir()
    assert find_commit(tmp_path / "away") is None
    monkeypatch.setenv("PATH", "")
    assert find_commit(package) is None


def test_machine_and_versions_are_told() -> None:
    machine = describe_machine()
    assert set(machine) == {"processor", "cores", "memory_mb", "system"}
    versions = find_versions(["pytest", "no-such-package"])
    assert {"python", "metronome-opt", "pytest"} <= set(versions)
    assert "no-such-package" not in versions
