"""Filters: which nodes pass, the reason of the others, and that it agrees with reserving."""

from __future__ import annotations

from itertools import combinations_with_replacement

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.scheduling.cycle import Cycle, Partial
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.nodes import filter_nodes, refusals
from metronome_opt.scheduling.state import ClusterState
from tests.scheduling.clusters import CASES, cluster, every_place, gang, state_of


def refused(state: ClusterState, asked: Gang, placed: str = "") -> dict[str, str]:
    """Return the reasons of all nodes that do not pass, tasks being on the nodes named."""
    cycle = Cycle(state, asked)
    partial = cycle.partial([state.node_index(name) for name in placed.split()])
    names = [state.cluster.nodes[node].name for node in filter_nodes(cycle, partial)]
    reasons = refusals(cycle, partial)
    assert not set(names) & set(reasons)
    assert set(names) | set(reasons) == {node.name for node in state.cluster.nodes}
    return reasons


def test_an_interface_carries_all_tasks_of_a_node_at_their_fastest() -> None:
    state = state_of(cluster([2], gpus=3))
    assert refused(state, gang(4, (0, 1, 50)), "n0 n0") == {
        "n0": "n0 has room for 100 Mbit/s, 150 needed"
    }
    # A gang that fits onto the node as a whole sends nothing.
    assert refused(state, gang(3, (0, 1, 50)), "n0 n0") == {}


def test_an_uplink_that_fails_keeps_gangs_in_their_racks() -> None:
    state = state_of(cluster([2, 3], gpus=1))
    state.set_capacity("up-0", 0)
    up_0 = "up-0 has room for 0 Mbit/s, 60 needed"
    # Two fit into either rack, three into the second alone.
    assert refused(state, gang(2, (0, 1, 60))) == {}
    assert refused(state, gang(3, (0, 1, 60))) == {"n0": up_0, "n1": up_0}
    # The one that is there cannot leave its rack.
    assert refused(state, gang(2, (0, 1, 60)), "n0") == {
        "n0": "GPUs: 1 free, 2 needed",
        **{f"n{n}": up_0 for n in (2, 3, 4)},
    }


def test_tasks_that_would_not_fit_through_their_interface_cannot_leave_it() -> None:
    state = state_of(cluster([2], gpus=[3, 1]))
    told = "n0 has room for 100 Mbit/s, 120 needed"
    assert refused(state, gang(3, (0, 1, 60)), "n0 n0") == {"n1": told}


def test_no_more_racks_are_opened_than_leave_room_for_all() -> None:
    state = state_of(cluster([3, 2, 1], gpus=1, uplink=None))
    rest = "the other tasks would find too little room in 2 racks"
    assert refused(state, gang(5, (0, 1, 60), most_racks=2)) == {"n5": rest}
    assert refused(state, gang(4, (0, 1, 60), most_racks=2), "n3") == {
        "n3": "GPUs: 1 free, 2 needed",
        "n5": rest,
    }
    assert refused(state, gang(3, (0, 1, 60), most_racks=1)) == dict.fromkeys(
        ("n3", "n4", "n5"), "the other tasks would find too little room in 1 rack"
    )


@given(CASES)
def test_a_place_passes_task_by_task_if_and_only_if_reserving_accepts_it(cycle: Cycle) -> None:
    places = set(every_place(cycle))
    for nodes in combinations_with_replacement(range(len(cycle.room)), cycle.gang.tasks):
        passes, partial = True, Partial()
        for node in nodes:
            passes = passes and node in filter_nodes(cycle, partial)
            partial = cycle.add(partial, node)
        assert passes == (nodes in places)


@given(CASES, st.data())
def test_taking_any_nodes_that_pass_leads_to_a_place_if_there_is_one(
    cycle: Cycle, data: st.DataObject
) -> None:
    partial = Partial()
    passing = filter_nodes(cycle, partial).tolist()
    assert bool(passing) == any(True for _ in every_place(cycle))
    while passing and partial.tasks < cycle.gang.tasks:
        partial = cycle.add(partial, data.draw(st.sampled_from(passing)))
        passing = filter_nodes(cycle, partial).tolist()
        assert passing or partial.tasks == cycle.gang.tasks
