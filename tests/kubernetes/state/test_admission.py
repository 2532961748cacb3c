"""What a state refuses, in one line each, and that it is then as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.nodes import Resources
from tests.kubernetes.state.events import differences, rebuilt
from tests.kubernetes.state.small import A, B, cluster, gang, running, state_of


def usual() -> ClusterState:
    """Return two nodes of two GPUs in each of two racks, and two jobs that share node 0."""
    return state_of(cluster([2, 2]), A, B)


def reservation(
    tasks: int, nodes: str, *bursts: tuple[int, int, int], **fields: Any
) -> Reservation:
    offset = fields.pop("offset", 0)
    return Reservation(
        gang=gang(tasks, *bursts, **fields), nodes=tuple(nodes.split()), offset=offset
    )


NEEDS_CPU = Resources(cpu_millicores=1)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (A.model_copy(update={"offset": 1}), "a: has another reservation already; unreserve it"),
        (reservation(3, "n1 n3"), "new: 2 nodes for 3 tasks"),
        (reservation(2, "n1 n9"), "new: nodes[1]: there is no node 'n9'"),
        # The first nodes have room, the last one has not.
        (reservation(3, "n1 n3 n0"), "new: node n0: GPUs: 0 free, 1 needed"),
        (reservation(3, "n3 n3 n3"), "new: node n3: GPUs: 2 free, 3 needed"),
        (reservation(1, "n1", each=NEEDS_CPU), "new: node n1: CPU: 0m free, 1m needed"),
        (reservation(2, "n1 n3", (0, 4, 101)), "new: n1: 101 Mbit/s asked for, 100 to be had"),
        (reservation(3, "n1 n3 n3", (0, 4, 80)), "new: n3: 160 Mbit/s asked for, 100 to be had"),
        (
            reservation(2, "n1 n3", period=10),
            "new: period: 10 slots do not divide the hyperperiod of 24",
        ),
        (
            reservation(2, "n1 n3", offset=12),
            "new: offset: 12 must be below the period of 12 slots",
        ),
        (
            reservation(2, "n1 n3", most_racks=1),
            "new: nodes: they stand in 2 racks, and it may span 1",
        ),
        (
            reservation(2, "n1 n3", max_network_cost=1),
            "new: nodes: network costs between them are higher than its max_network_cost, 1",
        ),
        # On one node it crosses no link, but its rate has to fit the numbers all the same.
        (reservation(1, "n3", (0, 4, 2**30)), "new: 1073741824 Mbit/s: must be below 1073741824"),
        (reservation(1, "n3", (0, 4, 10**70)), "new: an integer of 233 bits Mbit/s: must be below"),
        # Copies are not validated when they are made.
        *(
            (running("c", "n3").model_copy(update={field: value}), f"c: {field}: must be ")
            for field, value in [("offset", -3), ("offset", 1.5), ("stretch", -50)]
        ),
    ],
)
def test_a_reservation_that_does_not_fit_is_refused(asked: Reservation, message: str) -> None:
    check_refused(usual(), lambda state: state.reserve(asked), message)


def test_a_failed_link_has_room_for_nobody() -> None:
    state = usual()
    state.set_capacity("n3", 0)
    asked = reservation(2, "n1 n3", (0, 1, 1))
    check_refused(state, lambda s: s.reserve(asked), "new: n3: 1 Mbit/s asked for, 0 to be had")
    assert state.reserve(reservation(2, "n3 n3", (0, 1, 1)))  # they do not use it


@pytest.mark.parametrize(
    ("revised", "message"),
    [
        ([B, running("c", "n1")], "there is no job 'c' with a reservation"),
        ([B, A.model_copy(update={"offset": 12})], "a: offset: 12 must be below the period of 12"),
        ([running("b", "n0 n0", gpus=1), A], "b: node n0: GPUs: 1 free, 2 needed"),
        (
            [running("b", "n0 n1", gpus=1), A.model_copy(update={"nodes": ("n1", "n1")})],
            "a: node n1: GPUs: 1 free, 2 needed",
        ),
        ([B.model_copy(update={"stretch": -50}), A], "b: stretch: must be "),
        ([running("b", "n0 n2", gpus=2), A], "b: node n0: GPUs: 1 free, 2 needed"),
        (
            [A.model_copy(update={"gang": gang(3, name="a", each=Resources(gpus=1))})],
            "a: 2 nodes for 3 tasks",
        ),
    ],
)
def test_one_wrong_revision_holds_back_all(revised: list[Reservation], message: str) -> None:
    shifted = [
        held.model_copy(update={"offset": 3}) if held in (A, B) else held for held in revised
    ]
    check_refused(usual(), lambda state: state.revise(shifted), message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.reservation("c"), "there is no job 'c' with a reservation"),
        (lambda s: s.set_capacity("none", 5), "there is no link 'none'"),
        (lambda s: s.set_capacity("n0", -1), "n0: -1 Mbit/s: must be at least 0"),
        (lambda s: s.set_capacity("n0", 2**30), "n0: 1073741824 Mbit/s: must be below 1073741824"),
        (lambda s: s.set_node("none", up=True), "there is no node 'none'"),
    ],
)
def test_what_is_not_there_is_named(call: Callable[[ClusterState], object], message: str) -> None:
    check_refused(usual(), call, message)


def test_a_link_that_is_too_fast_is_refused_with_the_cluster() -> None:
    with pytest.raises(InputError, match="n0: 1073741824 Mbit/s: must be below 1073741824"):
        ClusterState(cluster([1], interface=2**30))


def check_refused(
    state: ClusterState, call: Callable[[ClusterState], object], message: str
) -> None:
    before = rebuilt(state)
    noted: list[object] = []
    state.note = noted.append
    with pytest.raises(InputError) as caught:
        call(state)
    state.note = lambda _: None
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert noted == []
    assert differences(state, before) == []
