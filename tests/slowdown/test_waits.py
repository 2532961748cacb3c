"""Who waits for whom, and for how much of the time."""

from __future__ import annotations

import pytest

from metronome_opt.slowdown.plan import Plan
from metronome_opt.slowdown.player import waits
from tests.builders import job, network
from tests.slowdown.cases import ALTERNATING


def test_meeting_jobs_wait_for_each_other() -> None:
    found = waits(ALTERNATING, Plan(ALTERNATING.unshifted))
    assert found == {"a": {"b": 1}, "b": {"a": 1}}


def test_larger_bursts_cause_longer_waits() -> None:
    # All flows are equally fast, so that "b", which has two, sends as much as both others.
    crowd = network(
        job("a", 20, (0, 8, 100)),
        job("b", 20, (0, 8, 100), links={"link": 2}),
        job("c", 20, (0, 8, 100)),
    )
    found = waits(crowd, Plan(crowd.unshifted))
    assert found["a"] == pytest.approx({"b": 2 / 3, "c": 1 / 3})
    assert found["b"] == pytest.approx({"a": 1 / 2, "c": 1 / 2})
    assert found["c"] == pytest.approx({"b": 2 / 3, "a": 1 / 3})


def test_compatible_jobs_do_not_wait() -> None:
    apart = Plan({"a": 0, "b": 10}, {"a": 40, "b": 40})
    assert waits(ALTERNATING, apart) == {"a": {}, "b": {}}
    roomy = network(*(job(name, 20, (0, 8, 50)) for name in "ab"))
    assert waits(roomy, Plan(roomy.unshifted)) == {"a": {}, "b": {}}
