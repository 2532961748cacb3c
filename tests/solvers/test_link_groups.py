"""Link groups: the bound grows from the links' own to a proof, and is true all the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers import link_groups as module
from metronome_opt.solvers.link_groups import LinkGroups
from metronome_opt.solvers.presolve.blocks import split
from metronome_opt.solvers.presolve.reductions import simplify_links
from metronome_opt.solvers.run import SolverRun
from tests.builders import hard_instance
from tests.landscape import optimum
from tests.solvers.searches import check_proved, searching
from tests.strategies import crowded
from tests.tiers import examples

CASES = crowded(max_jobs=5, max_links=4, most_schedules=3000)
LARGER = crowded(min_jobs=5, max_jobs=7, max_links=4, most_schedules=40_000)


def blocks_of(instance: Instance) -> tuple[Instance, ...]:
    return split(simplify_links(instance)).blocks


def run_to_end(search: SolverRun) -> SolverRun:
    """Run rounds until proved; the bound holds after each."""
    best = optimum(search.instance)
    groups = LinkGroups(search)
    for _ in range(20):
        if search.proved:
            break
        groups.step()
        assert not groups.exhausted
        assert search.incumbent is not None
        assert (search.bound or 0) <= best <= search.incumbent
    return search


@given(CASES)
@examples(40)
def test_link_groups_end_with_proof(instance: Instance) -> None:
    for block in blocks_of(instance):
        search = run_to_end(searching(block))
        check_proved(search, optimum(block))


@given(LARGER, st.sampled_from((0, 20_000)))
@examples(30)
def test_small_rounds_end_with_proof(instance: Instance, link_nodes: int) -> None:
    """Groups are left and resumed, and those with more jobs come in later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LINK_NODES", link_nodes)
        patch.setattr(module, "_FIRST_NODES", 1)
        patch.setattr(module, "_FIRST_JOBS", 2)
        patch.setattr(module, "_MORE_JOBS", 1)
        for block in blocks_of(instance):
            search = run_to_end(searching(block))
            check_proved(search, optimum(block))


def test_trees_too_large_are_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from metronome_opt.solvers.kernels import tree

    monkeypatch.setattr(tree, "_MAX_ENTRIES", 10)
    instance = hard_instance(6, 3)
    for solver in ("branch-bound", "auto"):  # they end, though there is no limit
        result = solve(instance, solver, time_limit=None, threads=1)
        noted = [note for note in result.notes if "no branch and bound" in note]
        assert len(noted) == 1
        assert "search tree" in noted[0]
        # auto has another way to prove it
        assert (result.bound is None) == (solver == "branch-bound")
