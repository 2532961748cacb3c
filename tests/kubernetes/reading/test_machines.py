"""Nodes, capacities and the network's topology."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.instance import Link
from tests.kubernetes.reading.manifests import (
    GROUP,
    Object,
    capacity,
    imported,
    job,
    jobs_of,
    machines,
    metadata,
    node,
    pod,
    thing,
)


def topology(*ways: tuple[str, str, int, str | None], key: str = "zone") -> Object:
    origins: dict[str, list[Object]] = {}
    for origin, destination, cost, carries in ways:
        entry: Object = {"destination": destination, "networkCost": cost}
        if carries is not None:
            entry["bandwidthCapacity"] = carries
        origins.setdefault(origin, []).append(entry)
    listed = [{"origin": origin, "costList": costs} for origin, costs in origins.items()]
    level = {"topologyKey": f"topology.kubernetes.io/{key}", "originList": listed}
    spec = {
        "configmapName": "none",
        "weights": [{"name": "UserDefined", "topologyList": [level]}],
    }
    version = "networktopology.diktyo.x-k8s.io/v1alpha1"
    return thing(version, "NetworkTopology", metadata("nt-default"), spec)


def has(made: Any, name: str) -> dict[str, int]:
    nodes = {each["name"]: each["has"] for each in made.document["cluster"]["nodes"]}
    found: dict[str, int] = nodes[name]
    return found


def test_links_are_those_of_the_capacities_rounded_down_to_whole_megabits() -> None:
    made = imported(
        node("n0"), capacity("n0", "50G"), node("n1"), capacity("n1", "12500500k"), job()
    )
    assert made.problem.instance.links == (
        Link(name="n0-nic", capacity=50_000),
        Link(name="n1-nic", capacity=12_500),
    )


def test_a_shared_link_is_the_uplink_of_its_zone() -> None:
    objects = []
    for index, zone in enumerate("aabb"):
        objects += [node(f"n{index}", zone=zone), capacity(f"n{index}", uplink=f"{zone}-up")]
    made = imported(*objects, job(pods=4))
    # Each node gets one task: all cross their interface, two the uplink of either zone.
    links = dict(made.problem.instance.jobs[0].links)
    assert links == {"n0-nic": 1, "n1-nic": 1, "n2-nic": 1, "n3-nic": 1, "a-up": 2, "b-up": 2}
    assert [rack["name"] for rack in made.document["cluster"]["racks"]] == ["a", "b"]


def test_a_zone_with_several_uplinks_is_several_racks_near_each_other() -> None:
    objects = []
    for index, (zone, uplink) in enumerate([("a", "a0"), ("a", "a1"), ("b", "b0")]):
        objects += [node(f"n{index}", zone=zone), capacity(f"n{index}", uplink=uplink)]
    made = imported(*objects, topology(("a", "b", 7, None)), job())
    cluster = made.document["cluster"]
    assert [rack["name"] for rack in cluster["racks"]] == ["a/a0", "a/a1", "b"]
    costs = {(way["origin"], way["destination"]): way["cost"] for way in cluster["zone_costs"]}
    near = {("a/a0", "a/a1"): 1, ("a/a1", "a/a0"): 1}
    assert costs == near | {("a/a0", "b"): 7, ("a/a1", "b"): 7}


def test_without_a_shared_link_the_ways_between_zones_say_what_the_uplink_carries() -> None:
    objects = [node("n0", zone="a"), capacity("n0"), node("n1", zone="b"), capacity("n1")]
    ways = topology(("a", "b", 5, "30G"), ("a", "c", 5, "20G"), ("b", "a", 5, "30G"))
    made = imported(*objects, ways, job())
    links = {link.name: link.capacity for link in made.problem.instance.links}
    own = {"n0-nic": 50_000, "n1-nic": 50_000}
    assert links == own | {"a-uplink": 20_000, "b-uplink": 30_000}
    assert any("zone a: its ways carry from 20000 to 30000" in note for note in made.notes)


def test_costs_between_regions_hold_between_their_zones() -> None:
    objects = []
    for index, place in enumerate("ab"):
        machine = node(f"n{index}", zone=place)
        machine["metadata"]["labels"]["topology.kubernetes.io/region"] = f"r{place}"
        objects += [machine, capacity(f"n{index}")]
    made = imported(*objects, topology(("ra", "rb", 20, None), key="region"), job())
    assert made.problem.deployment.rack_cost == {("a", "b"): 20}


def test_pods_of_others_hold_what_they_need() -> None:
    # The pod takes 3 GPUs, half a core and 1.5 GiB.
    made = imported(*machines(), job(), pod("other", "n0", gpus=3))
    left = {"gpus": 5, "cpu_millicores": 63_500, "memory_mib": 512 * 1024 - 1536}
    assert has(made, "n0") == left
    assert "3 GPUs are held by pods of no job here" in made.notes


def test_a_node_that_takes_no_new_pods_has_what_is_used_of_it() -> None:
    running = [pod(f"train-{index}-aaaaa", f"n{index}", gpus=2) for index in range(2)]
    made = imported(
        *machines(),
        node("n2", unschedulable=True),
        capacity("n2"),
        *[node("n3", unschedulable=True), capacity("n3")],
        job(gpus=2),
        *running,
        job("moved"),
        pod("moved-0-aaaaa", "n2"),
        pod("moved-1-aaaaa", "n2"),
    )
    assert has(made, "n2")["gpus"] == 2
    assert has(made, "n3") == {}
    assert jobs_of(made)["moved"]["nodes"] == ["n2", "n2"]


def test_nodes_without_an_interface_are_left_out_or_get_one() -> None:
    objects = [*machines(2), node("n9"), job()]
    made = imported(*objects)
    assert "n9" not in [each["name"] for each in made.document["cluster"]["nodes"]]
    assert any("1 node (n9) left out, without an STBandwidthCapacity" in n for n in made.notes)
    given = imported(*objects, nic_mbps=25_000)
    assert Link(name="n9", capacity=25_000) in given.problem.instance.links


def test_several_links_of_a_node_are_one_interface_each() -> None:
    two = capacity("n0")
    two["spec"]["links"] = [LINK, LINK | {"name": "b", "capacity": "2G"}]
    made = imported(
        node("n0", zone="z"), two, *machines(2)[2:], job(), oversubscription=Fraction(2)
    )
    first = made.document["cluster"]["nodes"][0]
    assert first["interfaces"] == ["a", "b"]
    assert "interface" not in first
    assert Link(name="z-uplink", capacity=1500) in made.problem.instance.links


def test_gpus_have_other_names_elsewhere() -> None:
    amd = node("n0")
    amd["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "amd.com/gpu": "4"}
    made = imported(amd, capacity("n0"), *machines(2)[2:], job())
    assert has(made, "n0")["gpus"] == 4
    odd = node("n0")
    odd["status"]["allocatable"] = {"vendor.example/card": 4}
    cards = job()
    for container in cards["spec"]["template"]["spec"]["containers"]:
        container["resources"] = {"limits": {"vendor.example/card": 1}}
    made = imported(odd, capacity("n0"), cards, gpu_resources=("vendor.example/card",))
    assert jobs_of(made)["train"]["each"] == {"gpus": 1}


def test_what_gpus_sustain_is_said_by_the_nodes_or_by_hand() -> None:
    by_model = job(annotations={f"{GROUP}/model": "VGG16", f"{GROUP}/batch": "8"})
    with pytest.raises(InputError, match=r"Job team/train: model: .* how fast GPUs are"):
        imported(*machines(), by_model)
    objects = machines()
    objects[0]["metadata"]["annotations"] = {f"{GROUP}/sustained-tflops": "23.5"}
    told = imported(*objects, by_model).document["cluster"]["gpu"]["sustained_tflops"]
    assert told["value"] == 23.5
    objects[2]["metadata"]["annotations"] = {f"{GROUP}/sustained-tflops": "50"}
    with pytest.raises(InputError, match=r"n1: its GPUs sustain 50 TFLOP/s, those of n0 23"):
        imported(*objects, by_model)


LINK = {"name": "a", "capacity": "1G", "scope": "Node"}
SHARED = [LINK | {"name": name, "scope": "Shared"} for name in "bc"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], ": must have links of scope Node, has 0"),
        ([LINK, *SHARED], ": must have links of scope Node, has 1, and at most one of scope Share"),
        ([LINK | {"capacity": "-1G"}], "[0].capacity: must be a quantity that is not negative"),
        ([LINK | {"capacity": "999999"}], "[0].capacity: must be at least 1 Mbit/s (1M), got '9"),
        ([LINK | {"capacity": None}], "[0].capacity: missing"),
        ([LINK | {"scope": "Zone"}], "[0].scope: must be Node or Shared, got 'Zone'"),
        ([LINK | {"name": None}], "[0].name: missing"),
        ("all", ": must be a list, got 'all'"),
    ],
)
def test_bad_capacities(links: Any, message: str) -> None:
    bad = capacity("n0")
    bad["spec"]["links"] = links
    with pytest.raises(InputError) as caught:
        imported(node("n0"), bad, job())
    place = "file: document 1: STBandwidthCapacity n0: spec.links"
    assert str(caught.value).startswith(place + message)


def test_nodes_that_contradict_each_other() -> None:
    other = capacity("n1", uplink="up")
    other["spec"]["links"][1]["capacity"] = "90G"
    with pytest.raises(InputError, match=r"links\[1\]\.capacity: is not the 80000 Mbit/s that n0"):
        imported(*machines()[:1], capacity("n0", uplink="up"), node("n1"), other, job())
    same = capacity("n1")
    same["spec"]["links"][0]["name"] = "n0-nic"
    with pytest.raises(InputError, match=r"links\[0\]\.name: is the interface of n0 too"):
        imported(*machines()[:2], node("n1"), same, job())


def test_a_job_on_a_node_that_was_not_read_is_refused() -> None:
    running = [pod("train-0-aaaaa", "n0"), pod("train-1-bbbbb", "n7")]
    with pytest.raises(InputError, match="pod train-1-bbbbb runs on node 'n7', of which neither"):
        imported(*machines(), job(), *running)
