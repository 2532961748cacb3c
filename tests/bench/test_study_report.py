"""The report of a small study whose every number was worked out by hand."""

from __future__ import annotations

import csv
import io
import re
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import Part, parts_of
from metronome_opt.bench.study_report import summarise, write_simulation_report
from metronome_opt.bench.timeline import LinkPicture
from metronome_opt.errors import InputError
from metronome_opt.plot.timeline import LinkTrace, plot_link
from metronome_opt.simulate.conditions import Conditions
from tests.bench.report_examples import rows
from tests.bench.simulation_examples import (
    BY_HAND,
    job,
    link,
    marks,
    one,
    simulation,
    small,
    study,
    unfinished,
    whole,
    with_horizon,
)


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
        *("200", "200", "249 (200 to 298)"),  # an interval of one number says nothing
        *("0", "200", "2,000"),
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
    assert found["exclusive"][0] == "+25.0 %"
    against = rows(text, "example: change against exclusive, in pairs of runs")
    assert against["metronome"] == ["+25.0 %"] * 2


def test_classes_and_models(text: str) -> None:
    found = rows(text, "example: mean slowdown by priority class")
    assert list(found) == ["", "4", "1"]
    assert found[""][1:] == list(BY_HAND)
    assert found["4"][0] == "1.150 (1.100 to 1.200)"  # default: 1.2 and 1.1
    found = rows(text, "example: completion of a job against ideal by priority class")
    assert found[""][1:] == [policy for policy in BY_HAND if policy != "ideal"]
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
        *("reached", "-", "+25.0 %", "+1.8", "+50.0 %"),
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


@pytest.mark.parametrize(("model", "computed"), [("stated", False), ("vgg19", True)])
def test_one_scenario_is_reported_job_by_job_and_without_what_studies_need(
    model: str, computed: bool, tmp_path: Path
) -> None:
    """One run of two policies; job "b" takes 1.2 and 1 times as long as with its own network."""
    runs = [
        simulation(
            policy,
            [job("a", model=model), job("b", model=model, iteration_mean_ms=mean)],
            [link()],
        )
        for policy, mean in (("default", 120.0), ("metronome", 100.0))
    ]
    text = write_simulation_report(runs, tmp_path, one_scenario=True).read_text()
    found = rows(text, "example: mean slowdown by job")
    assert (found["b"][0], found["b"][1]) == ("1.200", "1.000")
    for word in ("## Marks", "certain", "headline", "not drawn", "## The grid", "cells"):
        assert word not in text, word
    assert "| scenario | example (" in text
    assert ("published sizes" in text) == computed
    assert not (tmp_path / "marks.csv").exists()
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {"example-completion.svg"}


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
    # One cell is no grid; without scores, predictions and samples there is nothing else to draw.
    assert shown == ["figures/example-completion.svg"]
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
    write_simulation_report(records, tmp_path, link=LinkPicture("A link.", figure))
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
    assert "by model" not in text  # there is one, and one priority class
    assert "by priority" not in text


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


# ------------------------------------------------------------------ means over cells and seeds


def completion(part: Part, policy: str) -> Interval | None:
    return part.mean(policy, "completion_mean_s")


def test_a_seed_counts_its_mean_over_the_cells() -> None:
    """Cells far apart make no wide interval: what varies is the seeds, here by 2."""
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
    found = completion(part, "metronome")
    assert found == Interval(60.0, 50.0, 70.0, 2)
    assert not part.complete(found)
    write_simulation_report(records, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert rows(text, "example: times of jobs")["metronome"][0] == r"60.0 (50.0 to 70.0) \*"
    assert rows(text, "example: how the runs ended")["metronome"] == ["2", "1", "2", "0"]
    assert "Runs that were not done: metronome 1." in text
    assert "took too long" in text
    found_marks = rows(text, "example: marks")["mean completion, against default"]
    assert found_marks[3] == r"-40.0 % (-50.0 to -30.0) \*"


def test_one_seed_has_no_interval_and_says_so(tmp_path: Path) -> None:
    records = [record for record in small() if record.seed == 0]
    write_simulation_report(records, tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "There is one seed, so there are no confidence intervals." in text
    assert rows(text, "example: times of jobs")["metronome"][0] == "160"
    found = marks(records)["mean completion, against default"]
    assert found.change == pytest.approx(-0.2)
    assert pd.isna([found.change_low, found.change_high]).all()
    assert "reached, not for certain" in text
    assert " to 160" not in text


@pytest.mark.slow
def test_policies_that_are_all_equal(tmp_path: Path) -> None:
    records = [one(policy, 100.0, seed=seed) for policy in BY_HAND for seed in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_simulation_report(records, tmp_path)
    text = (tmp_path / "report.md").read_text()
    changes = rows(text, "example: change against default, in pairs of runs")
    assert {cell for row in list(changes.values())[1:] for cell in row} == {"+0.0 %"}
    found = marks(records)
    assert found["mean completion, against default"].reached is False
    assert found["mean completion, against default"].limit == (
        "ideal does not reach it either; "
        "0 s a job above ideal: queueing 0, held back for a slot 0, longer iterations 0 "
        "(by placement 0, by others 0)"
    )
    assert found["mean completion, against cassini"].reached is False  # level is not ahead
    assert found["highest priority class, completion, against ideal"].reached is True
    assert "- perhaps no change (1): example" in text


def test_a_model_that_no_scenario_of_a_seed_has_is_marked() -> None:
    records = [
        simulation("default", [job("a", model="bert" if seed else "vgg19")], seed=seed)
        for seed in range(2)
    ]
    part = whole(records)
    (bert, _) = part.groups("model")
    slowdown = part.mean("default", "slowdown_mean", bert)
    assert slowdown == Interval(1.0, None, None, 1)
    assert not part.complete(slowdown)


def test_rephasings_are_per_hour_of_jobs_that_ran() -> None:
    """Two jobs ran for 100 and 80 s, the second to the horizon, with 5 re-phasings in all."""
    waiting = unfinished("c", start_s=None, queueing_s=None, iteration_mean_ms=None)
    part = whole(
        [
            simulation(
                "metronome",
                [job("a", rephasings=2), unfinished("b", start_s=20.0, rephasings=3), waiting],
                makespan_s=100.0,
            )
        ]
    )
    found = part.mean("metronome", "rephasings_per_job_h")
    assert found is not None
    assert found.mean == pytest.approx(5 / 180 * 3600)
    assert part.mean("metronome", "queueing_mean_s") is None


def test_rephasings_of_the_highest_class_are_those_of_its_jobs() -> None:
    """Of 100 s each, one job of priority 4 is re-phased twice, one of priority 1 ten times."""
    jobs = [job("a", rephasings=2, priority=4), job("b", rephasings=10, priority=1)]
    part = whole([simulation("metronome", jobs, makespan_s=100.0)])
    found = part.mean("metronome", "rephasings_highest_per_job_h")
    assert found is not None
    assert found.mean == pytest.approx(2 / 100 * 3600)


def test_a_summary_knows_no_mean_where_jobs_did_not_finish() -> None:
    records = [
        simulation("default", [job("a"), job("b", completion_s=300.0)]),
        simulation("ideal", [job("a"), unfinished("b")]),
        simulation("cassini", kind="crash"),
    ]
    by_policy = {each.policy: each for each in summarise(records)}
    default, ideal, cassini = (by_policy[name] for name in ("default", "ideal", "cassini"))
    assert (default.runs, default.unfinished) == (1, 0)
    assert default.means["completion_mean_s"] == pytest.approx(200)
    assert default.means["utilisation_used"] == pytest.approx(0.5)
    assert (ideal.runs, ideal.unfinished) == (1, 1)
    assert ideal.means["completion_mean_s"] is None
    assert (cassini.runs, set(cassini.means.values())) == (0, {None})
    assert summarise([]) == []


# ------------------------------------------------------------------ marks


def test_marks_of_unfinished_jobs_are_not_known() -> None:
    found = marks(with_horizon())
    assert found["mean completion, against default"].reached is None
    assert found["mean completion, against default"].limit == "not known: 1 job did not finish"
    assert found["highest priority class, completion, against ideal"].reached is True


def test_a_missing_policy_is_named() -> None:
    found = marks(list(small(["default", "metronome"])))
    assert found["mean completion, against default"].reached is True
    assert pd.isna(found["mean completion, against default"].ideal)
    missing = found["mean completion, against cassini"]
    assert (missing.reached, missing.limit) == (None, "not known: cassini did not run")
    assert pd.isna(found["utilisation of all links, against exclusive"].change)


def test_ideal_that_is_reachable_shows_what_is_missing() -> None:
    """Both shorten completion, `ideal` by 40 %, `metronome` by 10 %: 30 s a job are missing."""
    records = [
        one("default", 100.0),
        simulation("metronome", [job("a", completion_s=90.0, queueing_s=12.0, waited_s=5.0)]),
        one("ideal", 60.0),
    ]
    found = marks(records)["mean completion, against default"]
    assert found.reached is False
    assert found.limit == (
        "+30.0 s a job above ideal: queueing +12.0, held back for a slot +5.00, "
        "longer iterations +13.0 (by placement 0, by others +13.0)"
    )


def placed(**changes: Any) -> list[SimulationRecord]:
    """Return two jobs of 1,000 iterations, 300 and 200 s late; a third never iterated."""
    late = [
        job("a", completion_s=400.0, alone_ms=150.0, iteration_mean_ms=300.0, **changes),
        job("b", completion_s=300.0, alone_ms=100.0, iteration_mean_ms=120.0, **changes),
        unfinished("c", alone_ms=900.0, iteration_mean_ms=None),
    ]
    ideal = [job("a"), job("b"), unfinished("c", iteration_mean_ms=None)]
    return [simulation("metronome", late), simulation("ideal", ideal)]


def test_slowdown_is_what_the_placement_costs_times_what_others_cost(tmp_path: Path) -> None:
    """Job a: 3.0 = 1.5 * 2.0; job b: 1.2 = 1.0 * 1.2."""
    text = write_simulation_report(placed(), tmp_path).read_text()
    found = rows(text, "example: iterations and links")
    assert found[""][1:4] == ["slowdown, mean over jobs", "of it by placement", "of it by others"]
    assert found["metronome"][:3] == ["2.100", "1.250", "1.600"]
    assert found["ideal"][:3] == ["1.000"] * 3


def test_completion_that_is_longer_is_put_down_to_placement_and_others() -> None:
    """Alone, 1,000 iterations of job a take 50 s longer where it is; b's take no longer."""
    found = marks(placed())["highest priority class, completion, against ideal"]
    assert found.limit == (
        "+250 s a job above ideal: queueing 0, held back for a slot 0, "
        "longer iterations +250 (by placement +25.0, by others +225)"
    )


@pytest.mark.parametrize("column", [{}, {"alone_ms": None}])
def test_what_placement_costs_may_not_be_known(column: dict[str, Any], tmp_path: Path) -> None:
    """A record may lack the column, or not know the value."""

    def row(completion: float) -> dict[str, Any]:
        known = job("a", completion_s=completion)
        return {name: known[name] for name in known if name != "alone_ms"} | column

    records = [simulation("metronome", [row(110.0)]), simulation("ideal", [row(100.0)])]
    text = write_simulation_report(records, tmp_path).read_text()
    assert rows(text, "example: iterations and links")["ideal"][:3] == ["1.000", "-", "-"]
    found = marks(records)["highest priority class, completion, against ideal"]
    assert found.limit.endswith("longer iterations +10.0")


def test_what_rounding_leaves_is_nothing() -> None:
    records = [
        one("default", 100.0),
        simulation("metronome", [job("a", queueing_s=0.1 + 0.2)]),
        simulation("ideal", [job("a", queueing_s=0.3)]),
    ]
    found = marks(records)["mean completion, against default"]
    assert "queueing 0, held back for a slot 0, longer iterations 0 (" in found.limit


def test_the_highest_class_is_the_highest_of_each_scenario() -> None:
    """Seed 0 has classes 4 and 1, seed 1 class 1 alone: the ratios are 1.1 and 1.3."""
    records = [
        simulation(policy, jobs, seed=seed)
        for policy, factor in (("metronome", 1), ("ideal", 0))
        for seed, jobs in enumerate(
            (
                [
                    job("a", priority=4, completion_s=100.0 + 10 * factor),
                    job("b", priority=1, completion_s=100.0 + 90 * factor),
                ],
                [job("a", priority=1, completion_s=100.0 + 30 * factor)],
            )
        )
    ]
    found = marks(records)["highest priority class, completion, against ideal"]
    assert (found.change, found.change_low, found.change_high) == pytest.approx((0.2, 0.1, 0.3))
