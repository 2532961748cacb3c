"""``metronome monitor`` as a user types it, against a real Prometheus and against broken ones."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.control.metrics import dashboard_json
from metronome_opt.scheduling.gang import Claim
from metronome_opt.scheduling.store import Store
from tests.cli.watching import NODE_COUNTER, NOW_S, SELECTOR, beside, check, exposed, kept
from tests.control.wires import SILENT, claim, content, traffic
from tests.kubernetes.schemas import check_manifests
from tests.prometheus.history import History, Scraped
from tests.prometheus.server import needs_prometheus, prometheus

Captured = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "metronome_opt", "monitor"]
ODD = 'it\'s "odd" \\ {}'

# By job: what its first task sends. All are to burst for 300 ms once a second.
SENT = {
    "calm": traffic(),
    "half": traffic(0.5),  # as claimed by whoever begins half a second later
    "drifted": traffic(0.2),  # 60 slots before that
    "far": traffic(0.0),  # 100 slots before that
    "slower": traffic(0.5, period_s=1.7),
    "longer": traffic(0.5, length_s=0.4),
    "silent": SILENT,
    ODD: traffic(0.0),
}


def quoted(name: str) -> str:
    """Return a name as a label's value in OpenMetrics."""
    return name.replace("\\", r"\\").replace('"', r"\"")


HISTORY = History({f"{quoted(job)}-0": Scraped(sent, step_ms=50) for job, sent in SENT.items()})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), history=HISTORY.openmetrics()) as url:
        yield url


def claims_in(state: Path) -> dict[str, Claim]:
    with Store(state) as store:
        return dict(store.state.claims)


def checked(capsys: Captured) -> dict[str, Any]:
    """Return the document of the last check."""
    printed = capsys.readouterr()
    assert printed.err == ""
    document: dict[str, Any] = json.loads(printed.out.splitlines()[-1])
    return document


# ------------------------------------------------------------------ a real server


@needs_prometheus
def test_what_is_as_claimed_is_left_alone(server: str, tmp_path: Path, capsys: Captured) -> None:
    state = beside(tmp_path, "half")
    before = content(state)
    assert check(state, server) == 0
    assert capsys.readouterr().out == (
        "2023-11-14 22:15:19Z  2 of 2 jobs measured: nothing; all is as claimed\n"
    )
    assert content(state, but=["monitor.json"]) == before


@needs_prometheus
def test_a_job_that_drifted_is_told_how_long_to_wait(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state = beside(tmp_path, "drifted")
    before = content(state)
    assert check(state, server, "--json") == 0
    first = checked(capsys)
    assert (first["decision"], first["steps"], first["kept"]) == ("nothing", [], False)
    assert first["reason"].startswith("not believed yet: drifted: off its slot by -")
    assert content(state, but=["monitor.json"]) == before
    assert check(state, server, "--json") == 0
    second = checked(capsys)
    # It begins at slot 40, where the important job bursts until 60. Of 200 slots bursts of 60 each
    # leave most room for jitter if they begin 100 apart, as they did.
    assert second["steps"] == [
        {"job": "drifted", "wait_slots": 60, "offset_before": 40, "offset_after": 100}
    ]
    assert (second["decision"], second["kept"]) == ("rephase", False)
    assert [each["name"] for each in second["findings"]] == ["drifted"]
    # 800 Mbit/s of weight 1 are late on two links, from slot 40 to 80 of 200.
    assert second["contention"] == {"claimed": "0", "measured": "320", "planned": "0"}
    assert {job: each.offset for job, each in claims_in(state).items()} == {
        "calm": 0,
        "drifted": 100,
    }


@needs_prometheus
def test_a_far_drift_is_believed_at_once_and_decided_once(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state = beside(tmp_path, "far")
    assert check(state, server) == 0
    told = capsys.readouterr().out.splitlines()
    assert "2 of 2 jobs measured: rephase; far: off its slot by " in told[0]
    assert told[1:] == ["  1. far waits 400 ms, once"]
    before = content(state)
    for _ in range(2):
        assert check(state, server) == 0
        summary, unmeasured = capsys.readouterr().out.splitlines()
        assert summary.endswith("1 of 2 jobs measured: nothing; what was measured is as claimed")
        assert unmeasured == "  not measured: far: waits, as it was told to"
    assert content(state) == before


@needs_prometheus
def test_a_dry_run_tells_and_keeps_nothing(server: str, tmp_path: Path, capsys: Captured) -> None:
    state = beside(tmp_path, "far")
    before = content(state)
    manifests = tmp_path / "manifests"
    assert check(state, server, "--dry-run", "--claims", str(manifests)) == 0
    told = capsys.readouterr().out
    assert "rephase, not kept; far" in told
    assert "far waits 400 ms, once" in told
    assert content(state) == before
    assert not manifests.exists()


@needs_prometheus
def test_a_job_that_went_silent_gives_everything_back(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state = beside(tmp_path, "silent")
    assert check(state, server) == 0
    assert "silent: is gone" in capsys.readouterr().out
    assert list(claims_in(state)) == ["calm"]
    lonely = kept(tmp_path / "lonely", claim("silent", 0))
    assert check(lonely, server) == 0
    assert "all jobs are gone" in capsys.readouterr().out
    assert check(lonely, server) == 0
    assert "0 of 0 jobs measured: no job has claims on links" in capsys.readouterr().out


@needs_prometheus
@pytest.mark.parametrize("quote", ['"', "'"])
def test_names_may_hold_anything(quote: str, server: str, tmp_path: Path, capsys: Captured) -> None:
    state = beside(tmp_path, ODD)
    selector = f"{NODE_COUNTER}{{device={quote}$pod{quote}}}"
    assert check(state, server, "--selector", selector, "--json") == 0
    assert checked(capsys)["measured"] == sorted(["calm", ODD])
    assert claims_in(state)[ODD].offset == 80


@needs_prometheus
def test_new_claims_are_written_when_they_are_new(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state, manifests = beside(tmp_path, "far"), tmp_path / "manifests"
    assert main(["place", str(state), "--claims", str(manifests)]) == 0
    assert claimed(manifests) == {"calm": 0, "far": 500_000}
    capsys.readouterr()
    arguments = ["--claims", str(manifests)]
    assert check(state, server, *arguments) == 0
    assert capsys.readouterr().err == f"wrote {manifests}\n"
    assert claimed(manifests) == {"calm": 0, "far": 400_000}
    assert check(state, server, *arguments) == 0
    assert capsys.readouterr().err == ""


@needs_prometheus
def test_claims_that_a_killed_monitor_did_not_write_are_written_at_the_next_start(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state, manifests = beside(tmp_path, "far"), tmp_path / "manifests"
    assert main(["place", str(state), "--claims", str(manifests)]) == 0
    assert check(state, server) == 0  # decided and kept, and then it was killed
    assert claimed(manifests) == {"calm": 0, "far": 500_000}
    capsys.readouterr()
    nobody = "http://127.0.0.1:9"
    assert check(state, nobody, "--attempts", "1", "--claims", str(manifests)) == 1
    assert capsys.readouterr().err.startswith(f"wrote {manifests}\n")
    assert claimed(manifests) == {"calm": 0, "far": 400_000}


def claimed(manifests: Path) -> dict[str, int]:
    """Return the offsets of the claims in a folder, in microseconds, by job."""
    files = {each.name: list(yaml.safe_load_all(each.read_text())) for each in manifests.iterdir()}
    del files["kustomization.yaml"]
    check_manifests(files)
    return {
        each["spec"]["job"]: each["spec"]["allocation"]["offsetMicroseconds"]
        for each in files["claims.yaml"]
    }


@needs_prometheus
def test_counters_go_on_over_several_runs(server: str, tmp_path: Path) -> None:
    state, file = beside(tmp_path, "drifted"), tmp_path / "monitor.prom"
    for _ in range(3):
        assert check(state, server, "--metrics", str(file)) == 0
    values = exposed(file.read_text())
    assert values['metronome_decisions_total{decision="nothing"}'] == 2
    assert values['metronome_decisions_total{decision="rephase"}'] == 1
    assert values['metronome_findings_total{kind="drifted"}'] == 2
    assert values['metronome_rephasings_total{priority="1",training_job="drifted"}'] == 1
    assert values['metronome_jobs{state="measured"}'] == 1
    assert values["metronome_last_check_timestamp_seconds"] == NOW_S
    assert values["metronome_prometheus_errors_total"] == 0


@pytest.mark.slow
@needs_prometheus
def test_it_goes_on_until_it_is_interrupted(server: str, tmp_path: Path) -> None:
    state = beside(tmp_path, "half")
    arguments = ["--state", str(state), "--prometheus", server, "--selector", SELECTOR]
    with subprocess.Popen(
        [*COMMAND, *arguments, "--interval", "1", "--listen", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stderr.readline().removeprefix("metrics at ").strip()
        checks = [json.loads(process.stdout.readline()) for _ in range(2)]
        with urllib.request.urlopen(address, timeout=10) as answer:
            text = answer.read().decode()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told == ""
    # The history ends long before today.
    assert [(each["jobs"], each["measured"]) for each in checks] == [(2, [])] * 2
    assert checks[1]["at_s"] - checks[0]["at_s"] >= 0.9
    assert exposed(text)['metronome_decisions_total{decision="nothing"}'] >= 2
    # Those of the controller and of gates are on the same dashboard.
    for name in re.findall(r"metronome_(?!controller|gate)\w+", dashboard_json()):
        assert f"# TYPE {name} " in text
