"""Clusters with their machines one by one, and the links that a job's traffic crosses."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.scenario import Cluster
from tests.scenario.examples import scenario


def cluster(**changes: Any) -> Cluster:
    return Cluster.model_validate({**scenario()["cluster"], **changes})


def test_leaf_spine() -> None:
    network = cluster().listed
    # Three nodes of 50 Gbit/s a rack, half of it upwards.
    assert dict(network.capacities) == {
        **dict.fromkeys([f"node-0{index}" for index in range(6)], 50_000),
        "rack-0-uplink": 75_000,
        "rack-1-uplink": 75_000,
    }
    nodes = network.deployment_nodes()
    assert [node.rack for node in nodes] == ["rack-0"] * 3 + ["rack-1"] * 3
    assert nodes[3].links == ("node-03", "rack-1-uplink")
    assert network.rack_cost == {("rack-0", "rack-1"): 2, ("rack-1", "rack-0"): 2}
    # 16 cores and 128 GiB for each GPU.
    assert network.nodes[0].has.vector == (2, 32_000, 262_144)


@pytest.mark.parametrize(("ratio", "uplink"), [(None, 150_000), ("4:3", 112_500), ("7:1", 21_428)])
def test_an_uplink_carries_its_share_rounded_down(ratio: str | None, uplink: int) -> None:
    assert cluster(oversubscription=ratio).listed.capacities["rack-1-uplink"] == uplink


def test_a_single_switch_has_interfaces_and_nothing_else() -> None:
    switch = {"topology": "single-switch", "racks": None, "oversubscription": None}
    network = cluster(**switch, nic_gbps=2.5, nodes=2).listed
    assert dict(network.capacities) == {"node-00": 2500, "node-01": 2500}
    assert (network.racks, network.zone_costs, {node.rack for node in network.nodes}) == (
        (),
        (),
        {None},
    )
    assert network.routes(["node-00", "node-01"]) == (("node-00",), ("node-01",))


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (
            ["node-03", "node-00", "node-00", "node-01"],
            {"node-00": 2, "node-01": 1, "node-03": 1, "rack-0-uplink": 3, "rack-1-uplink": 1},
        ),
        (["node-02", "node-00"], {"node-00": 1, "node-02": 1}),
        (["node-04", "node-04"], {}),
    ],
)
def test_flows_are_the_tasks_behind_a_link(placement: list[str], expected: dict[str, int]) -> None:
    counts = cluster().listed.flows(placement)
    assert dict(counts) == expected
    assert list(counts) == list(expected)  # in the order of the links


def test_names_have_digits_enough() -> None:
    assert cluster(nodes=102).node_names[:3] == ("node-000", "node-001", "node-002")
