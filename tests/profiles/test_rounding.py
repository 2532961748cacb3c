"""Bursts as measured, in the slots of a claim."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.profiles import Burst, Profile


def of(*bursts: tuple[float, float, float], period: float | None = 100.0) -> Profile:
    found = tuple(Burst(*each) for each in bursts)
    return Profile(
        period_ms=period, bursts=found, mean_mbps=1.0, confidence=1.0, missing=0.0, reason="silent"
    )


@pytest.mark.parametrize(
    ("bursts", "phases"),
    [
        ([(0, 20, 300), (40, 10, 200)], [(0, 2, 300), (4, 1, 200)]),  # on the grid
        ([(0, 25, 300)], [(0, 3, 250)]),  # whole slots; the volume is kept
        ([(0, 20.5, 300)], [(0, 2, 308)]),  # a hair more takes no other slot
        ([(0, 25, 300), (25, 25, 100)], [(0, 3, 250), (3, 2, 125)]),  # no overlap
    ],
)
def test_bursts_get_whole_slots(
    bursts: list[tuple[float, float, float]], phases: list[tuple[int, int, int]]
) -> None:
    found = of(*bursts).phases(10)
    assert [(each.start, each.length, each.rate) for each in found] == phases


def test_bursts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="take 4 slots, the period has 3; use shorter slots"):
        of((0, 95, 300)).phases(30)
    with pytest.raises(InputError, match="take 10 slots, the period has 9"):
        of((0, 95, 300)).phases(10, period_slots=9)
    with pytest.raises(InputError, match="no phases: silent"):
        of(period=None).phases(10)


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
        bursts.append((at, length, rate))
        at += length + pause
    phases = of(*bursts, period=at + 100).phases(slot_ms)
    for phase, (_, length, rate) in zip(phases, bursts, strict=True):
        given = phase.length * slot_ms * phase.rate
        assert length * rate * (1 - 1e-9) <= given <= length * rate + phase.length * slot_ms
    assert all(a.end <= b.start for a, b in pairwise(phases))
