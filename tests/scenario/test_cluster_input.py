"""Clusters: made of scenarios, read from files, refused where they contradict themselves."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.cluster_input import ClusterSpec, UniformCluster, read_cluster
from metronome_opt.scenario.placement_limits import PlacementLimits
from metronome_opt.scenario.spreading import place_tasks
from tests.builders import fault_of
from tests.fabrics import tree
from tests.scenario.examples import scenario

GPU = {"name": "A100", "sustained_tflops": {"value": 62.5, "assumed": "for the test"}}
TREE_COST = {"origin": "r0", "destination": "r1", "cost": 2}
DOCUMENT: dict[str, Any] = {
    "format": "metronome-cluster/1",
    "name": "by-hand",
    "slot_ms": 5,
    "hyperperiod": 24,
    "nodes": [
        {"name": "a", "has": {"gpus": 2}, "interface": "eth-a", "rack": "r0", "region": "east"},
        {"name": "b", "has": {"gpus": 2}, "interface": "eth-b", "rack": "r0"},
        {"name": "c", "has": {"gpus": 2}, "interface": "eth-c", "rack": "r1", "region": "west"},
        {"name": "d", "has": {"gpus": 2}, "interface": "eth-d"},
    ],
    "racks": [{"name": "r0", "uplink": "up"}, {"name": "r1", "uplink": None}],
    "links": [{"name": f"eth-{node}", "capacity": 100} for node in "abcd"]
    + [{"name": "up", "capacity": 150}],
    "zone_costs": [TREE_COST],
    "gpu": GPU,
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the document with one field of one part changed, or a part added to a list."""
    document = deepcopy(DOCUMENT)
    *way, last = path.split(".")
    inner: Any = document
    for step in way:
        inner = inner[int(step) if step.isdecimal() else step]
    if isinstance(inner, list):
        inner.insert(int(last), value)
    else:
        inner[last] = value
    return document


@pytest.mark.parametrize("tflops", [62, 0.1, 312.3456789])
def test_cluster_document_round_trip(tflops: float, tmp_path: Path) -> None:
    gpu = {"name": "X", "sustained_tflops": {"value": tflops, "source": "a sheet"}}
    spec = ClusterSpec.of_cluster("there and back", alike(gpu=gpu, oversubscription=1.5), 5, 600)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(spec.to_dict()), encoding="utf-8")
    assert read_cluster(path) == spec


def places(free: dict[str, int], wanted: list[tuple[int, int]]) -> list[tuple[str, ...] | None]:
    """Return the nodes of jobs without limits, given tasks and GPUs of a task."""
    cluster = Cluster.model_validate(tree(dict.fromkeys(free), {}))
    return place_tasks(cluster, free, [(*job, PlacementLimits()) for job in wanted])


def test_jobs_are_packed_where_spreading_leaves_one_without_room() -> None:
    free = {"a": 4, "b": 4}
    assert places(free, [(2, 1), (2, 2)]) == [("a", "b"), ("a", "b")]
    # Spread, two small tasks leave 3 GPUs on either node, no room for one of 4.
    assert places(free, [(2, 1), (1, 4)]) == [("b", "b"), ("a",)]
    assert places(free, [(2, 1), (2, 4)]) == [None, ("a", "b")]
    assert places(free, [(9, 1), (2, 1)]) == [None, ("a", "a")]


@given(
    free=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 8), min_size=1),
    wanted=st.lists(st.tuples(st.integers(1, 6), st.sampled_from([1, 2, 4])), max_size=6),
)
def test_no_gpu_is_given_twice(free: dict[str, int], wanted: list[tuple[int, int]]) -> None:
    taken: Counter[str] = Counter()
    for (workers, each), nodes in zip(wanted, places(free, wanted), strict=True):
        assert nodes is None or len(nodes) == workers
        for node in nodes or ():
            taken[node] += each
    assert all(free[node] >= count for node, count in taken.items())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("nodes.0.name", "b", "nodes[1].name: 'b' is also nodes[0]"),
        ("nodes.0.interface", "eth-x", "nodes[0].interface: there is no link 'eth-x'"),
        ("nodes.0.interfaces", ["eth-x"], "nodes[0].interface: give either interface or interfac"),
        ("nodes.0.interface", None, "nodes[0].interface: give either interface or interfaces"),
        ("nodes.0.rack", "r7", "nodes[0].rack: there is no rack 'r7'"),
        ("nodes.1.interface", "eth-a", "nodes[1].interface: 'eth-a' is also nodes[0].interface; e"),
        ("racks.1.uplink", "up", "racks[1].uplink: 'up' is also racks[0].uplink; each link has on"),
        ("racks.2", {"name": "r2"}, "racks[2].name: 'r2' holds no node; leave it out"),
        ("links.0", {"name": "up", "capacity": 5}, "links[5].name: 'up' is also links[0]"),
        ("links.5", {"name": "loose", "capacity": 5}, "links[5].name: 'loose' is no node's interf"),
        ("nodes.1.region", "west", "nodes[1].region: 'west': rack 'r0' is in 'east' by nodes[0];"),
        ("zone_costs.0.origin", "r9", "zone_costs[0].origin: there is no rack 'r9'"),
        ("zone_costs.0.origin", "r1", "zone_costs[0]: 'r1' is both of its ends; leave it out"),
        ("zone_costs", 2 * [TREE_COST], "zone_costs[1]: has the racks of zone_costs[0]"),
        ("background", {"eth-x": "5%"}, "background.eth-x: there is no link 'eth-x'"),
        ("background", {"up": "101%"}, "background.up: 101%: leaves less than 1 of its "),
        ("background", {"up": "-5%"}, "background.up: must be a share such as 30% or a rate such"),
        ("traffic_classes", 0, "traffic_classes: must be at least 1"),
        ("traffic_classes", 9, "traffic_classes: must be at most 8"),
        ("network", "rdma", "network: must be 'fair', 'tcp', 'weighted' or 'strict', got 'rdma'"),
        ("background", {"up": 5}, "background.up: must be a share such as 30% or a rate such"),
    ],
)
def test_contradiction_is_named_with_its_place(path: str, value: Any, message: str) -> None:
    assert fault_of(lambda: ClusterSpec.from_dict(changed(path, value))).startswith(message)


# ------------------------------------------------------------------ machines that are all alike


def alike(**changes: Any) -> Cluster:
    return UniformCluster.model_validate({**scenario()["cluster"], **changes}).listed


def test_leaf_spine_in_full() -> None:
    network = alike()
    # Three nodes of 50 Gbit/s a rack, half of it upwards.
    assert dict(network.capacities) == {
        **dict.fromkeys([f"node-0{index}" for index in range(6)], 50_000),
        "rack-0-uplink": 75_000,
        "rack-1-uplink": 75_000,
    }
    assert [node.rack for node in network.nodes] == ["rack-0"] * 3 + ["rack-1"] * 3
    assert network.links_of(network.nodes[3]) == ("node-03", "rack-1-uplink")
    assert network.rack_cost == {("rack-0", "rack-1"): 2, ("rack-1", "rack-0"): 2}
    assert alike(background={"rack-0-uplink": "40%"}).capacities["rack-0-uplink"] == 45_000
    assert (network.traffic_classes, alike(traffic_classes=4).traffic_classes) == (1, 4)
    assert (network.network, alike(network="tcp").network) == ("fair", "tcp")
    # 16 cores and 128 GiB for each GPU.
    assert network.nodes[0].has.vector == (2, 32_000, 262_144)
