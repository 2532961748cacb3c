"""Whether marks are reached, and what limits a policy where they are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metronome_opt.bench.simulation_report import write_simulation_report
from metronome_opt.bench.simulations import SimulationRecord
from tests.bench.simulation_examples import job, simulation, unfinished
from tests.bench.simulation_study import marks, one, rows, small, with_horizon


def test_marks_of_unfinished_jobs_are_not_known() -> None:
    found = marks(with_horizon())
    assert found["mean completion, against default"].reached is None
    assert found["mean completion, against default"].limit == "not known: 1 job did not finish"
    assert found["highest priority class, completion, against ideal"].reached is True


def test_a_missing_policy_is_named() -> None:
    found = marks(list(small(["default", "metronome"])))
    assert found["mean completion, against default"].reached is True
    assert found["mean completion, against default"].most is None
    missing = found["mean completion, against cassini"]
    assert (missing.reached, missing.limit) == (None, "not known: cassini did not run")
    assert found["utilisation of all links, against exclusive"].change is None


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
    assert found.change is not None
    assert found.change.mean == pytest.approx(0.2)
    assert found.change.low == pytest.approx(0.1)
    assert found.change.high == pytest.approx(0.3)
