"""Modes say who keeps which windows, and what ranks are told of it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.testbed import modes
from benchmarks.testbed.cases import Case
from benchmarks.testbed.modes import plan
from benchmarks.testbed.network import Network
from benchmarks.testbed.run import _tasks
from benchmarks.testbed.simulated import play_case
from metronome_opt.allocation.slots.plan import Plan
from tests.benchmarks.testbed.bed import bed_case, bed_job

PAIR = bed_case(bed_job(200, (0, 80)), bed_job(200, (0, 90), begin=130))
LONGER = Plan({"b": 30}, {"b": 204})


def first_tasks(case: Case, planned: Plan) -> list[dict[str, Any]]:
    """Return what the first rank of each job is told."""
    tasks = _tasks(case, 0, planned, Network.__new__(Network))
    return [ranks[0][1] for ranks in tasks.values()]


# ------------------------------------------------------------------ plans


def test_jobs_that_fit_are_kept_at_their_periods_and_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modes, "_KEPT_S", 2.0)
    planned = plan(bed_case(bed_job(400, (0, 170)), bed_job(400, (0, 170)), name="kept"), "kept")
    assert planned is not None
    assert planned.periods == {"a": 400, "b": 400}
    assert 170 <= (planned.offsets["b"] - planned.offsets["a"]) % 400 <= 230


# ------------------------------------------------------------------ what ranks are told


def test_claims_have_the_offsets_and_periods_of_the_plan_and_others_none() -> None:
    free, gated = first_tasks(PAIR, LONGER)
    assert free["claim"] is None
    assert gated["claim"] == {
        "offset_ms": 30,
        "period_ms": 204,
        "starts_ms": [0],
        "cushion_ms": 2,
    }
    assert (free["begin_ms"], gated["begin_ms"]) == (0, 130)


# ------------------------------------------------------------------ simulated


def test_only_those_with_slots_are_gated_in_simulations_at_the_periods_of_the_plan() -> None:
    """They never meet: one is there for three iterations, and the other comes later."""
    case = bed_case(bed_job(100, (0, 40), iterations=3), bed_job(100, (0, 40), begin=300))
    played = play_case(case, "kept", {"b": 8}, "fair", 0, bursts=True, periods={"b": 102})
    assert played["a"].times_ms == pytest.approx([100.0] * 3)
    assert [begin for begin, _ in played["b"].bursts_ms[:3]] == [314.0, 416.0, 518.0]
