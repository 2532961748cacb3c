"""Network overhead as the real plugin counts it, and a filter worked out by its rules."""

from __future__ import annotations

import pytest

from metronome_opt.problem.instance import Link
from metronome_opt.scenario.cluster import Cluster, Distance
from metronome_opt.scenario.nodes import Node, Rack, Resources
from metronome_opt.scenario.overhead import is_tolerated, network_cost

ZONES = {"z1": "us-west-1", "z2": "us-west-1", "z3": "us-east-1", "z4": "us-east-1"}
NODES = [f"n-{number}" for number in range(1, 9)]


def zones(*, unlabelled: bool = False, costs: bool = True) -> Cluster:
    """Return n-1 and n-2 in z1, and so on; between regions 20, z1 to z2 5, z3 to z4 10.

    Perhaps with a node in neither zone nor region.
    """
    inner = {frozenset(("z1", "z2")): 5, frozenset(("z3", "z4")): 10}
    homes = [(node, f"z{index // 2 + 1}") for index, node in enumerate(NODES)]
    nodes = [
        Node(name=node, has=Resources(gpus=4), interface=node, rack=zone, region=ZONES[zone])
        for node, zone in homes
    ]
    if unlabelled:
        nodes.append(Node(name="bare", has=Resources(gpus=4), interface="bare"))
    return Cluster(
        nodes=tuple(nodes),
        racks=tuple(Rack(name=zone) for zone in ZONES),
        links=tuple(Link(name=node.name, capacity=100) for node in nodes),
        zone_costs=tuple(
            Distance(origin=a, destination=b, cost=inner.get(frozenset((a, b)), 20))
            for a in ZONES
            for b in ZONES
            if a != b and costs
        ),
    )


@pytest.mark.parametrize(
    ("dependency", "costs"),
    [  # P1 on P2 and P2 on P3; it counts 1 in a zone
        ("n-5", [20, 20, 20, 20, 0, 0, 10, 10]),
        ("n-1", [0, 0, 5, 5, 20, 20, 20, 20]),
    ],
)
def test_costs_are_those_of_the_real_plugin(dependency: str, costs: list[int]) -> None:
    assert [network_cost(zones(), node, dependency) for node in NODES] == costs


@pytest.mark.parametrize(
    ("dependency", "most", "passing"),
    [
        ("n-5", 20, "12345678"),
        ("n-5", 19, "5678"),
        ("n-5", 9, "56"),
        ("n-5", 0, "56"),  # a zone costs 1 within, and is satisfied all the same
        ("n-1", 5, "1234"),
        ("n-1", 4, "12"),
    ],
)
def test_filter_rejects_nodes_that_cost_more(dependency: str, most: int, passing: str) -> None:
    cluster = zones()
    tolerated = [node for node in NODES if is_tolerated(cluster, [node, dependency], most)]
    assert tolerated == [f"n-{number}" for number in passing]


def test_missing_labels_exceed_and_missing_entries_do_not_count() -> None:
    cluster = zones(unlabelled=True)
    assert network_cost(cluster, "n-1", "bare") == 10_001
    assert network_cost(cluster, "bare", "n-1") is None
    assert network_cost(cluster, "bare", "bare") == 0
    assert network_cost(zones(costs=False), "n-1", "n-3") is None


def test_ring_is_tolerated_in_any_order_of_its_pods() -> None:
    cluster = zones(unlabelled=True)
    assert is_tolerated(cluster, ["n-1", "n-2", "n-3"], 5)
    assert not is_tolerated(cluster, ["n-1", "n-2", "n-3"], 4)
    assert not is_tolerated(cluster, ["bare", "n-1"], 9_999)  # n-1 after the bare one
    assert is_tolerated(cluster, ["bare", "n-1"], 10_000)  # any, so that nothing is asked
    assert is_tolerated(zones(costs=False), ["n-1", "n-5"], 0)  # without a NetworkTopology
