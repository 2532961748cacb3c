"""Nodes and capacities become nodes, links and racks of a scenario."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.kubernetes.reading.scenario import Imported
from tests.kubernetes.reading.manifests import (
    GROUP,
    Object,
    capacity,
    fault,
    imported,
    job,
    jobs_of,
    machines,
    node,
    pod,
)

BY_MODEL = {f"{GROUP}/model": "VGG16", f"{GROUP}/batch": "8"}


def racks(*places: tuple[str, str | None]) -> list[Object]:
    """Return a node for each zone and uplink."""
    return [
        make
        for index, (zone, uplink) in enumerate(places)
        for make in (node(f"n{index}", zone=zone), capacity(f"n{index}", uplink=uplink))
    ]


def has(made: Imported, name: str) -> dict[str, int]:
    nodes: list[Any] = made.document["cluster"]["nodes"]
    return next(each["has"] for each in nodes if each["name"] == name)


def links(made: Imported) -> dict[str, int]:
    return {link.name: link.capacity for link in made.problem.instance.links}


def test_links_are_those_of_the_capacities_rounded_down_to_whole_megabits() -> None:
    nodes = [node("n0"), capacity("n0", "50G"), node("n1"), capacity("n1", "12500500k")]
    assert links(imported(*nodes, job())) == {"n0-nic": 50_000, "n1-nic": 12_500}


def test_a_shared_link_is_the_uplink_of_its_zone() -> None:
    made = imported(*racks(*((zone, f"{zone}-up") for zone in "aabb")), job(pods=4))
    # Each node gets one task: all cross their interface, two the uplink of either zone.
    flows = dict(made.problem.instance.jobs[0].links)
    assert flows == {"n0-nic": 1, "n1-nic": 1, "n2-nic": 1, "n3-nic": 1, "a-up": 2, "b-up": 2}
    assert [rack["name"] for rack in made.document["cluster"]["racks"]] == ["a", "b"]


def test_a_zone_with_several_uplinks_is_several_racks() -> None:
    nodes = racks(("a", "a0"), ("a", "a1"), ("b", "b0"))
    made = imported(*nodes, job())
    racks_of = [rack["name"] for rack in made.document["cluster"]["racks"]]
    assert racks_of == ["a/a0", "a/a1", "b"]


def test_pods_of_others_hold_what_they_need() -> None:
    # The pod takes 3 GPUs, half a core and 1.5 GiB.
    made = imported(*machines(), job(), pod("other", "n0", gpus=3))
    left = {"gpus": 5, "cpu_millicores": 63_500, "memory_mib": 512 * 1024 - 1536}
    assert has(made, "n0") == left


def test_a_closed_node_has_what_is_used_of_it() -> None:
    nodes = [node(name, unschedulable=True) for name in ("n2", "n3")]
    nodes += [capacity("n2"), capacity("n3")]
    moved = [pod(f"moved-{index}-aaaaa", "n2") for index in range(2)]
    made = imported(*machines(), *nodes, job("moved"), *moved)
    assert has(made, "n2")["gpus"] == 2
    assert has(made, "n3") == {}
    assert jobs_of(made)["moved"]["nodes"] == ["n2", "n2"]


def test_nodes_without_an_interface_are_left_out_or_get_one() -> None:
    objects = [*machines(2), node("n9"), job()]
    made = imported(*objects)
    assert "n9" not in [each["name"] for each in made.document["cluster"]["nodes"]]
    assert any("1 node (n9) dropped, without an STBandwidthCapacity" in n for n in made.notes)
    assert links(imported(*objects, nic_mbps=25_000))["n9"] == 25_000


def test_several_links_of_a_node_are_one_interface_each() -> None:
    two = capacity("n0")
    two["spec"]["links"] = [LINK, LINK | {"name": "b", "capacity": "2G"}]
    made = imported(node("n0"), two, *machines(2)[2:], job())
    first = made.document["cluster"]["nodes"][0]
    assert first["interfaces"] == ["a", "b"]
    assert "interface" not in first


def test_the_speed_of_gpus_is_stated_by_nodes() -> None:
    by_model, objects = job(annotations=BY_MODEL), machines()
    line = "file: document 4: Job team/train: model: the speed of GPUs is not known; annotate"
    assert fault(*objects, by_model).startswith(line)
    objects[0]["metadata"]["annotations"] = {f"{GROUP}/sustained-tflops": "50"}
    assert speed_of(imported(*objects, by_model)) == 50
    objects[2]["metadata"]["annotations"] = {f"{GROUP}/sustained-tflops": "23.5"}
    made = imported(*objects, by_model)
    assert speed_of(made) == 23.5


def test_nodes_state_what_others_send() -> None:
    objects = machines()
    objects[0]["metadata"]["annotations"] = {f"{GROUP}/background": "40%"}
    left = imported(*objects, job()).problem.instance.links
    full = imported(*machines(), job()).problem.instance.links
    assert [link.capacity for link in left][:2] == [full[0].capacity * 3 // 5, full[1].capacity]


def speed_of(made: Imported) -> float:
    speed: float = made.document["cluster"]["gpu"]["sustained_tflops"]["value"]
    return speed


def test_gpus_of_other_vendors_count() -> None:
    amd, *others = machines()
    amd["status"]["allocatable"] = {"cpu": "8", "memory": "8Gi", "amd.com/gpu": "4"}
    assert has(imported(amd, *others, job()), "n0")["gpus"] == 4


LINK = {"name": "a", "capacity": "1G", "scope": "Node"}


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], ": must have links of scope Node, has 0"),
        ([LINK | {"capacity": "-1G"}], "[0].capacity: must be a quantity that is not negative"),
        ([LINK | {"capacity": "999999"}], "[0].capacity: must be at least 1 Mbit/s (1M), got '9"),
        (
            [LINK | {"scope": "Zone"}],
            "[0].scope: must be Node, Shared, Uplink or Downlink, got 'Zone'",
        ),
    ],
)
def test_bad_capacities(links: Any, message: str) -> None:
    bad = capacity("n0")
    bad["spec"]["links"] = links
    place = "file: document 1: STBandwidthCapacity n0: spec.links"
    assert fault(node("n0"), bad, job()).startswith(place + message)


def test_nodes_that_contradict_each_other() -> None:
    other = capacity("n1", uplink="up")
    other["spec"]["links"][1]["capacity"] = "90G"
    line = fault(*machines()[:1], capacity("n0", uplink="up"), node("n1"), other, job())
    assert "links[1].capacity: is not the 80000 Mbit/s that n0" in line
    same = capacity("n1")
    same["spec"]["links"][0]["name"] = "n0-nic"
    line = fault(*machines()[:2], node("n1"), same, job())
    assert "links[0].name: is the interface of n0 too" in line


def test_a_job_on_a_node_that_was_not_read_is_refused() -> None:
    running = [pod("train-0-aaaaa", "n0"), pod("train-1-bbbbb", "n7")]
    line = fault(*machines(), job(), *running)
    assert "pod train-1-bbbbb runs on node 'n7', which was not read; read its" in line
