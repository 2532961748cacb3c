"""A small cluster for the command `place`, and jobs that fill it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.state.store import read_cluster_state

# Two nodes of two GPUs and 50,000 Mbit/s; the hyperperiod is 300 slots.
SCENARIO: dict[str, Any] = {
    "format": "metronome-scenario/1",
    "name": "pair",
    "slot_ms": 5,
    "hyperperiod_ms": 1500,
    "cluster": {
        "topology": "single-switch",
        "nodes": 2,
        "gpus": 2,
        "nic_gbps": 50,
        "gpu": {"name": "any", "sustained_tflops": {"value": 20, "assumed": "for tests"}},
    },
    "jobs": [
        {
            "name": "first",
            "model": "VGG19",
            "batch": 64,
            "workers": 2,
            "nodes": ["node-00", "node-01"],
        }
    ],
}


# Of one task; a node has 32,000 millicores. Of either two do not fit a node, of both one does.
LARGE = {"gpus": 1, "cpu_millicores": 17_000}
REST = {"gpus": 1, "cpu_millicores": 15_000}


def job(name: str, tasks: int = 2, **fields: Any) -> dict[str, Any]:
    """Return a job that bursts for 100 of 300 slots, and takes a node for two tasks."""
    return {
        "format": "metronome-job/1",
        "name": name,
        "tasks": tasks,
        "each": {"gpus": 1},
        "period": 300,
        "phases": [{"start": 0, "length": 100, "rate": 40_000}],
        **fields,
    }


class Folder:
    """Where a state is, and the files that go with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path / "state"

    def file(self, document: Any, name: str = "job.yaml") -> str:
        (self.path / name).write_text(json.dumps(document))
        return str(self.path / name)

    def make(self, *arguments: str) -> None:
        scenario = self.file(SCENARIO, "pair.yaml")
        assert main(["place", str(self.state), "--cluster", scenario, *arguments]) == 0

    def place(self, *arguments: str | dict[str, Any]) -> int:
        given = [
            self.file(argument) if isinstance(argument, dict) else argument
            for argument in arguments
        ]
        return main(["place", str(self.state), *given])

    def offsets(self) -> dict[str, int]:
        reservations = read_cluster_state(self.state).reservations
        return {name: held.offset for name, held in reservations.items()}

    def content(self) -> bytes:
        return self.state.read_bytes()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what was printed on standard error, a line each."""
    return capsys.readouterr().err.splitlines()
