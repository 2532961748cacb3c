"""What a plan is forecast to bring is what it brings."""

from __future__ import annotations

import pytest

from metronome_opt.simulate.policies.metronome import forecast
from tests.simulate.moments import at
from tests.simulate.scenes import racks, scene, switch, work

PAIR = scene(switch(2, 2), work("a", 0, 1, batch=9), work("b", 0, 1, batch=10))
"""110 and 120 ms, of which the last 20 are a burst over the same links."""


def test_who_is_alone_is_not_slowed_down() -> None:
    state = at(PAIR, 30.0, {0: 0.0})
    assert forecast(state, [0]) == {0: pytest.approx(1)}


def test_two_that_collide_take_turns_at_nothing() -> None:
    """Bursts of 20 ms after 40 take 40 each, for ever."""
    given = scene(switch(2, 2), work("a", 0, 1), work("b", 0, 1))
    state = at(given, 0.0, {0: 0.0, 1: 0.0})
    expected = {0: pytest.approx(80 / 60), 1: pytest.approx(80 / 60)}
    assert forecast(state, [0, 1]) == expected


def test_those_that_are_not_asked_for_are_not_there() -> None:
    given = scene(racks(2, 2, 2), work("a", 0, 1), work("b", 0, 1), work("c", 2, 3))
    state = at(given, 0.0, {0: 0.0, 1: 0.0, 2: 0.0})
    assert forecast(state, [0, 2]) == {0: pytest.approx(1), 2: pytest.approx(1)}
