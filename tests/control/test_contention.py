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
from metronome_opt.control.watch import carry_out, claims_of, observation

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
from metronome_opt.profiles import from_series
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
STEADY = Pattern((Fraction(0), Fraction(700)), (Fraction(300 * RATE),), (Fraction(RATE),))
SENDS_MORE = Pattern((Fraction(0), Fraction(610)), (Fraction(390 * RATE),), (Fraction(RATE),))
SLOWER = Pattern((Fraction(0), Fraction(550)), (Fraction(300 * RATE),), (Fraction(600),))


def decided(claimed: ClusterState, running: ClusterState, pattern: Pattern) -> Decision:
    """Let jobs run freely from other offsets than claimed; return what is decided in the end.

    Counters of bytes are read every 20 ms.
    """
    engine = Engine(
        {link.name: link.capacity for link in running.cluster.links},
        [Runner(name, pattern, 1, None, 2) for name in running.claims],
        conditions=Conditions(jitter=0.002),
        seed=5,
        watched=[link.name for link in running.cluster.links],
    )
    for index, (name, each) in enumerate(running.claims.items()):
        engine.enter(index, running.flows(name), at=5.0 * each.offset)
    engine.run(END_MS)
    trace, claims = engine.trace(), claims_of(claimed)
    assert claims is not None
    seen = {}
    for name in running.claims:
        mine = trace[(trace["job"] == name) & (trace["link"] == "n0")]
        times = np.append(mine["time_ms"], END_MS)
        sent = np.append(0.0, np.cumsum(mine["rate_mbps"] * np.diff(times)))
        at = np.arange(times[0], END_MS, 20.0)
        counter = pd.Series(125 * np.interp(at, times, sent), index=at / 1000)
        seen[name] = observation(claims, name, from_series(counter, counter=True))
    return Monitor(AT_ONCE).check(claims, seen, END_MS)


@pytest.mark.parametrize("offset", [0, 20, 40, 50])
def test_contention_moves_jobs_and_changes_no_claim(offset: int) -> None:
    claimed = state_of(claim("a", 0), claim("b", 100))
    before = dict(claimed.claims)
    # b begins elsewhere than it claims, in the middle of a, and both get later and later.
    decision = decided(claimed, state_of(claim("a", 0), claim("b", offset)), STEADY)
    assert {each.kind for each in decision.findings} == {Kind.DRIFTED}
    carry_out(claimed, decision)
    for name, each in before.items():
        after = claimed.claims[name]
        assert (after.gang.phases, after.gang.period) == (each.gang.phases, each.gang.period)
        assert after.period == 200


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [(STEADY, set()), (SENDS_MORE, {Kind.TRAFFIC}), (SLOWER, {Kind.TRAFFIC})],
)
def test_what_a_job_changed_by_itself_is_found(changed: Pattern, kinds: set[Kind]) -> None:
    """Alone on its links: whoever keeps its period gets out of nobody's way."""
    alone = state_of(claim("a", 0))
    findings = decided(alone, alone, changed).findings
    assert {each.kind for each in findings} - {Kind.DRIFTED} == kinds
