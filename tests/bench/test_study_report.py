"""The report of a small study whose every number is worked out by hand."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pandas as pd
import pytest

from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import StudyPart, parts_of
from metronome_opt.bench.study_report import summarise, write_simulation_report
from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError
from tests.bench.report_examples import rows
from tests.bench.simulation_examples import (
    BY_HAND,
    job,
    one,
    simulation,
    small,
    unfinished,
    whole,
    with_horizon,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "new" / "folder"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert write_simulation_report(list(small()), path) == path / "report.html"
    return path


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_means(text: str) -> None:
    table = rows(text, "Means")
    assert table[""][1:4] == ["mean completion (s)", "p99 completion (s)", "mean queueing (s)"]
    # Seed 0: (100 + 300) / 2, 300 less 1 % of 200; seed 1: 200 both.
    assert table["default"][:5] == [
        *("200", "249 (200 to 298)"),  # an interval of one number says nothing
        *("0", "200", "2,000"),
    ]
    # Means 160 and 150; p99 of 80 and 240 is 238.4; queueing 5 and 0.
    assert table["metronome"][:3] == ["155 (150 to 160)", "194 (150 to 238)", "2.50 (0 to 5.00)"]


def test_changes_are_means_of_ratios_of_pairs(text: str) -> None:
    table = rows(text, "Change against default, in pairs of runs")
    assert "default" not in table
    # 160 / 200 and 150 / 200; slowdowns 1.03 / 1.10 and 1.01 / 1.10.
    changes = dict(zip(table[""][1:], table["metronome"], strict=True))
    assert changes["mean completion (s)"] == "-22.5 % (-25.0 to -20.0)"
    assert changes["slowdown, mean over jobs"] == "-7.3 % (-8.2 to -6.4)"
    assert "+25.0 %" in table["exclusive"]
    against = rows(text, "Change against exclusive, in pairs of runs")
    assert against["metronome"] == ["+25.0 %"] * 2


def test_priority_classes(text: str) -> None:
    table = rows(text, "Mean slowdown by priority class")
    assert table[""] == ["policy", "4", "1"]
    assert list(table)[1:] == list(BY_HAND)
    assert table["default"][0] == "1.150 (1.100 to 1.200)"  # 1.2 and 1.1


def test_estimates_have_every_number_at_full_precision(folder: Path) -> None:
    table = pd.read_csv(folder / "estimates.csv")
    mine = table[(table.policy == "metronome") & (table.measure == "completion_mean_s")]
    alone = mine[mine.against.isna()].iloc[0]
    assert (alone["mean"], alone["low"], alone["high"], alone["seeds"]) == (155, 150, 160, 2)
    assert mine[mine.against == "default"].iloc[0]["mean"] == pytest.approx(0.775)


def test_the_same_records_make_the_same_files(folder: Path, tmp_path: Path) -> None:
    write_simulation_report(list(small()), tmp_path)
    for path in folder.rglob("*.*"):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_grid_is_reported_whole_and_cell_by_cell(tmp_path: Path) -> None:
    records = [
        one(policy, time + seed, seed=seed, cell={"load": load})
        for policy, time in (("default", 100.0), ("metronome", 80.0))
        for load in (0.5, 0.95)
        for seed in (0, 1)
    ]
    text = write_simulation_report(records, tmp_path).read_text()
    assert re.findall("<h2>(.*)</h2>", text) == [
        *("What ran", "all cells", "load=0.5", "load=0.95"),
        *("Definitions", "Threats to validity"),
    ]
    assert text.count("<img") == 2
    # 80 / 100 and 81 / 101
    assert text.count("-19.9 % (-20.0 to -19.8)") > 2


def test_unfinished_jobs_have_no_completion_times(tmp_path: Path) -> None:
    text = write_simulation_report(with_horizon(), tmp_path).read_text()
    times = rows(text, "Means")
    assert times["default"][:5] == ["-", "-", "0", "-", "1,500"]
    assert times["metronome"][:5] == ["90.0", "99.8", "0", "100", "2,000"]
    assert "<p>1 of 6 jobs did not finish; " in text
    assert rows(text, "How the runs ended")["default"] == ["1", "2", "1"]
    # Slowdowns 1.0 and 1.25 on average against 1.0; iterations 2000 / 1500.
    changes = rows(text, "Change against default, in pairs of runs")
    known = dict(zip(changes[""][1:], changes["metronome"], strict=True))
    assert known["slowdown, mean over jobs"] == "-20.0 %"
    assert known["iterations done"] == "+33.3 %"


def test_a_study_of_failures_has_a_report(tmp_path: Path) -> None:
    records = [
        simulation(policy, kind=kind)
        for policy, kind in (("default", "crash"), ("metronome", "out_of_memory"))
    ]
    text = write_simulation_report(records, tmp_path).read_text()
    assert rows(text, "How the runs ended")["default"] == ["1", "0", "0", "0"]
    assert set(rows(text, "Means")["default"]) == {"-"}


def test_bad_records_are_refused_in_one_line(tmp_path: Path) -> None:
    twice = [simulation("default"), simulation("default", conditions=Conditions(jitter=0.1))]
    other = [simulation("default"), simulation("default", study="other", study_sha256="cd" * 32)]
    for records, message in (
        ([], r"^records: there are none"),
        (twice, r"^records: default with seed 0 in 'example' is there 2 times"),
        (other, r"^records: are of the studies 'example', 'other'"),
    ):
        with pytest.raises(InputError, match=message):
            write_simulation_report(records, tmp_path)


# ------------------------------------------------------------------ means over cells and seeds


def completion(part: StudyPart, policy: str) -> Interval | None:
    return part.mean(policy, "completion_mean_s")


def test_a_seed_counts_with_its_mean_over_the_cells() -> None:
    """Different cells make no wide interval: what varies is the seeds, here by 2."""
    records = [
        one("default", base + seed, seed=seed, cell={"load": load})
        for load, base in ((1, 100.0), (2, 500.0))
        for seed in (0, 2)
    ]
    together, *cells = parts_of(records)
    assert completion(together, "default") == Interval(301.0, 300.0, 302.0, 2)
    assert completion(cells[0], "default") == Interval(101.0, 100.0, 102.0, 2)


def test_a_seed_that_did_not_run_everywhere_is_left_out_and_marked(tmp_path: Path) -> None:
    records = [
        *(one(policy, 100.0, seed=seed) for policy in ("default", "ideal") for seed in range(3)),
        one("metronome", 50.0, seed=0),
        one("metronome", 70.0, seed=2),
        simulation("metronome", seed=1, kind="out_of_time"),
    ]
    part = whole(records)
    interval = completion(part, "metronome")
    assert interval == Interval(60.0, 50.0, 70.0, 2)
    text = write_simulation_report(records, tmp_path).read_text()
    assert rows(text, "Means")["metronome"][0] == "60.0 (50.0 to 70.0) *"
    assert rows(text, "How the runs ended")["metronome"] == ["2", "1", "2", "0"]
    assert "<li>example metronome seed 1: out of time (took too long)</li>" in text


def test_a_summary_has_no_mean_where_jobs_did_not_finish() -> None:
    records = [
        simulation("default", [job("a"), job("b", completion_s=300.0)]),
        simulation("ideal", [job("a"), unfinished("b")]),
        simulation("cassini", kind="crash"),
    ]
    default, cassini, ideal = summarise(records)
    assert (default["policy"], default["runs"], default["unfinished"]) == ("default", 1, 0)
    assert default["completion_mean_s"] == pytest.approx(200)
    assert default["utilisation_used"] == pytest.approx(0.5)
    assert (ideal["policy"], ideal["unfinished"], ideal["completion_mean_s"]) == ("ideal", 1, None)
    assert (cassini["policy"], cassini["runs"], cassini["completion_mean_s"]) == (
        "cassini",
        0,
        None,
    )
    assert summarise([]) == []
