"""Reasons for which a job finds no place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.scenario.network import Resources
from metronome_opt.scheduling import place_job, why_not
from tests.cluster.small import cluster, gang, state_of
from tests.scheduling.oracle import every_place, small_case
from tests.tiers import examples


@examples(100)
@given(st.integers(0, 2**32))
def test_some_node_takes_first_task_exactly_if_there_is_a_place(seed: int) -> None:
    cycle = small_case(seed)
    line = why_not(cycle.state, cycle.gang)
    assert line.startswith("none of ") == (not any(True for _ in every_place(cycle)))


def test_reasons_are_counted_most_frequent_first() -> None:
    state = state_of(cluster([3, 2], gpus=[1, 1, 1, 2, 2], uplink=None))
    state.set_node("n0", up=False)
    asked = gang(2, each=Resources(gpus=2))
    assert place_job(state, asked) is not None
    state.set_node("n4", up=False)
    assert why_not(state, asked) == (
        "none of 5 nodes takes a task of new: 2 take no tasks, "
        "2 lack GPUs, CPU or memory (GPUs: 1 free, 2 needed), 1 leaves too little room for the "
        "other tasks; 1 of 2 tasks find room; needs 1 more node with 2 GPUs free"
    )


def test_link_that_lacks_bandwidth_is_named() -> None:
    state = state_of(cluster([1, 1], gpus=1))
    state.set_capacity("n0", 50)
    state.set_capacity("up-1", 0)
    assert why_not(state, gang(2)) == (
        "none of 2 nodes takes a task of new: "
        "1 lacks bandwidth (n0 has room for 50 Mbit/s, 60 needed), "
        "1 is in a rack whose uplink lacks bandwidth (up-1 has room for 0 Mbit/s, 60 needed)"
    )


@pytest.mark.parametrize(
    ("interface", "uplink", "limit", "reason"),
    [
        # Racks of four GPUs each; tasks of 60 Mbit/s.
        (300, 150, None, "4 of 6 tasks find room, limited by the uplinks"),
        (300, 180, 1, "4 of 6 tasks find room, limited by most_racks: 1"),
        (60, 1000, None, "4 of 6 tasks find room, limited by the interfaces"),
    ],
)
def test_limit_of_tasks_that_fit_is_reported(
    interface: int, uplink: int, limit: int | None, reason: str
) -> None:
    state = state_of(cluster([2, 2], interface=interface, uplink=uplink))
    asked = gang(6, most_racks=limit)
    assert place_job(state, asked) is None
    assert why_not(state, asked).endswith(reason)
    assert place_job(state, gang(4, most_racks=limit)) is not None
    assert place_job(state, gang(5, most_racks=limit)) is None


def test_number_of_missing_nodes_is_reported() -> None:
    state = state_of(cluster([2, 2], gpus=8, interface=1000, uplink=None))
    each = Resources(gpus=4)
    assert why_not(state, gang(13, each=each)).endswith(
        "8 of 13 tasks find room; needs 3 more nodes with 8 GPUs free"
    )
    # Resources held by others are no room.
    state.others[0] = state.others[1] = (8, 0, 0)
    state.others[2] = (5, 0, 0)
    assert state.fits(gang(13, each=each)).tolist() == [0, 0, 0, 2]
    assert place_job(state, gang(2, each=each)) is not None
    assert place_job(state, gang(3, each=each)) is None
    assert why_not(state, gang(3, each=each)).endswith(
        "2 of 3 tasks find room; needs 1 more node with 4 GPUs free"
    )
    state.others[3] = (9, 0, 0)
    assert why_not(state, gang(2, each=each)) == (
        "none of 4 nodes takes a task of new: 4 lack GPUs, CPU or memory "
        "(3 of them: GPUs: 0 free, 4 needed); needs 1 more node with 8 GPUs free"
    )
