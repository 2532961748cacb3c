"""``metronome monitor`` without answers that can be used, or wrongly asked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.control.metrics import dashboard_json
from metronome_opt.scheduling.store import Store
from tests.cli.watching import NOW_S, SELECTOR, beside, check, exposed
from tests.control.wires import content
from tests.prometheus import fake
from tests.prometheus.fake import Answer, matrix, says

Captured = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "metronome_opt", "monitor"]


NOTHING = matrix()
BURSTS = [[NOW_S - 1.0, "0"], [NOW_S, "1000"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([says("", 500)], "status 500"),
        ([fake.says_nothing], "no whole answer within 0.4 s"),
        ([fake.breaks_off], "broke off"),
        ([says("<html>Log in</html>")], "not an answer of Prometheus"),
        (
            [matrix(({}, BURSTS), warnings=["one store is away"])],
            "not complete (one store is away)",
        ),
        # What was read of the first job is of no use without the second.
        ([NOTHING, NOTHING, matrix(({}, [[1, "0"]]))], "outside the time asked for"),
    ],
)
def test_without_an_answer_nothing_changes(
    answers: list[Answer], said: str, tmp_path: Path, capsys: Captured
) -> None:
    state, metrics = beside(tmp_path, "far"), tmp_path / "monitor.prom"
    before = content(state)
    with fake.fake(*answers) as told:
        arguments = ["--attempts", "2", "--timeout", "0.4", "--metrics", str(metrics)]
        assert check(state, told.url, *arguments) == 1
        assert len(told.asked) == len(answers) - 1 + 2
    printed = capsys.readouterr()
    assert printed.out == ""
    wrote, line = printed.err.splitlines()
    assert wrote == f"wrote {metrics}"
    assert line.startswith(f"metronome: {told.url}: ")
    assert said in line
    assert content(state) == before
    values = exposed(metrics.read_text())
    assert values["metronome_prometheus_errors_total"] == 1
    assert values['metronome_decisions_total{decision="nothing"}'] == 0


@pytest.mark.slow
def test_it_outlives_failures_and_asks_less_often(tmp_path: Path) -> None:
    state = beside(tmp_path, "far")
    before = content(state)
    with fake.fake(says("", 500), NOTHING) as server:
        arguments = ["--state", str(state), "--prometheus", server.url, "--selector", SELECTOR]
        with subprocess.Popen(
            [*COMMAND, *arguments, "--interval", "1", "--attempts", "1", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            check = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=30)
        asked_s = [float(form["time"]) for _, form, _ in server.asked]
    assert process.returncode == 130
    (line,) = told.splitlines()
    assert "status 500" in line
    assert check["decision"] == "nothing"
    # A failure doubles the pause.
    assert asked_s[1] - asked_s[0] >= 1.9
    assert content(state, but=["monitor.json"]) == before


@pytest.mark.slow
def test_a_state_in_use_is_waited_for(tmp_path: Path) -> None:
    state = beside(tmp_path, "far")
    with fake.fake(NOTHING) as server:
        arguments = ["--state", str(state), "--prometheus", server.url, "--interval", "1"]
        with Store(state):
            process = subprocess.Popen(
                [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert process.stderr is not None
            assert "another process is writing it" in process.stderr.readline()
        assert process.stdout is not None
        assert "0 of 2 jobs measured" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told == ""


def test_who_has_no_samples_is_named_and_nobody_measured_ends_with_1(
    tmp_path: Path, capsys: Captured
) -> None:
    state = beside(tmp_path, "far")
    before = content(state)
    with fake.fake(NOTHING) as server:
        assert check(state, server.url) == 1
        assert capsys.readouterr().out.splitlines() == [
            "2023-11-14 22:15:19Z  0 of 2 jobs measured: nothing; nobody was measured",
            "  not measured: calm, far: no samples in 100 s; check selector and window",
        ]
        assert check(state, server.url, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["measured"] == []
    assert told["unmeasured"].keys() == {"calm", "far"}
    assert content(state, but=["monitor.json"]) == before


# ------------------------------------------------------------------ usage


def test_a_dashboard_needs_nothing_else(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "dashboard.json"
    assert main(["monitor", "--dashboard", str(file)]) == 0
    assert capsys.readouterr().err == f"wrote {file}\n"
    assert file.read_text() == dashboard_json()
