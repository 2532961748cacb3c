"""Cases as the simulator plays them come to what was worked out by hand; bursts have the links."""

from __future__ import annotations

import pytest

from benchmarks.testbed.cases import Case
from benchmarks.testbed.simulated import Played, play_case
from metronome_opt.simulate.conditions import TcpShares
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


def test_the_first_iteration_waits_for_its_slot_and_the_others_take_a_period() -> None:
    """The last one of a begins at 900, that of b at 940."""
    played = play_case(FITTING, "gated", {"a": 0, "b": 40}, "fair", 0, bursts=True)
    assert times(played) == {"a": [100.0] * 10, "b": [140.0, *[100.0] * 9]}
    assert bursts(played, "a") == [(100.0 * k, 100.0 * k + 40) for k in range(10)]
    assert bursts(played, "b") == [(100.0 * k + 40, 100.0 * k + 90) for k in range(10)]


def test_gated_jobs_that_fit_have_the_same_times_however_links_are_shared() -> None:
    fair = play_case(FITTING, "gated", {"a": 0, "b": 40}, "fair", 0)
    for seed in range(3):
        tcp = play_case(FITTING, "gated", {"a": 0, "b": 40}, "tcp", seed)
        assert times(tcp) == times(fair)


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
def test_who_comes_waits_for_the_next_slot_that_he_is_not_late_for(
    offset: int, begin: int, first: float
) -> None:
    case = bed_case(bed_job(100, (0, 50), begin=begin))
    found = times(play_case(case, "gated", {"a": offset}, "fair", 0))["a"]
    assert found[:4] == [first, 100.0, 100.0, 100.0]


def test_computing_before_a_burst_goes_on_while_it_waits() -> None:
    """Ready at 30, in its slot at 50 + 30."""
    case = bed_case(bed_job(100, (30, 40)))
    played = play_case(case, "gated", {"a": 50}, "fair", 0, bursts=True)
    assert times(played)["a"][:2] == [150.0, 100.0]
    assert bursts(played, "a")[:2] == [(80.0, 120.0), (180.0, 220.0)]


def test_in_stretched_periods_iterations_wait_for_their_slots() -> None:
    """Periods of 102: bursts at 0, 102 and so on; the second iteration begins at 100."""
    case = bed_case(bed_job(100, (0, 40)))
    played = play_case(case, "gated-2", {"a": 0}, "fair", 0, bursts=True)
    assert times(played)["a"] == [100.0, *[102.0] * 9]
    assert bursts(played, "a") == [(102.0 * k, 102.0 * k + 40) for k in range(10)]


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


def test_equal_shares_without_chance_are_fair_ones() -> None:
    equal = play_case(COLLIDING, "free", None, "tcp", 3, tcp=TcpShares(0.0, 1.0))
    assert times(equal) == times(play_case(COLLIDING, "free", None, "fair", 0))


def test_the_seed_decides_what_shares_are_drawn() -> None:
    first, again, other = (
        times(play_case(COLLIDING, "free", None, "tcp", seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(("seconds", "count"), [(1, 10), (2, 20)])
def test_who_ends_an_iteration_when_time_is_over_begins_no_other(seconds: int, count: int) -> None:
    case = bed_case(bed_job(100, (0, 40)), seconds=seconds)
    assert times(play_case(case, "free", None, "fair", 0))["a"] == [100.0] * count


def test_who_states_iterations_runs_no_more() -> None:
    """Together 120 for bursts of 60 until a has run three; the fourth of b begins at 480."""
    case = bed_case(bed_job(100, (0, 60), iterations=3), bed_job(100, (0, 60)))
    assert times(play_case(case, "free", None, "fair", 0)) == {
        "a": [160.0] * 3,
        "b": [*[160.0] * 3, *[100.0] * 6],
    }


def test_bursts_are_told_apart_that_follow_one_another_at_once() -> None:
    case = bed_case(bed_job(100, (0, 20), (20, 30), (80, 20)))
    played = play_case(case, "free", None, "fair", 0, bursts=True)
    assert bursts(played, "a")[:4] == [(0, 20), (20, 50), (80, 100), (100, 120)]


def test_bursts_are_left_out_unless_asked_for() -> None:
    played = play_case(FITTING, "free", None, "fair", 0)
    assert [each.bursts_ms for each in played.values()] == [(), ()]


# ------------------------------------------------------------------ other networks


@pytest.mark.parametrize(
    ("network", "first", "second", "meet"),
    [
        ("two-racks", (0, 1), (0, 1), True),
        ("bottleneck", (0, 1), (0, 1), True),
        ("four-racks", (0, 1), (1, 2), True),
        ("four-racks", (3, 0), (2, 1, 0), True),
        ("four-racks", (0, 1), (2, 3), False),
    ],
)
def test_jobs_meet_on_the_uplinks_of_racks_that_both_are_in(
    network: str, first: tuple[int, ...], second: tuple[int, ...], meet: bool
) -> None:
    jobs = [bed_job(100, (0, 60), racks=racks) for racks in (first, second)]
    case = bed_case(*jobs, network=network)
    expected = [160.0] * 7 if meet else [100.0] * 10
    assert times(play_case(case, "free", None, "fair", 0)) == {"a": expected, "b": expected}


def narrow(*, uplink: int, jobs: int) -> Case:
    return bed_case(
        *[bed_job(200, (0, 120))] * jobs, uplink_mbps=uplink, interface_mbps=100, seconds=2
    )


def test_narrow_interfaces_let_as_many_jobs_burst_as_the_uplink_carries() -> None:
    """Of 200 Mbit/s two get 100 each, three a third each: 193 / 3 of 96, 180 ms instead of 120."""
    two = times(play_case(narrow(uplink=200, jobs=2), "free", None, "fair", 0))
    assert two == dict.fromkeys("ab", [200.0] * 10)
    three = times(play_case(narrow(uplink=200, jobs=3), "free", None, "fair", 0))
    assert three["a"][0] == pytest.approx(80 + 120 * 96 * 3 / 193, abs=1e-6)
