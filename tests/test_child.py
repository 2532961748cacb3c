"""A child's messages outlive it, and it does not outlive its parent."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.child import ChildEnd, close_idle, run_child
from tests import child_tasks
from tests.running import ROOT, wait_until

_PARENT = """
import pickle, sys
from metronome_opt.child import run_child
from tests import child_tasks, test_child
load = eval(sys.argv[1])
task = pickle.dumps(child_tasks.never_end)
run_child(task, lambda m: print(m["process"], flush=True), lambda: None, 0, load)
"""
LOAD = pickle.dumps(child_tasks.load)
_LOADS = pytest.mark.parametrize("load", [None, LOAD], ids=["fresh", "forked"])


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield
    close_idle()


def run(task: Callable[..., None], load: bytes | None, **limits: Any) -> tuple[Any, ChildEnd]:
    """Return the only message of a task, and its end."""
    messages: list[dict[str, Any]] = []
    end = run_child(pickle.dumps(task), messages.append, lambda: None, load=load, **limits)
    (message,) = messages or ({},)
    return message, end


def runs(process: int | str) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@_LOADS
def test_messages_of_killed_child_are_kept(load: bytes | None) -> None:
    message, end = run(child_tasks.die, load)
    assert message == {"bound": 2.0}
    assert (end.status, end.last_output) == (-signal.SIGKILL, "about to be killed")


@_LOADS
def test_error_of_parent_kills_child(load: bytes | None) -> None:
    processes: list[int] = []

    def refuse(message: dict[str, int]) -> None:
        processes.append(message["process"])
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        run_child(pickle.dumps(child_tasks.never_end), refuse, lambda: None, 0, load)
    assert not Path(f"/proc/{processes[0]}").exists()


@pytest.mark.parametrize("load", ["None", "test_child.LOAD"])
def test_child_ends_when_its_parent_is_killed(load: str) -> None:
    command = [sys.executable, "-c", _PARENT, load]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = parent.stdout.readline().strip()
    others = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not any(map(runs, [child, *others])))


def test_descendants_of_a_fork_end_with_it() -> None:
    message, end = run(child_tasks.leave_fork, LOAD)
    assert end.status == 0
    assert not runs(message["process"])


# ------------------------------------------------------------------ loaded processes


def test_tasks_share_one_loading_whatever_ends_them() -> None:
    limited, _ = run(child_tasks.say_loaders, LOAD, memory_mb=900)
    run(child_tasks.die, LOAD)
    free, end = run(child_tasks.say_loaders, LOAD)
    (loader,) = limited["loaders"]
    assert free["loaders"] == [loader]
    assert len({loader, limited["process"], free["process"], os.getpid()}) == 4
    assert (limited["limit"], free["limit"]) == (900 * 2**20, resource.RLIM_INFINITY)
    assert end.peak_memory_mb > 0
    os.kill(loader, signal.SIGKILL)  # as the system does that lacks memory
    wait_until(lambda: not runs(loader))
    (other,) = run(child_tasks.say_loaders, LOAD)[0]["loaders"]
    assert other != loader
    close_idle()
    assert not runs(other)


def test_task_whose_loading_fails_ends_with_its_error() -> None:
    _, end = run(child_tasks.say_loaders, pickle.dumps(child_tasks.fail_to_load))
    assert (end.status, end.last_output) == (1, "ValueError: nothing to load")


def test_loading_can_be_ended() -> None:
    load, task = pickle.dumps(partial(time.sleep, 600)), pickle.dumps(child_tasks.say_loaders)
    end = run_child(task, lambda _: None, lambda: signal.SIGKILL, load=load)
    assert end.status == -signal.SIGKILL
