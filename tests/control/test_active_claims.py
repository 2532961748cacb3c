"""Claims of a cluster's state as a monitor knows them, and decisions brought back into it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from metronome_opt.control.watch import carry_out, claims_of

from metronome_opt.control import Burst, Decision, Monitor, Observation, Settings
from metronome_opt.scheduling.gang import Reservation
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.views import snapshot_of
from tests.control.scenes import obedient
from tests.control.wires import claim, state_of, two_apart

AT_ONCE = Settings(persist=1)
NOW_MS = 1_700_000_000_000.0


def decide(
    state: ClusterState,
    changes: dict[str, Observation] | None = None,
    *,
    late_ms: dict[str, float] | None = None,
    capacities: dict[str, float] | None = None,
    settings: Settings = AT_ONCE,
) -> Decision:
    """Return what is decided if all jobs obey but for some."""
    claims = claims_of(state)
    assert claims is not None
    seen = obedient(claims, at_ms=NOW_MS, late_ms=late_ms) | (changes or {})
    return Monitor(settings).check(claims, seen, NOW_MS, capacities)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([claim("a", 0), claim("b", 100)], {"a": 20, "b": 20}),
        # 41 slots after a and 39 before it: each may use half of the smaller gap, in whole slots.
        ([claim("a", 0), claim("b", 101)], {"a": 19, "b": 19}),
        # On n1 c begins 10 slots after a; on n2 d begins 30 after c.
        (
            [
                claim("a", 0),
                claim("b", 100),
                claim("c", 70, length=10, nodes="n1 n2"),
                claim("d", 110, length=10, nodes="n2 n3"),
            ],
            {"a": 5, "b": 5, "c": 5, "d": 15},
        ),
        # Where something is late there is none; whom nobody can disturb may be anywhere.
        (
            [claim("a", 0), claim("b", 30), claim("c", 0, nodes="n2 n3")],
            {"a": 0, "b": 0, "c": 100},
        ),
        ([claim("a", 0, rate=400), claim("b", 0, rate=400)], {"a": 100, "b": 100}),
        ([claim("a", 0), claim("b", 100, period=190, stretch=10)], {"a": 20, "b": 20}),
    ],
)
def test_each_of_two_jobs_may_use_half_of_what_is_between_them(
    claims: list[Reservation], expected: dict[str, int]
) -> None:
    found = claims_of(state_of(*claims, nodes=4))
    assert found is not None
    assert found.cushions == expected
    assert found.stretch == {each.job: each.stretch for each in claims}
    assert found.hyperperiod == 400


def test_jobs_that_use_no_link_have_no_claims() -> None:
    alone = claim("alone", 0, nodes="n0 n0")
    assert claims_of(state_of()) is None
    assert claims_of(state_of(alone)) is None
    claims = claims_of(state_of(alone, claim("a", 7)))
    assert claims is not None
    assert dict(claims.offsets) == {"a": 7}


def test_a_changed_period_becomes_a_claim_that_divides_the_hyperperiod() -> None:
    state = two_apart()
    seen = Observation(
        period_ms=1700.0, origin_ms=NOW_MS + 350.0, bursts=(Burst(0.0, 300.0, 900.0),)
    )
    assert carry_out(state, decide(state, {"b": seen}))
    after = state.claims["b"]
    # 340 slots; of the divisors of 400 the next one is 400.
    assert (after.gang.period, after.stretch, after.period) == (340, 60, 400)
    assert after.gang.max_stretch == 60
    assert after.gang.phases == two_apart().claims["b"].gang.phases
    assert state.claims["a"] == two_apart().claims["a"]


@pytest.mark.parametrize("period_ms", [1250.0, 2660.0])
def test_a_period_that_fits_none_is_told_and_the_claim_stays(period_ms: float) -> None:
    """250 slots would have to become 400, longer by more than a quarter; 532 are too many."""
    state = two_apart()
    before = snapshot_of(state)
    seen = Observation(
        period_ms=period_ms, origin_ms=NOW_MS + 350.0, bursts=(Burst(0.0, 300.0, 900.0),)
    )
    decision = decide(state, {"b": seen})
    assert [str(each) for each in decision.findings] == [
        f"b: period in ms {period_ms:,.0f} instead of 1,000"
    ]
    slots = round(period_ms / 5)
    assert (
        f"b keeps its claim: no period from {slots} to {slots * 5 // 4} slots divides the "
        "hyperperiod of 400"
    ) in decision.reason
    assert not carry_out(state, decision)
    assert snapshot_of(state) == before


def test_others_are_put_right_beside_a_job_that_keeps_its_claim() -> None:
    state = state_of(claim("a", 0, length=20), claim("b", 100, length=20))
    seen = Observation(period_ms=1250.0, origin_ms=NOW_MS, bursts=(Burst(0.0, 100.0, 900.0),))
    decision = decide(state, {"b": seen}, late_ms={"a": 210.0})
    assert carry_out(state, decision)
    assert (state.claims["a"].offset, state.claims["b"].offset) == (42, 100)


@pytest.mark.parametrize(("rate", "kept"), [(500, 400), (300, 300)])
def test_in_an_exclusive_cluster_no_job_gets_more_than_it_was_given(rate: int, kept: int) -> None:
    state = state_of(claim("a", 0, rate=500), claim("b", 100, rate=400), mode="exclusive")
    seen = Observation(
        period_ms=1000.0, origin_ms=NOW_MS + 500.0, bursts=(Burst(0.0, 300.0, float(rate)),)
    )
    decision = decide(state, {"b": seen})
    assert decision.findings
    assert carry_out(state, decision) == (rate == kept)
    (phase,) = state.claims["b"].gang.phases
    assert phase.rate == kept


def test_jobs_that_use_no_link_stay_when_all_others_are_gone() -> None:
    state = state_of(claim("a", 0), claim("alone", 0, nodes="n0 n0"))
    assert carry_out(state, decide(state, {"a": Observation(gone=True)}))
    assert list(state.claims) == ["alone"]


@pytest.mark.parametrize("measured", [940.0, 0.0])
def test_a_link_carries_what_was_measured(measured: float) -> None:
    state = two_apart()
    assert carry_out(state, decide(state, capacities={"n0": measured}))
    assert (state.room("n0"), state.room("n1")) == (measured, 1000)


@pytest.mark.parametrize("measured", [0.0, 1.0])
def test_a_link_that_failed_and_is_measured_as_such_is_as_before(measured: float) -> None:
    state = two_apart()
    state.set_capacity("n0", 0)
    decision = decide(state, capacities={"n0": measured})
    assert decision.findings == ()
    assert not carry_out(state, decision)
    assert state.room("n0") == 0


def test_a_link_that_failed_stays_so_until_more_is_believed() -> None:
    state = state_of(claim("a", 0), claim("c", 0, nodes="n2 n3"), nodes=4)
    state.set_capacity("n2", 0)
    # a is gone, which counts at once; what n2 carries has to be seen again.
    settings = Settings(persist=2, large=1e9)
    gone = {"a": Observation(gone=True)}
    decision = decide(state, gone, capacities={"n2": 940.0}, settings=settings)
    assert len(decision.findings) == 2
    assert carry_out(state, decision)
    assert list(state.claims) == ["c"]
    assert state.room("n2") == 0


@pytest.mark.parametrize("kind", ["gone", "drifted"])
def test_a_decision_that_is_carried_out_twice_is_carried_out_once(kind: str) -> None:
    state = two_apart()
    if kind == "gone":
        decision = decide(state, {"b": Observation(gone=True)})
    else:
        decision = decide(state, late_ms={"b": -300.0})
    carry_out(state, decision)
    before = snapshot_of(state)
    assert not carry_out(state, replace(decision))
    assert snapshot_of(state) == before
