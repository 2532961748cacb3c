"""Cases as the simulator plays them come to what was worked out by hand; bursts have the links."""

from __future__ import annotations

import pytest

from benchmarks.testbed.simulated import Played, play_case
from metronome_opt.engine.conditions import TcpShares
from tests.benchmarks.testbed.bed import bed_case, bed_job

HALF = TcpShares(spread=0.0, newcomer=0.5)

FITTING = bed_case(bed_job(100, (0, 40)), bed_job(100, (0, 50)))
COLLIDING = bed_case(bed_job(100, (0, 60)), bed_job(100, (0, 60), begin=130, end=400))


def times(played: dict[str, Played]) -> dict[str, list[float]]:
    """Return iteration times, to a millionth of a millisecond."""
    return {
        name: [round(float(time), 6) for time in each.times_ms] for name, each in played.items()
    }


def bursts(played: dict[str, Played], name: str) -> list[tuple[float, float]]:
    return [(round(begin, 6), round(end, 6)) for begin, end in played[name].bursts_ms]


# ------------------------------------------------------------------ gated


@pytest.mark.parametrize(
    ("offset", "begin", "first"),
    [
        (30, 0, 130.0),
        (97, 0, 197.0),
        # The slot was 2 ms or 1 ms ago: no later than the cushion.
        (98, 0, 100.0),
        (99, 0, 100.0),
        (40, 130, 110.0),
        (30, 130, 100.0),
        (0, 130, 170.0),
    ],
)
def test_arriving_job_waits_for_its_next_slot(offset: int, begin: int, first: float) -> None:
    case = bed_case(bed_job(100, (0, 50), begin=begin))
    found = times(play_case(case, "gated", {"a": offset}, "fair", 0))["a"]
    assert found[:4] == [first, 100.0, 100.0, 100.0]


# ------------------------------------------------------------------ free


def test_jobs_come_and_go() -> None:
    """a bursts for 60 ms from 0 and from 100 on, and b comes at 130.

    a, with 30 ms of 60 left, is done at 190 at half the rate, b at 220; so a begins at 230 and b at
    260, again by 30 later, and the same again until b, whose iteration of 390 is the last that
    begins before 400, leaves at 520. From 490 on a bursts alone; its last iteration begins at 990.
    """
    played = play_case(COLLIDING, "free", None, "fair", 0, bursts=True)
    assert times(played) == {
        "a": [100.0, 130.0, 130.0, 130.0, *[100.0] * 6],
        "b": [130.0, 130.0, 130.0],
    }
    assert bursts(played, "a")[:4] == [(0, 60), (100, 190), (230, 320), (360, 450)]
    assert bursts(played, "b") == [(130, 220), (260, 350), (390, 480)]


def test_shares_are_those_that_are_stated() -> None:
    """b is a newcomer: a, with 30 ms of 60 left at 130, is done at 175, when b has had 15 of 60.

    At 215, when b has 5 left, a begins anew, a newcomer as well: both go at half the rate until 225
    and from 265 on, when a has 15 left and b begins anew. So a is done at 295. b has had 15 by
    then, and again 5 left when a comes at 335.
    """
    played = play_case(COLLIDING, "free", None, "tcp", 0, tcp=HALF, bursts=True)
    assert times(played)["a"][:3] == [100.0, 115.0, 120.0]
    assert bursts(played, "a")[1:3] == [(100, 175), (215, 295)]
    assert bursts(played, "b")[:2] == [(130, 225), (265, 345)]
