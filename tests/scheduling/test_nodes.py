"""Filter, Score, Normalise: by hand, against what reserving accepts, the judge and the plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState
from metronome_opt.instance import Link
from metronome_opt.scenario.cluster import ClusterSpec
from metronome_opt.scenario.network import Distance, Host, Rack, Resources
from metronome_opt.scheduling.cycle import Cycle, First, Partial
from metronome_opt.scheduling.nodes import (
    Scores,
    filter_nodes,
    network_costs,
    normalise,
    normalised,
    refusals,
    score_nodes,
)
from tests.scheduling.clusters import (
    CASES,
    cluster,
    every_place,
    gang,
    judged_costs,
    running,
    state_of,
)

# ------------------------------------------------------------------ filter


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


# ------------------------------------------------------------------ score


def scored(
    state: ClusterState, asked: Gang, placed: str = "", first: First = "compatibility"
) -> Scores:
    """Score all nodes for the next task, others being on the nodes that are named."""
    cycle = Cycle(state, asked, first=first)
    partial = cycle.partial([state.node_index(name) for name in placed.split()])
    return score_nodes(cycle, partial, np.arange(len(state.cluster.nodes)))


# Interfaces carry 100, hyperperiods are 24 slots unless said otherwise.
EARLY = running("early", "n0 n3", (0, 6, 60))  # slots 0 to 5 of 12
LATE = running("late", "n1 n3", (0, 6, 60), offset=6)  # slots 6 to 11
ONE_RACK = cluster([4], gpus=1)


def test_all_links_have_one_rotation() -> None:
    state = state_of(ONE_RACK, EARLY, LATE)
    asked = gang(2, (0, 6, 60))
    alone = scored(state, asked)
    assert [alone.offset[0], alone.offset[1]] == [6, 0]
    assert [alone.cost[0], alone.cost[1]] == [0, 0]
    # Node 0 wants an offset of 6, node 1 one of 0; at any, six slots meet on one or the other.
    both = scored(state, asked, "n0")
    assert both.cost[1] == 2 * 6 * 20
    # Of 2 tasks, 6 slots, 60 and 2 repetitions, 1440, that is 17 percent; of two links on one.
    assert both.score[1] == 100 - 9
    assert scored(state, asked, "n0", first="contention").score[1] == 100 - 17
    assert (both.cost[2], both.offset[2]) == (0, 6)


def test_a_link_in_conflict_counts_more_than_what_is_late() -> None:
    state = state_of(ONE_RACK, running("many", "n0 n1", (0, 12, 41)), running("few", "n2 n3"))
    state.set_capacity("n3", 200)
    asked = gang(2, (0, 8, 60))
    # With a task on node 0, that on 1 is late by little too, and those on 2 and 3 by nothing more.
    found = scored(state, asked, "n0")
    assert found.score.tolist()[1:] == [100 - 51, 100 - 1, 100 - 1]
    by_contention = scored(state, asked, "n0", first="contention")
    assert by_contention.score.tolist()[1:] == [100 - 2, 100 - 1, 100 - 1]


def test_what_weighs_nothing_is_late_at_no_cost_and_has_the_best_score() -> None:
    """Contention is weighted, and the lightest gives way: nobody it meets counts."""
    state = state_of(ONE_RACK, running("full", "n0 n1", (0, 12, 100)))
    found = scored(state, gang(2, (0, 12, 60), weight=0))
    assert found.cost.tolist() == [0, 0, 0, 0]
    assert found.score.tolist() == [100, 100, 100, 100]


@pytest.mark.slow
@given(CASES, st.data())
def test_the_last_task_costs_what_the_judge_finds(cycle: Cycle, data: st.DataObject) -> None:
    partial = Partial()
    for _ in range(cycle.gang.tasks - 1):
        passing = filter_nodes(cycle, partial)
        assume(len(passing))
        partial = cycle.add(partial, data.draw(st.sampled_from(passing.tolist())))
    scores = score_nodes(cycle, partial, filter_nodes(cycle, partial))
    placed = [node for node, count in partial.nodes.items() for _ in range(count)]
    for i, node in enumerate(scores.nodes.tolist()):
        judged = judged_costs(cycle, [*placed, node])
        conflicts = int(scores.least[i]) // cycle.conflict if cycle.conflict else 0
        added = Fraction(int(scores.cost[i]), cycle.state.cluster.hyperperiod)
        assert judged[scores.offset[i]] == min(judged) == (conflicts, added)


# ------------------------------------------------------------------ normalise


Label = str | None
Ways = Mapping[tuple[str, str], int]


def labelled(labels: Sequence[tuple[Label, Label]], zones: Ways, regions: Ways) -> Cycle:
    """Return a gang and a cluster whose nodes have these regions and racks."""
    names = [f"n-{number}" for number in range(1, len(labels) + 1)]
    racks = {rack for _, rack in labels if rack}
    known = racks | {region for region, _ in labels if region}
    zone_costs, region_costs = (
        tuple(
            Distance(origin=one, destination=other, cost=cost)
            for (one, other), cost in ways.items()
            if {one, other} <= known
        )
        for ways in (zones, regions)
    )
    spec = ClusterSpec(
        name="labelled",
        slot_ms=1,
        hyperperiod=12,
        nodes=tuple(
            Host(name=name, has=Resources(gpus=9), interface=name, region=region, rack=rack)
            for name, (region, rack) in zip(names, labels, strict=True)
        ),
        racks=tuple(Rack(name=rack) for rack in sorted(racks)),
        links=tuple(Link(name=name, capacity=100) for name in names),
        zone_costs=zone_costs,
        region_costs=region_costs,
    )
    return Cycle(ClusterState(spec), gang(8))


def costs(cycle: Cycle, placed: Sequence[int]) -> list[int]:
    every = np.arange(len(cycle.room))
    found: list[int] = network_costs(cycle, cycle.partial(placed), every).tolist()
    return found


WEST, EAST = "us-west-1", "us-east-1"
NODES = [(WEST if n < 5 else EAST, f"z{(n + 1) // 2}") for n in range(1, 9)]
ZONES = {("z1", "z2"): 5, ("z2", "z1"): 5, ("z3", "z4"): 10, ("z4", "z3"): 10}
REGIONS = {(WEST, EAST): 20, (EAST, WEST): 20}


@pytest.mark.parametrize(
    ("placed", "raw", "scores"),
    [
        ([4], [20, 20, 20, 20, 0, 1, 10, 10], [0, 0, 0, 0, 100, 95, 50, 50]),
        ([0], [0, 1, 5, 5, 20, 20, 20, 20], [100, 95, 75, 75, 0, 0, 0, 0]),
        ([], [0] * 8, [0] * 8),
    ],
)
def test_the_real_plugin_gave_the_same_costs_and_scores(
    placed: list[int], raw: list[int], scores: list[int]
) -> None:
    assert costs(labelled(NODES, ZONES, REGIONS), placed) == raw
    assert normalised(np.array(raw)).tolist() == scores


@pytest.mark.parametrize(
    ("there", "cost"),
    [
        (("r", "a"), 1),  # one zone
        (("r", "b"), 7),
        (("r", "c"), 100),  # nothing known
        (("r", None), 100),
        (("s", "d"), 30),  # another region
        (("t", "e"), 100),
        ((None, "f"), 100),
        ((None, None), 100),  # no labels
    ],
)
def test_a_way_costs_what_zones_and_regions_say(there: tuple[Label, Label], cost: int) -> None:
    zones, regions = {("a", "b"): 7, ("b", "a"): 8}, {("r", "s"): 30, ("s", "r"): 40}
    assert costs(labelled([("r", "a"), there], zones, regions), [1]) == [cost, 0]


def test_ties_are_broken_by_network_score_and_then_by_name() -> None:
    names = ["d", "c", "b", "a"]
    order = normalise(names, np.array([90, 90, 100, 90]), np.array([50, 80, 0, 50]))
    assert [names[index] for index in order] == ["b", "c", "a", "d"]
