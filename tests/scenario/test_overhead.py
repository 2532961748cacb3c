"""Network overhead as the real plugin counts it, and a filter worked out by its rules."""

from __future__ import annotations

import pytest

from metronome_opt.problem.instance import Link
from metronome_opt.scenario.cluster import Cluster, Distance
from metronome_opt.scenario.nodes import Node, Rack, Resources
from metronome_opt.scenario.overhead import is_tolerated, overhead

ZONES = {"z1": "us-west-1", "z2": "us-west-1", "z3": "us-east-1", "z4": "us-east-1"}
NODES = [f"n-{number}" for number in range(1, 9)]


def zones(*, unlabelled: bool = False, costs: bool = True) -> Cluster:
    """Return n-1 and n-2 in z1, and so on; between regions 20, z1 to z2 5, z3 to z4 10.

    Perhaps with a node in neither zone nor region.
    """
    inner = {frozenset(("z1", "z2")): 5, frozenset(("z3", "z4")): 10}
    homes = [(node, f"z{index // 2 + 1}") for index, node in enumerate(NODES)]
    hosts = [
        Node(name=node, has=Resources(gpus=4), interface=node, rack=zone, region=ZONES[zone])
        for node, zone in homes
    ]
    if unlabelled:
        hosts.append(Node(name="bare", has=Resources(gpus=4), interface="bare"))
    return Cluster(
        nodes=tuple(hosts),
        racks=tuple(Rack(name=zone) for zone in ZONES),
        links=tuple(Link(name=host.name, capacity=100) for host in hosts),
        zone_costs=tuple(
            Distance(origin=a, destination=b, cost=inner.get(frozenset((a, b)), 20))
            for a in ZONES
            for b in ZONES
            if a != b and costs
        ),
    )


@pytest.mark.parametrize(
    ("dependency", "costs"),
    [  # P1 on P2 and P2 on P3, scored by the real plugin; P3 depends on nothing
        ("n-5", [20, 20, 20, 20, 0, 1, 10, 10]),
        ("n-1", [0, 1, 5, 5, 20, 20, 20, 20]),
        (None, [0] * 8),
    ],
)
def test_costs_are_those_of_the_real_plugin(dependency: str | None, costs: list[int]) -> None:
    others = [] if dependency is None else [(dependency, 10_000)]
    found = [overhead(zones(), node, others) for node in NODES]
    assert [each.cost for each in found] == costs
    assert not any(each.is_rejected for each in found)


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
    passed = [node for node in NODES if not overhead(cluster, node, [(dependency, most)])[2]]
    assert passed == [f"n-{number}" for number in passing]
    tolerated = [node for node in NODES if is_tolerated(cluster, [node, dependency], most)]
    assert tolerated == passed


def test_more_violated_than_satisfied_is_rejected() -> None:
    """From n-3: n-4 is satisfied at 1, n-1 violated at 5, n-5 at 20."""
    cluster = zones()
    even = overhead(cluster, "n-3", [("n-4", 4), ("n-1", 4)])
    assert (even, even.is_rejected) == ((6, 1, 1), False)
    more = overhead(cluster, "n-3", [("n-4", 4), ("n-1", 4), ("n-5", 4)])
    assert (more, more.is_rejected) == ((26, 1, 2), True)
    each = overhead(cluster, "n-3", [("n-1", 5), ("n-1", 4)])  # each by its own largest cost
    assert each == (10, 1, 1)


def test_what_has_no_labels_is_violated_and_what_has_no_entry_is_not_counted() -> None:
    cluster = zones(unlabelled=True)
    assert overhead(cluster, "n-1", [("bare", 10_000)]) == (100, 0, 1)
    assert overhead(cluster, "bare", [("n-1", 0)]) == (100, 0, 0)
    assert overhead(cluster, "bare", [("bare", 0)]) == (0, 1, 0)
    assert overhead(zones(costs=False), "n-1", [("n-3", 0)]) == (100, 0, 0)


def test_ring_is_tolerated_whatever_the_order_of_its_pods() -> None:
    cluster = zones(unlabelled=True)
    assert is_tolerated(cluster, ["n-1", "n-2", "n-3"], 5)
    assert not is_tolerated(cluster, ["n-1", "n-2", "n-3"], 4)
    assert not is_tolerated(cluster, ["bare", "n-1"], 9_999)  # n-1 after the bare one
    assert is_tolerated(cluster, ["bare", "n-1"], 10_000)  # any, so that nothing is asked
    assert is_tolerated(zones(costs=False), ["n-1", "n-5"], 0)  # without a NetworkTopology
