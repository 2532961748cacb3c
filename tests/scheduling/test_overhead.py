"""Network costs: the golden check of the real plugin, every rule, and gangs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.instance import Link
from metronome_opt.scheduling.cluster import ClusterSpec, Distance, Host, Rack, Resources
from metronome_opt.scheduling.cycle import Cycle
from metronome_opt.scheduling.overhead import (
    Dependency,
    Locale,
    Overhead,
    Placed,
    gang_costs,
    normalise,
    normalised,
    overhead,
)
from metronome_opt.scheduling.state import ClusterState
from tests.scheduling.clusters import gang

WEST, EAST = "us-west-1", "us-east-1"
NODES = {f"n-{n}": Locale(WEST if n < 5 else EAST, f"z{(n + 1) // 2}") for n in range(1, 9)}
ZONES = {("z1", "z2"): 5, ("z2", "z1"): 5, ("z3", "z4"): 10, ("z4", "z3"): 10}
REGIONS = {(WEST, EAST): 20, (EAST, WEST): 20}
PLACED = [Placed("P2", "n-5"), Placed("P3", "n-1")]


@pytest.mark.parametrize(
    ("depends_on", "raw", "scores"),
    [
        (["P2"], [20, 20, 20, 20, 0, 1, 10, 10], [0, 0, 0, 0, 100, 95, 50, 50]),
        (["P3"], [0, 1, 5, 5, 20, 20, 20, 20], [100, 95, 75, 75, 0, 0, 0, 0]),
        ([], [0] * 8, [0] * 8),
    ],
)
def test_the_real_plugin_gave_the_same_costs_and_scores(
    depends_on: list[str], raw: list[int], scores: list[int]
) -> None:
    dependencies = [Dependency(workload, 10_000) for workload in depends_on]
    found = [overhead(node, NODES, PLACED, dependencies, ZONES, REGIONS) for node in NODES]
    assert [each.cost for each in found] == raw
    assert all(each.passes for each in found)
    assert normalised(np.array(raw)).tolist() == scores


HERE = Locale("r", "a")


@pytest.mark.parametrize(
    ("there", "tolerated", "expected"),
    [
        (Locale("r", "a"), 0, Overhead(1, 1, 0)),  # one zone, whatever is tolerated
        (Locale("r", "b"), 7, Overhead(7, 1, 0)),  # just tolerated
        (Locale("r", "b"), 6, Overhead(7, 0, 1)),
        (Locale("r", "c"), 6, Overhead(100, 0, 0)),  # nothing known
        (Locale("r", None), 6, Overhead(100, 0, 0)),
        (Locale("s", "a"), 30, Overhead(30, 1, 0)),  # another region, though the zone's name is one
        (Locale("s", "b"), 29, Overhead(30, 0, 1)),
        (Locale("t", "b"), 99, Overhead(100, 0, 0)),
        (Locale(None, "a"), 99, Overhead(100, 0, 0)),
        (Locale(None, None), 10_000, Overhead(100, 0, 1)),  # no labels: never satisfied
    ],
)
def test_a_way_costs_what_zones_and_regions_say(
    there: Locale, tolerated: int, expected: Overhead
) -> None:
    locales = {"here": HERE, "there": there}
    zones, regions = {("a", "b"): 7, ("b", "a"): 8}, {("r", "s"): 30, ("s", "r"): 40}
    found = overhead(
        "here", locales, [Placed("w", "there")], [Dependency("w", tolerated)], zones, regions
    )
    assert found == expected


def test_a_pod_on_the_same_node_costs_nothing_even_without_labels() -> None:
    locales = {"here": Locale(None, None)}
    found = overhead("here", locales, [Placed("w", "here")], [Dependency("w")], {}, {})
    assert found == Overhead(0, 1, 0)


def test_two_unlabelled_nodes_are_as_far_apart_as_can_be() -> None:
    locales = {"here": Locale(None, None), "there": Locale(None, None)}
    found = overhead("here", locales, [Placed("w", "there")], [Dependency("w")], {}, {})
    assert found == Overhead(100, 0, 1)


def test_a_node_passes_unless_more_is_violated_than_satisfied() -> None:
    locales = {"here": HERE, "near": HERE, "far": Locale("r", "b")}
    zones = {("a", "b"): 9}
    pods = [Placed("w", "near"), Placed("w", "far"), Placed("w", "far"), Placed("other", "far")]
    dependencies = [Dependency("w", 3)]
    even = overhead("here", locales, pods[:2], dependencies, zones, {})
    assert even == Overhead(10, 1, 1)
    assert even.passes
    outweighed = overhead("here", locales, pods, dependencies, zones, {})
    assert outweighed == Overhead(19, 1, 2)
    assert not outweighed.passes


def test_a_workload_depended_on_twice_counts_twice() -> None:
    locales = {"here": HERE, "far": Locale("r", "b")}
    dependencies = [Dependency("w", 3), Dependency("w", 9)]
    found = overhead("here", locales, [Placed("w", "far")], dependencies, {("a", "b"): 9}, {})
    assert found == Overhead(18, 1, 1)


@pytest.mark.parametrize(
    ("costs", "scores"),
    [
        ([0, 0], [0, 0]),
        ([7, 7], [100, 100]),
        ([7], [100]),
        ([0, 1, 2, 3], [100, 67, 34, 0]),  # 33.3 and 66.7 are cut, not rounded
        ([5, 105, 34], [100, 0, 71]),
        ([], []),
    ],
)
def test_scores_are_normalised_as_upstream_does_it(costs: list[int], scores: list[int]) -> None:
    assert normalised(np.array(costs, dtype=np.int64)).tolist() == scores


def test_ties_are_broken_by_network_score_and_then_by_name() -> None:
    names = ["d", "c", "b", "a"]
    order = normalise(names, np.array([90, 90, 100, 90]), np.array([50, 80, 0, 50]))
    assert [names[index] for index in order] == ["b", "c", "a", "d"]


def test_tasks_on_one_node_cost_nothing_even_without_labels() -> None:
    spec = ClusterSpec(
        name="plain",
        slot_ms=1,
        hyperperiod=12,
        nodes=tuple(Host(name=n, has=Resources(gpus=9), interface=n) for n in ("a", "b")),
        links=tuple(Link(name=n, capacity=100) for n in ("a", "b")),
    )
    cycle = Cycle(ClusterState(spec), gang(8))
    costs = gang_costs(cycle, cycle.partial([0, 0, 1]), np.array([0, 1]))
    assert costs.tolist() == [100, 200]


@st.composite
def labelled(draw: st.DrawFn) -> ClusterSpec:
    """Draw nodes with and without regions and racks, and costs for some of the ways."""

    def distances(names: set[str]) -> tuple[Distance, ...]:
        ways = [(one, other) for one in sorted(names) for other in sorted(names - {one})]
        chosen = draw(st.lists(st.sampled_from(ways), unique=True)) if ways else []
        return tuple(
            Distance(origin=one, destination=other, cost=draw(st.integers(0, 50)))
            for one, other in chosen
        )

    regions = (None, "r0", "r1")
    region_of = {rack: draw(st.sampled_from(regions)) for rack in ("z0", "z1", "z2")}
    hosts = []
    for index in range(draw(st.integers(2, 7))):
        rack = draw(st.sampled_from((None, *region_of)))
        region = draw(st.sampled_from(regions if rack is None else (None, region_of[rack])))
        name = f"n{index}"
        has = Resources(gpus=9)
        hosts.append(Host(name=name, has=has, interface=name, rack=rack, region=region))
    racks = {host.rack for host in hosts if host.rack}
    return ClusterSpec(
        name="labelled",
        slot_ms=1,
        hyperperiod=12,
        nodes=tuple(hosts),
        racks=tuple(Rack(name=rack) for rack in sorted(racks)),
        links=tuple(Link(name=host.name, capacity=100) for host in hosts),
        zone_costs=distances(racks),
        region_costs=distances({host.region for host in hosts if host.region}),
    )


@given(labelled(), st.data())
def test_a_gang_costs_what_its_pods_would_if_each_depended_on_all(
    spec: ClusterSpec, data: st.DataObject
) -> None:
    index = st.integers(0, len(spec.nodes) - 1)
    homes = data.draw(st.lists(index, max_size=6))
    candidates = data.draw(st.lists(index, unique=True))
    cycle = Cycle(ClusterState(spec), gang(8))
    found = gang_costs(cycle, cycle.partial(homes), np.array(candidates, dtype=np.int64))

    locales = {node.name: Locale(node.region, node.rack) for node in spec.nodes}
    zones = {(way.origin, way.destination): way.cost for way in spec.zone_costs}
    regions = {(way.origin, way.destination): way.cost for way in spec.region_costs}
    placed = [Placed("gang", f"n{home}") for home in homes]
    for candidate, cost in zip(candidates, found.tolist(), strict=True):
        depends = [Dependency("gang")]
        assert cost == overhead(f"n{candidate}", locales, placed, depends, zones, regions).cost
