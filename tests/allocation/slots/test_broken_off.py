"""A search that is ended by time, Ctrl-C or a callback returns a sound result."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from metronome_opt import allocate
from metronome_opt.allocation.slots.bound import slowdown_bound
from metronome_opt.allocation.slots.evaluator import PlanEvaluator
from metronome_opt.allocation.slots.periods import PeriodCandidates
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions, search_plan
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import ProgressEvent, StopReason
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.cases import (
    ALTERNATING,
    TIGHT,
    assert_sound,
    gated_jobs,
    twice,
)
from tests.builders import HARD, job, network


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_without_time_to_simulate_slowdown_is_unknown(seconds: float) -> None:
    result = allocate(HARD, time_limit=seconds, threads=1)
    assert verify_schedule(HARD, result.schedule) == ()
    assert result.schedule.primary_objective == "slowdown"
    assert result.value is None
    assert result.gap is None
    assert result.bound == slowdown_bound(HARD).value  # loads alone prove it
    assert set((result.schedule.gated or {}).values()) == {False}  # they do not fit
    assert "slowdown not simulated, lower bound 1.1835, " in result.summary()
    assert str(result.levels[0]) == "slowdown not simulated (not proved)"
    assert result.notes[-1].startswith("no time to simulate, ")


LIGHT = network(*(job(name, 20, (0, 20, 60), weight=0) for name in "ab"))
"""Whatever the offsets are, 60 + 60 on 100: no weight, so no contention, but it does not fit."""


@pytest.mark.parametrize("instance", [LIGHT, ALTERNATING])
def test_what_was_not_simulated_gates_no_job(instance: Instance) -> None:
    result = allocate(instance, time_limit=0, threads=1)
    assert result.schedule.gated == {"a": False, "b": False}
    assert verify_schedule(instance, result.schedule) == ()


def test_jobs_that_never_meet_need_no_time_to_simulate() -> None:
    jobs = (job(name, 20, (0, 20, 60), links={name: 1}) for name in "ab")
    apart = network(*jobs, a=100, b=100)
    assert allocate(apart, time_limit=0, threads=1).value == 1


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (PeriodCandidates, "_fitting"),
        (PeriodCandidates, "_roomiest_offsets"),
        (PlanEvaluator, "best"),
    ],
)
def test_ctrl_c_is_noticed_at_any_step(
    owner: type, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(owner, step)
    steps: list[object] = []

    def interrupted(*arguments: Any, **options: Any) -> object:
        if not steps:
            signal.raise_signal(signal.SIGINT)
        steps.append(step)
        return real(*arguments, **options)

    allocate(TIGHT, time_limit=1, threads=1)  # what is loaded before is not interrupted
    monkeypatch.setattr(owner, step, interrupted)
    result = allocate(TIGHT, time_limit=None, threads=1, network="fair")
    assert steps
    assert result.stop_reason is StopReason.INTERRUPTED
    assert_sound(result)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # as it was before


def test_ctrl_c_during_evaluation_keeps_result(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["metronome_opt.allocation.slots.solve"]
    real = module.evaluate

    def interrupted(*arguments: Any, **options: Any) -> object:
        signal.raise_signal(signal.SIGINT)
        return real(*arguments, **options)

    monkeypatch.setattr(module, "evaluate", interrupted)
    result = allocate(ALTERNATING, time_limit=None, threads=1)
    assert_sound(result, "a b")


def test_stopping_rule_ends_run() -> None:
    heard: list[ProgressEvent] = []

    def enough(event: ProgressEvent) -> bool:
        heard.append(event)
        return bool(event.source)

    result = allocate(twice(ALTERNATING), time_limit=None, threads=1, stop=enough)
    assert result.stop_reason is StopReason.RULE
    assert_sound(result)
    assert tuple(event for event in heard if event.source) == result.trajectory
    assert gated_jobs(result) == "a b"  # and nothing was tried for the others
    assert [result.offsets[name] for name in "cd"] == [0, 0]


@pytest.mark.parametrize("seconds", [1, 2])
def test_short_time_limits_are_kept(seconds: float) -> None:
    began = time.process_time()
    result = allocate(ALTERNATING, time_limit=seconds, threads=1)
    assert time.process_time() - began < seconds + 5
    assert_sound(result)


def test_search_leaves_time_for_the_last_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, ends = Budget(60), list[float]()
    real = PlanEvaluator.best

    def noted(evaluator: PlanEvaluator, plan: Plan, others: Sequence[Plan]) -> Plan:
        ends.append((whole.remaining or 0.0) - (evaluator.budget.remaining or 0.0))
        return real(evaluator, plan, others)

    monkeypatch.setattr(PlanEvaluator, "best", noted)
    search_plan(TIGHT, SlotSearchOptions(network="fair"), whole)
    *searching, last = ends
    assert searching
    assert 10 * abs(last) < min(searching)  # it may take all the time that there is
