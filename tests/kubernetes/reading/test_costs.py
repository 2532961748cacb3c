"""Costs of a NetworkTopology become costs between racks, as NetworkOverhead counts them."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.allocation.scenario_search import nearest
from metronome_opt.scenario import Scenario
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    capacity,
    fault,
    imported,
    job,
    kube,
    metadata,
    node,
)

KEY = "topology.kubernetes.io/"


def nodes() -> list[Object]:
    """Return a node in each of four zones, two in a region."""
    made = []
    for number, region in enumerate(("west", "west", "east", "east"), start=1):
        one = node(f"n{number}", zone=f"z{number}")
        one["metadata"]["labels"][f"{KEY}region"] = region
        made += [one, capacity(f"n{number}")]
    return made


def costs(kind: str, *entries: tuple[str, str, int]) -> Object:
    origins = [
        {"origin": one, "costList": [{"destination": to, "networkCost": cost}]}
        for one, to, cost in entries
    ]
    return {"topologyKey": f"{KEY}{kind}", "originList": origins}


def network(*levels: Object, name: str = "nt", weights: str = "UserDefined") -> Object:
    spec = {"configmapName": "c", "weights": [{"name": weights, "topologyList": list(levels)}]}
    group = "networktopology.diktyo.x-k8s.io/v1alpha1"
    return kube(group, "NetworkTopology", metadata(name), spec)


ZONES = costs("zone", ("z1", "z2", 5), ("z2", "z1", 5), ("z3", "z4", 10), ("z4", "z3", 10))


def found(*objects: Object) -> list[str]:
    document: Any = imported(*nodes(), job(), *objects).document
    entries = document["cluster"].get("zone_costs", ())
    return [f"{each['origin']} {each['destination']} {each['cost']}" for each in entries]


def test_costs_of_zones_count_within_a_region_and_those_of_regions_between() -> None:
    assert found(network(ZONES)) == ["z1 z2 5", "z2 z1 5", "z3 z4 10", "z4 z3 10"]
    far = costs("region", ("west", "east", 20))
    across = costs("zone", ("z1", "z3", 1))  # which the plugin does not look at
    assert found(network(far, across)) == ["z1 z3 20", "z1 z4 20", "z2 z3 20", "z2 z4 20"]
    assert found() == []


def test_a_job_is_placed_where_its_costs_are_known_and_tolerated() -> None:
    limited = {**TRAFFIC, f"{GROUP}/max-network-cost": "7"}
    document = imported(*nodes(), job(gpus=8, annotations=limited), network(ZONES)).document
    problem = nearest(Scenario.from_dict(dict(document)))
    assert {task.node for task in problem.deployment.tasks} == {"n1", "n2"}


def test_of_several_topologies_and_weights_those_that_plugins_take_count() -> None:
    other = network(costs("zone", ("z1", "z2", 9)))
    default = network(ZONES, name="nt-default")
    assert found(other, default) == found(default)
    several = network(ZONES)
    several["spec"]["weights"].insert(0, {"name": "NetperfCosts", "topologyList": []})
    assert found(several) == found(default)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([network(ZONES), network(ZONES, name="b")], "one of 2; keep the one that the scheduler"),
        ([network(costs("hostname"))], "topologyKey: must be topology.kubernetes.io/region or top"),
        ([network(costs("zone", ("z1", "z2", -1)))], "networkCost: must be between 0 and"),
        (
            [network(costs("zone", ("z1", "z2", 1)), costs("zone", ("z1", "z2", 2)))],
            "networkCost: z1 to z2 costs 1 as well; keep one, got 2",
        ),
        ([network(weights="a") | {"spec": {}}], "spec.weights: missing; a NetworkTopology states"),
    ],
)
def test_bad_topologies(objects: list[Object], reason: str) -> None:
    assert reason in fault(*nodes(), job(), *objects)


def test_names_that_no_node_has_are_noted() -> None:
    made = imported(*nodes(), job(), network(costs("zone", ("z1", "z9", 4))))
    assert "NetworkTopology team/nt: no node is in zone z9" in made.notes
