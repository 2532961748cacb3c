"""Masters allow jobs that fit and no refuted ones; all back ends minimise alike, on time."""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from itertools import compress, product
from random import Random

import pytest

from metronome_opt.allocation.slots.feasibility import (
    FeasibilityTest,
    PairConflicts,
    shrink_conflict,
)
from metronome_opt.allocation.slots.feasibility_problem import Conflict, FeasibilityProblem, Reason
from metronome_opt.allocation.slots.integer_program import (
    Minimise,
    Row,
    minimise_by_cpsat,
    minimise_by_highs,
    minimise_in_process,
)
from metronome_opt.allocation.slots.job_selection import Master
from metronome_opt.errors import SolverError
from metronome_opt.solvers.budget import Budget
from tests.allocation.slots.feasibility_cases import fits, tiny_instance
from tests.builders import job, network


def allowed(statement: Master, gated: Collection[str]) -> bool:
    """Return whether the other jobs may be left out."""
    left_out = {n for n, job in enumerate(statement.jobs) if job.name not in gated}
    return all(
        sum(factor for factor, number in row.terms if number in left_out) <= row.most
        for row in statement.rows
    )


@pytest.mark.parametrize("seed", range(25))
def test_what_fits_is_allowed_and_what_was_refuted_is_not(seed: int) -> None:
    draw = Random(seed)
    instance, cushion = tiny_instance(draw), draw.choice((0, 0, 1, 2))
    task = FeasibilityProblem(instance, cushion)
    decider = FeasibilityTest(task)
    statement = Master(task, decider.pairs, minimise_by_cpsat)
    names = [job.name for job in instance.jobs]
    fitting = []
    for chosen in product((False, True), repeat=len(names)):
        gated = {name: instance.job(name).period for name in compress(names, chosen)}
        found = decider.decide(gated)
        if found.refutation is None:
            fitting.append(gated)
            continue
        statement.forbid(shrink_conflict(found.refutation, decider.decide))
        assert not allowed(statement, gated)
    for gated in fitting:
        assert allowed(statement, gated)
        assert fits(instance, gated, cushion)


@pytest.mark.parametrize("minimise", [minimise_by_cpsat, minimise_by_highs])
def test_proposals_get_lighter_and_stop_with_the_time(minimise: Minimise) -> None:
    jobs = [job(name, 4, (0, 1, 30), weight=weight) for name, weight in (("a", 2), ("b", 3))]
    instance = network(*jobs)
    task = FeasibilityProblem(instance)
    proposer = Master(task, PairConflicts(task), minimise)
    assert proposer.solve(5) == ({"a": 4, "b": 4}, 0)
    proposer.forbid(Conflict(Reason.SEARCH, {"a": 4, "b": 4}))
    assert proposer.solve(5) == ({"b": 4}, 2)
    proposer.forbid(Conflict(Reason.SEARCH, {"b": 4}))
    assert proposer.solve(5) == ({"a": 4}, 3)
    task.budget = Budget(0)
    late = Master(task, PairConflicts(task), minimise)
    assert late.solve(5) == (None, 0)


@pytest.mark.parametrize("minimise", [minimise_by_cpsat, minimise_by_highs])
def test_weights_too_large_for_a_back_end_are_minimised_exactly(minimise: Minimise) -> None:
    jobs = [job(name, 4, (0, 3, 60), weight=10**15 + more) for more, name in enumerate("ab")]
    task = FeasibilityProblem(network(*jobs))
    master = Master(task, PairConflicts(task), minimise)
    assert master.solve(2 * 10**15) == ({"b": 4}, 10**15)


@pytest.mark.parametrize("minimise", [minimise_by_cpsat, minimise_by_highs])
@pytest.mark.parametrize("seed", range(15))
def test_large_weights_beside_small_ones_are_exact(seed: int, minimise: Minimise) -> None:
    """With weights rounded to units of the largest, nothing was proved of the small ones."""
    draw = Random(seed)
    weights = [draw.randint(1, 9) * 10 ** draw.choice((0, 3, 6, 12)) for _ in range(6)]
    jobs = [job(f"j{i}", 4, (0, 1, 30), weight=weight) for i, weight in enumerate(weights)]
    task = FeasibilityProblem(network(*jobs, capacity=200))
    master = Master(task, PairConflicts(task), minimise)
    conflicts = [draw.sample(range(6), draw.randint(1, 3)) for _ in range(4)]
    for conflict in conflicts:
        master.forbid(Conflict(Reason.SEARCH, {f"j{i}": 4 for i in conflict}))
    least = min(
        sum(compress(weights, dropped))
        for dropped in product((False, True), repeat=6)
        if all(any(dropped[i] for i in conflict) for conflict in conflicts)
    )
    for incumbent in (least, sum(weights)):
        gated, bound = master.solve(incumbent)
        assert gated is not None
        assert bound == least
        assert sum(weight for i, weight in enumerate(weights) if f"j{i}" not in gated) == least


def test_answers_are_those_of_this_process() -> None:
    """At least one variable is 1, and not both of the first two: the cheapest one alone."""
    rows = [Row(((-1, 0), (-1, 1), (-1, 2)), -1), Row(((1, 0), (1, 1)), 1)]
    for minimise in (minimise_in_process, minimise_by_highs, minimise_by_cpsat):
        assert minimise(Budget(30), [3, 2, 4], rows) == ([0, 1, 0], 2)


def test_rows_that_cannot_be_kept_are_an_error_of_one_line() -> None:
    with pytest.raises(SolverError, match="HiGHS ends with status 2") as error:
        minimise_in_process(Budget(30), [1], [Row(((1, 0),), 0), Row(((-1, 0),), -1)])
    assert "\n" not in str(error.value)


def test_it_ends_on_time() -> None:
    draw = random.Random(0)
    weights = [[draw.randrange(1, 1000) for _ in range(200)] for _ in range(100)]
    rows = [Row(tuple((-w, n) for n, w in enumerate(each)), -sum(each) // 2) for each in weights]
    began = time.monotonic()
    values, bound = minimise_in_process(Budget(1.5), [1] * 200, rows)
    assert values is None or bound < sum(values)
    assert time.monotonic() - began < 3
    assert minimise_in_process(Budget(0), [1], []) == (None, 0)
