from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Phase
from metronome_opt.scenario.traffic import Burst, Iteration, to_slots


def burst(after: int | str, volume: int | str, rate: int) -> Burst:
    return Burst("burst", Fraction(after), Fraction(volume), rate)


def test_pauses_go_to_the_nearest_slot_and_bursts_grow() -> None:
    # 101 Mbit at 1000 Mbit/s take 101 ms, 11 slots; 101,000 / 110 = 918.2 Mbit/s, so 919.
    exact = Iteration(Fraction(69), (burst(34, 101, 1000), burst(35, 20, 1000)))
    rounded = to_slots(exact, 10)
    assert rounded.phases == (
        Phase(start=3, length=11, rate=919),
        Phase(start=18, length=2, rate=1000),
    )
    assert rounded.busy == rounded.period == 20
    assert rounded.grid_error == Fraction(200, 190) - 1
    assert rounded.idle_error == 0
    assert rounded.volume_error == Fraction("121.09") / 121 - 1


@pytest.mark.parametrize(("hyperperiod", "period"), [(14, 14), (15, 15), (20, 20), (30, 15)])
def test_periods_become_divisors_of_the_hyperperiod(hyperperiod: int, period: int) -> None:
    exact = Iteration(Fraction(40), (burst(40, 100, 1000),))
    rounded = to_slots(exact, 10, hyperperiod)
    assert (rounded.busy, rounded.period) == (14, period)
    assert rounded.period_error == rounded.idle_error == Fraction(period, 14) - 1


def test_an_iteration_longer_than_the_hyperperiod_does_not_fit() -> None:
    with pytest.raises(ValueError, match="14 slots are longer than the hyperperiod of 13"):
        to_slots(Iteration(Fraction(40), (burst(40, 100, 1000),)), 10, 13)


def test_a_short_burst_gets_a_whole_slot_at_a_low_rate() -> None:
    rounded = to_slots(Iteration(Fraction(0), (burst(0, "0.5", 1000),)), 10)
    assert rounded.phases == (Phase(start=0, length=1, rate=50),)


bursts = st.builds(
    Burst,
    st.just("burst"),
    st.fractions(min_value=0, max_value=1000, max_denominator=1000),
    st.fractions(min_value=Fraction(1, 1000), max_value=10**5, max_denominator=1000),
    st.integers(min_value=100, max_value=100_000),
)


@given(st.lists(bursts, min_size=1, max_size=4), st.integers(min_value=1, max_value=50))
def test_rounding_conserves_volume_and_never_speeds_up(given_: list[Burst], slot_ms: int) -> None:
    exact = Iteration(Fraction(0), tuple(given_))
    rounded = to_slots(exact, slot_ms)
    for before, after in zip(given_, rounded.phases, strict=True):
        excess = Fraction(after.rate * after.length * slot_ms, 1000) - before.volume
        assert 0 <= excess < Fraction(after.length * slot_ms, 1000)
        assert after.rate <= before.rate
        assert 0 <= after.length * slot_ms - before.duration < slot_ms
    change = rounded.busy * slot_ms - exact.duration
    assert -Fraction(slot_ms * len(given_), 2) <= change < Fraction(3 * slot_ms * len(given_), 2)
    assert rounded.grid_error == change / exact.duration
