"""Labels, HyperNodes and Topologies give the switches above nodes; PodGroups are gangs."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes import build_manifests
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.scenario import make_cluster
from metronome_opt.scenario import Scenario, build_scenario
from tests.builders import schedule
from tests.kubernetes.reading.manifests import (
    TRAFFIC,
    Object,
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
from tests.scenario.test_tiers import TRAFFIC as WORKS
from tests.scenario.test_tiers import three_tiers

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


def ways(*objects: Object) -> dict[str, str]:
    """Return the racks above each node, from its own one up, with blanks between."""
    document = read(*objects).document
    within = {rack["name"]: rack.get("within") for rack in document.get("racks", ())}
    found = {}
    for each in document["nodes"]:
        rack, way = each.get("rack"), []
        while rack is not None:
            way.append(rack)
            rack = within[rack]
        found[each["name"]] = " ".join(way)
    return found


def test_labels_of_topograph() -> None:
    objects = [tiers("n0", "l0", "s0", "c"), tiers("n1", "l1", "s0", "c"), tiers("n2"), node("n3")]
    assert ways(*objects) == {"n0": "l0 s0 c", "n1": "l1 s0 c", "n2": "", "n3": ""}
    assert ways(tiers("n0", *map(str, range(11)))) == {"n0": " ".join(map(str, range(11)))}
    older = {f"{OLDER}block": "b", f"{OLDER}datacenter": "d", f"{OLDER}accelerator": "nvl"}
    assert ways(labelled("n0", **older)) == {"n0": "b d"}
    assert ways(labelled("n0", **{f"{OLDER}leaf": "l", f"{OLDER}spine": "s"})) == {"n0": "l s"}


def test_switches_of_one_name_below_others_are_told_apart() -> None:
    objects = [tiers("n0", "1", "a"), tiers("n1", "1", "b"), tiers("n2", "2", "b")]
    assert ways(*objects) == {"n0": "a/1 a", "n1": "b/1 b", "n2": "2 b"}


@pytest.mark.parametrize("group", ["kueue.x-k8s.io/v1beta2", "kai.scheduler/v1alpha1"])
def test_topologies_name_labels_from_the_top(group: str) -> None:
    levels = topology(group, "x/block", "x/rack", "kubernetes.io/hostname")
    objects = [
        labelled("n0", **{"x/block": "b", "x/rack": "r", "kubernetes.io/hostname": "n0"}),
        labelled("n1", **{"x/block": "b"}),
        tiers("n2", "leaf"),
    ]
    assert ways(levels, *objects) == {"n0": "r b", "n1": "b", "n2": "leaf"}


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
    assert ways(*objects) == {"n0": "s0 top", "n1": "s1 top", "n2": "s1 top", "n3": "s2", "n4": ""}


SLOW = [
    "n.*.*.*.*.*!",
    "(n+)+$",
    "(n+)(?#)*$",
    "(?x)(n+) +$",
    5 * "n?",
    3 * "(n|n)" + ".*.*",
]


@pytest.mark.parametrize("pattern", SLOW)
def test_patterns_that_may_take_for_ever_are_refused(pattern: str) -> None:
    line = fault(*machines(), hyper("s0", member(regexMatch={"pattern": pattern})), job())
    place = "file: document 4: HyperNode s0: spec.members[0].selector.regexMatch.pattern"
    assert line.startswith(f"{place}: must repeat no group, and have at most 4 repeats and groups")


@pytest.mark.parametrize(
    "pattern",
    ["^n[0-9]+$", "^(n0|n1|n2|n3|n4|n5)$", r"n\d{1}", "[+*?]*n.?", "(?:n)?[0-1]", r"\(*n+"],
)
def test_usual_patterns_are_matched(pattern: str) -> None:
    objects = [hyper("s0", member(regexMatch={"pattern": pattern})), node("n0"), node("n1")]
    assert ways(*objects) == {"n0": "s0", "n1": "s0"}


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
    objects = [tiers("n0", "l0", "s0", "c"), tiers("n1", "l1", "s1", "c")]
    made = read(*objects, tier_mbps=(500, 2000, 9000))
    links = {each["name"]: each["capacity"] for each in made.document["links"]}
    both = {"n0": 1000, "n1": 1000, "l0-uplink": 500, "l1-uplink": 500}
    # Nothing is above `c`.
    assert links == {**both, "s0-uplink": 2000, "s1-uplink": 2000}
    (note,) = read(*objects, tier_mbps=(500,)).notes
    assert note == "uplinks of tier 1 limit nothing; --tier-gbps states their capacity"


def test_three_tiers_that_were_exported_come_back() -> None:
    document = three_tiers()
    nodes = ["a", "c", "e"]
    stated = {"name": "j", "traffic": WORKS, "workers": 3, "nodes": nodes}
    head = {"format": "metronome-scenario/1", "name": "s", "slot_ms": 10}
    problem = build_scenario(Scenario.from_dict({**head, "cluster": document, "jobs": [stated]}))
    manifests = build_manifests(problem.instance, schedule("s", {"j": 0}), problem.deployment)
    back = imported(*chain(*manifests.values()), slot_ms=10).problem
    assert dict(back.instance.jobs[0].links) == dict(problem.instance.jobs[0].links)
    assert len(problem.instance.jobs[0].links) == 8  # three interfaces, three leaves, two pods


# ------------------------------------------------------------------ gangs


def in_group(made: Object, group: str = "gang") -> Object:
    made["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def group(version: str = "v1alpha2", **fields: Any) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return kube(f"scheduling.k8s.io/{version}", "PodGroup", metadata("gang", **fields), spec)


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_pods_of_a_group_are_one_job(version: str) -> None:
    pods = [in_group(pod(f"w{index}", f"n{index}", gpus=2)) for index in range(2)]
    others = [pod("alone", "n0"), in_group(pod("help", "n0", gpus=0))]
    made = imported(*machines(), group(version, annotations=TRAFFIC), *pods, *others)
    read = jobs_of(made)["gang"]
    assert (read["pods"], read["nodes"]) == (["w0", "w1"], ["n0", "n1"])
    assert read["each"]["gpus"] == 2


def test_workloads_of_a_group_are_one_job() -> None:
    one, two = job("one", pods=1), job("two", pods=2)
    for each in (one, two):
        in_group(each["spec"]["template"])
    made = imported(*machines(), one, two)
    assert {name: read["workers"] for name, read in jobs_of(made).items()} == {"gang": 3}
    made = imported(*machines(), two, group())
    assert [*jobs_of(made)] == ["two"]


def test_a_group_of_unlike_pods_is_left_out() -> None:
    pods = [in_group(pod(f"w{count}", "n0", gpus=count)) for count in (1, 2)]
    made = imported(*machines(), group(annotations=TRAFFIC), *pods, job())
    assert [*jobs_of(made)] == ["train"]
    note = "1 dropped, in a PodGroup with different numbers of GPUs: PodGroup team/gang"
    assert note in made.notes


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
