"""Tasks one after the other in children of one warm process, and where they say they ran."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from metronome_opt.bench.process import (
    Limits,
    Outcome,
    Task,
    close_idle,
    describe_machine,
    find_commit,
    find_versions,
    run_task,
)
from tests.bench.examples import FAKE_WORKER
from tests.running import wait_until

LIMITS = Limits(time_s=0.1, memory_mb=250, grace_s=0.2)
# Whoever ends otherwise is not to meet the limit of time, however slow the machine is.
PATIENT = Limits(time_s=60, memory_mb=250)


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    close_idle()
    yield
    close_idle()


def run(name: str) -> Outcome:
    limits = LIMITS if name == "hang" else PATIENT
    return run_task(Task(FAKE_WORKER, {"solver": name}, limits), threading.Event())


def where() -> dict[str, Any]:
    outcome = run("say_where")
    return next(told for told in outcome.messages if told["event"] == "where")


def test_tasks_have_one_parent_and_folders_of_their_own() -> None:
    first, second = where(), where()
    assert first["parent"] == second["parent"]
    assert first["folder"] != second["folder"]
    assert all(told["temporary"] == told["folder"] for told in (first, second))


@pytest.mark.parametrize(
    ("name", "ending"), [("hang", "time"), ("eat", "memory"), ("abort", "ended"), ("fail", "ended")]
)
def test_a_task_that_ends_badly_costs_the_next_one_nothing(name: str, ending: str) -> None:
    parent = where()["parent"]
    assert run(name).ending == ending
    assert where()["parent"] == parent


def test_loading_is_not_the_fault_of_the_first_task() -> None:
    limits = Limits(time_s=60, startup_s=0.9)
    outcome = run_task(Task(f"{FAKE_WORKER} slow", {"solver": "well"}, limits), threading.Event())
    assert (outcome.ending, outcome.status) == ("ended", 0)


def test_a_process_that_died_while_it_waited_is_replaced() -> None:
    parent = where()["parent"]
    process = psutil.Process(parent)
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    assert where()["parent"] != parent


def test_what_a_task_has_forked_ends_with_it() -> None:
    parent = where()["parent"]
    assert run("fork_and_abort").status == -6
    until = time.monotonic() + 30
    while _left(parent) != [parent]:  # to die takes a moment
        assert time.monotonic() < until
        time.sleep(0.05)


def _left(session: int) -> list[int]:
    return [process.pid for process in psutil.process_iter() if _is_of(process, session)]


def _is_of(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


# ------------------------------------------------------------------ provenance


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
