from __future__ import annotations

import dataclasses

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.diktyo import app_groups, network_topology
from metronome_opt.kubernetes.names import Naming
from metronome_opt.scenario.deployment import Deployment, Node, Task
from tests.kubernetes.example import two_jobs


def test_tasks_depend_on_one_another_in_a_ring() -> None:
    instance, _, deployment = two_jobs()
    tasks = tuple(Task("resnet50-0", index, "node-0", ("node-0",)) for index in range(11))
    deployment = dataclasses.replace(deployment, tasks=tasks)
    (group,) = app_groups(instance, deployment, Naming.of(deployment, "a.io", "default"))
    assert group["spec"]["numMembers"] == 11
    workloads = group["spec"]["workloads"]
    names = [item["workload"]["selector"] for item in workloads]
    assert names == sorted(names)  # upstream searches them by bisection
    follows = {
        item["workload"]["name"]: [other["workload"]["name"] for other in item["dependencies"]]
        for item in workloads
    }
    assert follows == {
        f"resnet50-0-{index}": [f"resnet50-0-{(index + 1) % 11}"] for index in range(11)
    }
    assert {other["minBandwidth"] for item in workloads for other in item["dependencies"]} == {
        "12500M"
    }


def test_a_single_task_depends_on_nothing() -> None:
    instance, _, deployment = two_jobs()
    deployment = dataclasses.replace(deployment, tasks=deployment.tasks[:1])
    (group,) = app_groups(instance, deployment, Naming.of(deployment, "a.io", "default"))
    assert len(group["spec"]["workloads"]) == 1
    assert "dependencies" not in group["spec"]["workloads"][0]


def four_zones(region_of_z4: str = "us-east-1") -> Deployment:
    """Two regions of two zones; between regions 20, z1 to z2 5, z3 to z4 10."""
    cost = {frozenset(("z1", "z2")): 5, frozenset(("z3", "z4")): 10}
    zones = ("z4", "z1", "z3", "z2")
    region = {"z1": "us-west-1", "z2": "us-west-1", "z3": "us-east-1", "z4": region_of_z4}
    nodes = [Node(f"n-{zone}", (), zone, region[zone]) for zone in zones]
    nodes.append(Node("n-more", (), "z4", "us-east-1"))
    return Deployment(
        tuple(nodes),
        (),
        {(a, b): cost.get(frozenset((a, b)), 20) for a in zones for b in zones if a != b},
    )


def test_racks_are_zones_and_costs_are_sorted() -> None:
    deployment = four_zones()
    topology = network_topology(deployment, Naming.of(deployment, "a.io", "default"))
    assert topology is not None
    assert topology["metadata"]["name"] == "nt-default"
    (weights,) = topology["spec"]["weights"]
    assert weights["name"] == "UserDefined"

    def origin(name: str, destination: str, cost: int) -> dict[str, object]:
        return {
            "origin": name,
            "costList": [{"destination": destination, "networkCost": cost}],
        }

    assert weights["topologyList"] == [
        {
            "topologyKey": "topology.kubernetes.io/region",
            "originList": [
                origin("us-east-1", "us-west-1", 20),
                origin("us-west-1", "us-east-1", 20),
            ],
        },
        {
            "topologyKey": "topology.kubernetes.io/zone",
            "originList": [
                origin("z1", "z2", 5),
                origin("z2", "z1", 5),
                origin("z3", "z4", 10),
                origin("z4", "z3", 10),
            ],
        },
    ]


def test_without_costs_there_is_no_topology() -> None:
    deployment = Deployment((Node("n", (), "z1"),), ())
    assert network_topology(deployment, Naming.of(deployment, "a.io", "default")) is None


def test_a_rack_in_two_regions_is_refused() -> None:
    deployment = four_zones(region_of_z4="us-west-1")
    with pytest.raises(InputError, match=r"deployment.nodes\[4\].region: 'us-east-1'"):
        network_topology(deployment, Naming.of(deployment, "a.io", "default"))
