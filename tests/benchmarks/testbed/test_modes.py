"""Modes say who keeps which windows, what jobs weigh, and what ranks are told of it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.testbed import modes
from benchmarks.testbed.cases import Case
from benchmarks.testbed.modes import Mode, plan
from benchmarks.testbed.network import Network
from benchmarks.testbed.run import _tasks
from benchmarks.testbed.simulated import play_case
from metronome_opt.allocation.slots.plan import Plan
from tests.benchmarks.testbed.bed import bed_case, bed_job

PAIR = bed_case(bed_job(200, (0, 80)), bed_job(200, (0, 90), begin=130))
LONGER = Plan({"b": 30}, {"b": 204})
HEAVY = bed_case(bed_job(100, (0, 60)), bed_job(100, (0, 60), weight=10), seconds=2)


def first_tasks(case: Case, mode: Mode, planned: Plan | None) -> list[dict[str, Any]]:
    """Return what the first rank of each job is told."""
    tos = dict.fromkeys(case.job_names, 4)
    tasks = _tasks(case, mode, 0, planned, Network.__new__(Network), tos)
    return [ranks[0][1] for ranks in tasks.values()]


# ------------------------------------------------------------------ plans


def test_those_that_are_kept_have_periods_with_the_idle_time_that_they_were_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modes, "_KEPT_S", 2.0)
    case = bed_case(bed_job(400, (0, 170)), bed_job(400, (0, 170)), name="kept")
    planned = plan(case, "kept-2")
    assert planned is not None
    assert sorted(planned.offsets) == ["a", "b"]
    assert planned.periods["a"] == planned.periods["b"]
    assert 400 <= planned.periods["a"] <= 408
    assert 170 <= (planned.offsets["b"] - planned.offsets["a"]) % planned.periods["a"] <= 238
    start = plan(case, "start")
    assert start == plan(case, "kept")
    assert start is not None
    assert set(start.periods.values()) <= {400}


# ------------------------------------------------------------------ what ranks are told


def test_claims_have_the_offsets_and_periods_of_the_plan_and_others_none() -> None:
    free, gated = first_tasks(PAIR, "kept-2", LONGER)
    assert free["claim"] is None
    assert gated["claim"] == {
        "offset_ms": 30,
        "period_ms": 204,
        "starts_ms": [0],
        "cushion_ms": 2,
    }
    assert (free["begin_ms"], gated["begin_ms"]) == (0, 130)
    assert gated["tos"] == 4


# ------------------------------------------------------------------ simulated


@pytest.mark.parametrize("sharing", ["fair", "tcp"])
def test_weights_of_a_network_favour_heavy_jobs_in_simulations(
    sharing: Any,
) -> None:
    """Strict, b is not held up; weighted it has 10 of 11: 66 instead of 60."""
    strict = play_case(HEAVY, "strict", None, sharing, 0)
    assert strict["b"].times_ms == pytest.approx([100.0] * 20)
    weighted = play_case(HEAVY, "weighted", None, sharing, 0)
    assert weighted["b"].times_ms[0] == pytest.approx(106.0)


def test_only_those_with_slots_are_gated_in_simulations_at_the_periods_of_the_plan() -> None:
    """They never meet: one is there for three iterations, and the other comes later."""
    case = bed_case(bed_job(100, (0, 40), iterations=3), bed_job(100, (0, 40), begin=300))
    played = play_case(case, "kept-2", {"b": 8}, "fair", 0, bursts=True, periods={"b": 102})
    assert played["a"].times_ms == pytest.approx([100.0] * 3)
    assert [begin for begin, _ in played["b"].bursts_ms[:3]] == [314.0, 416.0, 518.0]
