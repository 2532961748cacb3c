"""The report of a small study whose every number was worked out by hand."""

from __future__ import annotations

import csv
import io
import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from metronome_opt.bench.simulation_report import write_simulation_report
from metronome_opt.bench.tables import Drawing
from metronome_opt.errors import InputError
from metronome_opt.plot.timeline import LinkTrace, plot_link
from metronome_opt.simulate.conditions import Conditions
from tests.bench.simulation_examples import job, link, simulation, study
from tests.bench.simulation_study import STUDY, rows, small, with_horizon


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "new" / "folder"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert write_simulation_report(list(small()), path) == path / "report.md"
    return path


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "report.md").read_text(encoding="utf-8")


def test_times_of_jobs(text: str) -> None:
    found = rows(text, "example: times of jobs")
    assert found[""][1:4] == [
        *("mean completion (s)", "median completion (s)", "p99 completion (s)"),
    ]
    # Seed 0: (100 + 300) / 2, 300 less 1 % of 200; seed 1: 200 both.
    assert found["default"] == [
        *("200 (200 to 200)", "200 (200 to 200)", "249 (200 to 298)"),
        *("0 (0 to 0)", "200 (200 to 200)", "2,000 (2,000 to 2,000)"),
    ]
    # Means 160 and 150; p99 of 80 and 240 is 238.4; queueing 5 and 0.
    assert found["metronome"][0] == "155 (150 to 160)"
    assert found["metronome"][2] == "194 (150 to 238)"
    assert found["metronome"][3] == "2.50 (0 to 5.00)"


def test_changes_are_means_of_ratios_of_pairs(text: str) -> None:
    found = rows(text, "example: change against default, in pairs of runs")
    assert "default" not in found
    # 160 / 200 and 150 / 200; slowdowns 1.03 / 1.10 and 1.01 / 1.10.
    assert found["metronome"][0] == "-22.5 % (-25.0 to -20.0)"
    assert found["metronome"][3] == "-7.3 % (-8.2 to -6.4)"
    assert found["exclusive"][0] == "+25.0 % (+25.0 to +25.0)"
    against = rows(text, "example: change against exclusive, in pairs of runs")
    assert against["metronome"] == ["+25.0 % (+25.0 to +25.0)"] * 2


def test_classes_and_models(text: str) -> None:
    found = rows(text, "example: mean slowdown by priority class")
    assert list(found) == ["", "4", "1"]
    assert found[""][1:] == list(STUDY)
    assert found["4"][0] == "1.150 (1.100 to 1.200)"  # default: 1.2 and 1.1
    found = rows(text, "example: completion of a job against ideal by priority class")
    assert found[""][1:] == [policy for policy in STUDY if policy != "ideal"]
    # metronome: 80 / 80 and 150 / 140 of the heavy job.
    assert found["4"][3] == "+3.6 % (+0.0 to +7.1)"
    assert list(rows(text, "example: mean slowdown by model")) == ["", "bert", "vgg19"]


def test_marks(text: str) -> None:
    found = rows(text, "example: marks")
    assert found[""][2:] == ["verdict", "what limits", "metronome", "by (points)", "ideal reaches"]
    reached = found["mean completion, against default"]
    # ideal: 150 / 200 and 140 / 200.
    assert reached == [
        *("at least 19.5 % lower", "reached", "-", "-22.5 % (-25.0 to -20.0)", "+3.0"),
        "-27.5 % (-30.0 to -25.0)",
    ]
    assert found["utilisation of links in use, against exclusive"][1:] == [
        *("reached", "-", "+25.0 % (+25.0 to +25.0)", "+1.8", "+50.0 % (+50.0 to +50.0)"),
    ]
    assert found["mean completion, against cassini"][1] == "reached"
    # The heavy job: 80 / 80 and 150 / 140 completion, 1.02 and 1.01 iteration.
    highest = found["highest priority class, completion, against ideal"]
    assert highest[1] == "missed, not for certain"
    assert highest[2] == (
        "+5.00 s a job above ideal: queueing 0, held back for a slot 0, longer iterations +5.00 "
        "(by placement 0, by others +5.00)"
    )
    assert highest[3:] == ["+3.6 % (+0.0 to +7.1)", "-1.6", "-"]
    assert found["highest priority class, iteration, against ideal"][3:5] == [
        *("+1.5 % (+1.0 to +2.0)", "+0.5"),
    ]


def test_estimates_have_every_number_at_full_precision(folder: Path) -> None:
    table = pd.read_csv(folder / "estimates.csv")
    mine = table[(table.policy == "metronome") & (table.measure == "completion_mean_s")]
    alone = mine[mine.against.isna()].iloc[0]
    assert (alone["mean"], alone["low"], alone["high"], alone["seeds"]) == (155, 150, 160, 2)
    paired = mine[mine.against == "default"].iloc[0]
    assert paired["mean"] == pytest.approx(0.775)
    found = list(csv.DictReader(io.StringIO((folder / "marks.csv").read_text())))
    assert [row["reached"] for row in found] == [*["True"] * 5, "False", "True"]
    assert float(found[0]["change"]) == pytest.approx(-0.225)


def test_every_figure_is_there(folder: Path, text: str) -> None:
    shown = re.findall(r"!\[.*\]\((.*)\)", text)
    assert shown == [
        *(f"figures/grid-{name}.svg" for name in ("completion-mean-s", "completion-p99-s")),
        *("figures/grid-slowdown-mean.svg", "figures/example-completion.svg"),
    ]  # without scores, predictions and samples there is nothing else to draw
    assert {f"figures/{path.name}" for path in (folder / "figures").iterdir()} == set(shown)
    for name in shown:
        ElementTree.parse(folder / name)
    assert "Gain by compatibility is not drawn: no job has a score" in text
    assert "Predicted elongation is not drawn: nothing was predicted." in text


@pytest.mark.slow
def test_a_study_of_a_grid_is_reported_whole_and_cell_by_cell(tmp_path: Path) -> None:
    cells = [{"load": 0.5, "cushions": True}, {"load": 0.95, "cushions": True}]
    records = study(cells, seeds=2, jobs=6, policies=("default", "metronome"))
    changes = pd.DataFrame({"time_ms": [0.0], "link": ["l"], "job": ["a"], "rate_mbps": [1.0]})
    figure = plot_link(LinkTrace("l", 10, {"default": changes}, 0, 5))
    write_simulation_report(records, tmp_path, link=Drawing("link", "A link.", figure))
    text = (tmp_path / "report.md").read_text()
    titles = ("all cells", "load=0.5, cushions=true", "load=0.95, cushions=true")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *(
            "## What ran",
            "## How to read it",
            "## Marks",
            "## The grid",
            "## A link as it happened",
        ),
        *(f"## {title}" for title in titles),
        "## Threats to validity",
    ]
    drawn = {path.stem for path in (tmp_path / "figures").iterdir()}
    cell = "load-0.95-cushions-true"
    assert {
        *("link", "all-cells-gain", "all-cells-prediction"),
        *(f"{cell}-{name}" for name in ("completion", "utilisation", "gain", "prediction")),
    } <= drawn
    assert "all-cells-completion" not in drawn
    text = (tmp_path / "marks.csv").read_text()
    assert all(text.count(title) == 7 for title in titles)


def test_the_same_records_make_the_same_files(folder: Path, tmp_path: Path) -> None:
    write_simulation_report(list(small()), tmp_path)
    for path in folder.rglob("*.*"):
        assert (tmp_path / path.relative_to(folder)).read_bytes() == path.read_bytes(), path


def test_unfinished_jobs_are_no_completion_times(tmp_path: Path) -> None:
    records = with_horizon()
    write_simulation_report(records, tmp_path)
    text = (tmp_path / "report.md").read_text()
    times = rows(text, "example: times of jobs")
    assert times["default"] == ["-", "-", "-", "0", "-", "1,500"]
    assert times["metronome"] == ["90.0", "90.0", "99.8", "0", "100", "2,000"]
    assert "**1 of 6 jobs did not finish.**" in text
    assert rows(text, "example: how the runs ended")["default"] == ["1", "2", "1"]
    # Slowdowns 1.0 and 1.25 on average against 1.0; iterations 2000 / 1500.
    head, *_ = changes = rows(text, "example: change against default, in pairs of runs").values()
    known = dict(zip(head[1:], next(row for row in changes if row[0] == "-"), strict=True))
    assert known["mean completion of jobs finished in both †"] == "-20.0 %"
    assert known["slowdown, mean over jobs"] == "-20.0 %"
    assert known["iterations done"] == "+33.3 %"
    assert "example: completion of a job against ideal by model †:" in text


@pytest.mark.parametrize("policy", ["metronome", "default", "ideal"])
def test_a_study_of_one_policy_is_a_report_still(policy: str, tmp_path: Path) -> None:
    text = write_simulation_report(list(small([policy])), tmp_path).read_text()
    assert policy in rows(text, "example: times of jobs")
    assert ("## Marks" in text) == (policy == "metronome")


def test_a_study_of_failures_is_a_report_still(tmp_path: Path) -> None:
    records = [
        simulation(policy, kind=kind)
        for policy, kind in (("default", "crash"), ("metronome", "out_of_memory"))
    ]
    text = write_simulation_report(records, tmp_path).read_text()
    assert rows(text, "example: how the runs ended")["default"] == ["0", "1", "0", "0", "0"]
    assert set(rows(text, "example: times of jobs")["default"]) == {"-"}


def test_links_that_nobody_used_have_no_utilisation(tmp_path: Path) -> None:
    unused = link(carried_gbit=0.0, used_s=0.0, busy_s=0.0)
    text = write_simulation_report([simulation("default", links=[unused])], tmp_path).read_text()
    assert rows(text, "example: iterations and links")["default"][5:8] == ["-", "0.0 %", "-"]


def test_bad_records_are_refused_in_one_line(tmp_path: Path) -> None:
    twice = [simulation("default"), simulation("default", conditions=Conditions(jitter=0.1))]
    for records, message in (
        ([], r"^records: there are none"),
        (twice, r"^records: default with seed 0 in 'example' is there 2 times"),
        (
            [simulation("default"), simulation("default", study="other", study_sha256="cd" * 32)],
            r"^records: are of the studies 'example', 'other'",
        ),
        (
            [simulation("default"), simulation("ideal", [job("b")])],
            r"^records: ideal and default did not simulate the same jobs in 'example' with seed 0",
        ),
    ):
        with pytest.raises(InputError, match=message):
            write_simulation_report(records, tmp_path)
