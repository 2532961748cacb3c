"""The clock of a part of a run: what it has learned outlives a new share of the time."""

from __future__ import annotations

import time

import pytest

from metronome_opt.solvers.pace import Pace
from metronome_opt.solvers.search import Search
from tests.builders import two_jobs


def taken(pace: Pace, steps: int) -> int:
    """Take so many steps, if there is time."""
    return sum(pace.slices(steps))


def test_a_new_share_of_the_time_keeps_the_speed() -> None:
    pace = Pace(Search(two_jobs(), time_limit=1000, seed=0, workers=1), 0.5)
    assert pace.affordable == 0  # nothing is known
    assert taken(pace, 100) == 100
    pace.allot(0.1)
    assert pace.affordable is not None
    assert pace.affordable > 0


def test_no_limit_is_no_limit_of_any_share() -> None:
    pace = Pace(Search(two_jobs(), time_limit=None, seed=0, workers=1), 0.5)
    assert pace.affordable is None
    assert not pace.over


def test_nothing_is_done_when_the_share_is_used_up() -> None:
    pace = Pace(Search(two_jobs(), time_limit=1000, seed=0, workers=1), 0.0)
    assert pace.over
    assert taken(pace, 100) == 0


def test_waiting_does_not_make_slices_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for others after every slice computes as much in one as ever, or more."""
    clock = {"all": 0.0, "mine": 0.0}
    search = Search(two_jobs(), time_limit=None, seed=0, workers=1)
    monkeypatch.setattr(Search, "elapsed", property(lambda _: clock["all"]))
    monkeypatch.setattr(time, "thread_time", lambda: clock["mine"])
    longest = 0
    for part in Pace(search, 1.0).slices(10**6):
        longest = max(longest, part)
        clock["mine"] += part * 1e-4
        clock["all"] += part * 1e-4 + 0.02
    assert longest >= 100  # a step takes 0.1 ms, so these are 10 ms, half of the wait
