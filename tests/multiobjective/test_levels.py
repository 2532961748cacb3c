"""What is left where the exact search has no time: turns and moves that make nothing worse."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Instance
from metronome_opt.multiobjective import levels
from metronome_opt.multiobjective.costs import Offsets
from metronome_opt.multiobjective.levels import Answer, Levels
from metronome_opt.multiobjective.objectives import traffic
from metronome_opt.result import Level
from metronome_opt.solvers import auto
from metronome_opt.solvers.search import Search
from metronome_opt.verify import evaluate
from tests.builders import job, network
from tests.multiobjective.enumeration import AT_GIVEN_PERIODS, allowed, contested, cost
from tests.strategies import assigned
from tests.tiers import examples


def nothing(*_: object, start: Offsets | None = None, **__: object) -> Answer:
    """Stand in for an exact search without time."""
    return Answer(start, proved=False)


def levels_of(instance: Instance, offsets: dict[str, int]) -> Levels:
    search = Search(instance, time_limit=None, seed=0, workers=1)
    return Levels(search, traffic(instance), dict(offsets))


@given(
    assigned(contested()),
    st.permutations(AT_GIVEN_PERIODS),
    st.integers(0, 3),
    st.fractions(0, 1, max_denominator=3),
)
@examples(80)
def test_without_time_nothing_becomes_worse(
    drawn: tuple[Instance, dict[str, int]], names: list[str], held: int, tolerance: Fraction
) -> None:
    instance, offsets = drawn
    before = evaluate(instance, offsets).objectives
    name, *earlier = names[: held + 1]
    work = levels_of(instance, offsets)
    for each in earlier:
        work.hold(Level(each, before[each], proved=False, tolerance=tolerance))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "minimise", nothing)
        patch.setattr(auto, "run", lambda _: None)  # nor is there time to look for peace
        proved = work.improve(name)
    after = evaluate(instance, work.offsets).objectives
    assert cost(name, after[name]) <= cost(name, before[name])
    for each in earlier:
        assert cost(each, after[each]) <= allowed(each, cost(each, before[each]), tolerance)
    if name in ("wait", "moves"):  # of others there may be nothing to decide
        assert not proved


def improved(instance: Instance, name: str, *held: str) -> Levels:
    """Return levels that had no time for an exact search, from where everybody is ready."""
    work = levels_of(instance, {each.name: 0 for each in instance.jobs})
    for each in held:
        work.hold(Level(each, work.value(each), proved=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "minimise", nothing)
        work.improve(name)
    return work


def test_turning_all_jobs_together_keeps_them_apart() -> None:
    # The jobs fill the link: none can move by itself.
    instance = network(job("a", 6, (0, 3, 60), ready=4), job("b", 6, (3, 3, 60), ready=5))
    work = improved(instance, "wait", "contention")
    assert work.offsets == {"a": 5, "b": 5}
    assert [work.value("contention"), work.value("wait")] == [0, 1]


def test_single_moves_go_on_where_nothing_turns() -> None:
    # a is fixed; b can still leave its way, unless it must not wait.
    instance = network(job("a", 6, (0, 3, 60), fixed_offset=0), job("b", 6, (0, 3, 60)))
    assert improved(instance, "contention").offsets == {"a": 0, "b": 3}
    assert improved(instance, "contention", "wait").offsets == {"a": 0, "b": 0}


def test_moves_keep_a_cushion() -> None:
    # 2 slots beside 2 of 6: b keeps a slot of room only at 3. Where it is ready it has none.
    instance = network(job("a", 6, (0, 2, 60), fixed_offset=0), job("b", 6, (0, 2, 60), ready=2))
    work = levels_of(instance, {"a": 0, "b": 3})
    work.hold(Level("cushion", Fraction(1), proved=True))
    free = levels_of(instance, {"a": 0, "b": 3})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(levels, "minimise", nothing)
        work.improve("wait")
        free.improve("wait")
    assert work.offsets == {"a": 0, "b": 3}
    assert free.offsets == {"a": 0, "b": 2}
