"""``metronome monitor`` as a user types it, against a real Prometheus and against broken ones."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.control.declared import METRICS
from metronome_opt.kubernetes import check_manifests
from metronome_opt.profiles.prometheus import NODE_COUNTER
from metronome_opt.scheduling.claim import Claim
from metronome_opt.scheduling.store import Store
from tests.control.wires import RATE, SILENT, claim, content, state_of, traffic
from tests.prometheus import fake
from tests.prometheus.fake import Answer, matrix, says
from tests.prometheus.history import EPOCH_S, History, Scraped
from tests.prometheus.server import needs_prometheus, prometheus

Captured = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "metronome_opt", "monitor"]
SELECTOR = f'{NODE_COUNTER}{{device="$pod"}}'
ODD = 'it\'s "odd" \\ {}'
NOW_S = EPOCH_S + 119

# By job: what its first task sends. All are to burst for 300 ms once a second.
SENT = {
    "calm": traffic(),
    "half": traffic(0.5),  # as claimed by whoever begins half a second later
    "drifted": traffic(0.2),  # 60 slots before that
    "far": traffic(0.0),  # 100 slots before that
    "slower": traffic(0.5, period_s=1.25),
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


def kept(folder: Path, *claims: Claim) -> Path:
    with Store.keep(folder / "state", state_of(*claims)):
        return folder / "state"


def beside(folder: Path, other: str) -> Path:
    """Make a state of calm, which is important, and another job half a second later."""
    return kept(folder, claim("calm", 0, weight=4), claim(other, 100))


def claims_in(state: Path) -> dict[str, Claim]:
    with Store(state) as store:
        return dict(store.state.claims)


def check(state: Path, url: str, *arguments: str, at_s: float = NOW_S) -> int:
    told = ["--state", str(state), "--prometheus", url, "--once", "--at", str(at_s)]
    return main(["monitor", *told, "--selector", SELECTOR, "--window", "100", *arguments])


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
        "2023-11-14 22:15:19  2 of 2 jobs measured: nothing; all is as claimed\n"
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
    # It begins at slot 40, where the important job bursts until 60. With its cushion of 20 slots,
    # half of the 40 between them, that one reserves 80.
    assert second["steps"] == [
        {"job": "drifted", "wait_slots": 40, "offset_before": 40, "offset_after": 80}
    ]
    assert (second["decision"], second["kept"]) == ("rephase", True)
    assert [each["name"] for each in second["findings"]] == ["drifted"]
    # 800 Mbit/s of weight 1 are late on two links, from slot 40 to 80 of 200.
    assert second["contention"] == {"claimed": "0", "measured": "320", "planned": "0"}
    assert {job: each.offset for job, each in claims_in(state).items()} == {
        "calm": 0,
        "drifted": 80,
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
        assert "1 of 2 jobs measured: nothing; all is as claimed" in capsys.readouterr().out
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
def test_a_job_with_a_new_period_gets_a_claim_that_fits_the_hyperperiod(
    server: str, tmp_path: Path
) -> None:
    state = beside(tmp_path, "slower")
    for _ in range(2):
        assert check(state, server) == 0
    after = claims_in(state)["slower"]
    # 1,250 ms are 250 slots; of the divisors of 400 the next one is 400.
    assert (after.gang.period, after.stretch, after.period) == (250, 150, 400)


@needs_prometheus
def test_a_job_with_new_traffic_gets_a_new_claim(server: str, tmp_path: Path) -> None:
    state = beside(tmp_path, "longer")
    for _ in range(2):
        assert check(state, server) == 0
    (phase,) = claims_in(state)["longer"].gang.phases
    assert phase.length * phase.rate == pytest.approx(80 * RATE, rel=0.03)
    assert phase.length == pytest.approx(80, abs=3)


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
def test_a_selector_of_several_series_is_one_line(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state = beside(tmp_path, "half")
    before = content(state)
    selector = f'{NODE_COUNTER}{{device=~"$job.*|calm.*"}}'
    assert check(state, server, "--selector", selector) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "selector: matches 2 series for task 0 of half; it has to match one, name the interface "
        "as well"
    )
    assert content(state) == before


@needs_prometheus
def test_new_claims_are_written_when_they_are_new(
    server: str, tmp_path: Path, capsys: Captured
) -> None:
    state, manifests = beside(tmp_path, "drifted"), tmp_path / "manifests"
    arguments = ["--claims", str(manifests)]
    assert check(state, server, *arguments) == 0
    assert not manifests.exists()
    capsys.readouterr()
    assert check(state, server, *arguments) == 0
    assert capsys.readouterr().err == f"wrote {manifests}\n"
    files = {each.name: list(yaml.safe_load_all(each.read_text())) for each in manifests.iterdir()}
    check_manifests(files)
    offsets = {
        each["spec"]["job"]: each["spec"]["allocation"]["offsetMicroseconds"]
        for each in files["claims.yaml"]
    }
    assert offsets == {"calm": 0, "drifted": 400_000}


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


def exposed(text: str) -> dict[str, float]:
    """Return the values of metrics by name and labels as they are written."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


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
    for metric in METRICS:
        assert f"# TYPE {metric.name} {metric.kind}\n" in text


# ------------------------------------------------------------------ broken servers


def away() -> str:
    """Return an address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


NOTHING = matrix()
BURSTS = [[NOW_S - 1.0, "0"], [NOW_S, "1000"]]


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
    (line,) = printed.err.splitlines()
    assert line.startswith(f"metronome: {told.url}: ")
    assert said in line
    assert content(state) == before
    values = exposed(metrics.read_text())
    assert values["metronome_prometheus_errors_total"] == 1
    assert values['metronome_decisions_total{decision="nothing"}'] == 0


def test_a_server_that_cannot_be_reached_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    state, url = beside(tmp_path, "far"), away()
    before = content(state)
    assert check(state, url, "--attempts", "2") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"metronome: {url}: cannot be reached")
    assert content(state) == before


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


# ------------------------------------------------------------------ usage


def test_a_dashboard_needs_nothing_else(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "dashboard.json"
    assert main(["monitor", "--dashboard", str(file)]) == 0
    assert capsys.readouterr().err == f"wrote {file}\n"
    text = file.read_text()
    assert json.loads(text)["panels"]
    assert all(metric.name in text for metric in METRICS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--state: missing"),
        (["--state", "STATE", "--once"], "--prometheus: missing"),
        (["--prometheus", "URL", "--once"], "--state: missing"),
        (["--state", "STATE", "--prometheus", "URL"], "--once, --interval: give one of them"),
        (["ALL", "--interval", "5"], "--once, --interval: give one of them"),
        (["ALL", "--interval", "0.5"], "--interval"),
        (["ALL", "--interval", "inf"], "--interval"),
        (["ALL", "--window", "nan"], "--window"),
        (["ALL", "--at", "inf"], "--at"),
        (["ALL", "--at", "-1"], "--at"),
        (["ALL", "--attempts", "0"], "--attempts"),
        (["ALL", "--timeout", "0"], "--timeout"),
        (["ALL", "--prometheus", "localhost:9090"], "not the address of a server"),
        (["ALL", "--selector", 'a{b="$pods"}'], "selector: $pods is not known"),
        (["ALL", "--selector", 'a{b="c"}'], "is the same for all jobs"),
        (["ALL", "--listen", "nowhere"], "no address to listen on"),
        (["ALL", "--metrics", "TMP/monitor.txt"], "end in .prom"),
        (["ALL", "--metrics", "TMP/no/folder.prom"], "no/folder.prom: cannot be written"),
        (["ALL", "--metrics", "TMP/x.prom", "--dashboard", "TMP/x.prom"], "two outputs"),
        (["ALL", "--dashboard", "TMP"], "is a folder"),
        (["ALL", "--claims", "TMP"], "holds"),
        (["ALL", "--state", "TMP/other"], "other: holds no state.json"),
        (
            ["--state", "STATE", "--prometheus", "URL", "--interval", "5", "--at", "1"],
            "--at: is for --once",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_changes_nothing(
    arguments: list[str], said: str, tmp_path: Path, capsys: Captured
) -> None:
    state = beside(tmp_path, "half")
    before = content(state)
    told: list[str] = []
    for each in arguments:
        if each == "ALL":
            told += ["--state", str(state), "--prometheus", "http://127.0.0.1:1", "--once"]
        else:
            names = {"STATE": str(state), "URL": "http://127.0.0.1:1"}
            told.append(names.get(each, each.replace("TMP", str(tmp_path))))
    assert main(["monitor", *told]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("metronome: error: ")
    assert said in line
    assert content(state) == before
    assert [path for path in tmp_path.iterdir() if path != state and path.suffix != ".prom"] == []
