"""Annealing improves slowdowns within its limits."""

from __future__ import annotations

from benchmarks.annealing import anneal
from benchmarks.slowdowns import search
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.solvers.budget import Budget
from tests.allocation.slots.cases import NESTED, TIGHT, evaluator_of


def test_annealing_keeps_to_what_is_allowed_and_gets_better() -> None:
    judge = evaluator_of(NESTED, 0, periods=40)
    start = Plan(NESTED.unshifted)
    found = anneal(
        judge,
        evaluator_of(NESTED, 100, periods=15),
        start,
        {"a": 42, "b": 20},
        Budget(1),
        short=lambda periods: periods.get("a", 40) != 41,
        seed=1,
    )
    assert judge.values(found)[0] < judge.values(start)[0]
    assert found.periods.get("a", 40) in (40, 42)
    assert found.periods.get("b", 20) == 20


def test_long_search_is_no_worse_than_unshifted_jobs() -> None:
    best = search(TIGHT, seconds=1, seed=0)
    assert best.slowdown <= best.unshifted
    assert all(period >= 20 for _, period in best.gated.values())
