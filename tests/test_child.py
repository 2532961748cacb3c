"""A child's messages outlive it, and it does not outlive its parent."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.child import run_child
from tests import child_tasks
from tests.running import ROOT, wait_until

_PARENT = """
import pickle
from metronome_opt.child import run_child
from tests.child_tasks import never_end
run_child(pickle.dumps(never_end), lambda m: print(m["process"], flush=True), lambda: None)
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_messages_of_killed_child_are_kept() -> None:
    messages: list[object] = []
    end = run_child(pickle.dumps(child_tasks.die), messages.append, lambda: None)
    assert messages == [{"bound": 2.0}]
    assert (end.status, end.last_output) == (-signal.SIGKILL, "about to be killed")


def test_error_of_parent_kills_child() -> None:
    processes: list[int] = []

    def refuse(message: dict[str, int]) -> None:
        processes.append(message["process"])
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        run_child(pickle.dumps(child_tasks.never_end), refuse, lambda: None)
    assert not Path(f"/proc/{processes[0]}").exists()


def test_child_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = Path("/proc") / parent.stdout.readline().strip() / "stat"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z")
