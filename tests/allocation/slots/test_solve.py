"""Jobs are gated where that shortens iterations, given an instance only."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from metronome_opt import allocate
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.result import StopReason
from metronome_opt.problem.schedule import Status
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.cases import (
    ALTERNATING,
    APART,
    ENDLESS,
    NESTED,
    ROOMY,
    TIGHT,
    assert_sound,
    expected_of,
    gated_jobs,
    minimum,
    twice,
    unshifted_of,
    value_of,
)
from tests.allocation.slots.feasibility_cases import tiny_instance
from tests.builders import evaluation_of, job, network

NEARLY_ALONE = Fraction(101, 100)
"""Computing times vary by 1 %; that costs a little where there is no idle time."""


@pytest.mark.parametrize(("instance", "before"), [(ALTERNATING, 1.1), (NESTED, 1.04)])
def test_jobs_that_fit_are_gated(instance: Instance, before: float) -> None:
    result = minimum(instance)
    assert_sound(result, "a b", within_loss=True)
    assert 1 <= (value_of(result) or 0) < NEARLY_ALONE
    assert evaluation_of(result).contention == 0
    for each in instance.jobs:
        assert unshifted_of(result)[each.name] > before * each.period * instance.slot_ms


@pytest.mark.parametrize("instance", [APART, ROOMY, network(job("a", 20, (0, 20, 100)))])
def test_disjoint_jobs_are_not_gated(instance: Instance) -> None:
    result = minimum(instance)
    assert_sound(result, within_loss=True)
    assert len(gated_jobs(result).split()) < 3
    assert value_of(result) == 1
    assert result.status is Status.OPTIMAL
    assert result.stop_reason is StopReason.PROVED
    assert result.offsets == instance.unshifted
    assert unshifted_of(result) == {each.name: 5 * each.period for each in instance.jobs}


def test_disjoint_groups_are_solved_separately() -> None:
    result = minimum(twice(ALTERNATING))
    assert_sound(result, "a b c d")
    assert 1 <= (value_of(result) or 0) < NEARLY_ALONE
    assert [event.source for event in result.trajectory] == ["simulation"] * 4  # by greedy, by auto
    assert [result.offsets[name] for name in "ab"] == [result.offsets[name] for name in "cd"]


@pytest.mark.parametrize("offset", [0, 3, 17])
def test_fixed_jobs_keep_offsets(offset: int) -> None:
    first, second = ALTERNATING.jobs
    fixed = ALTERNATING.replace(jobs=(first, second.model_copy(update={"fixed_offset": offset})))
    result = minimum(fixed)
    assert_sound(result, within_loss=True)
    assert result.offsets["b"] == offset
    assert gated_jobs(result) == "a b"
    assert 1 <= (value_of(result) or 0) < NEARLY_ALONE


def test_jobs_that_meet_are_gated_together() -> None:
    # Two of them would fit.
    result = minimum(TIGHT, stretch_limit=0)
    assert_sound(result, within_loss=True)
    assert len(gated_jobs(result).split()) < 3
    fewer = minimum(TIGHT.replace(jobs=TIGHT.jobs[:2]), stretch_limit=0)
    assert_sound(fewer, "a b")


@pytest.mark.parametrize("shared", ["fair", "tcp", "gated"])
def test_some_of_the_jobs_that_meet_may_be_gated(shared: str) -> None:
    result = minimum(TIGHT, network=shared)
    assert_sound(result, within_loss=True)
    assert value_of(result) <= sum(unshifted_of(result).values()) / 300 + 1e-5
    fits = minimum(NESTED, network=shared)
    assert_sound(fits)
    assert value_of(fits) < NEARLY_ALONE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_results_pass_check(seed: int) -> None:
    draw = Random(seed)
    instance = tiny_instance(draw)
    result = allocate(
        instance,
        time_limit=0.7,
        threads=2,
        seed=seed,
        stretch_limit=draw.choice((None, "20%")),
        network=draw.choice((None, "fair", "tcp", "gated")),
    )
    if result.value is not None:
        assert_sound(result)
    else:  # no time to simulate
        assert verify_schedule(instance, result.schedule) == ()
        assert result.schedule.gated is not None
        assert len(set(result.schedule.gated.values())) == 1


@pytest.mark.slow
def test_equal_seeds_give_equal_results() -> None:
    once, again = (
        allocate(TIGHT, time_limit=None, threads=1, seed=5, stretch_limit="5%", network="tcp")
        for _ in range(2)
    )
    assert once.offsets == again.offsets
    assert once.stretch == again.stretch
    assert once.schedule.gated == again.schedule.gated
    assert expected_of(once) == expected_of(again)
    assert unshifted_of(once) == unshifted_of(again)


def test_no_job_is_gated_without_gain() -> None:
    result = minimum(ENDLESS)
    assert_sound(result, "", within_loss=True)
    assert result.status is Status.FEASIBLE
    assert value_of(result) == pytest.approx(2, abs=0.02)
    assert result.offsets == ENDLESS.unshifted


def test_job_that_overloads_its_link_is_slow_alone() -> None:
    # 9 slots of 2 x 60 on a link of 100 take 10.8.
    wide = network(
        job("a", 60, (2, 9, 60), links={"link": 2}),
        job("b", 20, (0, 4, 60), links={"other": 1}),
        other=100,
    )
    result = minimum(wide)
    assert_sound(result, "")
    assert float(expected_of(result)["a"]) == pytest.approx(309, abs=1)
    assert expected_of(result)["b"] == 100
    assert result.status is Status.FEASIBLE


def test_two_fixed_jobs_that_meet_are_not_both_gated() -> None:
    fixed = ALTERNATING.replace(
        jobs=tuple(each.model_copy(update={"fixed_offset": 0}) for each in ALTERNATING.jobs)
    )
    result = minimum(fixed)
    assert_sound(result, within_loss=True)
    assert gated_jobs(result) != "a b"
