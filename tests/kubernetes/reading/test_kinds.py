"""Every kind of workload gives its pods, their names, and whether it is done."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.files import read_manifests
from metronome_opt.kubernetes.controller.inject import inject
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject
from metronome_opt.kubernetes.reading.kinds import KINDS, PodTemplate, WorkloadKind
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.pods import SCHEDULING_GATE, Pod
from metronome_opt.kubernetes.reading.resources import needs_of
from metronome_opt.kubernetes.reading.scenario import make_scenario
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    fault,
    imported,
    job,
    jobs_of,
    kube,
    machines,
    metadata,
    owned_by,
    pod,
    template,
    train_job,
)

EXAMPLE = Path(__file__).parents[3] / "docs" / "example-cluster"


def workload(version: str, kind: str, name: str, spec: Object, **more: Any) -> Object:
    return kube(version, kind, metadata(name, annotations=TRAFFIC), spec, **more)


def job_set(name: str, job_name: str, replicas: int, gpus: int, **fields: Any) -> Object:
    """Return a JobSet of Jobs of two pods."""
    spec = {"parallelism": 2, "completions": 2, "template": template(gpus)}
    jobs = [{"name": job_name, "replicas": replicas, "template": {"spec": spec}}]
    head = metadata(name, annotations=TRAFFIC, **fields)
    return kube("jobset.x-k8s.io/v1alpha2", "JobSet", head, {"replicatedJobs": jobs})


def test_the_example_has_one_job_of_each_kind() -> None:
    objects = Objects()
    objects.add(read_manifests([EXAMPLE]))
    example = jobs_of(make_scenario(objects, ImportOptions()))
    # Pods, weight; GPUs, thousandths of a core and MiB of each.
    expected = {
        "vgg19": (["master-0", "worker-0", "worker-1", "worker-2"], 4, 2, 16_000, 131_072),
        "bert": (["worker-0", "worker-1"], 2, 8, 64_000, 524_288),
        "gpt": (["worker-0", "worker-1"], 4, 8, 64_000, 524_288),
        "resnet50": ([f"workers-0-{i}" for i in range(2)], 1, 2, 16_000, 65_536),
        "ablation": (["0", "1", "2"], 1, 2, 8_000, 65_536),
        "llama": ([f"node-0-{i}" for i in range(3)], 2, 4, 16_000, 131_072),
        "rlhf": ([f"trainers-worker-{i}" for i in range(2)], 1, 1, 4_000, 32_768),
    }
    assert set(example) == set(expected)
    for name, (pods, weight, *needs) in expected.items():
        read = example[name]
        assert read["pods"] == [f"{name}-{each}" for each in pods]
        assert (read["workers"], read["priority"]) == (len(pods), weight)
        assert list(read["each"].values()) == needs
    # Traffic is stated in both spellings, and the pods of two jobs run.
    assert (example["vgg19"]["model"], example["vgg19"]["batch"]) == ("VGG19", 64)
    burst = {"start_ms": 300, "length_ms": 180, "rate_mbps": 50_000}
    assert example["bert"]["traffic"] == {"period_ms": 480, "phases": [burst]}
    burst = {"start_ms": 120, "length_ms": 40, "rate_mbps": 20_000}
    assert example["ablation"]["traffic"] == {"period_ms": 240, "phases": [burst]}
    running = {name: read["nodes"] for name, read in example.items() if "nodes" in read}
    assert running == {"bert": ["gpu-1", "gpu-5"], "gpt": ["gpu-0", "gpu-4"]}


def test_a_kind_is_added_by_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import, inject and the controller read a kind that only its record describes."""

    def pods(ring: KubernetesObject) -> Iterator[PodTemplate]:
        names = [f"{ring.name}-peer-{index}" for index in range(ring.at("spec.peers").integer(1))]
        yield PodTemplate("peer", names, ring.at("spec.podTemplate"))

    kind = WorkloadKind(
        "Ring",
        "rings.example",
        ("v7",),
        pods=pods,
        phases=("status.state",),
        job_labels=("rings.example/ring",),
        rank_labels=("rings.example/peer",),
    )
    monkeypatch.setitem(KINDS, ("Ring", "rings.example"), kind)
    spec = {"peers": 3, "podTemplate": template(2)}
    ring = workload("rings.example/v7", "Ring", "round", spec)
    read = jobs_of(imported(*machines(), ring, job("other"), pod("round-peer-1", "n1")))["round"]
    assert read["pods"] == ["round-peer-0", "round-peer-1", "round-peer-2"]
    assert read["each"]["gpus"] == 2

    done = imported(*machines(), job(), {**ring, "status": {"state": "Completed"}})
    assert "1 dropped, done: Ring team/round" in done.notes

    (injected,), changed = inject([("file", ring)])
    assert changed == ["Ring team/round"]
    made = injected["spec"]["podTemplate"]
    assert made["spec"]["schedulingGates"] == [{"name": SCHEDULING_GATE}]
    assert made["metadata"]["annotations"][f"{GROUP}/tasks"] == "3"

    labels = {"rings.example/ring": "round", "rings.example/peer": "1"}
    task = Pod.of(pod("round-peer-1", None, labels=labels))
    assert (task.job, task.rank) == ("team/round", (1, "round-peer-1"))


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize(("gpus", "pods"), [(0, ["worker-0", "worker-1"]), (1, ["launcher"])])
def test_a_launcher_is_a_task_if_it_holds_gpus(version: str, gpus: int, pods: list[str]) -> None:
    launcher = {"replicas": 1, "template": template(gpus)}
    roles = {"Launcher": launcher, "Worker": {"replicas": 2, "template": template()}}
    mpi = workload(f"kubeflow.org/{version}", "MPIJob", "train", {"mpiReplicaSpecs": roles})
    read = jobs_of(imported(*machines(), mpi))["train"]
    assert read["pods"][: len(pods)] == [f"train-{each}" for each in pods]
    assert read["workers"] == 2 + gpus


def test_a_job_set_has_the_pods_of_all_its_jobs() -> None:
    names = ["set-w-0-0-abcde", "set-w-0-1-fghij", "set-w-1-0-klmno", "set-w-1-1-pqrst"]
    pods = [pod(name, f"n{index // 2}") for index, name in enumerate(names)]
    owned = job("set-w-0", **owned_by("JobSet", "set"))
    read = jobs_of(imported(*machines(), job_set("set", "w", 2, 1), owned, *pods))
    assert list(read) == ["set"]  # the Jobs that it makes are not counted again
    assert read["set"]["pods"] == names
    assert read["set"]["nodes"] == ["n0", "n0", "n1", "n1"]


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({}, "trainer.numNodes: missing; state it, or read the runtime torch-distributed too; "),
        ({"numNodes": 2}, "trainer.resourcesPerNode: missing; state it, or read the runtime "),
        (
            {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "500m"}}},
            "its containers ask for 0.5 GPUs; GPUs are whole",
        ),
    ],
)
def test_a_train_job_that_leaves_its_needs_to_a_runtime(trainer: Object, message: str) -> None:
    assert f": {message}" in fault(*machines(), train_job(2, "train", trainer)).replace(
        " spec.", " "
    )
    silent = imported(*machines(), job("other"), train_job(2, "train", {}, {}))  # no traffic
    (note,) = silent.notes
    assert re.fullmatch("1 dropped, spec.trainer.numNodes: missing; .*: TrainJob team/train", note)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (job(), {"conditions": [{"type": "Complete", "status": "True"}]}),
        (
            workload("batch.volcano.sh/v1alpha1", "Job", "v", {"tasks": []}),
            {"state": {"phase": "Aborted"}},
        ),
    ],
)
def test_a_workload_that_is_done_is_left_out(kind: Object, status: Object) -> None:
    made = imported(*machines(), job("other"), {**kind, "status": status})
    assert f"1 dropped, done: {kind['kind']} team/{kind['metadata']['name']}" in made.notes


def _container(name: str, cpu: str, memory: str, **fields: Any) -> Object:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": amounts}, **fields}


@pytest.mark.parametrize(
    ("spec", "cores", "mebibytes"),
    [
        ({}, 2300, 1188),
        ({"overhead": {"cpu": "250m", "memory": "120Mi"}}, 2550, 1308),
        ({"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "4Gi"}}}, 3000, 1188),
        (
            {"containers": [], "initContainers": [], "resources": {"limits": {"memory": "4Gi"}}},
            0,
            4096,
        ),
        ({"containers": [{"resources": {"limits": {"cpu": "7"}}}]}, 7500, 1188),
    ],
)
def test_sidecars_overhead_limits_and_needs_of_the_whole_pod(
    spec: Object, cores: int, mebibytes: int
) -> None:
    # By hand: 300 + 2000 thousandths of a core while `first` runs, 500 + 1000 later on;
    # 164 + 1024 MiB while `last` runs, 164 + 256 later on.
    whole: Object = {
        "initContainers": [
            _container("a", "300m", "100Mi", restartPolicy="Always"),
            _container("first", "2", "50Mi"),
            _container("b", "200m", "64Mi", restartPolicy="Always"),
            _container("last", "0", "1Gi"),
        ],
        "containers": [_container("main", "1", "256Mi")],
        **spec,
    }
    needs = needs_of(Field(whole, "Pod p"))
    assert (needs.cpu_millicores, needs.memory_mib) == (cores, mebibytes)


# ------------------------------------------------------------------ gangs


def in_group(made: Object, group: str = "gang") -> Object:
    made["spec"]["schedulingGroup"] = {"podGroupName": group}
    return made


def group(version: str = "v1alpha2", **fields: Any) -> Object:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return kube(f"scheduling.k8s.io/{version}", "PodGroup", metadata("gang", **fields), spec)


def test_pods_of_a_workload_of_older_releases_are_one_job() -> None:
    pods = [pod(f"w{index}", f"n{index}", annotations=TRAFFIC) for index in range(2)]
    for each in pods:
        each["spec"]["workloadRef"] = {"name": "load", "podGroup": "w"}
    assert jobs_of(imported(*machines(), *pods))["load-w"]["nodes"] == ["n0", "n1"]


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_pods_of_a_group_are_one_job(version: str) -> None:
    pods = [in_group(pod(f"w{index}", f"n{index}", gpus=2)) for index in range(2)]
    others = [pod("alone", "n0"), in_group(pod("help", "n0", gpus=0))]
    made = imported(*machines(), group(version, annotations=TRAFFIC), *pods, *others)
    read = jobs_of(made)["gang"]
    assert (read["pods"], read["nodes"]) == (["w0", "w1"], ["n0", "n1"])
    assert read["each"]["gpus"] == 2


def test_a_group_has_a_name() -> None:
    made = job()
    made["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": {"x": 1}}
    assert "schedulingGroup.podGroupName: must be text" in fault(*machines(), made)


def test_workloads_of_a_group_are_one_job() -> None:
    one, two = job("one", pods=1), job("two", pods=2)
    for each in (one, two):
        in_group(each["spec"]["template"])
    made = imported(*machines(), one, two)
    assert {name: read["workers"] for name, read in jobs_of(made).items()} == {"gang": 3}
    made = imported(*machines(), two, group())
    assert [*jobs_of(made)] == ["two"]


def test_a_group_of_unlike_pods_is_left_out_unless_it_states_traffic() -> None:
    pods = [in_group(pod(f"w{count}", "n0", gpus=count)) for count in (1, 2)]
    made = imported(*machines(), group(), *pods, job())
    assert [*jobs_of(made)] == ["train"]
    reason = "in a gang with different numbers of GPUs"
    assert f"1 dropped, {reason}: PodGroup team/gang" in made.notes
    line = fault(*machines(), group(annotations=TRAFFIC), *pods, job())
    start = "file: document 4: PodGroup team/gang: states traffic, but cannot be read: "
    assert line.startswith(start + reason)


# ------------------------------------------------------------------ kinds of other projects


def roles(field: str, **counts: int) -> Object:
    """Return the replicas of roles of Kubeflow's training operator; a name in capitals has GPUs."""
    made = {
        role.capitalize() if role != "PS" else role: {"replicas": count, "template": template()}
        for role, count in counts.items()
    }
    return {f"{field}ReplicaSpecs": made}


def ray(*groups: Object, head: int = 0) -> Object:
    return {"headGroupSpec": {"template": template(head)}, "workerGroupSpecs": [*groups]}


def ray_group(name: str = "w", **numbers: Any) -> Object:
    return {"groupName": name, "template": template(), **numbers}


RAY = "ray.io/v1"
KUBEFLOW = "kubeflow.org/v1"
WRAPPED = workload(KUBEFLOW, "PyTorchJob", "inner", roles("pytorch", master=1, worker=1))


@pytest.mark.parametrize(
    ("version", "kind", "spec", "pods"),
    [
        (KUBEFLOW, "TFJob", roles("tf", chief=1, PS=1, worker=1), "chief-0 ps-0 worker-0"),
        (KUBEFLOW, "JAXJob", roles("jax", worker=2), "worker-0 worker-1"),
        (KUBEFLOW, "XGBoostJob", roles("xgb", worker=1, master=1), "master-0 worker-0"),
        (KUBEFLOW, "PaddleJob", roles("paddle", worker=2), "worker-0 worker-1"),
        (KUBEFLOW, "MXJob", roles("mx", server=1, worker=1), "server-0 worker-0"),
        *(
            (
                "sagemaker.amazonaws.com/v1",
                kind,
                {"replicaSpecs": [{"name": "pods", "replicas": 2, "template": template()}]},
                "pods-0 pods-1",
            )
            for kind in ("HyperPodPyTorchJob", "HyperPodPytorchJob")
        ),
        ("apps/v1", "StatefulSet", {"replicas": 2, "template": template()}, "0 1"),
        (
            "apps/v1",
            "StatefulSet",
            {"replicas": 2, "ordinals": {"start": 5}, "template": template()},
            "5 6",
        ),
        ("apps/v1", "Deployment", {"replicas": 2, "template": template()}, "0 1"),
        (RAY, "RayCluster", ray(ray_group(replicas=2)), "w-worker-0 w-worker-1"),
        (RAY, "RayCluster", ray(ray_group(replicas=1), head=1), "head w-worker-0"),
        ("ray.io/v1alpha1", "RayJob", {"rayClusterSpec": ray(ray_group(replicas=2))}, "w-worker-*"),
        # As the operator: replicas within their limits, on so many hosts each, none if suspended.
        (RAY, "RayCluster", ray(ray_group(minReplicas=2)), "w-worker-0 w-worker-1"),
        (RAY, "RayCluster", ray(ray_group(replicas=9, maxReplicas=2)), "w-worker-0 w-worker-1"),
        (RAY, "RayCluster", ray(ray_group(replicas=1, numOfHosts=2)), "w-worker-0 w-worker-1"),
        (
            RAY,
            "RayCluster",
            ray(ray_group("a", replicas=2, suspend=True), ray_group("b", replicas=2)),
            "b-worker-0 b-worker-1",
        ),
        (RAY, "RayCluster", {"suspend": True, **ray(ray_group(replicas=2))}, "w-worker-*"),
    ],
)
def test_pods_of_a_kind(version: str, kind: str, spec: Object, pods: str) -> None:
    read = jobs_of(imported(*machines(), workload(version, kind, "x", spec)))["x"]
    names = [f"{pods[:-1]}{index}" for index in range(2)] if pods.endswith("*") else pods.split()
    assert read["pods"] == [f"x-{name}" for name in names]
    assert "nodes" not in read


def leader_worker_set(name: str = "lws", **spec: Any) -> Object:
    worker = {"workerTemplate": template(), "size": 2, **spec}
    whole = {"replicas": 2, "leaderWorkerTemplate": worker}
    return workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, whole)


def test_each_group_of_a_leader_worker_set_is_a_job() -> None:
    read = jobs_of(imported(*machines(), leader_worker_set()))
    assert {name: job["pods"] for name, job in read.items()} == {
        "lws-0": ["lws-0", "lws-0-1"],
        "lws-1": ["lws-1", "lws-1-1"],
    }
    # A leader without GPUs is no task, so that each of these groups is one of two workers.
    read = jobs_of(imported(*machines(), leader_worker_set(leaderTemplate=template(0), size=3)))
    assert read["lws-1"]["pods"] == ["lws-1-1", "lws-1-2"]


def test_pods_of_a_leader_worker_set_say_their_group() -> None:
    """Its templates cannot name a job, since their pods are of several."""
    (made,), changed = inject([("file", leader_worker_set())])
    assert changed == ["LeaderWorkerSet team/lws"]
    pods = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    stated = pods["metadata"]["annotations"]
    assert stated[f"{GROUP}/tasks"] == "2"
    assert f"{GROUP}/job" not in stated
    labels = {"name": "lws", "group-index": "1", "worker-index": "1"}
    named = {f"leaderworkerset.sigs.k8s.io/{key}": value for key, value in labels.items()}
    task = Pod.of(pod("lws-1-1", None, labels=named))
    assert (task.job, task.rank) == ("team/lws-1", (1, "lws-1-1"))


def test_a_wrapper_has_the_jobs_inside_it() -> None:
    helper = kube("apps/v1", "Deployment", metadata("help"), {"template": template(0)})
    config = kube("v1", "ConfigMap", metadata("c"), {})
    inner = [WRAPPED, helper, leader_worker_set(), config]
    for each in inner:
        del each["metadata"]["namespace"]
    spec = {"components": [{"template": each} for each in inner]}
    wrapper = workload("workload.codeflare.dev/v1beta2", "AppWrapper", "wrap", spec)
    # What it makes is there as well, but no second job.
    made = kube(KUBEFLOW, "PyTorchJob", metadata("inner", **owned_by("AppWrapper", "wrap")), {})
    running = pod("inner-worker-0", "n0")
    read = jobs_of(imported(*machines(), wrapper, {**made, "spec": WRAPPED["spec"]}, running))
    assert {name: job["pods"][-1] for name, job in read.items()} == {
        "inner": "inner-worker-0",
        "lws-0": "lws-0-1",
        "lws-1": "lws-1-1",
    }
    empty = workload("workload.codeflare.dev/v1beta2", "AppWrapper", "empty", {})
    line = fault(*machines(), empty)
    assert "AppWrapper team/empty: states traffic, but cannot be read: without templates" in line
    (injected,), _ = inject([("file", wrapper)])
    component = injected["spec"]["components"][0]["template"]["spec"]["pytorchReplicaSpecs"]
    stated = component["Worker"]["template"]["metadata"]["annotations"]
    assert (stated[f"{GROUP}/job"], stated[f"{GROUP}/tasks"]) == ("inner", "2")


def test_pods_of_a_ray_job_are_called_after_its_cluster() -> None:
    spec = {"rayClusterSpec": ray(ray_group(replicas=2))}
    made = workload(RAY, "RayJob", "r", spec, status={"rayClusterName": "r-abcde"})
    owned = workload(RAY, "RayCluster", "r-abcde", spec["rayClusterSpec"])
    owned["metadata"] |= owned_by("RayJob", "r")
    names = [f"r-abcde-w-worker-{end}" for end in ("aaaaa", "bbbbb")]
    pods = [pod(name, f"n{index}") for index, name in enumerate(names)]
    read = jobs_of(imported(*machines(), made, owned, *pods))
    assert list(read) == ["r"]
    assert (read["r"]["pods"], read["r"]["nodes"]) == (names, ["n0", "n1"])
    line = fault(*machines(), workload(RAY, "RayJob", "r", {"clusterSelector": {"a": "b"}}))
    assert "spec.rayClusterSpec: missing; annotate the RayCluster that it selects; " in line


def test_pods_of_a_deployment_are_found_by_their_replica_set() -> None:
    made = workload("apps/v1", "Deployment", "d", {"replicas": 2, "template": template()})
    set_ = workload("apps/v1", "ReplicaSet", "d-5d9c7", {"replicas": 2, "template": template()})
    set_["metadata"] |= owned_by("Deployment", "d")
    head = {"labels": {"pod-template-hash": "5d9c7"}, **owned_by("ReplicaSet", "d-5d9c7")}
    pods = [pod(f"d-5d9c7-{end}", f"n{i}", **head) for i, end in enumerate(("aaaaa", "bbbbb"))]
    read = jobs_of(imported(*machines(), made, set_, *pods))
    assert {name: job["nodes"] for name, job in read.items()} == {"d": ["n0", "n1"]}
    assert Pod.of(pods[0]).job == "team/d"


def test_deployments_without_traffic_leave_a_cluster_without_jobs() -> None:
    objects = Objects()
    made = kube("apps/v1", "Deployment", metadata("d"), {"replicas": 2, "template": template(0)})
    objects.add(("file", item) for item in [*machines(), made])
    assert not objects.are_of_jobs


# ------------------------------------------------------------------ runtimes of TrainJobs


def runtime(*jobs: Object, kind: str = "ClusterTrainingRuntime", **policy: Any) -> Object:
    head = metadata("torch-distributed", None if kind.startswith("Cluster") else "team")
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [*jobs]}}}
    return kube("trainer.kubeflow.org/v1alpha1", kind, head, spec)


def runtime_job(name: str, gpus: int, step: str = "") -> Object:
    pods = template(gpus)
    pods["spec"]["containers"][0]["name"] = "node"
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": step}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": pods}}}


LIMITS = {"limits": {"nvidia.com/gpu": 4}}


@pytest.mark.parametrize(
    ("trainer", "policy", "jobs", "pods", "gpus"),
    [
        ({}, {"numNodes": 2}, [("node", 8, "trainer")], "node-0-0 node-0-1", 8),
        ({"numNodes": 2}, {"numNodes": 1}, [("node", 8, "")], "node-0-0 node-0-1", 8),
        ({"resourcesPerNode": LIMITS}, {"numNodes": 2}, [("node", 8, "")], "node-0-0 node-0-1", 4),
        ({}, {"numNodes": 2}, [("trainer-node", 8, "trainer")], "trainer-node-0-0 *-1", 8),
        (  # the launcher is one of three nodes
            {"numNodes": 3, "resourcesPerNode": LIMITS},
            {"mpi": {"runLauncherAsNode": True}},
            [("launcher", 0, "trainer"), ("node", 0, "")],
            "launcher-0-0 node-0-0 node-0-1",
            4,
        ),
        (
            {"numNodes": 2},
            {},
            [("dataset-initializer", 0, "dataset-initializer"), ("node", 1, "trainer")],
            "node-0-0 node-0-1",
            1,
        ),
    ],
)
def test_a_train_job_has_the_pods_of_its_runtime(
    trainer: Object, policy: Object, jobs: list[tuple[str, int, str]], pods: str, gpus: int
) -> None:
    made = runtime(*(runtime_job(*each) for each in jobs), **policy)
    read = jobs_of(imported(*machines(4), made, train_job(2, "t", trainer)))["t"]
    names = pods.replace("*", "trainer-node-0").split()
    assert read["pods"] == [f"t-{name}" for name in names]
    assert read["each"]["gpus"] == gpus


def test_a_runtime_of_the_namespace_is_found_by_its_kind() -> None:
    made = runtime(runtime_job("node", 2), kind="TrainingRuntime", numNodes=2)
    asking = train_job(2, "t", {})
    asking["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    assert jobs_of(imported(*machines(), made, asking))["t"]["each"]["gpus"] == 2
    other = copy.deepcopy(made)
    other["metadata"]["namespace"] = "other"
    assert "or read the runtime torch-distributed too" in fault(*machines(), other, asking)
    documents, _ = inject([("file", made), ("file", asking)])
    (patch,) = documents[1]["spec"]["runtimePatches"]
    (patched,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    stated = patched["template"]["spec"]["template"]["metadata"]["annotations"]
    assert stated[f"{GROUP}/tasks"] == "2"


# ------------------------------------------------------------------ names and other kinds


def test_generated_names_are_beginnings() -> None:
    """Each object with a generated name is made anew, so that two of one text are two jobs."""
    made = job()
    made["metadata"]["generateName"] = made["metadata"].pop("name") + "-"
    read = jobs_of(imported(*machines(), made, copy.deepcopy(made)))
    assert {name: each["pods"][0] for name, each in read.items()} == {
        "train-": "train--0",
        "train-2": "train-2-0",
    }
    (injected,), _ = inject([("file", made)])
    stated = injected["spec"]["template"]["metadata"]["annotations"]
    assert f"{GROUP}/job" not in stated  # pods say it by the label of their Job


UNREAD = kube("example.org/v1", "Dance", metadata("d"), {})


def annotated(item: Object, *path: str) -> Object:
    """Return an object with traffic at a location inside it."""
    made = copy.deepcopy(item)
    inner = made
    for step in path:
        inner = inner.setdefault(step, {})
    inner.setdefault("metadata", {})["annotations"] = dict(TRAFFIC)
    return made


@pytest.mark.parametrize("path", [(), ("spec", "dancer", "template")])
def test_an_unread_object_with_traffic_is_refused_by_name(path: tuple[str, ...]) -> None:
    made = annotated(UNREAD, *path)
    line = fault(*machines(), job(), made)
    reason = "states traffic, which is read of no Dance example.org/v1; "
    start = f"file: document 5: Dance team/d: {reason}"
    assert line.startswith(start)
    with pytest.raises(InputError, match="Dance team/d: states traffic"):
        inject([("file", made)])
    made["metadata"].setdefault("annotations", {})[f"{GROUP}/ignore"] = "true"
    assert (
        "ignored, of kinds that are not read: 1 Dance (example.org)"
        in imported(*machines(), job(), made).notes
    )


PODS = {"metadata": {"annotations": TRAFFIC}, **template(0)}
SERVED = {"template": kube(RAY, "RayService", metadata("d", annotations=TRAFFIC), {})}


@pytest.mark.parametrize(
    ("version", "kind", "spec", "reason"),
    [
        ("scheduling.volcano.sh/v1beta1", "PodGroup", PODS, "is read of no PodGroup scheduling.v"),
        ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", PODS, "is read of no Cluster"),
        ("v1", "Node", PODS, "is read of no Node v1; annotate what it makes"),
        ("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": PODS}}}, "no CronJob batch/"),
        (
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            {"components": [{"template": WRAPPED}, SERVED]},
            "RayService team/d in it is of no kind that is read; correct it",
        ),
        (
            KUBEFLOW,
            "MPIJob",
            {"mpiReplicaSpecs": {
                "Launcher": {"template": PODS},
                "Worker": {"replicas": 2, "template": template()},
            }},
            "only of pods without GPUs; annotate the whole, or other pods; correct it",
        ),
    ],
)  # fmt: skip
def test_traffic_where_it_is_not_read(version: str, kind: str, spec: Object, reason: str) -> None:
    assert reason in fault(*machines(), job(), kube(version, kind, metadata("d"), spec))


def test_traffic_of_the_jobs_of_a_job_set_and_of_a_runtime() -> None:
    made = job_set("set", "w", 2, 1)
    (inner,) = made["spec"]["replicatedJobs"]
    inner["template"]["metadata"] = {"annotations": made["metadata"].pop("annotations")}
    used = runtime(runtime_job("node", 2))
    (pods,) = used["spec"]["template"]["spec"]["replicatedJobs"]
    pods["template"]["spec"]["template"]["metadata"] = {"annotations": TRAFFIC}
    read = jobs_of(imported(*machines(), made, used, train_job(2, "t", annotations={})))
    assert {name: each["traffic"]["period_ms"] for name, each in read.items()} == {
        "set": 100,
        "t": 100,
    }


def test_pods_with_traffic_are_read_by_owner_whatever_its_kind() -> None:
    owned = {**owned_by("Dance", "d"), "annotations": TRAFFIC}
    pods = [pod(f"d-{index}", f"n{index}", **owned) for index in range(2)]
    helper = pod("d-help", "n0", gpus=0, **owned)
    # The object that they come of is represented by them; so is what is made of it, such as the
    # PodGroup to which Volcano copies annotations.
    group = kube("scheduling.volcano.sh/v1beta1", "PodGroup", metadata("g"), {})
    group["metadata"] |= {"annotations": TRAFFIC, **owned_by("Dance", "d")}
    assert "d" in jobs_of(imported(*machines(), group, *pods))
    made = annotated(UNREAD, "spec", "template")
    part = kube("example.org/v1", "Step", metadata("s", **owned_by("Dance", "d")), {})
    read = jobs_of(imported(*machines(), made, annotated(part), *pods, helper))
    assert {name: each["nodes"] for name, each in read.items()} == {"d": ["n0", "n1"]}
    line = fault(*machines(), job(), helper)
    assert "Pod team/d-help: states traffic, but cannot be read: without GPUs; " in line


def test_pods_of_a_group_of_kueue_are_one_job() -> None:
    stated: Object = {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "annotations": TRAFFIC}
    pods = [pod(f"p{index}", None, phase="Pending", **stated) for index in range(2)]
    assert jobs_of(imported(*machines(), *pods))["g"]["workers"] == 2


def test_pods_of_a_workload_that_was_read_are_no_second_job() -> None:
    """Such as a pod that replaces another one, which is still there."""
    stated: Object = {"labels": {"job-name": "train"}, "annotations": TRAFFIC}
    extra = [pod(f"train-0-{end}", "n0", **stated) for end in ("aaaaa", "bbbbb", "ccccc")]
    assert list(jobs_of(imported(*machines(), job(), *extra))) == ["train"]


def test_an_unknown_version_without_traffic_is_ignored() -> None:
    old = kube("apps/v1beta1", "StatefulSet", metadata("old"), {})
    made = imported(*machines(), job(), old)
    assert "ignored, of kinds that are not read: 1 StatefulSet (apps)" in made.notes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ray(*(ray_group(name, replicas=40_000) for name in "abc")), "has more than 100000 pods"),
        (ray(ray_group(replicas=50_000, numOfHosts=3)), "replicas: makes more than 100000 pods"),
        (ray(ray_group(replicas=10**9)), "replicas: must be between 0 and 100000"),
    ],
)
def test_more_pods_than_a_job_may_have(spec: Object, message: str) -> None:
    assert message in fault(*machines(), workload(RAY, "RayCluster", "x", spec))
