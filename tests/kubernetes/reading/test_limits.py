"""Constraints of pods on their nodes become limits of a job, or are refused; none is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.errors import InputError
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    capacity,
    fault,
    imported,
    job,
    jobs_of,
    kube,
    metadata,
    node,
    pod,
    template,
    train_job,
)
from tests.kubernetes.reading.test_kinds import runtime, runtime_job
from tests.kubernetes.reading.test_machines import exact, hyper, topology

REFUSED = "partitionPolicy.networkTopology: constraints on parts of"
RULES = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERENCES = "preferredDuringSchedulingIgnoredDuringExecution"
HOSTNAME = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
LEVELS = topology("kueue.x-k8s.io/v1beta2", "x/block", "x/rack", HOSTNAME)


def fleet() -> list[Object]:
    """Return nodes a to d of 8 GPUs: two racks of two nodes each, in one block."""
    made = []
    for name, rack in zip("abcd", ("r0", "r0", "r1", "r1"), strict=True):
        one = node(name)
        one["metadata"]["labels"] = {"x/block": "b", "x/rack": rack, "x/name": name}
        made += [one, capacity(name)]
    return made


def limits(*objects: Object, name: str = "train") -> dict[str, Any]:
    """Return the limits of a job on the fleet."""
    entry = jobs_of(imported(*fleet(), LEVELS, *objects))[name]
    return {key: entry[key] for key in ("most_racks", "within", "allowed_nodes") if key in entry}


def asking(pods: int = 2, gpus: int = 8, *, own: Object | None = None, **spec: Any) -> Object:
    """Return a Job whose pods have a specification, and annotations of its own."""
    made = job(pods=pods, gpus=gpus, annotations={**TRAFFIC, **(own or {})})
    made["spec"]["template"]["spec"] |= spec
    made["spec"]["template"]["metadata"] = {"labels": {"app": "train"}}
    return made


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({}, {}),
        ({f"{GROUP}/most-racks": "1"}, {"most_racks": 1}),
        ({"kueue.x-k8s.io/podset-required-topology": "x/rack"}, {"within": 1}),
        ({"kueue.x-k8s.io/podset-required-topology": HOSTNAME}, {"within": 0}),
        ({"kueue.x-k8s.io/podset-required-topology": "x/block"}, {}),  # which has all nodes
        ({"kai.scheduler/topology-required-placement": "x/rack"}, {"within": 1}),
        (
            {
                "kueue.x-k8s.io/podset-slice-required-topology": "x/rack",
                "kueue.x-k8s.io/podset-slice-size": "2",
            },
            {"within": 1},
        ),
        (
            {
                "kai.scheduler/segment-topology-required-placement": "x/rack",
                "kai.scheduler/segment-size": "2",
            },
            {"within": 1},
        ),
        ({"kueue.x-k8s.io/podset-unconstrained-topology": "true"}, {}),
    ],
)
def test_annotations_that_limit_all_pods(own: Object, found: Object) -> None:
    assert limits(asking(2, 4, own=own)) == found


@pytest.mark.parametrize(
    "own",
    [
        {"kueue.x-k8s.io/podset-preferred-topology": "x/rack"},
        {"kai.scheduler/topology-preferred-placement": "x/rack"},
        {"volcano.sh/network-topology-mode": "soft"},
    ],
)
def test_preferred_topologies_are_noted(own: Object) -> None:
    made = imported(*fleet(), LEVELS, asking(own=own))
    start = "Job team/train: preferred, and placements are chosen by loss: "
    assert [note for note in made.notes if note.startswith(start)]
    assert "within" not in jobs_of(made)["train"]


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        (
            {"kueue.x-k8s.io/podset-required-topology": "x/row"},
            "no jobs: none can start; free or add nodes",  # no node has the label
        ),
        (
            {"kueue.x-k8s.io/podset-slice-required-topology": "x/rack"},
            "slice-required-topology: slices of None of its 2 pods: constraints on parts of a job",
        ),
        (
            {
                "kai.scheduler/segment-topology-required-placement": "x/rack",
                "kai.scheduler/segment-size": "1",
            },
            "required-placement: slices of 1 of its 2 pods: constraints on parts of a job, or",
        ),
        (
            {"alpha.jobset.sigs.k8s.io/exclusive-topology": "x/rack"},
            "exclusive-topology: constraints on parts of a job, or that keep jobs apart, are not",
        ),
        (
            {"volcano.sh/network-topology-highest-tier": "1"},
            "is about HyperNodes, and none was read; read them as well",
        ),
        ({"volcano.sh/network-topology-mode": "firm"}, "mode: must be hard or soft, got 'firm'"),
        (
            {"kueue.x-k8s.io/podset-topology-spreading": '{"enforcementMode": "Required"}'},
            "podset-topology-spreading: constraints on parts of a job, or that keep jobs apart, ",
        ),
    ],
)
def test_constraints_that_places_do_not_know_are_refused(own: Object, reason: str) -> None:
    assert reason in fault(*fleet(), LEVELS, asking(own=own))


def test_a_level_across_switches_is_refused() -> None:
    nodes = fleet()
    for one, row in zip(nodes[::2], "xyxy", strict=True):
        one["metadata"]["labels"]["x/row"] = row
    across = asking(own={"kueue.x-k8s.io/podset-required-topology": "x/row"})
    line = fault(*nodes, LEVELS, across)
    place = "file: document 9: Job team/train: annotation kueue.x-k8s.io/podset-required-topology"
    assert line.startswith(
        f"{place}: its groups of nodes are those of no tier of switches, 0 (a node), 1"
    )


# ------------------------------------------------------------------ selectors, affinities, taints


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def near_nodes(*expressions: Object, fields: tuple[Object, ...] = ()) -> Object:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    return {"nodeAffinity": {RULES: {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"nodeSelector": {"x/rack": "r1"}}, ["r1"]),
        ({"nodeSelector": {"x/block": "b"}}, None),
        ({"nodeSelector": {HOSTNAME: "c"}}, ["c"]),
        ({"affinity": near_nodes(expression("x/rack", "NotIn", "r1"))}, ["r0"]),
        ({"affinity": near_nodes(expression("x/name", "In", "a", "c", "d"))}, ["a", "r1"]),
        ({"affinity": near_nodes(expression("x/name", "Exists"))}, None),
        (
            {"affinity": near_nodes(fields=(expression("metadata.name", "In", "b", "c"),))},
            ["b", "c"],
        ),
        (
            {"affinity": {"nodeAffinity": {RULES: {"nodeSelectorTerms": [
                {"matchExpressions": [expression("x/name", "In", "a")]},
                {"matchExpressions": [expression("x/rack", "In", "r1")]},
            ]}}}},
            ["a", "r1"],
        ),
    ],
)  # fmt: skip
def test_selectors_and_affinities_to_nodes(spec: Object, allowed: list[str] | None) -> None:
    assert limits(asking(gpus=4, **spec)) == ({} if allowed is None else {"allowed_nodes": allowed})


def test_gt_and_lt_compare_integers() -> None:
    nodes = fleet()
    for one, age in zip(nodes[::2], ("1", "2", "10", "old"), strict=True):
        one["metadata"]["labels"]["x/age"] = age
    for operator, allowed in (("Gt", ["c"]), ("Lt", ["a"])):
        spec: Object = {"affinity": near_nodes(expression("x/age", operator, "2"))}
        made = imported(*nodes, LEVELS, asking(gpus=4, **spec))
        assert jobs_of(made)["train"]["allowed_nodes"] == allowed


@pytest.mark.parametrize(
    ("taint", "tolerations", "allowed"),
    [
        ({"key": "x", "effect": "NoSchedule"}, [], ["b", "r1"]),
        ({"key": "x", "effect": "PreferNoSchedule"}, [], None),
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, [], None),  # which its pods ask for
        ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}, [], None),
        ({"key": "x", "effect": "NoSchedule"}, [{"operator": "Exists"}], None),
        ({"key": "x", "value": "1", "effect": "NoSchedule"}, [{"key": "x", "value": "1"}], None),
        (
            {"key": "x", "value": "1", "effect": "NoSchedule"},
            [{"key": "x", "value": "2"}],
            ["b", "r1"],
        ),
        (
            {"key": "x", "effect": "NoExecute"},
            [{"key": "x", "operator": "Exists", "effect": "NoSchedule"}],
            ["b", "r1"],
        ),
    ],
)
def test_taints(taint: Object, tolerations: list[Object], allowed: list[str] | None) -> None:
    nodes = fleet()
    nodes[0]["spec"]["taints"] = [taint]
    made = imported(*nodes, LEVELS, asking(gpus=4, tolerations=tolerations))
    assert jobs_of(made)["train"].get("allowed_nodes") == allowed


def near_pods(key: str, labels: Object, kind: str = "podAffinity") -> Object:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {kind: {RULES: [term]}}}


def test_affinity_of_pods_to_one_another_is_a_common_switch() -> None:
    assert limits(asking(**near_pods("x/rack", {"app": "train"}))) == {"within": 1}
    # Jobs label their pods, whatever their template says.
    own = {"batch.kubernetes.io/job-name": "train"}
    assert limits(asking(gpus=4, **near_pods(HOSTNAME, own))) == {"within": 0}


def test_affinity_to_other_pods_allows_the_nodes_near_them() -> None:
    web = pod("web", "a", gpus=0, labels={"app": "web"})
    assert limits(web, asking(gpus=4, **near_pods("x/rack", {"app": "web"}))) == {
        "allowed_nodes": ["r0"]
    }
    apart = near_pods(HOSTNAME, {"app": "web"}, "podAntiAffinity")
    assert limits(web, asking(gpus=4, **apart)) == {"allowed_nodes": ["b", "r1"]}


def test_pods_that_keep_apart_need_whole_nodes() -> None:
    apart = near_pods(HOSTNAME, {"app": "train"}, "podAntiAffinity")
    assert limits(asking(2, 8, **apart)) == {}  # no node has room for two
    line = fault(*fleet(), LEVELS, asking(2, 4, **apart))
    assert "keeps pods of one job apart, which placements cannot; remove it" in line
    rule = {
        "topologyKey": "x/rack",
        "maxSkew": 1,
        "labelSelector": {"matchLabels": {"app": "train"}},
    }
    hard: Object = {"topologySpreadConstraints": [{**rule, "whenUnsatisfiable": "DoNotSchedule"}]}
    assert "topologySpreadConstraints[0]: keeps pods of" in fault(*fleet(), LEVELS, asking(**hard))
    soft: Object = {"topologySpreadConstraints": [{**rule, "whenUnsatisfiable": "ScheduleAnyway"}]}
    assert limits(asking(**soft)) == {}


def runtime_patch(job: str, spec: Object, **head: Any) -> Object:
    inner = {"name": job, "template": {"spec": {"template": {"metadata": head, "spec": spec}}}}
    patched = {"template": {"spec": {"replicatedJobs": [inner]}}}
    return {"manager": job, "trainingRuntimeSpec": patched}


R1, R9 = ({"nodeSelector": {"x/rack": name}} for name in ("r1", "r9"))


@pytest.mark.parametrize(
    ("field", "patches"),
    [
        (
            "podTemplateOverrides",
            [
                {"targetJobs": [{"name": "node"}], "spec": R1},
                {"targetJobs": [{"name": "initializer"}], "spec": R9},
            ],
        ),
        ("podSpecOverrides", [{"targetJobs": [{"name": "node"}], **R1}]),
        ("podSpecOverrides", [R1]),
        ("runtimePatches", [runtime_patch("node", R1), runtime_patch("initializer", R9)]),
    ],
)
def test_a_train_job_writes_over_its_runtime(field: str, patches: list[Object]) -> None:
    made = train_job(2)
    made["spec"][field] = patches
    assert limits(made, name="llama") == {"allowed_nodes": ["r1"]}
    plain = runtime(runtime_job("node", 8, "trainer"))  # selectors of both hold
    (inner,) = plain["spec"]["template"]["spec"]["replicatedJobs"]
    inner["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"x/name": "c"}
    made["spec"]["trainer"] = {"numNodes": 2, "resourcesPerNode": {"limits": {GPU: "1"}}}
    assert limits(plain, made, name="llama") == {"allowed_nodes": ["c"]}


def test_a_train_job_has_the_constraints_of_its_runtime() -> None:
    tiers = {"volcano": {"networkTopology": {"mode": "hard", "highestTierAllowed": 10}}}
    made = runtime(runtime_job("node", 8, "trainer"))
    made["spec"]["podGroupPolicy"] = tiers
    assert limits(*hypers(), made, train_job(2), name="llama") == {"within": 1}
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "x/rack"}
    for path in ((), ("spec", "replicatedJobs", 0, "template")):
        inner = runtime(runtime_job("node", 8, "trainer"))
        at = inner["spec"]["template"]
        for step in path:
            at = at[step]
        at.setdefault("metadata", {})["annotations"] = exclusive
        assert "exclusive-topology: constraints on parts" in fault(*fleet(), inner, train_job(2))
    patched = train_job(2)
    patched["spec"]["runtimePatches"] = [runtime_patch("node", {}, annotations=exclusive)]
    assert "exclusive-topology: constraints on parts" in fault(*fleet(), patched)
    in_set = runtime(runtime_job("node", 8, "trainer"))
    in_set["spec"]["template"]["spec"]["scheduling"] = {"schedulingConstraints": BY_RACK}
    assert limits(in_set, train_job(2), name="llama") == {"within": 1}


def test_a_job_that_no_node_may_have_is_dropped_with_a_note() -> None:
    gone = asking(nodeSelector={"x/rack": "r9"})
    other = job("other")
    made = imported(*fleet(), LEVELS, gone, other)
    assert [*jobs_of(made)] == ["other"]
    reason = "1 dropped, allowed on no node, by its selectors, affinities or topology: Job team/tr"
    assert [note for note in made.notes if note.startswith(reason)]


def test_a_running_job_keeps_its_nodes_whatever_it_asks() -> None:
    there = [pod(f"train-{index}", name, gpus=4) for index, name in enumerate("ad")]
    refused = asking(gpus=4, own={"alpha.jobset.sigs.k8s.io/exclusive-topology": "x/rack"})
    beyond = asking(gpus=4, own={"kueue.x-k8s.io/podset-required-topology": "x/rack"})
    for one in (refused, beyond):
        made = imported(*fleet(), LEVELS, one, *there)
        entry = jobs_of(made)["train"]
        assert (entry["nodes"], entry.get("within")) == (["a", "d"], None)
        assert [note for note in made.notes if note.startswith("Job team/train keeps its nodes: ")]


# ------------------------------------------------------------------ PodGroups and HyperNodes


@pytest.mark.parametrize(
    ("version", "constraints"),
    [
        ("v1alpha2", {"topologyConstraints": [{"topologyKey": "x/rack"}]}),
        ("v1beta1", {"topology": [{"key": "x/rack"}]}),
    ],
)
def test_scheduling_constraints_of_a_pod_group(version: str, constraints: Object) -> None:
    group = kube(
        f"scheduling.k8s.io/{version}",
        "PodGroup",
        metadata("gang"),
        {"schedulingConstraints": constraints},
    )
    member = asking(schedulingGroup={"podGroupName": "gang"})
    assert limits(group, member) == {"within": 1}


def test_pod_groups_of_other_schedulers() -> None:
    by_label = {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "x/rack"}}
    owned: Object = {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}
    kai = kube("scheduling.run.ai/v2alpha2", "PodGroup", metadata("pg-1", **owned), by_label)
    assert limits(kai, asking()) == {"within": 1}
    by_tier = {"networkTopology": {"mode": "hard", "highestTierAllowed": 10}}
    group = kube("scheduling.volcano.sh/v1beta1", "PodGroup", metadata("pg"), by_tier)
    named = asking()
    stated = {"annotations": {"scheduling.k8s.io/group-name": "pg"}}
    named["spec"]["template"]["metadata"] |= stated
    assert limits(*hypers(), group, named) == {"within": 1}
    assert limits(*hypers(), group, asking()) == {}  # which is in no group


BY_RACK: Object = {"topology": [{"key": "x/rack"}]}


@pytest.mark.parametrize(
    ("scheduling", "found"),
    [
        ({"schedulingConstraints": BY_RACK}, {"within": 1}),
        (
            {"replicatedJobs": [
                {"targetReplicatedJobs": ["driver"], "schedulingPolicy": {"basic": {}}},
                {"targetReplicatedJobs": ["w"], "schedulingConstraints": BY_RACK},
            ]},
            {"within": 1},
        ),
        (
            {"replicatedJobPolicies": [
                {"targetReplicatedJob": ["driver", "w"], "schedulingConstraints": BY_RACK}
            ]},
            {"within": 1},
        ),
        (  # of an earlier draft
            {"replicatedJobs": [{"targetReplicatedJobs": "w", "constraints": BY_RACK}]},
            {"within": 1},
        ),
        (
            {"replicatedJobs": [
                {"targetReplicatedJobs": ["driver"], "schedulingConstraints": BY_RACK}
            ]},
            {},
        ),
        (
            {"replicatedJobs": [
                {"targetReplicatedJobs": ["w"], "job": {"schedulingConstraints": BY_RACK}}
            ]},
            "spec.scheduling.replicatedJobs[0].job: constraints on parts of a job, or that keep",
        ),
    ],
)  # fmt: skip
def test_scheduling_of_a_job_set(scheduling: Object, found: Object | str) -> None:
    jobs = [
        {"name": name, "template": {"spec": {"parallelism": count, "template": template(gpus)}}}
        for name, count, gpus in (("driver", 1, 0), ("w", 2, 8))
    ]
    spec = {"replicatedJobs": jobs, "scheduling": scheduling}
    head = metadata("train", annotations=TRAFFIC)
    made = kube("jobset.x-k8s.io/v1alpha2", "JobSet", head, spec)
    wrapped = kube(
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        metadata("wrapper", annotations=TRAFFIC),
        {"components": [{"template": made}]},
    )
    for one in (made, wrapped):
        if isinstance(found, str):
            assert found in fault(*fleet(), LEVELS, one).replace("components[0].template.", "")
        else:
            assert limits(one) == found


def test_placement_of_the_groups_of_a_leader_worker_set() -> None:
    groups = {"size": 2, "workerTemplate": template(4)}
    spec: Object = {"replicas": 1, "leaderWorkerTemplate": groups}
    head = metadata("train", annotations=TRAFFIC)
    made = kube("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", head, spec)
    spec["groupPlacementPolicy"] = {"type": "Colocated", "topologyKey": "x/rack"}
    assert limits(made, name="train-0") == {"within": 1}
    spec["groupPlacementPolicy"]["type"] = "Exclusive"
    assert "groupPlacementPolicy: constraints on parts of a job" in fault(*fleet(), LEVELS, made)


def test_labels_that_operators_give_pods_name_the_pods_of_the_job() -> None:
    """KubeRay labels pods by their role and group, Volcano by their task."""
    for labels in ({"ray.io/node-type": "worker"}, {"ray.io/group": "g", "ray.io/cluster": "c"}):
        group = {
            "groupName": "g",
            "replicas": 2,
            "template": template(8, **near_pods("x/rack", labels)),
        }
        spec = {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": [group]}
        head = metadata("c", annotations=TRAFFIC)
        assert limits(kube("ray.io/v1", "RayCluster", head, spec), name="c") == {"within": 1}
    near = near_pods("x/rack", {"volcano.sh/task-spec": "w"})
    task = {"name": "w", "replicas": 2, "template": template(8, **near)}
    assert limits({**volcano(), "spec": {"tasks": [task]}}) == {"within": 1}


def volcano(pods: int = 2, **spec: Any) -> Object:
    task = {"name": "w", "replicas": pods, "template": template(8)}
    head = metadata("train", annotations=TRAFFIC)
    return kube("batch.volcano.sh/v1alpha1", "Job", head, {"tasks": [task], **spec})


def hypers() -> list[Object]:
    tiers = [
        hyper("s0", exact("a"), exact("b"), tier=10),
        hyper("s1", exact("c"), exact("d"), tier=10),
        hyper("top", exact("s0", "HyperNode"), exact("s1", "HyperNode"), tier=20),
    ]
    tiers[2]["spec"]["tierName"] = "spine"
    return tiers


@pytest.mark.parametrize(
    ("constraint", "found"),
    [
        ({"highestTierAllowed": 10}, {"within": 1}),
        ({"mode": "hard", "highestTierAllowed": 19}, {"within": 1}),
        ({"mode": "hard", "highestTierAllowed": 20}, {}),  # all nodes are below it
        ({"mode": "hard", "highestTierName": "spine"}, {}),
        ({"mode": "hard", "highestTierAllowed": 30}, {}),
        ({"mode": "soft", "highestTierAllowed": 10}, {}),
        ({"mode": "hard"}, {}),
    ],
)
def test_tiers_of_volcano(constraint: Object, found: Object) -> None:
    assert limits(*hypers(), volcano(networkTopology=constraint)) == found


def test_a_volcano_job_that_no_hyper_node_holds_is_not_placed() -> None:
    line = fault(*fleet(), *hypers(), volcano(3, networkTopology={"highestTierAllowed": 10}))
    assert "waiting without free GPUs where it may run (within is 1): Job team/train" in line
    parts = {"totalPartitions": 2, "networkTopology": {"highestTierAllowed": 10}}
    divided = volcano(2)
    divided["spec"]["tasks"][0]["partitionPolicy"] = parts
    assert "partitionPolicy.networkTopology: constraints on parts of" in fault(
        *fleet(), *hypers(), divided
    )
    named = volcano(networkTopology={"highestTierName": "rail"})
    assert "highestTierName: is the tierName of no HyperNode" in fault(*fleet(), *hypers(), named)


def test_pods_of_one_job_that_may_run_on_different_nodes_are_refused() -> None:
    both = volcano(1)
    other = template(8, nodeSelector={"x/rack": "r1"})
    both["spec"]["tasks"].append({"name": "v", "replicas": 1, "template": other})
    with pytest.raises(InputError, match="pods of its templates may run on different nodes; make"):
        imported(*fleet(), LEVELS, both)
