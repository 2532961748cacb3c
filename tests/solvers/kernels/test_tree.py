"""The tree: whatever stays where it is and whatever is known, it ends with the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.kernels import tree as module
from metronome_opt.solvers.kernels.branch_bound import expand_tree
from metronome_opt.solvers.kernels.compiled_instance import TooLargeError, compile_instance
from metronome_opt.solvers.kernels.contacts import contacts_of
from metronome_opt.solvers.kernels.jobs import put_job
from metronome_opt.solvers.kernels.tree import (
    Pseudocosts,
    Tree,
    dual_bound,
    incumbent,
    is_done,
    set_cutoff,
    start_tree,
)
from metronome_opt.verify import evaluate
from tests.builders import tangle
from tests.landscape import held, landscape, optimum, scale_of
from tests.strategies import assigned, crowded
from tests.tiers import examples

SHARPNESS = st.sampled_from((0.1, 1.0, 3.0, 8.0))  # the lower, the more by contacts
CASES = crowded(max_jobs=5, max_links=4, most_schedules=3000, fixed=False)


@dataclass
class Grown:
    """A tree of an instance from a schedule on, in which some jobs stay."""

    instance: Instance
    offsets: dict[str, int]
    stay: frozenset[str]
    sharpness: float

    def __post_init__(self) -> None:
        self.compiled = compile_instance(self.instance, common_scale=True)
        scale = int(self.compiled.tables.jobs["scale"][0])
        self.unit = Fraction(self.compiled.unit, scale)
        self.contacts = contacts_of(self.compiled)
        jobs = len(self.instance.jobs)
        self.search = start_tree(
            self.compiled,
            self.contacts,
            np.array(list(self.offsets.values()), dtype=np.int64),
            self.scaled(evaluate(self.instance, self.offsets).contention),
            np.array([job.name not in self.stay for job in self.instance.jobs]),
            self.sharpness,
            Pseudocosts(np.zeros(jobs), np.ones(jobs)),
        )

    def scaled(self, value: Fraction) -> int:
        assert (value / self.unit).denominator == 1
        return int(value / self.unit)

    @property
    def tree(self) -> Tree:
        return self.search.tree

    def grow(self, budget: int) -> Tree:
        expand_tree(self.search, budget)
        return self.tree

    @property
    def best(self) -> Fraction:
        return self.unit * incumbent(self.tree)

    @property
    def found(self) -> dict[str, int]:
        return dict(zip(self.offsets, map(int, self.tree.jobs["best"]), strict=True))


@st.composite
def starts(draw: st.DrawFn, of: st.SearchStrategy[Instance] = CASES) -> Grown:
    """Draw an instance, a schedule of it to start from, and who stays."""
    instance, offsets = draw(assigned(of))
    stay = frozenset(draw(st.lists(st.sampled_from(list(offsets)), unique=True, max_size=2)))
    return Grown(instance, offsets, stay, draw(SHARPNESS))


def truth(case: Grown) -> Fraction:
    """Return the optimum by enumeration."""
    return optimum(case.instance, {name: case.offsets[name] for name in case.stay})


@given(starts())
@examples(80)
def test_search_ends_with_optimum(case: Grown) -> None:
    best = truth(case)
    assert is_done(case.grow(10**9))
    assert case.best == best == evaluate(case.instance, case.found).contention
    assert case.unit * dual_bound(case.tree) == best
    assert all(case.found[name] == case.offsets[name] for name in case.stay)
    assert all(0 <= case.found[job.name] < job.period for job in case.instance.jobs)


@given(starts())
@examples(40)
def test_nodes_keep_bound_and_demand(case: Grown) -> None:
    best = truth(case)
    while not is_done(case.tree):
        tree = case.grow(1)
        assert case.unit * dual_bound(tree) <= best <= case.best
        placed = np.flatnonzero(tree.jobs["position"] >= 0)
        assert len(placed) == len(case.stay) + tree.counters["depth"][0]
        expected = case.compiled.empty()
        for job in map(int, placed):
            put_job(expected, job, int(tree.placed["offset"][tree.jobs["position"][job]]), 1)
        assert np.array_equal(case.search.state.demand, expected.demand)
    assert case.best == best


@given(starts(), st.booleans(), st.integers(0, 5))
@examples(60)
def test_external_value_prunes_correctly(case: Grown, optimal: bool, later: int) -> None:
    """Cut off by the optimum or by the value of any schedule, at once or after some nodes."""
    values = landscape(case.instance)
    index = held(case.instance, {name: case.offsets[name] for name in case.stay})
    reachable = np.unique(values[index])
    value = reachable[0] if optimal else reachable[len(reachable) // 2]
    case.grow(later)
    set_cutoff(case.tree, case.scaled(Fraction(int(value), scale_of(case.instance))))
    assert is_done(case.grow(10**9))
    assert case.best == truth(case)


def test_tree_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ENTRIES", 100)
    instance = tangle(3, 2, 0, periods=(4,), lengths=(3, 3))
    with pytest.raises(TooLargeError, match="tangle: a search tree of 3 jobs on 2 links"):
        Grown(instance, dict(instance.unshifted), frozenset(), 8.0)
