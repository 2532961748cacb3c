"""The numbers of the paper are right: small results whose every figure can be worked out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.bench.statistics import Interval
from paper.measured import benchmark_numbers
from paper.mixes import mix_numbers
from paper.shown import (
    change,
    change_with_interval,
)
from paper.solvers import Campaign, fit_power_law, read_campaign, solver_numbers
from paper.studies import StudyRuns, read_study, study_numbers
from tests.bench.report_examples import record
from tests.bench.simulation_examples import job, link, simulation

# ------------------------------------------------------------------ how numbers stand


def test_changes_have_signs_and_intervals() -> None:
    assert change(-0.195) == r"\ensuremath{-19.5}"
    assert change(-0.0001) == r"\ensuremath{0.0}"
    assert change(None) is None
    assert change_with_interval(None) is None
    assert change_with_interval(Interval(0.01, None, None, 1)) == "$+1.0$"
    shown = change_with_interval(Interval(-0.2, -0.3, 0.1, 5))
    assert shown == r"$-20.0$ {\scriptsize$[-30.0, +10.0]$}"


# ------------------------------------------------------------------ solvers


def campaign(*records: SolverRecord) -> Campaign:
    return read_campaign(records)


def solved(instance: str, solver: str, seconds: float, **changes: Any) -> SolverRecord:
    return record(instance, solver, 8, lower_bound=8, runtime_s=seconds, suite="single", **changes)


def open_case(instance: str, solver: str, value: int, bound: int | None) -> SolverRecord:
    return record(instance, solver, value, lower_bound=bound, suite="single")


def test_numbers_of_family() -> None:
    numbers = solver_numbers(
        campaign(
            solved("single-2-test-0", "auto", 1.0),
            solved("single-2-test-0", "cpsat", 3.0),
            open_case("single-3-test-0", "auto", 10, 8),
            open_case("single-3-test-0", "cpsat", 16, 4),
        )
    )
    assert numbers["instancesSingle"] == "2"
    assert numbers["solvedSingleAuto"] == "1"
    # One failure counts twice the limit of 10 s: sqrt((1 + 1) (20 + 1)) - 1.
    assert numbers["timeSingleAuto"] == "5.48"
    assert numbers["timeSingleCpsat"] == "8.17"
    assert numbers["fasterSingleCpsat"] == "1.49"  # sqrt(4 * 21) - 1 over the above
    assert numbers["parSingleAuto"] == "10.5"
    assert numbers["gapSingleAuto"] == "10.0"  # 0 and (10 - 8) / 10
    assert numbers["worstSingleCpsat"] == "75.0"
    assert numbers["primalSingleCpsat"] == "18.8"  # 0 and (16 - 10) / 16
    assert numbers["neverWorsePairs"] == "2"
    assert numbers["neverWorseViolations"] == "0"
    assert numbers["instancesDense"] is None
    assert numbers["solvedDenseAuto"] is None


# ------------------------------------------------------------------ studies


def run(policy: str, seconds: float, **changes: Any) -> SimulationRecord:
    jobs = [job("a", completion_s=seconds, end_s=seconds)]
    return simulation(policy, jobs, [link()], **changes)


def study(records: list[SimulationRecord]) -> StudyRuns:
    found = read_study(records)
    assert found is not None
    return found


def test_changes_over_cells_and_seeds() -> None:
    times = {("default", "x"): 100, ("metronome", "x"): 70, ("default", "y"): 100}
    times |= {("metronome", "y"): 90, ("cassini", "x"): 100, ("cassini", "y"): 100}
    records = [
        run(policy, seconds, cell={"mix": mix}, seed=seed)
        for seed in range(3)
        for (policy, mix), seconds in times.items()
    ]
    numbers = study_numbers({"dynamic-24": study(records)})
    assert numbers["cellsDynamic"] == "2"
    assert numbers["seedsDynamic"] == "3"
    assert numbers["runsDynamic"] == "18"
    assert numbers["changeDynamicMetronome"] == r"\ensuremath{-20.0}"
    assert numbers["changeDynamicMetronomeLow"] == r"\ensuremath{-20.0}", "seeds are alike"
    assert numbers["leastDynamicMetronome"] == r"\ensuremath{-30.0}"
    assert numbers["mostDynamicMetronome"] == r"\ensuremath{-10.0}"
    assert numbers["shorterDynamicMetronome"] == "2"
    assert numbers["shorterDynamicCassini"] == "0"
    assert numbers["rivalDynamic"] == r"\ensuremath{-20.0}"
    assert numbers["headlineCellsDynamic"] == "1", "19.5 % less is reached in one cell"
    assert numbers["changeDynamicIdeal"] is None
    assert numbers["changeStaticMetronome"] is None


def test_shares_of_possible_gain() -> None:
    gained = {"two-1.00": (80, 90), "four-1.00": (80, 84), "two-0.90": (80, 102)}
    records = [
        run(policy, seconds, cell={"mix": mix})
        for mix, (ideal, mine) in gained.items()
        for policy, seconds in (
            *(("default", 100), ("ideal", ideal), ("metronome", mine), ("cassini", 103)),
        )
    ]
    numbers = mix_numbers(study(records))
    assert numbers["snapshotScores"] == "3"
    assert numbers["snapshotCompatible"] == "65.0"  # of the gain of 20: 10 and 16
    assert numbers["snapshotCompatibleLow"] == "50.0"
    assert numbers["snapshotNearHigh"] == r"\ensuremath{-10.0}", "a loss is no gain of 0"
    assert numbers["snapshotLossMetronome"] == "2.0"
    assert numbers["snapshotLossCassini"] == "3.0"


def test_power_law_by_least_squares() -> None:
    # In powers of two: x 0, 1, 2 and y 0, 1, 4. The slope is 2, the residuals 1/3, -2/3, 1/3, so
    # the standard error is sqrt(2/3 / 2); the quantile of t with one degree of freedom is 12.706.
    fit = fit_power_law([1, 2, 4], [1, 2, 16])
    assert fit is not None
    margin = 12.7062 * math.sqrt(1 / 3)
    assert fit.at(1) == pytest.approx(2 ** (-1 / 3))
    assert fit.exponent == pytest.approx(2)
    assert (fit.low, fit.high) == pytest.approx((2 - margin, 2 + margin), abs=1e-3)


def test_numbers_without_records_are_unknown() -> None:
    assert set(benchmark_numbers({}).values()) == {None}
    numbers = benchmark_numbers({"placement-gaps": {"tree: gap, mean": 0.0, "solved exactly": 100}})
    assert numbers["placementTreeMean"] == "0"
    assert numbers["placementSolved"] == "100.0"
    assert numbers["placementGreedyMean"] is None
