"""The clock of a part of a run: what it has learned outlives a new share of the time."""

from __future__ import annotations

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
