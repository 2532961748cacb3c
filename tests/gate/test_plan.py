"""Which slot a burst takes, and how slots go over to those of another claim."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.gate.plan import STALL, Claim, Plan
from tests.slots import CASES, Case

MS = 1_000_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bursts_take_the_slots_that_were_worked_out(case: Case) -> None:
    claim = Claim(
        case.offset * MS,
        case.period * MS,
        tuple(start * MS for start in case.starts),
        case.cushion * MS,
    )
    plan = Plan(claim)
    assert plan.slot is None
    ready = case.compute[0]
    for index, (slot, begin) in enumerate(zip(case.taken, case.begins, strict=True)):
        assert plan.phase == index % len(case.starts)
        assert plan.take(ready * MS) == (begin * MS, slot * MS)
        if index < len(case.lengths):
            ready = begin + case.lengths[index] + case.compute[plan.phase]


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    period = draw(st.integers(8, 300))
    starts = draw(st.sets(st.integers(0, period - 1), min_size=1, max_size=3))
    cushion = draw(st.integers(0, period - 1))
    return Claim(draw(st.integers(-500, 500)), period, tuple(sorted(starts)), cushion)


def is_slot(claim: Claim, slot: int) -> bool:
    return any((slot - claim.offset_ns - start) % claim.period_ns == 0 for start in claim.starts_ns)


DELAYS = st.lists(st.integers(0, 700), max_size=30)


@given(claims(), st.integers(-1000, 1000), DELAYS)
def test_a_burst_begins_at_its_slot_or_late_by_at_most_half_a_period(
    claim: Claim, ready: int, delays: list[int]
) -> None:
    plan, last = Plan(claim), -math.inf
    for delay in delays:
        begin, slot = plan.take(ready)
        assert is_slot(claim, slot)
        assert slot > last
        assert begin == max(ready, slot)
        assert begin - ready <= claim.period_ns
        if last > -math.inf:
            assert 2 * (begin - slot) <= claim.period_ns
        last, ready = slot, begin + delay


@given(claims(), st.lists(claims(), min_size=1, max_size=2), st.integers(-1000, 1000), DELAYS)
def test_a_new_claim_comes_step_by_step(
    old: Claim, others: list[Claim], ready: int, delays: list[int]
) -> None:
    """Each iteration of a job that is always in time is delayed a little, until none has to be.

    There may be another claim before it has come to that.
    """
    plan = Plan(old)
    ready = plan.take(ready)[0]
    for delay in delays:
        ready = plan.take(ready + delay)[0]
    while plan.phase:
        ready = plan.take(ready)[0]
    steps = math.ceil(1 / STALL) + 1
    for claim in others:
        count = steps + 3 if claim is others[-1] else 3
        expected = plan.slot
        assert expected is not None
        moved = 37 * (len(delays) - 5)  # the clock may have been set as well
        expected += moved
        plan.follow(claim, moved)
        delayed = 0
        for step in range(count):
            slot = plan.take(expected)[1]
            assert -claim.cushion_ns <= slot - expected <= STALL * claim.period_ns
            assert slot >= expected or step == 0
            delayed += max(0, slot - expected)
            for start in claim.starts_ns[1:]:
                due = slot + start - claim.starts_ns[0]
                assert plan.take(due) == (due, due)
            assert step < steps - 1 or is_slot(claim, slot)
            expected = slot + claim.period_ns
        assert delayed < claim.period_ns


@given(claims(), st.integers(-1000, 1000), DELAYS)
def test_the_same_claim_again_changes_nothing(claim: Claim, ready: int, delays: list[int]) -> None:
    plan = Plan(claim)
    ready = plan.take(ready)[0]
    for delay in delays:
        ready = plan.take(ready + delay)[0]
    while plan.phase:
        ready = plan.take(ready)[0]
    before = plan.slot
    plan.follow(claim)
    assert (plan.claim, plan.phase) == (claim, 0)
    assert plan.slot == before
