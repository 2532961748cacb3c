"""What counts as a finding, and what is within tolerance or doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.control import Burst, Kind, Observation, detect
from metronome_opt.errors import InputError
from tests.control.scenes import obedient, three_apart


@pytest.mark.parametrize(("late", "found"), [(5.0, False), (5.1, True), (-5.1, True), (-5, False)])
def test_a_job_has_drifted_beyond_its_cushion_of_one_slot(late: float, found: bool) -> None:
    claims = three_apart(cushion=1)
    findings = detect(claims, obedient(claims, late_ms={"b": late}))
    assert [each.kind for each in findings] == [Kind.DRIFTED] * found
    if found:
        assert str(findings[0]) == f"b: off its slot by {late:+,.1f} ms"
        assert findings[0].measured == pytest.approx(late)
        assert findings[0].name == "b"
    # A drift is the shorter way round: of a period of 200 ms.
    (finding,) = detect(claims, obedient(claims, late_ms={"a": 190.0}))
    assert finding.measured == pytest.approx(-10)


def test_what_the_measurement_is_not_sure_of_is_no_finding() -> None:
    claims = three_apart()
    late = obedient(claims, late_ms={"b": 20.0})["b"]
    assert detect(claims, {"b": late})
    assert detect(claims, {"b": replace(late, origin_error_ms=20.0)}) == ()
    longer = Observation(period_ms=210.0)
    assert detect(claims, {"b": longer})[0].kind is Kind.PERIOD
    assert detect(claims, {"b": replace(longer, period_error_ms=10.0)}) == ()


def test_a_changed_period_explains_the_drift() -> None:
    claims = three_apart()
    late = obedient(claims, late_ms={"b": 50.0})["b"]
    findings = detect(claims, {"b": replace(late, period_ms=220.0)})
    assert [each.kind for each in findings] == [Kind.PERIOD]
    assert (findings[0].claimed, findings[0].measured) == (200, 220)


@pytest.mark.parametrize(
    ("burst", "what"),
    [
        (Burst(0, 50, 80), None),
        (Burst(0, 60, 70), "bursts[0] length in ms"),
        (Burst(0, 50, 87), None),
        (Burst(0, 50, 89), "bursts[0] volume in Mbit"),
        (Burst(0, 40, 100), "bursts[0] length in ms"),
        (Burst(15, 50, 80), "bursts[0] start in ms"),
        (Burst(195, 50, 80), None),  # 5 ms early
        (Burst(0, 50, 89, rate_error_mbps=10), None),
    ],
)
def test_traffic_is_volume_length_and_place(burst: Burst, what: str | None) -> None:
    findings = detect(three_apart(), {"b": Observation(bursts=(burst,))})
    assert [each.what for each in findings] == ([what] if what else [])
    assert {each.kind for each in findings} <= {Kind.TRAFFIC}


def test_bursts_are_counted() -> None:
    two = (Burst(0, 25, 80), Burst(30, 25, 80))
    (finding,) = detect(three_apart(), {"b": Observation(bursts=two)})
    assert (finding.what, finding.claimed, finding.measured) == ("number of bursts", 1, 2)


@given(st.sampled_from(["jobs", "links"]))
def test_what_the_claims_do_not_name_is_refused(where: str) -> None:
    observations = {"z": Observation()} if where == "jobs" else {}
    capacities = {"z": 1.0} if where == "links" else {}
    with pytest.raises(InputError, match="'z': the claims do not name it"):
        detect(three_apart(), observations, capacities)
