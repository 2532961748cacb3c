"""AppGroups and NetworkTopologies are as the network-aware plugins take them."""

from __future__ import annotations

import dataclasses

import pytest

from metronome_opt.kubernetes import build_manifests
from metronome_opt.scenario.placed_instance import Deployment, Task
from tests.kubernetes.claims.example import cluster_of, two_jobs


@pytest.mark.parametrize("count", [1, 2, 11])
def test_tasks_depend_on_one_another_in_a_ring(count: int) -> None:
    instance, schedule, deployment = two_jobs()
    tasks = tuple(Task("resnet50-0", index, "node-0", ("node-0",)) for index in range(count))
    placed = dataclasses.replace(deployment, tasks=tasks)
    (group,) = build_manifests(instance, schedule, placed)["appgroups.yaml"]
    assert group["spec"]["numMembers"] == count
    workloads = group["spec"]["workloads"]
    names = [item["workload"]["selector"] for item in workloads]
    assert names == sorted(names)  # upstream searches them by bisection
    follows = {
        item["workload"]["name"]: [
            (other["workload"]["name"], other["minBandwidth"])
            for other in item.get("dependencies", [])
        ]
        for item in workloads
    }
    assert follows == {
        f"resnet50-0-{index}": [(f"resnet50-0-{(index + 1) % count}", "12500M")] * (count > 1)
        for index in range(count)
    }


def test_dependencies_tolerate_what_the_job_does() -> None:
    instance, schedule, deployment = two_jobs()
    stated = dataclasses.replace(deployment, max_network_cost={"VGG19_0": 7})
    plain, changed = build_manifests(instance, schedule, stated)["appgroups.yaml"]
    assert changed["metadata"]["annotations"] == {"metronome.x-k8s.io/original-job": "VGG19_0"}
    for group, cost in ((plain, 10_000), (changed, 7)):
        for item in group["spec"]["workloads"]:
            assert [other["maxNetworkCost"] for other in item["dependencies"]] == [cost]


def four_zones() -> Deployment:
    """Two regions of two zones; between regions 20, z1 to z2 5, z3 to z4 10."""
    cost = {frozenset(("z1", "z2")): 5, frozenset(("z3", "z4")): 10}
    zones = ("z4", "z1", "z3", "z2")
    region = {"z1": "us-west-1", "z2": "us-west-1", "z3": "us-east-1", "z4": "us-east-1"}
    racks = {f"n-{zone}": zone for zone in zones} | {"n-more": "z4"}
    between = {(a, b): cost.get(frozenset((a, b)), 20) for a in zones for b in zones if a != b}
    return Deployment(cluster_of(racks, regions=region, costs=between), ())


def test_racks_are_zones_and_costs_are_sorted() -> None:
    instance, schedule, _ = two_jobs()
    deployment = four_zones()
    instance = instance.replace(links=(*instance.links, *deployment.cluster.links))
    (topology,) = build_manifests(instance, schedule, deployment)["networktopology.yaml"]
    assert topology["metadata"]["name"] == "nt-default"
    (weights,) = topology["spec"]["weights"]
    assert weights["name"] == "UserDefined"

    def level(key: str, *ways: tuple[str, str, int]) -> dict[str, object]:
        origins = [
            {"origin": here, "costList": [{"destination": there, "networkCost": cost}]}
            for here, there, cost in ways
        ]
        return {"topologyKey": f"topology.kubernetes.io/{key}", "originList": origins}

    east, west = "us-east-1", "us-west-1"
    zones = ("z1", "z2", 5), ("z2", "z1", 5), ("z3", "z4", 10), ("z4", "z3", 10)
    assert weights["topologyList"] == [
        level("region", (east, west, 20), (west, east, 20)),
        level("zone", *zones),
    ]
