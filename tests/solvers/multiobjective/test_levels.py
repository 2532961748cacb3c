"""Descent where the exact search has no time: rotations and moves that worsen nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.problem.instance import Instance
from metronome_opt.solvers.multiobjective import offsets
from metronome_opt.solvers.multiobjective.costs import Offsets
from metronome_opt.solvers.multiobjective.group_search import GroupResult
from metronome_opt.verify import evaluate
from tests.builders import evaluation_of, job, network
from tests.solvers.multiobjective.enumeration import contested, cost
from tests.tiers import examples

NAMES = ("wait", "moves", "cushion")
"""Contention and latency, first, are for a solver, which knows better than to move single jobs."""


def nothing(*_: object, start: Offsets | None = None, **__: object) -> GroupResult:
    """Stand in for an exact search without time."""
    return GroupResult(start, proved=False)


@pytest.fixture(autouse=True, scope="module")
def no_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offsets, "minimise", nothing)
        patch.setattr(
            "metronome_opt.solvers.auto.run", lambda _: None
        )  # nor time to search without contention
        yield


@given(contested(), st.permutations(NAMES))
@examples(80)
def test_descent_worsens_no_objective(instance: Instance, names: list[str]) -> None:
    before = evaluate(instance, instance.unshifted).objectives
    later = [*names, "contention", "latency"]
    found = solve(instance, objective=later, threads=1)
    assert cost(names[0], found.levels[0].value) <= cost(names[0], before[names[0]])
    after = evaluation_of(found).objectives
    for level in found.levels:
        reached = cost(level.name, level.value)
        assert cost(level.name, after[level.name]) <= reached


def test_descent_rotates_whole_group() -> None:
    # The jobs fill the link, 1 slot later than they are ready: none can move by itself.
    instance = network(job("a", 6, (0, 3, 60), ready=4), job("b", 6, (3, 3, 60), ready=5))
    found = solve(instance, objective=["moves", "contention", "wait"], threads=1)
    assert found.offsets == {"a": 5, "b": 5}
    assert [level.value for level in found.levels] == [0, 0, 1]
