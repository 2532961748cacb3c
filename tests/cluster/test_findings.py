"""Differences from claims, without what other jobs did, and claims corrected by them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.cluster.findings import correct_claims, find_differences, undisturbed
from metronome_opt.cluster.gates import Observation
from metronome_opt.slowdown.claims import Claims
from tests.builders import job, network

SLOT_MS = 5


def two(rate: int = 80, *, second: int = 10, gated: bool = True, hyperperiod: int = 480) -> Claims:
    """Return two bursts of 10 slots that begin so many slots apart in a period of 40.

    The link carries 100 Mbit/s. Jobs compute for 150 ms of 200.
    """
    return Claims(
        network(
            job("a", 40, (0, 10, rate), current_offset=0),
            job("b", 40, (0, 10, rate), current_offset=second),
        ),
        hyperperiod,
        cushions={"a": 2, "b": 2},
        gated={"a": gated, "b": gated},
    )


def seen(
    computing_ms: float = 150, length_ms: float = 50, claimed_ms: float = 50, waited_ms: float = 0
) -> Observation:
    """Return the mean iteration of one burst; `claimed_ms` is its length at the claimed rate."""
    period_ms = computing_ms + length_ms + waited_ms
    return Observation(period_ms, computing_ms, length_ms, claimed_ms)


def found(claims: Claims, **observations: Observation) -> list[str]:
    """Return what is found after what other jobs did was taken out: kind and job."""
    findings = find_differences(claims, undisturbed(claims, observations))
    return [f"{each.kind} {each.job}" for each in findings]


@pytest.mark.parametrize(
    ("observation", "findings"),
    [
        (seen(), []),
        (seen(152), []),  # half a slot
        (seen(153), ["period a"]),
        (seen(147), ["period a"]),
        (seen(145, 55, 55), []),  # a slot longer
        (seen(144, 56, 56), ["traffic a"]),
        (seen(150, 44, 44), ["period a", "traffic a"]),
        (seen(waited_ms=4), []),  # 2 % late
        (seen(waited_ms=5), ["late a"]),
        (Observation(210.0, 160.0, 50.0, 50.0, error_ms=10.0), ["late a"]),  # not sure
    ],
)
def test_what_is_beyond_its_tolerance_is_found(
    observation: Observation, findings: list[str]
) -> None:
    claims = two(second=20)
    assert [f"{f.kind} {f.job}" for f in find_differences(claims, {"a": observation})] == findings


def test_bursts_of_an_iteration_grow_alike() -> None:
    claims = Claims(network(job("a", 40, (0, 4, 80), (20, 4, 80), current_offset=0)), 480)
    # It computes for 80 ms after each burst as claimed, but sends for 40 and not for 20 ms.
    observation = Observation(240.0, 160.0, 80.0, 80.0)
    assert [str(each) for each in find_differences(claims, {"a": observation})] == [
        "a: period without waiting in ms 240 instead of 200",
        "a: bursts in ms 80 instead of 40",
    ]
    after, _ = corrected(claims, a=observation)
    phases = [(each.start, each.length) for each in after.instance.job("a").phases]
    assert phases == [(0, 8), (24, 8)]


# ------------------------------------------------------------------ without what others did


@given(st.floats(0.0, 60.0))
def test_a_burst_that_meets_another_one_may_take_longer(lost: float) -> None:
    claims = two()  # b begins as a ends
    observation = undisturbed(claims, {"a": seen(length_ms=50 + lost)})["a"]
    assert observation.burst_ms == pytest.approx(50)
    assert observation.period_ms == pytest.approx(200)
    assert found(claims, a=seen(length_ms=50 + lost)) == []


@pytest.mark.parametrize(
    ("claims", "findings"),
    [
        (two(second=22), ["period a", "traffic a"]),  # meets none in its slots
        (two(50), ["period a", "traffic a"]),  # together no more than the link carries
        (two(second=22, gated=False), []),  # slides, and may have met the other one
    ],
)
def test_a_longer_burst_is_a_change_of_its_own_if_none_is_in_the_way(
    claims: Claims, findings: list[str]
) -> None:
    assert found(claims, a=seen(length_ms=75)) == findings


def test_a_job_that_does_not_fit_its_period_may_have_delayed_others() -> None:
    claims = two(second=22)
    assert found(claims, a=seen(length_ms=75), b=seen(computing_ms=170)) == ["period b"]


@pytest.mark.parametrize(
    ("observation", "finding"),
    [
        (seen(computing_ms=180), "period a"),
        (seen(120, 80, 80), "traffic a"),  # sends more
        (seen(180, 80, 50), "period a"),  # is delayed for 30 ms and computes for longer
        (seen(120, 120, 80), "traffic a"),  # is delayed and sends more
    ],
)
def test_a_change_of_its_own_is_found_beside_delays(observation: Observation, finding: str) -> None:
    assert finding in found(two(), a=observation)


@given(st.lists(st.floats(1.0, 200.0), min_size=4, max_size=4), st.booleans(), st.integers(0, 39))
def test_delays_make_nothing_longer_and_no_burst_shorter_than_claimed(
    numbers: list[float], gated: bool, second: int
) -> None:
    claims = two(second=second, gated=gated)
    before = {"a": seen(100, *numbers[:2]), "b": seen(150, *numbers[2:])}
    for name, after in undisturbed(claims, before).items():
        length, own, claimed = before[name].burst_ms, after.burst_ms, after.claimed_ms
        assert own in (length, claimed)
        assert own <= length
        assert after.period_ms <= before[name].period_ms
        assert math.isclose(after.own_ms, 100 + own if name == "a" else 150 + own)


# ------------------------------------------------------------------ corrected claims


def corrected(claims: Claims, **observations: Observation) -> tuple[Claims, dict[str, str]]:
    without_delays = undisturbed(claims, observations)
    return correct_claims(claims, find_differences(claims, without_delays), without_delays)


def test_claims_are_corrected_without_what_others_did() -> None:
    claims, kept = corrected(two(), a=seen(190, 100, 75))  # 75 ms at its rate, delayed by 25
    after = claims.instance.job("a")
    assert [(each.start, each.length, each.rate) for each in after.phases] == [(0, 15, 80)]
    assert (after.period, claims.period("a")) == (53, 60)  # of 5 ms; 60 divides 480
    assert claims.instance.job("b") == two().instance.job("b")
    assert kept == {}


def test_an_iteration_that_fits_its_stretched_period_keeps_it() -> None:
    instance = network(job("a", 38, (0, 10, 80), current_offset=30, max_stretch=2))
    claims = Claims(instance, 40, stretch={"a": 2})
    after, _ = corrected(claims, a=seen(145, 50))  # 195 of 200 ms
    assert (after.instance.job("a").period, after.stretch["a"], after.offsets["a"]) == (39, 1, 30)


def test_an_iteration_longer_than_the_hyperperiod_keeps_its_claim() -> None:
    claims = two(hyperperiod=40)
    after, kept = corrected(claims, a=seen(computing_ms=260))
    assert after == claims
    assert kept == {
        "a": "a keeps its claim: its iteration of 62 slots is longer than the hyperperiod of 40"
    }
