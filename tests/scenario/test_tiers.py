"""Racks that stand in racks: which uplinks a job crosses, and where it is nearest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import ONE_GPU
from tests.builders import fault_of
from tests.fabrics import tree
from tests.tiers import examples

TRAFFIC = {"period_ms": 40, "phases": [{"start_ms": 0, "length_ms": 10, "rate_mbps": 1}]}

# Two pods of two leaves of two nodes, and a node beside them.
POD_OF = {"l0": "p0", "l1": "p0", "l2": "p1", "l3": "p1"}
LEAF_OF = dict(zip("abcdefgh", (leaf for leaf in POD_OF for _ in "12"), strict=True))


def three_tiers(**changes: Any) -> dict[str, Any]:
    document = tree({**LEAF_OF, "z": None}, {**POD_OF, "p0": None, "p1": None})
    return {**document, **changes}


def test_a_rack_in_racks_has_one_region_unless_it_holds_all() -> None:
    def document(**regions: str) -> dict[str, Any]:
        made = tree({**LEAF_OF}, {**POD_OF, "p0": "core", "p1": "core", "core": None})
        for node in made["nodes"]:
            node["region"] = regions.get(POD_OF[node["rack"]])
        return made

    assert Cluster.model_validate(document(p0="east", p1="west")).depth == 3
    mixed = document(p0="east")
    mixed["nodes"][2]["region"] = "west"  # of leaf l1, in the pod of l0
    with pytest.raises(ValueError, match="rack 'p0' is in 'east' by nodes"):
        Cluster.model_validate(mixed)


def flows(nodes: str, allreduce: Any = "tasks") -> dict[str, int]:
    links = compute_placement(Cluster.model_validate(three_tiers()), [*nodes], allreduce).links
    return {link: count for link, count in links.items() if len(link) > 1}


@pytest.mark.parametrize(
    ("nodes", "uplinks", "ring"),
    [
        ("ab", {}, {}),
        ("ac", {"l0-up": 1, "l1-up": 1}, {"l0-up": 1, "l1-up": 1}),
        # The way to the lowest shared switch: the pods of `a` and `e` meet in the core alone.
        (
            "ae",
            {"l0-up": 1, "l2-up": 1, "p0-up": 1, "p1-up": 1},
            {"l0-up": 1, "l2-up": 1, "p0-up": 1, "p1-up": 1},
        ),
        # In full all three go to the core; around the ring `a` sends to `c`, inside the pod.
        (
            "ace",
            {"l0-up": 1, "l1-up": 1, "l2-up": 1, "p0-up": 2, "p1-up": 1},
            {"l0-up": 1, "l1-up": 1, "l2-up": 1, "p0-up": 1, "p1-up": 1},
        ),
        ("az", {"l0-up": 1, "p0-up": 1}, {"l0-up": 1, "p0-up": 1}),
    ],
)
def test_flows_go_up_to_the_lowest_switch_that_is_shared(
    nodes: str, uplinks: dict[str, int], ring: dict[str, int]
) -> None:
    assert (flows(nodes), flows(nodes, "ring")) == (uplinks, ring)


def test_a_placement_counts_switches_from_the_top() -> None:
    cluster = Cluster.model_validate(three_tiers())
    spans = {
        nodes: compute_placement(cluster, [*nodes]).spans
        for nodes in ("ab", "ac", "ae", "acf", "acz")
    }
    assert spans == {"ab": (1, 1), "ac": (1, 2), "ae": (2, 2), "acf": (2, 3), "acz": (2, 3)}


def spec_of(document: dict[str, Any]) -> ClusterSpec:
    del document["topology"]
    head = {"format": "metronome-cluster/1", "name": "c", "slot_ms": 5}
    return ClusterSpec.from_dict({**head, **document})


def test_only_racks_in_racks_are_written_so() -> None:
    spec = spec_of(three_tiers())
    written = spec.to_dict()
    assert [("within" in rack) for rack in written["racks"]] == [True] * 4 + [False] * 2
    assert ClusterSpec.from_dict(written) == spec


DEEP = {f"r{n}": f"r{n + 1}" for n in range(16)} | {"r16": None}


@pytest.mark.parametrize(
    ("leaf_of", "above", "line"),
    [
        ({"a": "x"}, {"x": "y"}, "racks[0].within: there is no rack 'y'"),
        ({"a": "x"}, {"x": "y", "y": "x"}, "racks[0].within: 'y': stands in itself"),
        ({"a": "x"}, {"x": "x"}, "racks[0].within: 'x': stands in itself"),
        ({"a": "x"}, {"x": None, "y": None}, "racks[1].name: 'y' holds no node"),
        ({"a": "r0"}, DEEP, "racks[0].within: 'r1': has more than 15 others"),
    ],
)
def test_bad_trees(leaf_of: Any, above: Any, line: str) -> None:
    assert fault_of(lambda: spec_of(tree(leaf_of, above))).startswith(line)


# ------------------------------------------------------------------ placements


def job(tasks: int) -> JobRequest:
    return JobRequest("j", tasks, ONE_GPU, traffic=lambda _: Iteration(()), best_ms=1.0)


def nearest(taken: str, tasks: int) -> set[str]:
    """Return the racks of a job where each letter of `taken` is a GPU in use."""
    room = CandidatePlacements(Cluster.model_validate(three_tiers()))
    room.take([*taken], ONE_GPU)
    placement = room.nearest(job(tasks))
    assert placement is not None
    return {LEAF_OF[node] for node in placement.nodes}


@pytest.mark.parametrize(
    ("taken", "tasks", "racks"),
    [
        ("", 4, {"l0"}),
        ("aab", 4, {"l1"}),
        # Free are 4 in `l0`, 3 in `l2` and 2 in `l3`: a pod has room for all.
        ("ccddeggzz", 5, {"l2", "l3"}),
        # Now it has not, and the two racks with most room are of two pods.
        ("ccddegghzz", 6, {"l0", "l2"}),
        # Free are 2 and 1 in `p0`, 1 in `p1` and 2 beside them: three tasks fit in a pod.
        ("aacddeffgh" + "gh", 3, {"l0", "l1"}),
    ],
)
def test_nearest_takes_few_pods_before_few_racks(taken: str, tasks: int, racks: set[str]) -> None:
    assert nearest(taken, tasks) == racks


@examples(40)
@given(st.integers(2, 16), st.data())
def test_one_pod_of_all_racks_has_the_places_of_two_tiers(tasks: int, data: st.DataObject) -> None:
    above: dict[str, str | None] = dict.fromkeys(POD_OF, "p")
    rooms = [
        CandidatePlacements(Cluster.model_validate(tree(dict(LEAF_OF), dict.fromkeys(POD_OF)))),
        CandidatePlacements(
            Cluster.model_validate(tree(dict(LEAF_OF), {**above, "p": None}, set(POD_OF)))
        ),
    ]
    free = data.draw(st.lists(st.integers(0, 2), min_size=8, max_size=8))
    best = []
    for room in rooms:
        room.free[:, 0] = free
        placement = room.nearest(job(tasks))
        best.append(placement and (placement.nodes, placement.links, placement.spans[-1]))
    assert best[0] == best[1]
