"""What a plan is forecast to bring is what it brings."""

from __future__ import annotations

import pytest

from metronome_opt.simulate.policies.metronome import forecast
from metronome_opt.simulate.runner import Manner, Slot
from tests.simulate.moments import at
from tests.simulate.scenes import racks, scene, switch, work

PAIR = scene(switch(2, 2), work("a", 0, 1, batch=9), work("b", 0, 1, batch=10))
"""110 and 120 ms, of which the last 20 are a burst over the same links."""


def test_who_is_alone_is_not_slowed_down() -> None:
    state = at(PAIR, 30.0, {0: 0.0})
    assert forecast(state, [0]) == {0: pytest.approx(1)}


def test_who_shares_its_own_interface_is_slower_than_with_one_for_each_task() -> None:
    """Two tasks of four on each node: a burst of 30 ms takes 60 after 40."""
    state = at(scene(switch(2, 2), work("a", 0, 0, 1, 1)), 0.0, {0: 0.0})
    assert forecast(state, [0]) == {0: pytest.approx(100 / 70)}


def test_two_that_collide_take_turns_at_nothing() -> None:
    """Bursts of 20 ms after 40 take 40 each, for ever."""
    given = scene(switch(2, 2), work("a", 0, 1), work("b", 0, 1))
    state = at(given, 0.0, {0: 0.0, 1: 0.0})
    expected = {0: pytest.approx(80 / 60), 1: pytest.approx(80 / 60)}
    assert forecast(state, [0, 1]) == expected


def test_a_plan_that_keeps_them_apart_is_worth_it() -> None:
    given = scene(switch(2, 2), work("a", 0, 1), work("b", 0, 1))
    state = at(given, 0.0, {0: 0.0, 1: 0.0})
    slot = Slot(60.0)
    apart = forecast(state, [0, 1], plan={0: (60.0, slot), 1: (90.0, slot)})
    assert apart == {0: pytest.approx(1), 1: pytest.approx(1)}


@pytest.mark.parametrize("manner", list(Manner))
@pytest.mark.parametrize("now", [10.0, 85.0, 115.0])
def test_slots_that_are_kept_go_on_as_they_are(manner: Manner, now: float) -> None:
    """a begins at 0 and 120, b at 90 and 210: bursts at 90 to 110 of 120, and at 70 to 90.

    So they never meet, and a idles for 10 ms each time. If a began when it could, 10 ms earlier,
    they would.
    """
    slot = Slot(120.0, manner=manner)
    starts = {0: 0.0, 1: 90.0}
    state = at(PAIR, now, starts, dict.fromkeys(starts, slot))
    told = forecast(state, [0, 1], bursts=1000)
    assert told == {0: pytest.approx(120 / 110, rel=1e-3), 1: pytest.approx(1, rel=1e-3)}


def test_those_that_are_not_asked_for_are_not_there() -> None:
    given = scene(racks(2, 2, 2), work("a", 0, 1), work("b", 0, 1), work("c", 2, 3))
    state = at(given, 0.0, {0: 0.0, 1: 0.0, 2: 0.0})
    assert forecast(state, [0, 2]) == {0: pytest.approx(1), 2: pytest.approx(1)}
