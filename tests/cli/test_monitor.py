"""`metronome monitor` corrects claims by measurements."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.profiles.prometheus import Prometheus
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.store import Store, read_cluster_state
from tests.cli.typed import COMMAND, Captured
from tests.kubernetes.prometheus import fake
from tests.kubernetes.prometheus.fake import matrix, says
from tests.kubernetes.state.states import reading, reservation, state_of, totals
from tests.running import wait_until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Keep a, which is important, and b half a second later, in a file."""
    placed = (reservation("a", 0, weight=4), reservation("b", 100))
    with Store.keep(tmp_path / "state", state_of(*placed)):
        return tmp_path / "state"


def count(monkeypatch: pytest.MonkeyPatch, jobs: Mapping[str, float], iterations: int = 60) -> str:
    """Let gates count bursts of so many ms every second; return where they are read."""
    read = reading(
        {
            job: totals(computing_ms=700, burst_ms=ms, waited_ms=300 - ms, iterations=iterations)
            for job, ms in jobs.items()
        }
    )
    monkeypatch.setattr(Prometheus, "read", lambda _, *times: read(*times))
    return "--once --prometheus http://127.0.0.1:1"


def kept(state: Path) -> Mapping[str, Reservation]:
    return read_cluster_state(state).reservations


def test_monitor_corrects_measured_claims(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    line = ["monitor", str(state), *count(monkeypatch, {"b": 200.0}).split()]
    manifests, before = tmp_path / "manifests", state.read_bytes()
    assert main([*line, "--dry-run", "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)
    assert tried["rephased"] == 0
    assert tried["unmeasured"] == {"a": "no bursts were counted by its gates"}
    assert "b: bursts as measured" in tried["reason"]
    assert state.read_bytes() == before
    assert main([*line, "--claims", str(manifests)]) == 0
    printed = capsys.readouterr()
    assert "1 job rephased: b: period without waiting in ms 900 instead of 1,000" in printed.out
    assert "  not measured: a: no bursts were counted by its gates" in printed.out
    assert f"wrote {manifests}" in printed.err
    gang = kept(state)["b"].gang
    assert (gang.period, gang.phases[0].length) == (180, 40)
    assert "lengthMicroseconds: 200000" in (manifests / "claims.yaml").read_text()


def test_nothing_measured_is_exit_status_1(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    with fake.fake(says("", 500)) as server:
        assert main(["monitor", str(state), "--prometheus", server.url, "--once"]) == 1
        printed = capsys.readouterr()
    assert printed.err.startswith(f"metronome: {server.url}: status 500")
    assert "0 jobs rephased" in printed.out
    once = count(monkeypatch, {"b": 300.0}, iterations=4)
    assert main(["monitor", str(state), *once.split(), "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)["unmeasured"]) == {"a", "b"}


def test_jobs_without_links_are_no_matter(tmp_path: Path, capsys: Captured) -> None:
    alone = tmp_path / "alone"
    with Store.keep(alone, state_of(reservation("a", 0, nodes="n0 n0"))):
        pass
    with fake.fake(matrix()) as server:
        assert main(["monitor", str(alone), "--prometheus", server.url, "--once"]) == 1
    assert "no job has claims on links" in capsys.readouterr().out


def use_for_a_while(state: Path) -> bool:
    """Keep a state from others for two seconds; return whether it was free."""
    try:
        with Store(state):
            time.sleep(2)
    except InputError:
        return False
    return True


@pytest.mark.slow
def test_it_checks_until_interrupted_and_leaves_the_state_to_others(
    state: Path, tmp_path: Path
) -> None:
    manifests = tmp_path / "manifests"
    with fake.fake(matrix()) as server:
        line = f"monitor {state} --json --prometheus {server.url} --interval 1 --claims {manifests}"
        process = subprocess.Popen([*COMMAND, *line.split()], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines: list[dict[str, Any]] = [json.loads(process.stdout.readline()) for _ in range(3)]
        wait_until(lambda: use_for_a_while(state))
        lines.append(json.loads(process.stdout.readline()))
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
    assert [line["fault"] for line in lines] == [None] * 4
    assert len(server.asked) >= 3
    assert (manifests / "claims.yaml").is_file()
