"""Decisions: what is done about findings, how much of it, and that it does not flap."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.control import (
    Burst,
    Claims,
    Kind,
    Memory,
    Monitor,
    Observation,
    Settings,
    Verdict,
)
from metronome_opt.control.monitor import Moved
from metronome_opt.errors import InputError
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.control.scenes import obedient, running, three_apart
from tests.tiers import examples

AT_ONCE = Settings(persist=1, minimum_gain=Fraction(1, 10**6))


@st.composite
def drifted(draw: st.DrawFn) -> tuple[Claims, dict[str, Observation]]:
    claims = draw(running())
    late = {name: 5.0 * draw(st.integers(0, claims.period(name) - 1)) for name in claims.offsets}
    return claims, obedient(claims, late_ms=late)


@given(drifted())
@examples(60, deadline=None)
def test_what_was_decided_need_not_be_decided_again(
    case: tuple[Claims, dict[str, Observation]],
) -> None:
    claims, seen = case
    monitor = Monitor(AT_ONCE)
    first = monitor.check(claims, seen, 0.0)
    assert first.claims is not None
    again = monitor.check(first.claims, obedient(first.claims), 1e9)
    assert (again.kind, again.findings) == (Verdict.NOTHING, ())


@given(drifted())
@examples(60, deadline=None)
def test_contention_and_moves_are_those_of_the_claims(
    case: tuple[Claims, dict[str, Observation]],
) -> None:
    claims, seen = case
    decision = Monitor(AT_ONCE).check(claims, seen, 0.0)
    if decision.contention is None:
        return
    assert decision.claims is not None
    told = decision.contention
    assert told.planned <= told.measured
    assert told.claimed == evaluate(claims.reserved, claims.offsets).contention
    planned = evaluate(decision.claims.reserved, decision.claims.offsets).contention
    assert told.planned == planned
    assert (decision.plan is None) == (decision.kind is Verdict.NOTHING)


def test_a_finding_has_to_last_or_to_be_large() -> None:
    claims = three_apart(cushion=2)
    monitor = Monitor(Settings(persist=3, large=6))
    small = obedient(claims, late_ms={"a": 40.0})  # four times its cushion
    plans = [monitor.check(claims, small, 10.0 * at).plan for at in range(3)]
    assert [plan is None for plan in plans] == [True, True, False]
    large = obedient(claims, late_ms={"a": 75.0})
    assert Monitor(Settings(persist=3, large=6)).check(claims, large, 0.0).plan is not None


def test_a_finding_that_comes_and_goes_is_not_believed() -> None:
    claims = three_apart()
    monitor = Monitor(Settings(persist=2, large=100))
    for at in range(10):
        late = {"a": 40.0} if at % 2 else {}
        decision = monitor.check(claims, obedient(claims, late_ms=late), 1000.0 * at)
        assert decision.kind is Verdict.NOTHING
        assert decision.claims == claims


@pytest.mark.slow
def test_a_job_that_flaps_is_moved_less_and_less_often() -> None:
    """It is late by as much again after each check, so that it is found every time."""
    claims = three_apart()
    monitor = Monitor(
        Settings(persist=1, minimum_gain=Fraction(1, 10**4), pause_ms=10_000, longest_pause_ms=1e9)
    )
    moved = []
    for at in range(200):
        now = 1000.0 * at
        decision = monitor.check(claims, obedient(claims, late_ms={"c": 40.0}), now)
        assert decision.claims is not None
        claims = decision.claims
        moved += [now] * (decision.plan is not None)
    gaps = [after - before for before, after in itertools.pairwise(moved)]
    assert 2 < len(moved) < 20
    assert all(sum(1 for at in moved if start <= at < start + 10_000) <= 3 for start in moved)
    assert gaps[-1] >= gaps[0]


def slightly_late() -> tuple[Claims, dict[str, Observation]]:
    """Return two jobs of which one has come to begin 2 slots before the other ends."""
    links = {"n0": 1, "n1": 1}
    claims = Claims(
        network(
            job("a", 200, (0, 60, 900), weight=4, links=links, current_offset=0),
            job("b", 200, (0, 60, 900), links=links, current_offset=100),
            n0=1000,
            n1=1000,
        )
    )
    return claims, obedient(claims, late_ms={"b": -210.0})


def test_a_claim_that_is_put_right_without_a_move_is_told_with_what_a_move_would_gain() -> None:
    decision = Monitor(Settings(persist=1)).check(*slightly_late(), 0.0)
    assert decision.kind is Verdict.NOTHING
    assert decision.claims is not None
    assert decision.claims.offsets["b"] == 58
    # 800 of 1,000 Mbit/s are too many in 2 of 200 slots, on 2 links: 16. What is sent is
    # 5 * 60 / 200 * 900 * 2 = 2,700 by weight; b, a fifth of all weight, would wait 2 slots:
    # 16 / 2,700 - 1 / 50 * (1 + 2 / 200) / 5 = 0.00189.
    assert decision.reason == (
        "b: off its slot by -210.0 ms; b's claim put right: offset 500 -> 290 ms; "
        "weighted contention in Mbit/s: 0 as claimed, 16 as measured; "
        "to move anybody would gain 0.19 %, less than 1 %"
    )


def test_a_lower_price_moves_for_less() -> None:
    settings = Settings(persist=1, price=Fraction(1, 500), minimum_gain=Fraction(1, 200))
    decision = Monitor(settings).check(*slightly_late(), 0.0)
    assert decision.kind is Verdict.REPHASE
    assert decision.reason.endswith(
        "weighted contention in Mbit/s: 0 as claimed, 16 as measured, 0 as planned; "
        "b waits 10 ms (2 slots)"
    )


def test_only_who_was_measured_is_as_claimed() -> None:
    claims = three_apart()
    seen = obedient(claims)
    assert Monitor().check(claims, seen, 0.0).reason == "all is as claimed"
    del seen["c"]
    assert Monitor().check(claims, seen, 0.0).reason == "what was measured is as claimed"
    assert Monitor().check(claims, {}, 0.0).reason == "nobody was measured"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"period_ms": math.nan}, "period_ms: nan: must be a finite number"),
        ({"period_ms": -1.0}, "period_ms: -1.0: must be above 0"),
        ({"period_ms": 0.0}, "period_ms: 0.0: must be above 0"),
        ({"origin_ms": math.inf}, "origin_ms: inf: must be a finite number"),
        ({"origin_error_ms": -1.0}, "origin_error_ms: -1.0: must be at least 0"),
    ],
)
def test_an_observation_of_what_cannot_be_is_refused(values: dict[str, float], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Observation(**values)  # type: ignore[arg-type]
    for wrong in ((math.nan, 1.0, 1.0), (0.0, -1.0, 1.0), (0.0, 1.0, math.inf)):
        with pytest.raises(InputError, match="_m"):
            Burst(*wrong)


def test_resting_jobs_are_not_moved_and_what_they_would_gain_waits() -> None:
    claims = Claims(
        network(
            job("a", 40, (0, 10, 80), current_offset=0),
            job("b", 40, (0, 10, 80), current_offset=12),
        )
    )
    moved = Moved(at_ms=0.0, pause_ms=1e6)
    memory = Memory(moved={"a": moved, "b": moved})
    monitor = Monitor(AT_ONCE, memory)
    late = obedient(claims, late_ms={"a": 40.0})
    decision = monitor.check(claims, late, 1000.0)
    assert (decision.kind, decision.claims) == (Verdict.NOTHING, claims)
    assert "moved not long ago" in decision.reason
    assert monitor.check(claims, late, 2e6).kind is Verdict.REPHASE


def test_a_job_that_is_gone_leaves_its_slots_to_others() -> None:
    instance = network(
        job("a", 40, (0, 20, 80), current_offset=0),
        job("b", 40, (0, 20, 80), current_offset=20),
        job("c", 40, (0, 10, 80), weight=2, current_offset=25),
    )
    decision = Monitor(AT_ONCE).check(Claims(instance), {"a": Observation(gone=True)}, 0.0)
    assert decision.claims is not None
    assert decision.kind is Verdict.REPHASE
    assert set(decision.claims.offsets) == {"b", "c"}
    assert decision.contention is not None
    assert decision.contention.planned == 0


def test_changed_traffic_and_period_become_the_claim() -> None:
    claims = three_apart()
    due = claims.next_due_ms("c", 5000.0)
    seen = Observation(210.0, due, (Burst(0.0, 30.0, 90.0),))
    decision = Monitor(AT_ONCE).check(claims, {"c": seen}, 0.0)
    assert {each.kind for each in decision.findings} == {Kind.PERIOD, Kind.TRAFFIC}
    assert decision.claims is not None
    changed = decision.claims.instance.job("c")
    assert [(each.start, each.length, each.rate) for each in changed.phases] == [(0, 6, 90)]
    assert changed.period == 42
    assert decision.claims.period("c") == 45  # with 40 it repeats after 360, not after 840


def test_two_blocks_that_are_wrong_are_solved_both() -> None:
    jobs = [
        job(f"{link}-{index}", 40, (0, 10, 80), links={link: 1}, current_offset=12 * index)
        for link in ("one", "two")
        for index in range(2)
    ]
    claims = Claims(network(*jobs, one=100, two=100))
    late = obedient(claims, late_ms={"one-0": 40.0, "two-0": 40.0})
    decision = Monitor(AT_ONCE).check(claims, late, 0.0)
    assert decision.kind is Verdict.ALL
    assert decision.contention is not None
    assert decision.contention.planned == 0
