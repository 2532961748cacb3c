"""Objectives with stretch among them, against the judge's word on every stretch and offset."""

from __future__ import annotations

import math
import signal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import pareto, solve
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import ProgressEvent, StopReason
from metronome_opt.solvers.presolve.extend import extend_bursts
from metronome_opt.verify import evaluate, verify_schedule
from tests.builders import evaluation_of, job, network, tangle
from tests.solvers.multiobjective.enumeration import cost, every, front, in_order, stretchable
from tests.tiers import examples

ALL = ("contention", "latency", "stretch", "wait", "moves", "cushion")
WITH_STRETCH = st.permutations(ALL).map(
    lambda names: names[:3] if "stretch" in names[:3] else [*names[:2], "stretch"]
)
TOO_LONG = network(
    *(
        job(name, period, (0, period // 4, 60), max_stretch=math.ceil(period / 20))
        for name, period in (("a", 137), ("b", 211), ("c", 350))
    )
)


@given(stretchable(), WITH_STRETCH, st.sampled_from((0, 0, 1)))
@examples(20)
def test_lexicographic_order_with_stretch_is_optimal(
    instance: Instance, names: list[str], cushion_slots: int
) -> None:
    found = solve(instance, objective=names, cushion_slots=cushion_slots, threads=1)
    minimum = in_order(every(instance, cushion_slots), names)
    values = [cost(name, evaluation_of(found).objectives[name]) for name in names]
    assert values == minimum
    assert [level.name for level in found.levels] == names
    assert all(level.proved for level in found.levels)
    assert found.stop_reason is StopReason.PROVED
    assert verify_schedule(instance, found.schedule) == ()


@given(stretchable(), st.sampled_from(("contention", "latency")))
@examples(12)
def test_front_with_stretch_is_complete(instance: Instance, other: str) -> None:
    found = pareto(instance, [other, "stretch"], threads=1)
    points = [
        tuple(cost(name, each.objectives[name]) for name in (other, "stretch"))
        for each in found.points
    ]
    assert points == front(every(instance), (other, "stretch"))
    assert found.complete
    assert all(verify_schedule(instance, point) == () for point in found.points)


def test_overlong_hyperperiods_are_shortened() -> None:
    found = solve(TOO_LONG, time_limit=1, threads=1)
    assert any(found.stretch.values())
    assert [level.name for level in found.levels] == ["contention", "stretch"]
    assert verify_schedule(TOO_LONG, found.schedule) == ()
    assert any("hyperperiods are above the limit" in note for note in found.notes)


def test_latency_of_stretched_jobs_is_share_of_unstretched_traffic() -> None:
    # Each of two bursts of 60 on 100 lasts 2 of 4 slots, or 2 of 5.
    two = network(job("a", 4, (0, 2, 60), max_stretch=1), job("b", 4, (0, 2, 60), fixed_offset=0))
    found = solve(two, objective=["stretch", "latency"], threads=1)
    assert found.levels[1].value == evaluate(two, found.offsets).objectives["latency"] == 0
    reserved = extend_bursts(two, 1)
    assert solve(two, objective=["stretch", "latency"], cushion_slots=1, threads=1).levels[
        1
    ].value == min(
        evaluate(reserved, {"a": offset, "b": 0}).objectives["latency"] or Fraction(0)
        for offset in range(4)
    )


def test_sum_is_refused_where_jobs_have_to_be_stretched() -> None:
    with pytest.raises(InputError, match=r"^weights: a sum has no place for stretch"):
        solve(TOO_LONG, objective={"contention": 1, "wait": 1})


@pytest.mark.slow
def test_callback_ends_choice_of_stretches() -> None:
    calls: list[ProgressEvent] = []

    def enough(event: ProgressEvent) -> bool:
        calls.append(event)
        return True

    found = solve(
        TOO_LONG, objective=["contention", "stretch"], stop=enough, time_limit=30, threads=1
    )
    assert len(calls) == 1
    assert found.stop_reason is StopReason.RULE
    assert verify_schedule(TOO_LONG, found.schedule) == ()


@pytest.mark.parametrize("solver", ["greedy", "cpsat"])
def test_solver_without_stretch_is_refused(solver: str) -> None:
    with pytest.raises(InputError, match=r"stretch: solver .* cannot.*those that can: auto"):
        solve(TOO_LONG, solver)


def test_components_are_stretched_separately() -> None:
    # Bursts of 2 in 5 and 3 in 6 slots meet wherever they are; 2 in 6 and 3 in 6 need not.
    left = job("a", 5, (0, 2, 60), max_stretch=1), job("b", 6, (0, 3, 60))
    right = (
        job("c", 7, (0, 2, 60), max_stretch=1, links={"other": 1}),
        job("d", 8, (0, 4, 60), links={"other": 1}),
    )
    idle = job("e", 3, (0, 1, 60), max_stretch=2, links={})
    instance = network(*left, *right, idle, other=100)
    found = solve(instance, objective=["contention", "stretch"], threads=1)
    assert found.stretch == {"a": 1, "b": 0, "c": 1, "d": 0, "e": 0}
    assert [level.value for level in found.levels] == [0, Fraction(1, 5) + Fraction(1, 7)]
    assert found.stop_reason is StopReason.PROVED


def hard() -> Instance:
    made = tangle(7, 3, 1, periods=(40, 44, 63, 90), lengths=(9, 17))
    return made.replace(
        jobs=tuple(each.model_copy(update={"max_stretch": 4}) for each in made.jobs)
    )


def test_ctrl_c_keeps_stretched_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def quick(instance: Instance) -> dict[str, int]:
        nonlocal calls
        calls += 1
        if calls == 2:
            signal.raise_signal(signal.SIGINT)
        return dict(instance.unshifted)

    monkeypatch.setattr("metronome_opt.solvers.multiobjective.stretching._greedy", quick)
    found = solve(hard(), objective=["contention", "stretch"], threads=1)
    assert found.stop_reason is StopReason.INTERRUPTED
    assert verify_schedule(hard(), found.schedule) == ()


def test_no_common_periods_are_an_error() -> None:
    both = {"link": 1, "other": 1}
    instance = Instance.from_dict(
        network(
            job("a", 4, (0, 1, 60), max_stretch=1),
            job("b", 6, (0, 1, 60), links=both, max_stretch=1),
            job("c", 7, (0, 1, 60), links={"other": 1}),
            other=100,
        ).to_dict(),
        hyperperiod_limit=12,
    )
    # Each link by itself could be within 12 slots, by 4 and 6, and by 7 and 7.
    with pytest.raises(InputError, match="at most 12 slots; allow more stretch"):
        solve(instance, objective=["contention", "stretch"], threads=1)
