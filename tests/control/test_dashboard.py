from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.control.dashboard import dashboard, dashboard_json
from metronome_opt.control.declared import METRICS
from metronome_opt.control.metrics import Metrics
from metronome_opt.profiles.prometheus import Prometheus
from tests.prometheus.server import needs_prometheus, prometheus

PROMQL = {"sum", "by", "increase", "abs", "time", "topk", "h"}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dashboard()["panels"]
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def as_prometheus_takes_it(expression: str) -> str:
    """Return an expression with Grafana's variables filled in, with all jobs chosen."""
    filled = expression.replace("$__rate_interval", "1m").replace("$training_job", ".*")
    assert "$" not in filled
    return filled


@pytest.mark.parametrize("expression", expressions())
def test_queries_use_what_is_declared_and_nothing_else(expression: str) -> None:
    declared = {metric.name: set(metric.labels) for metric in METRICS}
    plain = re.sub(r'"[^"]*"|\$\w+', "", expression)
    words = set(re.findall(r"[a-zA-Z_]\w*", plain))
    names = words & set(declared)
    assert names
    assert words - names - PROMQL <= set.intersection(*(declared[name] for name in names))


def test_legends_name_labels_that_the_queries_keep() -> None:
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for panel in panels():
        for target in panel["targets"]:
            grouped = re.search(r"by \(([^)]*)\)", target["expr"])
            (kept, *_) = [labels[name] for name in labels if name in target["expr"]]
            if grouped:
                kept = set(grouped[1].split(", "))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept


def test_every_metric_is_shown() -> None:
    together = " ".join(expressions())
    assert [metric.name for metric in METRICS if metric.name not in together] == []


def test_the_jobs_to_choose_from_come_from_a_declared_metric() -> None:
    (variable,) = [
        each for each in dashboard()["templating"]["list"] if each["name"] == "training_job"
    ]
    found = re.fullmatch(r"label_values\((\w+), training_job\)", variable["query"]["query"])
    assert found
    assert found[1] in {metric.name for metric in METRICS}


def test_panels_fill_the_grid_without_overlapping() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells
        taken |= cells
    bottom = 1 + max(y for _, y in taken)
    assert taken == {(x, y) for x in range(24) for y in range(bottom)}


def test_identifiers_are_unique() -> None:
    identifiers = [panel["id"] for panel in panels()]
    assert len(set(identifiers)) == len(identifiers)
    assert len({panel["title"] for panel in panels()}) == len(identifiers)


def test_the_file_holds_the_dashboard() -> None:
    text = dashboard_json()
    assert json.loads(text) == dashboard()
    assert text.endswith("}\n")


@needs_prometheus
def test_prometheus_understands_all_queries(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": as_prometheus_takes_it(expression)}
        for number, expression in enumerate(expressions())
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.fixture
def scraping(tmp_path: Path) -> Iterator[tuple[Metrics, Prometheus]]:
    """Metrics that are served, and a Prometheus that scrapes them all the time."""
    metrics = Metrics()
    with metrics.serve("127.0.0.1:0") as url:
        address = url.removeprefix("http://").removesuffix("/metrics")
        with prometheus(tmp_path, scrape=(address,)) as server:
            yield metrics, Prometheus(server)


@needs_prometheus
def test_every_panel_shows_what_a_running_monitor_tells(
    scraping: tuple[Metrics, Prometheus],
) -> None:
    metrics, server = scraping
    for metric in METRICS:
        labels = {label: metric.choices.get(label, ("some",))[0] for label in metric.labels}
        if metric.kind == "gauge":
            metrics.set(metric.name, 0.5, **labels)
        else:
            metrics.add(metric.name, 1.0, **labels)
    waiting = {as_prometheus_takes_it(expression) for expression in expressions()}
    last = time.monotonic() + 30
    while waiting and time.monotonic() < last:
        time.sleep(0.5)
        now = time.time()
        waiting = {each for each in waiting if not server.range(each, now - 1, now, 0.5)}
    assert waiting == set()
    (found,) = server.range("metronome_job_period_seconds", now - 1, now, 0.5)
    assert (found["training_job"], found["job"]) == ("some", "monitor")
