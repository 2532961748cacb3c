"""A place for a job, by every search, on cases worked out by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scenario.network import Resources
from metronome_opt.scheduling.nodes import why_not
from metronome_opt.scheduling.place import SEARCHES, place_job
from tests.scheduling.clusters import cluster, gang, running, state_of

EVERY = pytest.mark.parametrize("search", list(SEARCHES))


@EVERY
def test_a_burst_goes_into_the_middle_of_what_is_free(search: str) -> None:
    state = state_of(cluster([2], gpus=1), running("a", "n0 n1"))
    decision = place_job(state, gang(2), search=search)
    assert decision is not None
    # Two bursts of 60 do not fit 100 together. Of 12 slots 4 to 11 are free, 8 for a burst of 4.
    assert decision.claim.offset == 6
    assert decision.cushion == 2
    assert decision.contention == 0
    assert decision.score == 100
    assert decision.claim.nodes == ("n0", "n1")
    assert (decision.racks, decision.fragments) == (1, 0)


@EVERY
def test_what_does_not_fit_costs_what_is_late(search: str) -> None:
    state = state_of(cluster([2], gpus=1), running("a", "n0 n1"))
    decision = place_job(state, gang(2, (0, 10, 60)), search=search)
    assert decision is not None
    # 10 slots into 8: on two interfaces 20 Mbit/s are late in 2 of 12 slots, of 600 sent there.
    assert decision.contention == Fraction(2 * 2 * 20, 12)
    assert decision.conflicts == 2
    # 6.7 percent are late, and one of two links is in conflict besides.
    assert decision.score == 100 - (100 + 7 + 1) // 2
    assert decision.cushion == 0
    decision = place_job(state, gang(2, (0, 10, 60)), search=search, first="contention")
    assert decision is not None
    assert (decision.conflicts, decision.score) == (2, 100 - 7)


@EVERY
@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_bandwidth_of_its_own_or_in_turns(search: str, mode: str) -> None:
    shared = mode == "shared"
    state = state_of(
        cluster([2], gpus=1), running("a", "n0 n1"), mode="shared" if shared else "exclusive"
    )
    decision = place_job(state, gang(2), search=search)
    assert (decision is not None) is shared
    if not shared:
        assert why_not(state, gang(2)) == (
            "none of 2 nodes takes a task of new: "
            "2 lack bandwidth (1 of them: n0 has room for 40 Mbit/s, 60 needed)"
        )


@EVERY
def test_where_there_is_no_room_nothing_is_proposed(search: str) -> None:
    state = state_of(cluster([2, 2], gpus=1))
    assert place_job(state, gang(4), search=search) is not None
    assert place_job(state, gang(5), search=search) is None
    assert place_job(state, gang(3, most_racks=1), search=search) is None


def test_the_reasons_are_counted_the_most_frequent_first() -> None:
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


@pytest.mark.parametrize(
    ("interface", "uplink", "limit", "told"),
    [
        # Racks of four GPUs each; tasks of 60 Mbit/s.
        (300, 150, None, "4 of 6 tasks find room, limited by the uplinks"),
        (300, 180, 1, "4 of 6 tasks find room, limited by most_racks: 1"),
        (60, 1000, None, "4 of 6 tasks find room, limited by the interfaces"),
    ],
)
def test_how_many_tasks_fit_is_told_and_what_limits_them(
    interface: int, uplink: int, limit: int | None, told: str
) -> None:
    state = state_of(cluster([2, 2], interface=interface, uplink=uplink))
    asked = gang(6, most_racks=limit)
    assert place_job(state, asked) is None
    assert why_not(state, asked).endswith(told)
    assert place_job(state, gang(4, most_racks=limit)) is not None
    assert place_job(state, gang(5, most_racks=limit)) is None


def test_how_many_nodes_are_missing_is_told() -> None:
    state = state_of(cluster([2, 2], gpus=8, interface=1000, uplink=None))
    each = Resources(gpus=4)
    assert why_not(state, gang(13, each=each)).endswith(
        "8 of 13 tasks find room; needs 3 more nodes with 8 GPUs free"
    )
    # What others hold is room for nobody.
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


def test_a_job_whose_costs_are_too_large_to_count_conflicts_is_placed_by_contention() -> None:
    state = state_of(cluster([2], gpus=1, interface=2**29))
    asked = gang(2, (0, 4, 2**29), weight=2**25)
    with pytest.raises(InputError, match="lower its weight or put contention first"):
        place_job(state, asked)
    assert place_job(state, asked, first="contention") is not None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"first": "racks"}, "first: must be compatibility or contention, got 'racks'"),
        ({"search": "best"}, "search: must be one of tree, beam, greedy, cpsat, got 'best'"),
        ({}, "new: runs already; unreserve it first, or rename it"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(fields: dict[str, Any], said: str) -> None:
    state = state_of(cluster([2]), running("new", "n0 n1"))
    with pytest.raises(InputError, match=said):
        place_job(state, gang(2), **fields)
