from __future__ import annotations

import shutil
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metronome_opt.control.declared import METRICS, Declared
from metronome_opt.control.metrics import Metrics
from metronome_opt.errors import InputError, MissingBackendError

GAUGE = "metronome_job_period_seconds"
SCORE = "metronome_link_score"
COUNTER = "metronome_rephasings_total"
ERRORS = "metronome_prometheus_errors_total"
DECISIONS = "metronome_decisions_total"


def lines(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.text().splitlines() if line.startswith(name)]


def fill(metrics: Metrics) -> Metrics:
    """Give every metric a value, with label values as odd as they may be."""
    for metric in METRICS:
        labels = {
            label: metric.choices.get(label, ('a "b" \\ \u00e9',))[0] for label in metric.labels
        }
        if metric.kind == "gauge":
            metrics.set(metric.name, 0.5, **labels)
        else:
            metrics.add(metric.name, 2, **labels)
    return metrics


def test_a_gauge_says_what_it_was_set_to_last() -> None:
    metrics = Metrics()
    assert lines(metrics, GAUGE) == []
    metrics.set(GAUGE, 0.2, training_job="a")
    metrics.set(GAUGE, 0.25, training_job="a")
    metrics.set(GAUGE, 1, training_job="b")
    assert lines(metrics, GAUGE) == [
        f'{GAUGE}{{training_job="a"}} 0.25',
        f'{GAUGE}{{training_job="b"}} 1.0',
    ]
    assert metrics.value(GAUGE, training_job="a") == 0.25


def test_what_is_not_known_any_more_is_gone_not_zero() -> None:
    metrics = Metrics()
    metrics.set(GAUGE, 0.2, training_job="a")
    metrics.set(GAUGE, None, training_job="a")
    metrics.set(GAUGE, None, training_job="never there")
    assert lines(metrics, GAUGE) == []
    assert metrics.value(GAUGE, training_job="a") is None


def test_links_that_are_not_named_again_vanish() -> None:
    metrics = Metrics()
    metrics.replace(SCORE, {"node-0": 0.9, "node-1": 1.0})
    metrics.replace(SCORE, {"node-1": 0.8})
    assert lines(metrics, SCORE) == [f'{SCORE}{{link="node-1"}} 0.8']


def test_a_counter_adds_up() -> None:
    metrics = Metrics()
    metrics.add(COUNTER, training_job="a", priority="4")
    metrics.add(COUNTER, 2, training_job="a", priority="4")
    metrics.add(COUNTER, 0, training_job="b", priority="1")
    assert metrics.value(COUNTER, training_job="a", priority="4") == 3
    assert metrics.value(COUNTER, training_job="b", priority="1") == 0


def test_counters_of_known_labels_begin_at_zero() -> None:
    metrics = Metrics()
    assert lines(metrics, ERRORS) == [f"{ERRORS} 0.0"]
    assert lines(metrics, DECISIONS) == [
        f'{DECISIONS}{{decision="{decision}"}} 0.0'
        for decision in ("nothing", "rephase", "block", "all")
    ]


def test_metrics_say_what_is_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingBackendError, match=r"pip install 'metronome-opt\[monitor\]'"):
        Metrics()


def test_two_monitors_do_not_share_metrics() -> None:
    one, other = Metrics(), Metrics()
    one.add(ERRORS)
    assert other.value(ERRORS) == 0


def test_additions_from_several_threads_are_all_counted() -> None:
    metrics = Metrics()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: metrics.add(ERRORS), range(2000)))
    assert metrics.value(ERRORS) == 2000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.set("metronome_other", 1), "'metronome_other': no such metric"),
        (lambda m: m.value("metronome_other"), "'metronome_other': no such metric"),
        (lambda m: m.set(GAUGE, 1), "has the labels training_job, got"),
        (lambda m: m.set(GAUGE, 1, job="a"), "has the labels training_job, got job"),
        (lambda m: m.set(ERRORS, 1), "is a counter, no gauge"),
        (lambda m: m.add(GAUGE, 1, training_job="a"), "is a gauge, no counter"),
        (lambda m: m.add(ERRORS, -1), "grows by 0 or more, got -1"),
        (lambda m: m.add(ERRORS, float("nan")), "grows by 0 or more, got nan"),
        (lambda m: m.add(ERRORS, 1, link="a"), "has the labels none, got link"),
        (lambda m: m.add(DECISIONS, 1, decision="none"), "must be one of nothing, rephase"),
        (lambda m: m.set(GAUGE, float("inf"), training_job="a"), "finite number, got inf"),
        (lambda m: m.replace(SCORE, {"a": float("nan")}), "finite number, got nan"),
        (lambda m: m.replace("metronome_check_duration_seconds", {}), "has not one label"),
    ],
)
def test_only_what_is_declared_can_be_told(change: object, said: str) -> None:
    metrics = Metrics()
    before = metrics.text()
    assert callable(change)
    with pytest.raises(InputError, match=said):
        change(metrics)
    assert metrics.text() == before


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric: Declared) -> None:
    assert metric.name.startswith("metronome_")
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not {"job", "instance"} & set(metric.labels)
    assert set(metric.choices) <= set(metric.labels)


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)"
)
def test_promtool_has_nothing_to_say_against_it() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=fill(Metrics()).text().encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_file_is_the_text(tmp_path: Path) -> None:
    metrics = fill(Metrics())
    path = tmp_path / "metronome.prom"
    path.write_text("old")
    metrics.write(path)
    assert path.read_text(encoding="utf-8") == metrics.text()
    assert [file.name for file in tmp_path.iterdir()] == ["metronome.prom"]


def test_counters_go_on_where_they_were_left_and_gauges_do_not(tmp_path: Path) -> None:
    path = tmp_path / "metronome.prom"
    before = fill(Metrics())
    before.write(path)
    after = Metrics()
    after.resume(path)
    for metric in METRICS:
        told = lines(before, metric.name) if metric.kind == "counter" else []
        assert lines(after, metric.name) == told


def test_the_first_time_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.resume(tmp_path / "metronome.prom")
    assert metrics.text() == Metrics().text()


def test_counters_of_other_versions_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metronome.prom"
    path.write_text(
        "# TYPE metronome_old_total counter\nmetronome_old_total 7\n"
        '# TYPE metronome_decisions_total counter\nmetronome_decisions_total{decision="some"} 7\n'
        f"# TYPE {ERRORS} counter\n{ERRORS} 5\n"
    )
    metrics, expected = Metrics(), Metrics()
    metrics.resume(path)
    expected.add(ERRORS, 5)
    assert metrics.text() == expected.text()


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
def test_a_scrape_gets_the_values_of_the_moment(host: str) -> None:
    metrics = Metrics()
    with metrics.serve(f"{host}:0") as url:
        metrics.add(ERRORS)
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert answer.read().decode() == metrics.text()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


def test_an_address_that_is_taken_is_refused() -> None:
    with Metrics().serve("127.0.0.1:0") as url:
        taken = url.removeprefix("http://").removesuffix("/metrics")
        with (
            pytest.raises(InputError, match=f"{taken}: cannot be listened on"),
            Metrics().serve(taken),
        ):
            pass


@pytest.mark.parametrize("address", ["9101", ":9101", "host:", "host:port", "host:65536", ""])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="give HOST:PORT"), Metrics().serve(address):
        pass
