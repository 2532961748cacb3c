"""Two states that are not the same, and the line that says where."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metronome_opt.scheduling.compare import differences, rebuilt
from metronome_opt.scheduling.state import ClusterState
from tests.scheduling.clusters import cluster, running, state_of

HEAVY = running("heavy", "n0 n1", (0, 4, 60), offset=2, weight=2, gpus=1)
LIGHT = running("light", "n0 n2", (0, 2, 30), offset=7, period=8, gpus=1)


def usual() -> ClusterState:
    return state_of(cluster([2, 2]), HEAVY, LIGHT)


def test_a_state_is_the_same_as_itself_rebuilt() -> None:
    state = usual()
    state.set_capacity("n1", 0)
    state.set_node("n2", up=False)
    other = rebuilt(state)
    assert differences(state, other) == []
    assert other is not state
    assert (other.capacity[1], bool(other.up[2]), other.sequence) == (0, False, 4)


def spoil_free(state: ClusterState) -> None:
    state.free[3, 1] += 1


def spoil_layer(state: ClusterState) -> None:
    state.demand.layers[0, 1, 5] += 1


def spoil_highest(state: ClusterState) -> None:
    state.demand.highest[4] -= 1


def spoil_peaks(state: ClusterState) -> None:
    state.demand.peaks[4] -= 1


def spoil_capacity(state: ClusterState) -> None:
    state.capacity[5] = 7


def spoil_up(state: ClusterState) -> None:
    state.up[1] = False


def spoil_flows(state: ClusterState) -> None:
    state.crossed["heavy"] = {0: 1}


def leave_flows(state: ClusterState) -> None:
    state.crossed["gone"] = {0: 1}


def leave_a_weight(state: ClusterState) -> None:
    state.demand.users[7] = 0


def spoil_order(state: ClusterState) -> None:
    state.claims["heavy"] = state.claims.pop("heavy")


def spoil_claim(state: ClusterState) -> None:
    state.claims["heavy"] = HEAVY.model_copy(update={"offset": 3})


def spoil_sequence(state: ClusterState) -> None:
    state.sequence = 9


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (spoil_free, "node n3: free[1]: 0 and 1"),
        (spoil_layer, "link n0: demand of weight 2 and more[5]: 60 and 61"),
        (spoil_highest, "link up-0: highest: 30 and 29"),
        (spoil_peaks, "link up-0: peaks: 30 and 29"),
        (spoil_capacity, "link up-1: capacity: 150 and 7"),
        (spoil_up, "node n1: up: True and False"),
        (spoil_flows, "job heavy: flows: {0: 1, 1: 1} and {0: 1}"),
        (leave_a_weight, "jobs by weight: {2: 1, 1: 1} and {2: 1, 1: 1, 7: 0}"),
        (spoil_order, "jobs: ['heavy', 'light'] and ['light', 'heavy']"),
        (spoil_claim, "job heavy: offset: 2 and 3"),
        (spoil_sequence, "sequence: 2 and 9"),
    ],
)
def test_what_differs_is_named(spoil: Callable[[ClusterState], None], line: str) -> None:
    other = usual()
    spoil(other)
    assert differences(usual(), other) == [line]


def test_what_was_left_behind_is_found() -> None:
    other = usual()
    leave_flows(other)
    (line,) = differences(usual(), other)
    assert line.startswith("jobs with flows: ")


def test_the_clusters_have_to_be_the_same() -> None:
    lines = differences(usual(), state_of(cluster([3, 1]), HEAVY, LIGHT))
    assert len(lines) == 1
    assert lines[0].startswith("cluster: ")


def test_a_layer_too_many_is_found() -> None:
    lines = differences(usual(), state_of(cluster([2, 2]), HEAVY))
    assert "weights: [1, 2] and [2]" in lines
    assert "layers: (6, 2, 24) and (6, 1, 24)" in lines
    assert "node n0: free[0]: 0 and 1" in lines
