"""Feasibility in cases worked out by hand, of pairs, and without a hyperperiod."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from metronome_opt.allocation.slots.feasibility import PairConflicts
from metronome_opt.allocation.slots.feasibility_problem import (
    Conflict,
    FeasibilityProblem,
    Reason,
    at_periods,
    load,
    shorten_periods,
)
from metronome_opt.allocation.slots.job_selection import FEASIBILITY_SOLVERS, check_feasibility
from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Instance, Job
from metronome_opt.verify import evaluate
from tests.allocation.slots.feasibility_cases import check_offsets, fits, tiny_instance
from tests.builders import job, network

EXACT = sorted(name for name, solver in FEASIBILITY_SOLVERS.items() if solver.exact)


def check_fits(instance: Instance, fits: bool, solver: str) -> None:
    found = check_feasibility(instance, solver=solver)
    assert (found.offsets is not None) == fits
    assert bool(found.refutations) == (not fits)
    assert found.proved
    if found.offsets is not None:
        check_offsets(instance, {job.name: job.period for job in instance.jobs}, found.offsets)


def refuted(instance: Instance, solver: str = "auto") -> Conflict:
    (refutation,) = check_feasibility(instance, solver=solver).refutations
    return refutation


@pytest.mark.parametrize("solver", EXACT)
def test_three_jobs_that_fit_two_by_two_and_not_together(solver: str) -> None:
    """All periods have 2 as their common divisor: each burst needs a parity of its own."""
    burst = (0, 1, 60)
    jobs = [job("a", 6, burst), job("b", 10, burst), job("c", 14, burst)]
    for left in range(3):
        check_fits(network(*jobs[:left], *jobs[left + 1 :]), True, solver)
    refutation = refuted(network(*jobs), solver)
    assert refutation.reason is Reason.SEARCH
    assert refutation.periods == {"a": 6, "b": 10, "c": 14}


def test_reasons_that_need_no_search_name_no_job_too_many() -> None:
    short, long = (0, 1, 60), (0, 6, 60)
    jobs = [job("a", 10, short), job("b", 10, long), job("c", 10, long)]
    pair = refuted(network(*jobs))
    assert str(pair) == f"b at 10, c at 10: {Reason.PAIR}"
    alone = refuted(network(job("d", 10, (0, 1, 101)), *jobs))
    assert (alone.reason, alone.periods) == (Reason.LOAD, {"d": 10})
    many = [job(name, 10, (0, 4, 60)) for name in "abcd"]  # 24 a slot each; five would be 120
    load = refuted(network(job("e", 10, (0, 3, 60)), *many))
    assert (load.reason, set(load.periods)) == (Reason.LOAD, {"a", "b", "c", "d", "e"})
    load = refuted(network(job("e", 10, (0, 1, 60)), job("f", 10, (0, 4, 60)), *many))
    assert (load.reason, set(load.periods)) == (Reason.LOAD, {"a", "b", "c", "d", "f"})


def limited(instance: Instance, limit: int) -> Instance:
    return Instance.from_dict(instance.to_dict(), hyperperiod_limit=limit)


def test_a_hyperperiod_above_the_limit() -> None:
    # Two of three bursts fit at once. 6 k, 10 k and 15 k share all of their divisors: 30 k slots.
    three = network(*(job(f"j{p}", p, (0, 1, 50)) for p in (12, 20, 30)))
    assert check_feasibility(limited(three, 60)).offsets is not None
    unknown = check_feasibility(limited(three, 59))
    assert (unknown.offsets, unknown.bound) == (None, 0)
    assert [each.reason for each in unknown.refutations] == [Reason.HYPERPERIOD]
    some = check_feasibility(limited(three, 59), drop=True)
    assert (some.cost, some.bound) == (2, 0)


@pytest.mark.parametrize("seed", range(150))
def test_jobs_without_a_hyperperiod_are_decided_alike(seed: int) -> None:
    draw = Random(seed)
    tiny = tiny_instance(draw)
    cushion = draw.choice((0, 0, 1))
    longest = max(job.period + job.max_stretch for job in tiny.jobs)
    short = limited(tiny, longest)
    periods = {job.name: job.period for job in tiny.jobs}
    found = check_feasibility(short, cushion_slots=cushion)
    if any(each.reason is Reason.HYPERPERIOD for each in found.refutations):
        folded = shorten_periods(at_periods(tiny, periods, cushion))
        assert max(folded.hyperperiods.values()) > longest
    else:
        assert (found.offsets is not None) == fits(tiny, periods, cushion)
    for offsets in (found.offsets, check_feasibility(short, drop=True, solver="greedy").offsets):
        if offsets:
            slots = cushion if offsets is found.offsets else 0
            kept = at_periods(tiny, {name: periods[name] for name in offsets}, slots)
            assert evaluate(kept, offsets).contention == 0


@pytest.mark.parametrize("solver", EXACT)
def test_without_time_nothing_is_known(solver: str) -> None:
    burst = (0, 1, 60)
    hard = network(job("a", 6, burst), job("b", 10, burst), job("c", 14, burst))
    found = check_feasibility(hard, solver=solver, time_limit=0)
    assert (found.offsets, found.bound, found.refutations) == (None, 0, ())
    dropped = check_feasibility(hard, drop=True, solver=solver, time_limit=0)
    assert (dropped.offsets, dropped.cost, dropped.bound) == ({}, 3, 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"solver": "magic"},
            f"solver: 'magic' is not known; choose from {', '.join(FEASIBILITY_SOLVERS)}",
        ),
        ({"cushion_slots": -1}, "cushion_slots: must be a number of slots from 0 on, got -1"),
        ({"time_limit": -1}, "time limit: must be a number of seconds from 0 to 1e9, got -1"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as error:
        check_feasibility(network(job("a", 4, (0, 1, 60))), **arguments)  # type: ignore[arg-type]
    assert str(error.value) == told


def test_numbers_beyond_64_bits_are_scaled_or_refused_in_a_line() -> None:
    """Two of 4.9 do not fit into 5, whatever the unit; sums above 2**63 wrap around in kernels."""
    for unit in (10**17, 10**30):
        jobs = [job(name, 10, (0, 6, 49 * unit)) for name in "ab"]
        for solver in FEASIBILITY_SOLVERS:
            instance = network(*jobs, capacity=50 * unit)
            assert check_feasibility(instance, drop=True, solver=solver).cost == 1
            assert check_feasibility(instance, solver=solver).offsets is None
            halves = network(*jobs, capacity=98 * unit)
            assert check_feasibility(halves, solver=solver).offsets is not None
    odd = [job("a", 10, (0, 6, 49 * 10**17)), job("b", 10, (0, 6, 49 * 10**17 + 1))]
    with pytest.raises(InputError, match=r"on 'link' add up to \d+, which does not fit 64-bit"):
        check_feasibility(network(*odd, capacity=50 * 10**17))


@pytest.mark.parametrize("seed", range(150))
def test_pairs_fit_as_trying_all_offsets_says(seed: int) -> None:
    draw = Random(seed)
    cushion = draw.randint(0, 2)
    instance = tiny_instance(draw)
    free = [job.model_copy(update={"fixed_offset": None}) for job in instance.jobs[:2]]
    instance = instance.replace(jobs=tuple(free))
    pairs = PairConflicts(FeasibilityProblem(instance, cushion))
    periods = {job.name: job.period + draw.randint(0, 3) for job in instance.jobs}
    if not pairs.impossible:
        assert pairs.fit(0, 1, *periods.values()) == fits(instance, periods, cushion)


@pytest.mark.parametrize(
    ("alone", "period", "cushion", "carried"),
    [
        (job("a", 10, (0, 4, 60)), 10, 0, Fraction(240, 10)),
        (job("a", 10, (0, 4, 60)), 12, 2, Fraction(360, 12)),
        (job("a", 10, (0, 4, 60)), 10, 9, Fraction(600, 10)),  # the whole period
        # The first burst grows into the second, and the second around into the first.
        (job("a", 10, (6, 2, 10), (1, 4, 60)), 10, 4, Fraction(5 * 60 + 5 * 10, 10)),
    ],
)
def test_what_a_job_carries(alone: Job, period: int, cushion: int, carried: Fraction) -> None:
    assert load(alone, period, cushion) == carried
    longer = at_periods(network(alone), {"a": period}, cushion).jobs[0]
    assert Fraction(longer.volume, period) >= carried
