from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.scenario import Cluster
from metronome_opt.scenario.topology import flows, network_of, routes
from tests.scenario.examples import number, scenario


def cluster(**changes: Any) -> Cluster:
    return Cluster.model_validate({**scenario()["cluster"], **changes})


def test_leaf_spine() -> None:
    network = network_of(cluster())
    # Three nodes of 50 Gbit/s a rack, half of it upwards.
    assert dict(network.capacities) == {
        **dict.fromkeys(["node-00", "node-01", "node-02", "node-03", "node-04", "node-05"], 50_000),
        "rack-0-uplink": 75_000,
        "rack-1-uplink": 75_000,
    }
    assert [node.rack for node in network.nodes] == ["rack-0"] * 3 + ["rack-1"] * 3
    assert network.nodes[3].links == ("node-03", "rack-1-uplink")
    assert set(network.rack_cost) == {("rack-0", "rack-1"), ("rack-1", "rack-0")}


@pytest.mark.parametrize(("ratio", "uplink"), [(None, 150_000), (1, 150_000), ("4:3", 112_500)])
def test_oversubscription(ratio: int | str | None, uplink: int) -> None:
    assert network_of(cluster(oversubscription=ratio)).capacities["rack-1-uplink"] == uplink


def test_an_uplink_is_rounded_down() -> None:
    network = network_of(cluster(nic_gbps=None, nic_mbps=1000, oversubscription="7:1"))
    assert network.capacities["rack-0-uplink"] == 428  # 3000 / 7 = 428.57


def test_single_switch() -> None:
    network = network_of(
        Cluster.model_validate(
            {
                "topology": "single-switch",
                "nodes": 2,
                "gpus": 1,
                "nic_gbps": 2.5,
                "gpu": {"name": "GPU", "sustained_tflops": number(1)},
            }
        )
    )
    assert dict(network.capacities) == {"node-00": 2500, "node-01": 2500}
    assert [node.rack for node in network.nodes] == [None, None]
    assert routes(network, ["node-00", "node-01"]) == (("node-00",), ("node-01",))


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (
            ["node-00", "node-00", "node-01", "node-03"],
            {"node-00": 2, "node-01": 1, "node-03": 1, "rack-0-uplink": 3, "rack-1-uplink": 1},
        ),
        (["node-02", "node-00"], {"node-00": 1, "node-02": 1}),
        (["node-04", "node-04"], {}),
    ],
)
def test_flows_are_the_tasks_behind_a_link(placement: list[str], expected: dict[str, int]) -> None:
    network = network_of(cluster())
    counts = flows(network, routes(network, placement))
    assert dict(counts) == expected
    assert list(counts) == list(expected)  # in the order of the links


def test_names_have_digits_enough() -> None:
    assert cluster(nodes=102).node_names[:3] == ("node-000", "node-001", "node-002")
