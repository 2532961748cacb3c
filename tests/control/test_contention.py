"""What others did to a job is no change of its own, and what is its own is found all the same."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.control import (
    Burst,
    Claims,
    Decision,
    Kind,
    Monitor,
    Observation,
    Settings,
    detect,
    undisturbed,
)
from metronome_opt.control.reading import observation
from metronome_opt.control.watch import carry_out, claims_of
from metronome_opt.profiles.samples import Samples, from_series
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.simulate import Conditions
from metronome_opt.simulate.engine import Engine
from metronome_opt.simulate.runner import Pattern, Runner
from tests.builders import job, network
from tests.control.scenes import obedient, running
from tests.control.wires import RATE, claim, state_of

AT_ONCE = Settings(persist=1)


def found(claims: Claims, seen: dict[str, Observation]) -> list[tuple[Kind, str]]:
    return [(each.kind, each.name) for each in detect(claims, undisturbed(claims, seen))]


def two_of(rate: int, *, second: int = 10) -> Claims:
    """Return two bursts of 10 slots of 5 ms that begin so many slots apart in a period of 40."""
    return Claims(
        network(
            job("a", 40, (0, 10, rate), current_offset=0),
            job("b", 40, (0, 10, rate), current_offset=second),
        ),
        cushions={"a": 2, "b": 2},
    )


def seen_of(claims: Claims, name: str, **changes: object) -> dict[str, Observation]:
    """Return what is measured if one of two jobs is as said, and the other obeys."""
    everybody = obedient(claims)
    return {**everybody, name: replace(everybody[name], **changes)}  # type: ignore[arg-type]


# ------------------------------------------------------------------ held up


def test_a_burst_that_meets_another_one_may_take_longer() -> None:
    claims = two_of(80)  # b begins as a ends, and is 50 ms long; at half the rate it takes 100
    seen = seen_of(claims, "a", bursts=(Burst(0, 100, 40),))
    (burst,) = undisturbed(claims, seen)["a"].bursts or ()
    assert (burst.start_ms, burst.length_ms, burst.rate_mbps) == pytest.approx((0, 50, 80))
    assert found(claims, seen) == []


@given(st.floats(0.0, 60.0))
def test_a_period_that_is_longer_by_what_the_burst_lost_is_the_claimed_one(lost: float) -> None:
    claims = two_of(80)
    burst = Burst(0, 50 + lost, 80 * 50 / (50 + lost))
    seen = seen_of(claims, "a", period_ms=200 + lost, bursts=(burst,))
    assert undisturbed(claims, seen)["a"].period_ms == pytest.approx(200)
    assert found(claims, seen) == []


def test_a_job_with_slack_makes_up_for_what_its_burst_lost() -> None:
    claims = two_of(80)
    seen = seen_of(claims, "a", period_ms=201.0, bursts=(Burst(0, 70, 80 * 50 / 70),))
    assert undisturbed(claims, seen)["a"].period_ms == pytest.approx(200)


def test_a_burst_after_one_that_was_held_up_is_late_by_that() -> None:
    claims = Claims(
        network(
            job("a", 40, (0, 10, 80), (20, 4, 80), current_offset=0),
            job("b", 40, (0, 10, 80), current_offset=5),
        )
    )
    late = (Burst(0, 75, 80 * 50 / 75), Burst(125, 20, 80))
    seen = seen_of(claims, "a", period_ms=225.0, bursts=late)
    assert found(claims, seen) == []
    later = (late[0], Burst(145, 20, 80))  # 20 ms more than the 25 that were lost
    assert found(claims, seen_of(claims, "a", bursts=later)) == [(Kind.TRAFFIC, "a")]


def test_a_link_that_carries_less_holds_up_a_job_by_itself() -> None:
    claims = Claims(network(job("a", 40, (0, 10, 80), current_offset=0)))
    seen = seen_of(claims, "a", bursts=(Burst(0, 100, 40),))
    assert [each.kind for each in detect(claims, undisturbed(claims, seen))] == [Kind.TRAFFIC]
    assert detect(claims, undisturbed(claims, seen, {"link": 40.0})) == ()


def test_jobs_that_hold_each_other_up_are_re_phased_and_claim_what_they_did() -> None:
    """Both begin at once and take twice as long, so that nobody keeps the period."""
    claims = two_of(80, second=20)
    both = Observation(period_ms=250.0, origin_ms=10_000.0, bursts=(Burst(0, 100, 40),))
    decision = Monitor(AT_ONCE).check(claims, {"a": both, "b": both}, 10_000.0)
    assert {each.kind for each in decision.findings} == {Kind.DRIFTED}
    assert decision.plan is not None
    assert decision.claims is not None
    for name in "ab":
        before, after = claims.instance.job(name), decision.claims.instance.job(name)
        assert (after.phases, after.period) == (before.phases, before.period)
    assert decision.contention is not None
    assert decision.contention.planned == 0


# ------------------------------------------------------------------ its own


def test_a_lower_rate_is_found_where_nobody_is_met() -> None:
    slower = (Burst(0, 75, 80 * 50 / 75),)
    out_of_the_way = two_of(80, second=22)
    assert found(out_of_the_way, seen_of(out_of_the_way, "a", bursts=slower)) == [
        (Kind.TRAFFIC, "a")
    ]
    with_room = two_of(50, second=5)  # together no more than the 100 that the link carries
    slower = (Burst(0, 75, 50 * 50 / 75),)
    assert found(with_room, seen_of(with_room, "a", period_ms=225.0, bursts=slower)) == [
        (Kind.PERIOD, "a"),
        (Kind.TRAFFIC, "a"),
    ]


def test_what_slides_may_have_met_anybody() -> None:
    claims = two_of(80, second=22)
    slower = (Burst(0, 75, 80 * 50 / 75),)
    assert found(claims, seen_of(claims, "a", period_ms=225.0, bursts=slower)) == []
    one = seen_of(claims, "a", bursts=slower)
    sliding = {**one, "b": replace(one["b"], period_ms=210.0)}
    assert found(claims, sliding) == [(Kind.PERIOD, "b")]


def test_who_is_gone_holds_up_nobody() -> None:
    claims = two_of(80)
    slower = seen_of(claims, "a", bursts=(Burst(0, 100, 40),))
    assert found(claims, {**slower, "b": Observation(gone=True)}) == [
        (Kind.TRAFFIC, "a"),
        (Kind.GONE, "b"),
    ]


@pytest.mark.parametrize(
    ("period_ms", "burst", "kind"),
    [
        (230.0, Burst(0, 50, 80), Kind.PERIOD),  # computes for longer
        (200.0, Burst(0, 80, 80), Kind.TRAFFIC),  # sends more
        (260.0, Burst(0, 80, 50), Kind.PERIOD),  # is held up for 30 ms and computes for longer
        (200.0, Burst(0, 120, 50), Kind.TRAFFIC),  # is held up and sends more
    ],
)
def test_a_change_of_its_own_is_found_beside_contention(
    period_ms: float, burst: Burst, kind: Kind
) -> None:
    claims = two_of(80)
    seen = seen_of(claims, "a", period_ms=period_ms, bursts=(burst,))
    assert (kind, "a") in found(claims, seen)


def test_a_claim_is_put_right_without_what_others_did() -> None:
    claims = two_of(80)
    burst = Burst(0, 100, 60)  # 75 ms at 80, and 25 that it was held up
    seen = seen_of(claims, "a", period_ms=265.0, bursts=(burst,))
    decision = Monitor(AT_ONCE).check(claims, seen, 20_000.0)
    assert decision.claims is not None
    after = decision.claims.instance.job("a")
    assert [(each.start, each.length, each.rate) for each in after.phases] == [(0, 15, 80)]
    assert after.period == 48  # of 5 ms: 265 less 25


@given(running())
def test_who_does_as_claimed_is_not_changed(claims: Claims) -> None:
    seen = obedient(claims)
    assert undisturbed(claims, seen) == seen


@given(running(), st.data())
def test_no_volume_is_lost_and_nothing_gets_longer(claims: Claims, data: st.DataObject) -> None:
    factors = st.floats(0.3, 3.0)
    seen = {
        name: replace(
            each,
            period_ms=(each.period_ms or 0.0) * data.draw(factors),
            bursts=tuple(
                replace(
                    burst,
                    length_ms=burst.length_ms * data.draw(factors),
                    rate_mbps=burst.rate_mbps * data.draw(factors),
                )
                for burst in each.bursts or ()
            ),
        )
        for name, each in obedient(claims).items()
    }
    for name, after in undisturbed(claims, seen).items():
        before = seen[name]
        assert (after.period_ms or 0.0) <= (before.period_ms or 0.0)
        for own, burst in zip(after.bursts or (), before.bursts or (), strict=True):
            assert math.isclose(own.volume, burst.volume, rel_tol=1e-9)
            assert own.length_ms <= burst.length_ms * (1 + 1e-9)


# ------------------------------------------------------------------ from the simulator on

END_MS = 40_000.0


def pattern(*, sends: float = 1.0, computes: float = 1.0, rate: int = RATE) -> Pattern:
    """Return what a job of `wires.claim` does, or one that claims something else than it does."""
    volume = Fraction(sends) * 300 * RATE
    return Pattern((Fraction(0), Fraction(computes) * 700), (volume,), (Fraction(rate),))


def decided(
    state: ClusterState, patterns: dict[str, Pattern], *, jitter: float = 0.002
) -> tuple[Decision, dict[str, Samples]]:
    """Let jobs run freely from their offsets on, and return what is decided in the end."""
    engine = Engine(
        {link.name: link.capacity for link in state.cluster.links},
        [Runner(job, patterns[job], 1, None, 2) for job in state.claims],
        conditions=Conditions(jitter=jitter),
        seed=5,
        watched=[link.name for link in state.cluster.links],
    )
    for index, (name, each) in enumerate(state.claims.items()):
        engine.enter(index, state.flows(name), at=5.0 * each.offset)
    engine.run(END_MS)
    sent = {job: _counted(engine, job) for job in state.claims}
    claims = claims_of(state)
    assert claims is not None
    seen = {job: observation(claims, job, samples) for job, samples in sent.items()}
    return Monitor(AT_ONCE).check(claims, seen, END_MS), sent


def _counted(engine: Engine, job: str) -> Samples:
    """Return the samples of a counter of bytes that is read every 20 ms."""
    trace = engine.trace()
    mine = trace[(trace["job"] == job) & (trace["link"] == "n0")]
    times = np.append(mine["time_ms"], END_MS)
    sent = np.append(0.0, np.cumsum(mine["rate_mbps"] * np.diff(times)))
    at = np.arange(times[0], END_MS, 20.0)
    return from_series(pd.Series(125 * np.interp(at, times, sent), index=at / 1000), counter=True)


def together() -> ClusterState:
    """Return two jobs that claim to be out of each other's way."""
    return state_of(claim("a", 0), claim("b", 100))


@pytest.mark.parametrize("offset", [0, 20, 40, 50])
def test_contention_moves_jobs_and_changes_no_claim(offset: int) -> None:
    claimed = together()
    before = {job: each.gang for job, each in claimed.claims.items()}
    # b begins elsewhere than it claims, in the middle of a, and both get later and later.
    running = state_of(claim("a", 0), claim("b", offset))
    _, sent = decided(running, {"a": pattern(), "b": pattern()})
    claims = claims_of(claimed)
    assert claims is not None
    seen = {job: observation(claims, job, samples) for job, samples in sent.items()}
    decision = Monitor(AT_ONCE).check(claims, seen, END_MS)
    assert decision.findings
    assert {each.kind for each in decision.findings} == {Kind.DRIFTED}
    carry_out(claimed, decision)
    for name, gang in before.items():
        after = claimed.claims[name]
        assert (after.gang.phases, after.gang.period, after.period) == (
            gang.phases,
            gang.period,
            200,
        )


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        (pattern(), set()),
        (pattern(sends=1.3, computes=1 - 0.3 * 3 / 7), {Kind.TRAFFIC}),
        (pattern(rate=600, computes=1 - 150 / 700), {Kind.TRAFFIC}),  # 450 instead of 300 ms
    ],
)
def test_what_a_job_changed_by_itself_is_found(changed: Pattern, kinds: set[Kind]) -> None:
    """Alone on its links: whoever keeps its period gets out of nobody's way."""
    decision, _ = decided(state_of(claim("a", 0)), {"a": changed})
    assert {each.kind for each in decision.findings} - {Kind.DRIFTED} == kinds
