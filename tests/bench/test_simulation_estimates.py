"""Means over cells and seeds, and measures by hand."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from metronome_opt.bench.simulation_report import write_simulation_report
from metronome_opt.bench.statistics import Interval
from metronome_opt.bench.studies import Part, parts_of
from tests.bench.simulation_examples import job, simulation, unfinished
from tests.bench.simulation_study import STUDY, marks, one, rows, small, whole


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
    change = marks(records)["mean completion, against default"].change
    assert change is not None
    assert change.mean == pytest.approx(-0.2)
    assert change.low is change.high is None
    assert "reached, not for certain" in text
    assert " to 160" not in text


@pytest.mark.slow
def test_policies_that_are_all_equal(tmp_path: Path) -> None:
    records = [one(policy, 100.0, seed=seed) for policy in STUDY for seed in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_simulation_report(records, tmp_path)
    text = (tmp_path / "report.md").read_text()
    changes = rows(text, "example: change against default, in pairs of runs")
    assert {cell for row in list(changes.values())[1:] for cell in row} == {"+0.0 % (+0.0 to +0.0)"}
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
