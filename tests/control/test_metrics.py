"""The monitor's own metrics, where they are told, and the dashboard that asks for them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from metronome_opt.control import Claims, Monitor, Observation, Settings
from metronome_opt.control.metrics import Metrics, dashboard_json, serve
from metronome_opt.control.watch import Check
from metronome_opt.errors import InputError, MissingBackendError
from metronome_opt.gate import Claim, Gate
from metronome_opt.kubernetes.controller.loop import ControllerMetrics
from tests.builders import job, network
from tests.control.scenes import obedient
from tests.prometheus.server import free_port, needs_prometheus, prometheus

ERRORS = "metronome_prometheus_errors_total"
ODD = 'a "b" \\ \u00e9'


def told(metrics: Metrics, *, gone: bool = False) -> Metrics:
    """Take in a check of two jobs of which one, called oddly, has come to meet the other."""
    claims = Claims(
        network(
            job(ODD, 40, (0, 10, 80), weight=4, current_offset=0),
            job("b", 40, (0, 10, 80), current_offset=20),
        )
    )
    seen = obedient(claims, late_ms={"b": 75.0})
    if gone:
        seen[ODD] = Observation(gone=True)
    decision = Monitor(Settings(persist=1)).check(claims, seen, 0.0)
    check = Check(1.7e9, 2, seen, {}, decision, kept=True)
    metrics.tell(claims, check, 0.5, dry_run=False)
    metrics.failed()
    return metrics


def text(metrics: Metrics, folder: Path) -> str:
    metrics.write(folder / "text.prom")
    return (folder / "text.prom").read_text(encoding="utf-8")


def labels() -> dict[str, set[str]]:
    """Return the labels of all metrics of the monitor."""
    families = told(Metrics()).registry.collect()
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def all_labels() -> dict[str, set[str]]:
    """Return those of the controller and of gates as well."""
    gate = Gate(Claim(0, 10**9), job="bert", task=0)
    controller = generate_latest(ControllerMetrics().registry).decode()
    families = text_string_to_metric_families(f"{controller}{gate.metrics()}")
    found = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    return labels() | {name: of for name, of in found.items() if not name.endswith("_created")}


# ------------------------------------------------------------------ values


def test_counters_begin_at_0_where_labels_are_known_and_gauges_are_absent_until_they_are() -> None:
    metrics = Metrics()
    assert metrics.value("metronome_decisions_total", decision="block") == 0
    assert metrics.value("metronome_findings_total", kind="gone") == 0
    assert metrics.value(ERRORS) == 0
    assert metrics.value("metronome_rephasings_total", training_job="b", priority="1") is None
    assert metrics.value("metronome_last_check_timestamp_seconds") is None
    assert metrics.value("metronome_jobs", state="gone") is None


def test_what_is_not_known_any_more_is_gone_not_zero_and_counters_go_on() -> None:
    metrics = told(told(Metrics()), gone=True)
    assert metrics.value("metronome_job_period_seconds", training_job=ODD) is None
    assert metrics.value("metronome_job_period_seconds", training_job="b") == 0.2
    assert metrics.value("metronome_jobs", state="gone") == 1
    assert metrics.value("metronome_findings_total", kind="drifted") == 2
    assert metrics.value("metronome_rephasings_total", training_job=ODD, priority="4") == 0
    assert Metrics().value(ERRORS) == 0  # two monitors share nothing


def test_names_are_as_prometheus_wants_them() -> None:
    for name, of in labels().items():
        assert name.startswith("metronome_")
        assert not {"job", "instance"} & of


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)
def test_promtool_has_nothing_to_say_against_it(tmp_path: Path) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=text(told(Metrics()), tmp_path).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_without_prometheus_client_what_to_install_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingBackendError, match=r"pip install 'metronome-opt\[monitor\]'"):
        Metrics()


# ------------------------------------------------------------------ files and addresses


def test_counters_go_on_where_they_were_left_and_gauges_do_not(tmp_path: Path) -> None:
    path = tmp_path / "metronome.prom"
    path.write_text("old")
    before, after = told(Metrics()), Metrics()
    before.write(path)
    assert [file.name for file in tmp_path.iterdir()] == ["metronome.prom"]
    after.resume(path)
    for family in before.registry.collect():
        for sample in family.samples:
            known = sample.value if family.type == "counter" else None
            assert after.value(sample.name, **sample.labels) == known


def test_the_first_time_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.resume(tmp_path / "metronome.prom")
    assert text(metrics, tmp_path) == text(Metrics(), tmp_path)


def test_counters_of_other_versions_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metronome.prom"
    path.write_text(
        "# TYPE metronome_old_total counter\nmetronome_old_total 7\n"
        "# TYPE metronome_decisions_total counter\n"
        'metronome_decisions_total{decision="some"} 7\n'
        'metronome_decisions_total{training_job="some",priority="1"} 7\n'
        f"# TYPE {ERRORS} counter\n{ERRORS} 5\n"
    )
    metrics = Metrics()
    metrics.resume(path)
    assert metrics.value(ERRORS) == 5
    assert " 7" not in text(metrics, tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{not metrics", "no metrics in the text format"),
        (b"\xff\xfe", "no metrics in the text format"),
        (b"#" * (2**24 + 1), "larger than 16777216 bytes"),
        (f"# TYPE {ERRORS} counter\n{ERRORS} -1\n".encode(), "is -1.0; delete the file"),
        (f"# TYPE {ERRORS} counter\n{ERRORS} NaN\n".encode(), "is nan; delete the file"),
    ],
)
def test_a_file_that_holds_no_counters_is_refused(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "metronome.prom"
    path.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        Metrics().resume(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_files_that_cannot_be_written_or_read_are_told_of_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        Metrics().write(tmp_path / "missing" / "metronome.prom")
    with pytest.raises(InputError, match=r"end in \.prom"):
        Metrics().write(tmp_path / "metronome.txt")
    with pytest.raises(InputError, match="cannot be read"):
        Metrics().resume(tmp_path)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_scrape_gets_the_values_of_the_moment(host: str, tmp_path: Path) -> None:
    metrics = Metrics()
    with metrics.serve(f"{host}:0") as url:
        metrics.failed()
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert answer.read().decode() == text(metrics, tmp_path)
        taken = url.removeprefix("http://").removesuffix("/metrics")
        with (
            pytest.raises(InputError, match=f"{taken}: cannot be listened on"),
            Metrics().serve(taken),
        ):
            pass
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


@pytest.mark.parametrize("address", ["9101", ":9101", "host:", "host:port", "host:65536", ""])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="give HOST:PORT"), Metrics().serve(address):
        pass


# ------------------------------------------------------------------ the dashboard

DASHBOARD: dict[str, Any] = json.loads(dashboard_json())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
TARGETS = [target for panel in PANELS for target in panel["targets"]]
PROMQL = {"sum", "avg", "max", "by", "increase", "rate", "abs", "time", "topk", "h"}


def as_prometheus_takes_it(expression: str) -> str:
    """Return an expression with Grafana's variables filled in, with all jobs chosen."""
    filled: str = expression.replace("$__rate_interval", "1m").replace("$training_job", ".*")
    assert "$" not in filled
    return filled


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["expr"])
def test_the_dashboard_asks_for_metrics_and_labels_that_there_are(target: dict[str, str]) -> None:
    known = all_labels()
    words = set(re.findall(r"[a-zA-Z_]\w*", re.sub(r'"[^"]*"|\$\w+', "", target["expr"])))
    names = words & set(known)
    assert names
    kept = set.intersection(*(known[name] for name in names))
    assert words - names - PROMQL <= kept
    grouped = re.search(r"by \(([^)]*)\)", target["expr"])
    if grouped:
        kept = set(grouped[1].split(", "))
    assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept


def test_the_dashboard_shows_every_metric_in_a_panel_of_its_own() -> None:
    asked = set(re.findall(r"metronome_\w+", " ".join(target["expr"] for target in TARGETS)))
    assert asked == set(all_labels())
    (chosen,) = (each for each in DASHBOARD["templating"]["list"] if each["type"] == "query")
    assert set(re.findall(r"metronome_\w+", chosen["query"]["query"])) <= asked
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        rows, columns = range(at["y"], at["y"] + at["h"]), range(at["x"], at["x"] + at["w"])
        cells = {(x, y) for x in columns for y in rows}
        assert not taken & cells
        taken |= cells
    assert taken == {(x, y) for x in range(24) for y in range(1 + max(y for _, y in taken))}
    for key in ("id", "title"):
        assert len({panel[key] for panel in PANELS}) == len(PANELS)


@pytest.mark.slow
@needs_prometheus
def test_every_panel_shows_what_monitor_controller_and_gates_tell(tmp_path: Path) -> None:
    metrics, port = Metrics(), free_port()
    gate = Gate(Claim(0, 10**8), job="bert", task=0, metrics=f"127.0.0.1:{port}")
    with (
        metrics.serve("127.0.0.1:0") as url,
        serve("127.0.0.1:0", ControllerMetrics().registry) as controller,
    ):
        addresses = (url, controller, f"http://127.0.0.1:{port}/metrics")
        hosts = tuple(each.removeprefix("http://").removesuffix("/metrics") for each in addresses)
        with prometheus(tmp_path, scrape=hosts) as place:

            def ask(query: str) -> list[Any]:
                answer = httpx2.get(f"{place}/api/v1/query", params={"query": query})
                return list(answer.json()["data"]["result"])

            told(metrics)
            waiting = {as_prometheus_takes_it(target["expr"]) for target in TARGETS}
            waiting = {re.sub(r"( > 0)", "", each) for each in waiting}
            last = time.monotonic() + 30
            while waiting and time.monotonic() < last:
                with gate.burst(sent_bytes=1000):
                    time.sleep(0.05)
                waiting = {each for each in waiting if not ask(each)}
            assert waiting == set()
            (found,) = ask("metronome_link_score")
            assert (found["metric"]["link"], found["metric"]["job"]) == ("link", "monitor")
            (shown,) = (each["expr"] for each in TARGETS if "iteration_seconds" in each["expr"])
            (iteration,) = ask(as_prometheus_takes_it(shown))
            assert iteration["metric"] == {"job": "bert"}
            assert float(iteration["value"][1]) > 0.05
    gate.close()
