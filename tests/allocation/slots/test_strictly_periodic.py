"""Jobs of one burst that fill a link are decided without trying all offsets."""

from __future__ import annotations

from random import Random

import pytest

from metronome_opt.allocation.slots.certificates import prove
from metronome_opt.allocation.slots.feasibility_problem import (
    FeasibilityResult,
    Reason,
    find_gap_conflict,
)
from metronome_opt.allocation.slots.job_selection import check_feasibility
from metronome_opt.allocation.slots.offset_search import search_offsets
from metronome_opt.problem.instance import Instance
from metronome_opt.problem.schedule import Refutation, Status
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import verify_schedule
from tests.allocation.slots.feasibility_cases import check_offsets, fits
from tests.builders import job, network
from tests.builders import schedule as feasible


def activities(*kinds: tuple[int, int]) -> Instance:
    """Return jobs of (period, slots) on one link that carries one of them at once."""
    return network(*(job(f"j{i}", p, (0, m, 1)) for i, (p, m) in enumerate(kinds)), capacity=1)


def refuted(instance: Instance) -> FeasibilityResult:
    found = check_feasibility(instance, time_limit=60, threads=1)
    assert (found.offsets, found.bound) == (None, None)
    return found


def judged(instance: Instance, fit: FeasibilityResult) -> tuple[str, ...]:
    """Return the faults of what a file would state."""
    proofs, _ = prove(instance, fit, drop=False, cushion_slots=0)
    assert all(each.is_proved for each in proofs)
    fields = {"status": Status.INFEASIBLE, "refutations": proofs}
    return tuple(map(str, verify_schedule(instance, feasible(instance.name, {}, **fields))))


def test_six_long_bursts_find_no_room_in_five_gaps() -> None:
    # The first one leaves 1,997 of 2,000 slots, which hold one burst of 1,000 and no two.
    instance = activities((2000, 3), *[(10_000, 1000)] * 6, (10_000, 4))
    found = refuted(instance)
    (reason,) = found.refutations
    assert reason.reason is Reason.LOAD
    assert set(reason.periods) == {f"j{index}" for index in range(7)}
    assert judged(instance, found) == ()
    fewer = activities((2000, 3), *[(10_000, 1000)] * 5, (10_000, 4))
    assert find_gap_conflict(fewer) is None
    assert check_feasibility(fewer, threads=1).offsets is not None


def test_a_shorter_burst_takes_the_gap_of_a_longer_one() -> None:
    # 200 beside 500 are more than the 697 that are left of 1,000. Half of the gaps hold a burst of
    # 200, and six of ten one of 500.
    kinds = [(1000, 303), (2000, 200), *[(10_000, 500)] * 6]
    instance = activities(*kinds)
    found = refuted(instance)
    assert found.refutations[0].reason is Reason.LOAD
    assert found.refutations[0].periods.keys() == {f"j{index}" for index in range(8)}
    assert judged(instance, found) == ()
    assert check_feasibility(activities(*kinds[:-1]), threads=1).offsets is not None


def test_bursts_that_a_link_carries_side_by_side_are_not_crowded() -> None:
    halves = [job(f"j{index}", 20, (0, 6, 50)) for index in range(4)]
    instance = network(job("short", 10, (0, 1, 50)), *halves)
    assert find_gap_conflict(instance) is None
    assert check_feasibility(instance, threads=1).offsets is not None


def test_the_judge_refuses_gaps_that_suffice() -> None:
    instance = activities((10, 2), (20, 5), (20, 5))
    wrong = Refutation(periods={"j0": 10, "j1": 20, "j2": 20}, link="link")
    fields = {"status": Status.INFEASIBLE, "refutations": (wrong,)}
    (fault,) = verify_schedule(instance, feasible(instance.name, {}, **fields))
    assert "there is room" in str(fault)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_decided_is_what_all_offsets_say(seed: int) -> None:
    draw = Random(seed)
    periods = draw.choice([(4, 8, 12), (6, 12, 18), (4, 6, 12), (5, 10, 20), (6, 9, 12)])
    kinds = [(draw.choice(periods), draw.choice((1, 1, 2, 3))) for _ in range(draw.randint(3, 5))]
    instance = activities(*kinds)
    whole = {each.name: each.period for each in instance.jobs}
    found, truth = check_feasibility(instance, threads=1), fits(instance, whole)
    assert (found.offsets is not None) == truth
    if found.offsets is not None:
        check_offsets(instance, whole, found.offsets)
        assert find_gap_conflict(instance) is None
    else:
        assert judged(instance, found) == ()


@pytest.mark.parametrize("seed", range(40))
def test_search_by_itself_says_the_same(seed: int) -> None:
    """Without pairs, loads and gaps, which would say it first: equal jobs, few offsets."""
    draw = Random(seed)
    kinds = [(draw.choice((6, 12, 18)), draw.choice((1, 2, 2, 3))) for _ in range(5)]
    instance = activities(*kinds)
    found = search_offsets(instance, Budget())
    whole = {each.name: each.period for each in instance.jobs}
    assert (found.offsets is not None) == fits(instance, whole)
    assert (found.refutation is not None) == (found.offsets is None)


def test_first_fit_places_hundreds_of_jobs() -> None:
    draw = Random(3)
    kinds = [(1000, 4)] * 20 + [(5000, 40)] * 4
    kinds += [(draw.choice((10_000, 20_000)), draw.choice((3, 5, 160))) for _ in range(120)]
    instance = activities(*kinds)
    found = check_feasibility(instance, threads=1, time_limit=None)
    assert found.offsets is not None
    check_offsets(instance, {each.name: each.period for each in instance.jobs}, found.offsets)


def test_a_search_that_is_stopped_says_so() -> None:
    # Long bursts whose gaps suffice by number, and whose classes modulo 5, 10 and 25 collide.
    kinds = [(2000, 300), *[(10_000, 1000)] * 4, (20_000, 1000), (50_000, 1000)]
    instance = activities(*kinds)
    assert find_gap_conflict(instance) is None
    assert search_offsets(instance, Budget(0)).refutation is None
    few = search_offsets(instance, Budget(), placements=1)
    assert (few.offsets, few.refutation) == (None, None)
    assert refuted(instance).refutations[0].reason is Reason.SEARCH
