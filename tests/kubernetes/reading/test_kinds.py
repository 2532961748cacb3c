"""Every kind of workload gives its pods, their names, and whether it is done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
        "bert": ([f"worker-{i}" for i in range(4)], 2, 2, 12_000, 98_304),
        "gpt": ([f"worker-{i}" for i in range(3)], 4, 4, 32_000, 262_144),
        "resnet50": ([f"workers-0-{i}" for i in range(2)], 1, 2, 16_000, 65_536),
        "ablation": (["0", "1", "2"], 1, 2, 8_000, 65_536),
        "llama": (["node-0-0", "node-0-1"], 1, 1, 16_000, 131_072),
    }
    assert set(example) == set(expected)
    for name, (pods, weight, *needs) in expected.items():
        read = example[name]
        assert read["pods"] == [f"{name}-{each}" for each in pods]
        assert (read["workers"], read["priority"]) == (len(pods), weight)
        assert list(read["each"].values()) == needs
    # Traffic is stated in both ways, and the pods of one job run.
    assert (example["vgg19"]["model"], example["vgg19"]["batch"]) == ("VGG19", 64)
    burst = {"start_ms": 180, "length_ms": 60, "rate_mbps": 25_000}
    assert example["bert"]["traffic"] == {"period_ms": 240, "phases": [burst]}
    burst = {"start_ms": 90, "length_ms": 20, "rate_mbps": 10_000}
    assert example["resnet50"]["traffic"] == {"period_ms": 120, "phases": [burst]}
    assert example["vgg19"]["nodes"] == ["gpu-0", "gpu-1", "gpu-3", "gpu-4"]
    assert [name for name, read in example.items() if "nodes" in read] == ["vgg19"]


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
        ({}, "trainer.numNodes: missing; state it, rather than"),
        ({"numNodes": 2}, "trainer.resourcesPerNode: missing; state it, rather than"),
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
    assert "1 dropped, without GPUs: TrainJob team/train" in silent.notes


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
