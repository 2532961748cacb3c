"""``metronome monitor`` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.cluster.gang import Reservation
from metronome_opt.cluster.store import Store
from metronome_opt.errors import InputError
from tests.cli.typed import COMMAND, Captured
from tests.cluster.states import RATE, reservation, state_of
from tests.prometheus import fake
from tests.prometheus.fake import matrix, says
from tests.running import wait_until

AT_S = 1_700_000_000.0


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Keep a, which is important, and b half a second later, in a folder."""
    placed = (reservation("a", 0, weight=4), reservation("b", 100))
    with Store.keep(tmp_path / "state", state_of(*placed)):
        return tmp_path / "state"


def record(folder: Path, job: str, *, burst_ms: float = 300.0, count: int = 60) -> str:
    """Write the record of a gate that begins a burst every second, and computes for 0.7 s."""
    path = folder / f"{job}.jsonl"
    lines = [
        {
            "at": AT_S + second,
            "iteration": second,
            "phase": 0,
            "waited_ms": 300.0 - burst_ms,
            "late_ms": 0.0,
            "burst_ms": burst_ms,
            "iteration_ms": 1000.0 if second else None,
            "sent_bytes": round(burst_ms * RATE * 125),
            "job": job,
            "task": 0,
        }
        for second in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def kept(state: Path) -> dict[str, Reservation]:
    with Store(state) as store:
        return dict(store.state.claims)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_jobs_that_obey_are_left_alone(state: Path, tmp_path: Path, capsys: Captured) -> None:
    records = [each for job in "ab" for each in ("--record", record(tmp_path, job))]
    before = content(state)
    assert main(["monitor", str(state), *records]) == 0
    # A state is decided about once after a start.
    assert capsys.readouterr().out.partition("  ")[2].startswith("0 jobs rephased: ")
    assert content(state) == before


def test_a_record_corrects_a_claim_and_the_rest_is_not_measured(
    state: Path, tmp_path: Path, capsys: Captured
) -> None:
    shorter, manifests = record(tmp_path, "b", burst_ms=200.0), tmp_path / "manifests"
    before = content(state)
    assert main(["monitor", str(state), "--record", shorter, "--dry-run", "--json"]) == 0
    tried = json.loads(capsys.readouterr().out)
    assert tried["rephased"] == 0
    assert tried["unmeasured"] == {"a": "no bursts were counted by its gates"}
    assert "b: bursts as measured" in tried["reason"]
    assert content(state) == before
    assert main(["monitor", str(state), "--record", shorter, "--claims", str(manifests)]) == 0
    printed = capsys.readouterr()
    assert "1 job rephased: b: period without waiting in ms 900 instead of 1,000" in printed.out
    assert "  not measured: a: no bursts were counted by its gates" in printed.out
    assert f"wrote {manifests}" in printed.err
    gang = kept(state)["b"].gang
    assert (gang.period, gang.phases[0].length) == (180, 40)
    assert "lengthMicroseconds: 200000" in (manifests / "claims.yaml").read_text()


def test_nothing_measured_is_exit_status_1(state: Path, tmp_path: Path, capsys: Captured) -> None:
    short = record(tmp_path, "b", count=5)
    assert main(["monitor", str(state), "--record", short, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["unmeasured"] == {
        "a": "no bursts were counted by its gates",
        "b": "4 iterations only; at least 8 are needed",
    }
    with fake.fake(says("", 500)) as server:
        assert main(["monitor", str(state), "--prometheus", server.url, "--once"]) == 1
        printed = capsys.readouterr()
    assert printed.err.startswith(f"metronome: {server.url}: status 500")
    assert "0 jobs rephased" in printed.out


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
def test_it_checks_until_interrupted_and_leaves_the_folder_to_others(
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
