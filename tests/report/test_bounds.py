"""What is known of contention where a solver has proved nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest

from metronome_opt.report.bounds import known_bound
from metronome_opt.solvers import proof
from metronome_opt.solvers.proof import links_bound
from metronome_opt.solvers.search import Search
from tests.builders import HARD, job, network
from tests.solving import solve

# Bursts of 3 of 4 slots meet in 2 of them wherever they are: 20 of 120 are late for half the time.
MEETING = network(job("a", 4, (0, 3, 60)), job("b", 4, (0, 3, 60)))


@pytest.mark.parametrize(
    ("capacity", "solver", "known"),
    [
        (100, "local", (10, "each link alone")),
        (100, "greedy", (0, "trivial")),  # 90 of 100 in the mean says nothing
        (80, "greedy", (10, "each link alone")),  # 90 of 80 in the mean, which is all without loops
        (80, "local", (20, "each link alone")),
        (120, "local", (0, "trivial")),
    ],
)
def test_each_link_alone_bounds_the_contention(
    capacity: int, solver: str, known: tuple[int, str]
) -> None:
    instance = network(*MEETING.jobs, capacity=capacity)
    schedule = solve(instance, solver).schedule.model_copy(
        update={"lower_bound": None, "solver": solver}
    )
    bound, words = known
    assert known_bound(instance, schedule) == (Fraction(bound), words)


def test_longer_bursts_and_periods_are_those_of_the_schedule() -> None:
    schedule = solve(MEETING, "local", cushion_slots=1).schedule
    # Bursts of 4 of 4 slots: always 20 late.
    assert known_bound(MEETING, schedule) == (Fraction(20), "each link alone")
    jobs = tuple(each.model_copy(update={"max_stretch": 2}) for each in MEETING.jobs)
    free = MEETING.replace(jobs=jobs)
    stretched = schedule.model_copy(
        update={"cushion_slots": 0, "stretch": {"a": 1, "b": 1}, "offsets": {"a": 0, "b": 0}}
    )
    # 3 of 5 slots each: they meet in one at least.
    assert known_bound(free, stretched) == (Fraction(4), "each link alone, at these periods")


def test_what_is_stated_and_other_objectives_are_left_alone() -> None:
    assert known_bound(MEETING, solve(MEETING).schedule) is None
    assert known_bound(MEETING, solve(MEETING, "local", objective="latency").schedule) is None


def test_the_links_bound_is_no_higher_than_any_schedule_and_repeatable() -> None:
    bound = links_bound(HARD)
    assert 0 < bound <= solve(HARD, "greedy").evaluation.contention
    assert bound == links_bound(HARD)
    assert links_bound(HARD, by_load=True) <= bound


def test_long_hyperperiods_take_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(_: Search, nodes: int) -> Fraction:
        asked.append(nodes)
        return Fraction(0)

    monkeypatch.setattr(proof, "_bound_alone", counted)
    for longest in (8, 8 * 10**5):
        bursts = job("a", longest, (0, longest // 2, 60)), job("b", 8, (0, 4, 60))
        links_bound(network(*bursts))
    assert asked == [2000, 2**29 // (8 * 10**5 * 2)]


def test_numbers_that_no_loop_can_count_bound_nothing() -> None:
    heavy = MEETING.jobs[0].model_copy(update={"weight": 10**40})
    assert links_bound(network(heavy, MEETING.jobs[1])) == Fraction(0)
