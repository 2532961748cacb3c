"""Two states that are not the same, and the line that says where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.views import differences, rebuilt
from tests.scheduling.clusters import cluster, state_of
from tests.scheduling.states import A, B, usual


def test_a_state_is_the_same_as_itself_rebuilt() -> None:
    other = rebuilt(usual())
    assert differences(usual(), other) == []
    assert (other.capacity[5], bool(other.up[3]), other.sequence) == (40, False, 4)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda s: s.free.__setitem__((3, 1), 1), "free[3, 1]: 0 and 1"),
        (lambda s: s.demand.layers.__setitem__((0, 1, 5), 61), "layers[0, 1, 5]: 60 and 61"),
        (lambda s: s.demand.highest.__setitem__(4, 29), "highest[4]: 30 and 29"),
        (lambda s: s.capacity.__setitem__(5, 7), "capacity[5]: 40 and 7"),
        (lambda s: s.crossed.update(gone={0: 1}), "crossed: "),
        (lambda s: s.demand.users.update({7: 0}), "users: {2: 1, 1: 1} and {2: 1, 1: 1, 7: 0}"),
        (lambda s: s.claims.update(a=s.claims.pop("a")), "claims: "),
        (lambda s: setattr(s, "sequence", 9), "sequence: 4 and 9"),
    ],
)
def test_what_differs_is_named(spoil: Callable[[ClusterState], object], line: str) -> None:
    other = usual()
    spoil(other)
    (found,) = differences(usual(), other)
    assert found.startswith(line)


def test_the_clusters_and_all_layers_have_to_be_the_same() -> None:
    one = state_of(cluster([2, 2]), A, B)
    (line,) = differences(one, state_of(cluster([3, 1]), A, B))
    assert line.startswith("cluster: ")
    lines = differences(one, state_of(cluster([2, 2]), A))
    assert "weights: [1, 2] and [2]" in lines
    assert "layers: int32(6, 2, 24) and int32(6, 1, 24)" in lines
