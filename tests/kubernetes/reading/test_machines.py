"""Nodes, capacities, labels, HyperNodes and Topologies become nodes, links and racks."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.scenario import Imported, make_cluster
from tests.kubernetes.reading.manifests import (
    GROUP,
    Object,
    capacity,
    fault,
    imported,
    job,
    jobs_of,
    kube,
    machines,
    metadata,
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


# ------------------------------------------------------------------ switches above nodes

OLDER = "network.topology.nvidia.com/"


def labelled(name: str, **labels: str) -> Object:
    made = node(name)
    made["metadata"]["labels"] |= labels
    return made


def tiers(name: str, *values: str) -> Object:
    return labelled(
        name, **{f"fabric.topograph.run/tier-{tier}": value for tier, value in enumerate(values)}
    )


def hyper(name: str, *members: Object, tier: int = 1) -> Object:
    spec = {"tier": tier, "members": list(members)}
    return kube("topology.volcano.sh/v1alpha1", "HyperNode", metadata(name, None), spec)


def member(kind: str = "Node", **selector: Any) -> Object:
    return {"type": kind, "selector": selector}


def exact(name: str, kind: str = "Node") -> Object:
    return member(kind, exactMatch={"name": name})


def topology(group: str, *keys: str) -> Object:
    spec = {"levels": [{"nodeLabel": key} for key in keys]}
    return kube(group, "Topology", metadata("default", None), spec)


def read(*objects: Object, **choices: Any) -> Any:
    known = Objects()
    known.add((f"file: document {index}", item) for index, item in enumerate(objects))
    return make_cluster(known, ImportOptions(nic_mbps=1000, **choices))


def uplink_paths(*objects: Object) -> dict[str, str]:
    """Return the racks above each node, from its own one up, with blanks between."""
    document = read(*objects).document
    within = {rack["name"]: rack.get("within") for rack in document.get("racks", ())}
    found = {}
    for each in document["nodes"]:
        rack, uplink_path = each.get("rack"), []
        while rack is not None:
            uplink_path.append(rack)
            rack = within[rack]
        found[each["name"]] = " ".join(uplink_path)
    return found


def test_labels_of_topograph() -> None:
    named = {"n0": ("l0", "s0", "c"), "n1": ("l0", "s0", "c"), "n2": ("l1", "s0", "c"), "n3": ()}
    objects = [tiers(name, *its) for name, its in named.items()]
    assert uplink_paths(*objects) == {"n0": "l0 s0 c", "n1": "l0 s0 c", "n2": "l1 s0 c", "n3": ""}
    assert uplink_paths(tiers("n0", *map(str, range(11)))) == {"n0": " ".join(map(str, range(11)))}
    older = {f"{OLDER}block": "b", f"{OLDER}datacenter": "d", f"{OLDER}accelerator": "nvl"}
    assert uplink_paths(labelled("n0", **older)) == {"n0": "b d"}
    assert uplink_paths(labelled("n0", **{f"{OLDER}leaf": "l", f"{OLDER}spine": "s"})) == {
        "n0": "l s"
    }


def by_labels(keys: list[str], **values: str) -> list[Object]:
    """Return nodes with values of some labels, the topmost first."""
    return [
        labelled(name, **dict(zip(keys, text.split(), strict=True)))
        for name, text in values.items()
    ]


def test_labels_of_clouds_name_switches() -> None:
    eks = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)]
    assert uplink_paths(*by_labels(eks, a="t m0 l0", b="t m0 l0", c="t m1 l1")) == {
        "a": "l0 m0 t",
        "b": "l0 m0 t",
        "c": "l1 m1 t",
    }
    gke = [f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host")]
    # A host holds one node, and is no switch.
    assert uplink_paths(*by_labels(gke, a="b0 s0 h0", b="b0 s0 h1", c="b1 s1 h2")) == {
        "a": "s0 b0",
        "b": "s0 b0",
        "c": "s1 b1",
    }
    names = ("hpc_island_id", "network_block_id", "local_block_id")
    oke = [f"oci.oraclecloud.com/rdma.{name}" for name in names]
    assert uplink_paths(*by_labels(oke, a="i n l", b="i n l")) == {"a": "l n i", "b": "l n i"}


def test_a_level_of_single_nodes_is_no_tier() -> None:
    eks = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)]
    nodes = by_labels(eks, a="t m0 l0", b="t m0 l1", c="t m1 l2", d="t m1 l3")
    assert uplink_paths(*nodes) == {"a": "m0 t", "b": "m0 t", "c": "m1 t", "d": "m1 t"}
    made = read(*nodes, tier_mbps=(500, 2000))
    uplinks = {each["name"]: each["capacity"] for each in made.document["links"][4:]}
    assert uplinks == {"m0-uplink": 500, "m1-uplink": 500}
    assert made.notes == ("--tier-gbps has no effect for tier 1: no uplink without a capacity",)


def test_switches_of_one_name_below_others_are_told_apart() -> None:
    places = {"n0": ("1", "a"), "n1": ("1", "b"), "n2": ("2", "b"), "n3": ("2", "b")}
    objects = [tiers(name, *its) for name, its in places.items()]
    assert uplink_paths(*objects) == {"n0": "a/1 a", "n1": "b/1 b", "n2": "2 b", "n3": "2 b"}
    assert read(*objects).notes == (
        "uplinks of tier 0 and 1 limit nothing; --tier-gbps states their capacity",
        "2 switches at the top (a, b) are taken to be connected, by links that limit nothing",
    )


@pytest.mark.parametrize("group", ["kueue.x-k8s.io/v1beta2", "kai.scheduler/v1alpha1"])
def test_topologies_name_labels_from_the_top(group: str) -> None:
    levels = topology(group, "x/block", "x/rack", "kubernetes.io/hostname")
    objects = [
        labelled("n0", **{"x/block": "b", "x/rack": "r", "kubernetes.io/hostname": "n0"}),
        labelled("n1", **{"x/block": "b"}),
        tiers("n2", "leaf"),
    ]
    assert uplink_paths(levels, *objects) == {"n0": "r b", "n1": "b", "n2": "leaf"}


def test_hyper_nodes() -> None:
    chosen = {"matchLabels": {"row": "1"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}
    objects = [
        hyper("s0", exact("n0"), exact("gone")),
        hyper("s1", member(regexMatch={"pattern": "^n[12]$"})),
        hyper("s2", member(labelMatch=chosen)),
        hyper("top", exact("s0", "HyperNode"), member("HyperNode", regexMatch={"pattern": "1"})),
        *map(node, ("n0", "n1", "n2")),
        labelled("n3", row="1", x=""),
        labelled("n4", row="1"),
    ]
    assert uplink_paths(*objects) == {
        "n0": "s0 top",
        "n1": "s1 top",
        "n2": "s1 top",
        "n3": "s2",
        "n4": "",
    }


def test_a_topology_of_labels_that_no_node_has_is_noted() -> None:
    levels = topology("kueue.x-k8s.io/v1beta2", "x/block", "kubernetes.io/hostname")
    (note,) = read(levels, node("n0"), node("n1")).notes
    assert note == "Topology default: no node has its labels, x/block"


SLOW = ["n.*.*.*.*.*!", "(n+)+$", 5 * "n?", 3 * "(n|n)" + ".*.*"]


@pytest.mark.parametrize("pattern", SLOW)
def test_patterns_that_may_take_for_ever_are_refused(pattern: str) -> None:
    line = fault(*machines(), hyper("s0", member(regexMatch={"pattern": pattern})), job())
    place = "file: document 4: HyperNode s0: spec.members[0].selector.regexMatch.pattern"
    assert line.startswith(f"{place}: must repeat no group, and have at most 4 repeats and groups")


@pytest.mark.parametrize(
    "pattern",
    [
        *("^n[0-9]+$", "^(n0|n1|n2|n3|n4|n5)$", r"n\d{1}", "[+*?]*n.?", "(?:n)?[0-1]", r"\(*n+"),
        *("^n[[:digit:]]$", r"\An[^[:^digit:]_-]\z", r"\Qn\E", "(?<name>n)", "(?i)N", "[]n&&]"),
    ],
)
def test_usual_patterns_are_matched(pattern: str) -> None:
    objects = [hyper("s0", member(regexMatch={"pattern": pattern})), node("n0"), node("n1")]
    assert uplink_paths(*objects) == {"n0": "s0", "n1": "s0"}


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("n(?=0)", "'(?=0' is not of RE2"),
        (r"(n)\1", r"'\\1' is not of RE2"),
        ("n++", "'++' is not of RE2"),
        ("(?x)n", "'(?x)' is not of RE2"),
        ("n(?#a)", "'(?#a' is not of RE2"),
        ("[[:digits:]]", "'[:digits:]' is no class of RE2"),
        (r"n\pN", r"bad escape \p at position 1"),
        ("n(?i)0", "global flags not at the start of the expression at position 1"),
    ],
)
def test_patterns_that_go_or_python_does_not_read_are_refused(pattern: str, reason: str) -> None:
    line = fault(*machines(), hyper("s0", member(regexMatch={"pattern": pattern})), job())
    place = "file: document 4: HyperNode s0: spec.members[0].selector.regexMatch.pattern: must be"
    must = f"{place} a regular expression that RE2 and Python read in the same way"
    assert line.startswith(f"{must} ({reason}")


def test_a_selector_that_matches_nothing_is_noted() -> None:
    nothing = member(regexMatch={"pattern": "^x"}), member(labelMatch={"matchLabels": {"a": "b"}})
    notes = read(*machines(), hyper("s0", exact("n0"), exact("n1"), *nothing)).notes
    lines = [f"spec.members[{index}]: there is no Node that its selector" for index in (2, 3)]
    assert [line in note for line, note in zip(lines, notes[:2], strict=True)] == [True, True]


def test_options_without_an_effect_are_noted() -> None:
    notes = read(*machines(), gpus=4, tier_mbps=(9,)).notes
    assert notes == (
        "--gpus has no effect: nodes state their own",
        "--nic-gbps has no effect: each node has an STBandwidthCapacity",
        "--tier-gbps has no effect for tier 0: no uplink without a capacity",
    )


@pytest.mark.parametrize(
    ("members", "line"),
    [
        ([member(regexMatch={"pattern": "n("})], "spec.members[0].selector.regexMatch.pattern: mu"),
        ([member()], "spec.members[0].selector: must have exactMatch, regexMatch or labelMatch"),
        ([member("Pod")], "spec.members[0].type: must be Node or HyperNode, got 'Pod'"),
        ([exact("n0"), exact("n1")], "spec.members[1]: node 'n1' is below 'a' and below 's0'; r"),
        (
            [member(labelMatch={"matchExpressions": [{"key": "x", "operator": "Is"}]})],
            "spec.members[0].selector.labelMatch.matchExpressions[0].operator: must be one of In,",
        ),
    ],
)
def test_bad_hyper_nodes(members: list[Object], line: str) -> None:
    said = fault(*machines(), hyper("a", exact("n1")), hyper("s0", *members), job())
    assert said.startswith(f"file: document 5: HyperNode s0: {line}")


def test_hyper_nodes_above_themselves() -> None:
    one, two = hyper("a", exact("b", "HyperNode"), exact("n0")), hyper("b", exact("a", "HyperNode"))
    line = "HyperNodes: switches above themselves: 'a', 'b', 'a'; take one of these links out"
    assert fault(*machines(), one, two, job()) == line


def test_what_is_not_there_or_below_no_switch_is_noted() -> None:
    notes = read(*machines(), hyper("a", exact("ghost"), exact("n0"))).notes
    assert any("there is no Node ghost" in each for each in notes)
    assert any("below no switch" in each for each in notes)


def test_uplinks_carry_what_is_stated_by_tier() -> None:
    objects = [tiers(f"n{node}", f"l{node // 2}", f"s{node // 2}", "c") for node in range(4)]
    made = read(*objects, tier_mbps=(500, 2000, 9000))
    links = {each["name"]: each["capacity"] for each in made.document["links"][4:]}
    # Nothing is above `c`.
    assert links == dict.fromkeys(("l0-uplink", "l1-uplink"), 500) | dict.fromkeys(
        ("s0-uplink", "s1-uplink"), 2000
    )
    (note,) = read(*objects, tier_mbps=(500,)).notes
    assert note == "uplinks of tier 1 limit nothing; --tier-gbps states their capacity"


def test_gpus_of_nodes_of_which_none_states_any() -> None:
    bare = [node(name, gpus=0) for name in ("n0", "n1")]
    assert [each["has"]["gpus"] for each in read(*bare, gpus=4).document["nodes"]] == [4, 4]
    one = read(bare[0], node("n1"), gpus=4).document["nodes"]
    assert [(each["name"], each["has"]["gpus"]) for each in one] == [("n1", 8)]


def test_nodes_alone_are_a_cluster() -> None:
    made = read(*machines())
    assert made.document["format"] == "metronome-cluster/1"
    with pytest.raises(InputError, match="no nodes"):
        read()
