"""Means and changes of small studies equal values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import (
    Interval,
    StudyPart,
    mean_interval,
    split_study,
    summarise,
    write_tables,
)
from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError
from tests.bench.simulation_examples import (
    job,
    one,
    simulation,
    small,
    unfinished,
    whole,
    with_horizon,
)


def estimates(records: Sequence[SimulationRecord], folder: Path) -> pd.DataFrame:
    """Return mean, ends and seeds by part, policy, other policy and measure."""
    table = pd.read_csv(write_tables(records, folder)[-1], keep_default_na=False)
    return table.set_index(["part", "policy", "against", "measure"])


# Seed 0 of default: (100 + 300) / 2, 300 less 1 % of 200; seed 1: 200 both. Means of metronome 160
# and 150; p99 of 80 and 240 is 238.4; queueing 5 and 0. Ratios 160 / 200 and 150 / 200; slowdowns
# 1.03 / 1.10 and 1.01 / 1.10.
BY_HAND = {
    ("default", "", "completion_mean_s"): (200, 200),
    ("default", "", "completion_p99_s"): (298, 200),
    ("default", "", "makespan_s"): (200, 200),
    ("default", "", "iterations"): (2000, 2000),
    ("metronome", "", "completion_mean_s"): (160, 150),
    ("metronome", "", "completion_p99_s"): (238.4, 150),
    ("metronome", "", "queueing_mean_s"): (5, 0),
    ("metronome", "default", "completion_mean_s"): (0.8, 0.75),
    ("metronome", "default", "slowdown_mean"): (1.03 / 1.1, 1.01 / 1.1),
    # 40 and 50 Gbit of the 100 that a link of 1 Gbit/s carries in the 100 s that it is used.
    ("default", "", "utilisation_used"): (0.4, 0.4),
    ("metronome", "", "utilisation_used"): (0.5, 0.5),
    ("metronome", "exclusive", "utilisation_used"): (1.25, 1.25),
}


def ends_of(one: float, other: float) -> tuple[float, float, float]:
    """Return mean and ends of two values: Student's quantile is 12.7062, their deviation d / √2."""
    mean, width = (one + other) / 2, 12.7062 * abs(one - other) / 2
    return mean, mean - width, mean + width


def test_means_and_ratios_of_pairs(tmp_path: Path) -> None:
    """Those of ratios are geometric."""
    table = estimates(list(small()), tmp_path).loc["example"].T
    for where, values in BY_HAND.items():
        row = table[where]
        found = row[["mean", "low", "high"]].astype(float)
        expected = ends_of(*(map(math.log, values) if where[1] else values))
        found = np.log(found) if where[1] else found
        assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-9), where
        assert row["seeds"] == 2
    assert ("default", "default", "completion_mean_s") not in table


def test_utilisation_is_not_known_without_a_network(tmp_path: Path) -> None:
    table = estimates(list(small()), tmp_path).loc["example"]
    for against in ("", "default"):
        for measure in ("utilisation_used", "utilisation"):
            assert table["mean"]["ideal", against, measure] == ""
            assert table["seeds"]["ideal", against, measure] == 0
    *_, ideal = summarise(list(small()))
    assert (ideal["policy"], ideal["utilisation_used"]) == ("ideal", None)


def test_study_is_estimated_whole_and_cell_by_cell(tmp_path: Path) -> None:
    records = [
        one(policy, time + seed, seed=seed, cell={"load": load})
        for policy, time in (("default", 100.0), ("metronome", 80.0))
        for load in (0.5, 0.95)
        for seed in (0, 1)
    ]
    table = estimates(records, tmp_path)
    assert list(table.index.unique("part")) == ["all cells", "load=0.5", "load=0.95"]
    changes = table.xs(("metronome", "default", "completion_mean_s"), level=[1, 2, 3])
    assert changes["mean"].astype(float).tolist() == pytest.approx(
        [math.sqrt(80 / 100 * 81 / 101)] * 3
    )


def test_unfinished_jobs_have_no_completion_times(tmp_path: Path) -> None:
    table = estimates(with_horizon(), tmp_path).loc["example"]["mean"]
    for measure in ("completion_mean_s", "completion_p99_s", "makespan_s"):
        assert table["default", "", measure] == ""
    assert float(table["metronome", "", "completion_mean_s"]) == 90
    # Slowdowns 1.0 and 1.25 on average against 1.0; iterations 2000 / 1500.
    assert float(table["metronome", "default", "slowdown_mean"]) == pytest.approx(0.8)
    assert float(table["metronome", "default", "iterations"]) == pytest.approx(4 / 3)


def test_a_study_of_failures_has_no_means(tmp_path: Path) -> None:
    kinds = (("default", "crash"), ("metronome", "out_of_memory"))
    table = estimates([simulation(policy, kind=kind) for policy, kind in kinds], tmp_path)
    assert set(table["mean"]) == {""}
    assert set(table["seeds"]) == {0}


def test_bad_records_are_refused_in_one_line(tmp_path: Path) -> None:
    twice = [simulation("default"), simulation("default", conditions=Conditions(jitter=0.1))]
    other = [simulation("default"), simulation("default", study="other", study_sha256="cd" * 32)]
    for records, message in (
        ([], r"^records: there are none"),
        (twice, r"^records: default with seed 0 in 'example' is there 2 times"),
        (other, r"^records: are of the studies 'example', 'other'"),
    ):
        with pytest.raises(InputError, match=message):
            write_tables(records, tmp_path)


# ------------------------------------------------------------------ means over cells and seeds


def completion(part: StudyPart, policy: str) -> tuple[float | None, ...]:
    found = part.mean(policy, "completion_mean_s")
    assert found is not None
    assert found.count == 2
    return found.mean, found.low, found.high


def test_a_seed_counts_with_its_mean_over_the_cells() -> None:
    """Different cells make no wide interval: what varies is the seeds, here by 2."""
    records = [
        one("default", base + seed, seed=seed, cell={"load": load})
        for load, base in ((1, 100.0), (2, 500.0))
        for seed in (0, 2)
    ]
    together, *cells = split_study(records)
    assert completion(together, "default") == pytest.approx(ends_of(300, 302), rel=1e-5)
    assert completion(cells[0], "default") == pytest.approx(ends_of(100, 102), rel=1e-5)


def test_a_seed_that_did_not_run_everywhere_is_left_out() -> None:
    records = [
        *(one(policy, 100.0, seed=seed) for policy in ("default", "ideal") for seed in range(3)),
        one("metronome", 50.0, seed=0),
        one("metronome", 70.0, seed=2),
        simulation("metronome", seed=1, kind="out_of_time"),
    ]
    assert completion(whole(records), "metronome") == pytest.approx(ends_of(50, 70), rel=1e-5)


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
    assert (cassini["policy"], cassini["runs"]) == ("cassini", 0)
    assert cassini["completion_mean_s"] is None
    assert summarise([]) == []


# ------------------------------------------------------------------ intervals


def test_one_value_has_a_mean_and_no_interval() -> None:
    found = mean_interval([3.5])
    assert found == Interval(3.5, None, None, 1)
    assert found - 1.0 == Interval(2.5, None, None, 1)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]], ids=["none", "nan", "inf"])
def test_unknown_values_have_no_mean(values: Sequence[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_interval(values)


@pytest.mark.parametrize(
    ("values", "mean", "width"),
    [  # quantiles of Student's t at 97.5 % for 1, 2 and 4 degrees of freedom, as tables have them
        ([1.0, 2.0], 1.5, 12.706 * 0.5),
        ([1.0, 2.0, 3.0], 2.0, 4.303 / math.sqrt(3)),
        ([2.0, 2.0, 2.0, 2.0, 7.0], 3.0, 2.776),
    ],
)
def test_interval_is_that_of_student(values: list[float], mean: float, width: float) -> None:
    found = mean_interval(values)
    assert found.mean == mean
    assert found.low == pytest.approx(mean - width, abs=1e-3)
    assert found.high == pytest.approx(mean + width, abs=1e-3)
    assert found.count == len(values)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.1] * 3) == Interval(0.1, 0.1, 0.1, 3)
