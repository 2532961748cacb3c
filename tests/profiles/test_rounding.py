from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.throughput import measure
from metronome_opt.errors import InputError
from metronome_opt.instance import Phase
from metronome_opt.profiles import Burst, Profile, profile
from tests.profiles.cases import job, samples_of

FOUND = profile(measure(job(), 0.021))


def burst(start: float, length: float, rate: float) -> Burst:
    return Burst(start, length, rate, 0.0, 0.0, 0.0)


def of(*bursts: Burst, period: float = 100.0) -> Profile:
    return replace(FOUND, period_ms=period, bursts=bursts)


def test_bursts_on_the_grid_stay_as_they_are() -> None:
    found = of(burst(0, 20, 300), burst(40, 10, 200)).phases(10)
    assert found == (Phase(start=0, length=2, rate=300), Phase(start=4, length=1, rate=200))


def test_a_burst_gets_whole_slots_and_keeps_its_volume() -> None:
    # 25 ms at 300 Mbit/s are 250 Mbit/s in three slots of 10 ms.
    assert of(burst(0, 25, 300)).phases(10) == (Phase(start=0, length=3, rate=250),)


def test_a_hair_more_than_a_slot_does_not_take_another() -> None:
    assert of(burst(0, 20.5, 300)).phases(10) == (Phase(start=0, length=2, rate=308),)


def test_bursts_that_abut_do_not_overlap() -> None:
    found = of(burst(0, 25, 300), burst(25, 25, 100)).phases(10)
    assert found == (Phase(start=0, length=3, rate=250), Phase(start=3, length=2, rate=125))


def test_bursts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="take 4 slots, the period has 3; use shorter slots"):
        of(burst(0, 95, 300)).phases(30)
    with pytest.raises(InputError, match="take 10 slots, the period has 9"):
        of(burst(0, 95, 300)).phases(10, period_slots=9)


def test_no_period_no_phases() -> None:
    with pytest.raises(InputError, match="no phases: silent"):
        profile(samples_of([0.0] * 100)).phases(10)


@given(
    st.lists(
        st.tuples(st.floats(5, 50), st.floats(5, 50), st.floats(1, 1e5)), min_size=1, max_size=5
    ),
    st.integers(1, 10),
)
def test_phases_carry_the_volume_and_hardly_more(
    parts: list[tuple[float, float, float]], slot_ms: int
) -> None:
    bursts, at = [], 0.0
    for length, pause, rate in parts:
        bursts.append(burst(at, length, rate))
        at += length + pause
    phases = of(*bursts, period=at + 100).phases(slot_ms)
    for phase, one in zip(phases, bursts, strict=True):
        volume = one.length_ms * one.rate_mbps
        given = phase.length * slot_ms * phase.rate
        assert volume * (1 - 1e-9) <= given <= volume + phase.length * slot_ms
    assert all(a.end <= b.start for a, b in pairwise(phases))
