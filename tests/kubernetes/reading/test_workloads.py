"""Workloads of each kind: which pods are tasks, what they are called, what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from metronome_opt.documents import parse_yaml
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading import Choices, Objects, make_scenario, read_manifests
from metronome_opt.kubernetes.fields import Field
from metronome_opt.kubernetes.resources import needs_of
from metronome_opt.scenario import Scenario, build_scenario
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    claim,
    imported,
    job,
    jobs_of,
    machines,
    metadata,
    pod,
    template,
    thing,
)

IGNORED = {f"{GROUP}/ignore": "true"}
EXAMPLE = Path(__file__).parents[3] / "docs" / "example-cluster"


def kind(version: str, kind: str, name: str, spec: Object) -> Object:
    return thing(version, kind, metadata(name, annotations=TRAFFIC), spec)


def pytorch(name: str = "train", **replicas: Any) -> Object:
    return kind("kubeflow.org/v1", "PyTorchJob", name, {"pytorchReplicaSpecs": replicas})


def mpi(version: str, launcher_gpus: int) -> Object:
    launcher = {"replicas": 1, "template": template(launcher_gpus)}
    roles = {"Launcher": launcher, "Worker": {"replicas": 2, "template": template()}}
    return kind(f"kubeflow.org/{version}", "MPIJob", "train", {"mpiReplicaSpecs": roles})


def test_the_example_has_one_job_of_each_kind() -> None:
    objects = Objects()
    objects.add(read_manifests([EXAMPLE]))
    example = jobs_of(make_scenario(objects, Choices()))
    # Pods, GPUs, thousandths of a core and MiB of each. Weights are by the rank of the class:
    # best-effort, the default, is that of resnet50 alone; then research, then production.
    expected = {
        "vgg19": (["master-0", "worker-0", "worker-1", "worker-2"], 4, 2, 16_000, 131_072),
        "bert": ([f"worker-{i}" for i in range(4)], 2, 2, 12_000, 98_304),
        "gpt": ([f"worker-{i}" for i in range(3)], 4, 4, 32_000, 262_144),
        "resnet50": ([f"workers-0-{i}" for i in range(2)], 1, 2, 16_000, 65_536),
        "ablation": (["0", "1", "2"], 1, 2, 8_000, 65_536),
        "llama": (["node-0-0", "node-0-1"], 1, 1, 16_000, 131_072),
        "ranking": (["gpu-worker-0", "gpu-worker-1"], 1, 1, 8_000, 65_536),
        "tuning": (["0", "0-1"], 1, 1, 8_000, 65_536),
    }
    assert set(example) == set(expected)
    for name, (pods, weight, *needs) in expected.items():
        read = example[name]
        assert read["pods"] == [f"{name}-{pod}" for pod in pods]
        assert (read["workers"], read["priority"]) == (len(pods), weight)
        assert list(read["each"].values()) == needs
    # Traffic is stated in all three ways, and the pods of one job run.
    assert (example["vgg19"]["model"], example["vgg19"]["batch"]) == ("VGG19", 64)
    burst = {"start_ms": 180, "length_ms": 60, "rate_mbps": 25_000}
    assert example["bert"]["traffic"] == {"period_ms": 240, "phases": [burst]}
    burst = {"start_ms": 90, "length_ms": 20, "rate_mbps": 10_000}
    assert example["resnet50"]["traffic"] == {"period_ms": 120, "phases": [burst]}
    assert example["vgg19"]["nodes"] == ["gpu-0", "gpu-1", "gpu-3", "gpu-4"]
    assert [name for name, read in example.items() if "nodes" in read] == ["vgg19"]


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
@pytest.mark.parametrize(
    ("gpus", "pods"),
    [
        (0, ["train-worker-0", "train-worker-1"]),
        (1, ["train-launcher", "train-worker-0", "train-worker-1"]),
    ],
)
def test_a_launcher_is_a_task_if_it_holds_gpus(version: str, gpus: int, pods: list[str]) -> None:
    read = jobs_of(imported(*machines(), mpi(version, gpus)))["train"]
    assert read["pods"] == pods


def test_a_jobset_has_the_pods_of_all_its_jobs() -> None:
    spec = {"parallelism": 2, "completions": 2, "template": template()}
    jobs = {"name": "w", "replicas": 2, "template": {"spec": spec}}
    jobset = kind("jobset.x-k8s.io/v1alpha2", "JobSet", "set", {"replicatedJobs": [jobs]})
    names = ["set-w-0-0-abcde", "set-w-0-1-fghij", "set-w-1-0-klmno", "set-w-1-1-pqrst"]
    pods = [pod(name, f"n{index // 2}") for index, name in enumerate(names)]
    owned = job("set-w-0", ownerReferences=[{"kind": "JobSet", "name": "set", "controller": True}])
    read = jobs_of(imported(*machines(), jobset, owned, *pods))
    assert list(read) == ["set"]  # the Jobs that it makes are not counted again
    assert read["set"]["pods"] == names
    assert read["set"]["nodes"] == ["n0", "n0", "n1", "n1"]


def test_pods_that_nobody_can_tell_apart_are_tasks_in_the_order_of_their_names() -> None:
    plain = job(pods=2)
    plain["spec"]["completionMode"] = "NonIndexed"
    strange = pod(
        "train-zzzzz", "n1", ownerReferences=[{"kind": "Job", "name": "other", "controller": True}]
    )
    read = jobs_of(
        imported(*machines(), plain, pod("train-bbbbb", "n1"), pod("train-aaaaa", "n0"), strange)
    )["train"]
    assert read["pods"] == ["train-aaaaa", "train-bbbbb"]
    assert read["nodes"] == ["n0", "n1"]


def test_only_pods_that_have_not_ended_say_where_tasks_run() -> None:
    ended = pod("train-0-aaaaa", "n1", phase="Failed")
    pods = [pod("train-0-bbbbb", "n0"), pod("train-1-ccccc", "n1")]
    read = jobs_of(imported(*machines(), job(), ended, *pods))["train"]
    assert read["pods"] == ["train-0-bbbbb", "train-1-ccccc"]
    assert read["nodes"] == ["n0", "n1"]
    assert "nodes" not in jobs_of(imported(*machines(), job(), pods[0]))["train"]  # runs in part


def test_no_more_pods_run_at_a_time_than_are_to_complete() -> None:
    short = job(pods=5)
    short["spec"]["completions"] = 2
    assert jobs_of(imported(*machines(), short))["train"]["workers"] == 2


def test_what_is_no_job_of_ours_is_left_out_and_told() -> None:
    done = job("done")
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    unlike = pytorch("unlike", Master={"template": template(1)}, Worker={"template": template(2)})
    silent, ignored = job("silent", annotations={}), job("none", annotations=IGNORED)
    others = [job("alone", pods=1), job("cpu", gpus=0), unlike, silent, ignored]
    made = imported(*machines(), job(), done, *others)
    assert list(jobs_of(made)) == ["train"]
    assert set(made.notes) == {
        "1 left out, done: Job team/done",
        "1 left out, no traffic known: Job team/silent",
        "1 left out, as their annotation says: Job team/none",
        "1 left out, of a single pod, which sends nothing: Job team/alone",
        "1 left out, without GPUs: Job team/cpu",
        "1 left out, with unlike numbers of GPUs (Master 1, Worker 2): PyTorchJob team/unlike",
    }


def test_a_job_that_waits_and_finds_no_room_is_left_out() -> None:
    made = imported(*machines(2, gpus=2), job(gpus=2), job("train-2", gpus=2))
    assert list(jobs_of(made)) == ["train"]
    assert "1 left out, waiting without room: Job team/train-2" in made.notes
    with pytest.raises(InputError, match=r"no jobs: nothing is left .*/claim-template \(1 left"):
        imported(*machines(), job(annotations={}))


def test_names_that_several_jobs_have_get_what_tells_them_apart() -> None:
    elsewhere = job()
    elsewhere["metadata"]["namespace"] = "other"
    tasks = {"tasks": [{"name": "w", "replicas": 2, "template": template()}]}
    volcano = kind("batch.volcano.sh/v1alpha1", "Job", "train", tasks)
    names = set(jobs_of(imported(*machines(), job(), elsewhere, volcano, job("b"))))
    assert names == {
        "b",
        "other/train",
        "team/job.batch/train",
        "team/job.batch.volcano.sh/train",
    }


def test_limits_stand_for_requests_and_the_first_container_counts_if_it_needs_more() -> None:
    spec = template()["spec"]
    spec["containers"].append({"name": "side", "resources": {"limits": {"cpu": "1"}}})
    spec["initContainers"] = [{"name": "load", "resources": {"requests": {"memory": "2Gi"}}}]
    plain = job()
    plain["spec"]["template"] = {"spec": spec}
    each = jobs_of(imported(*machines(), plain))["train"]["each"]
    assert each == {"gpus": 1, "cpu_millicores": 1500, "memory_mib": 2048}


def _container(name: str, cpu: str, memory: str, **fields: Any) -> Object:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": amounts}, **fields}


@pytest.mark.parametrize(
    ("spec", "cores", "mebibytes"),
    [
        ({}, 2300, 1188),
        ({"overhead": {"cpu": "250m", "memory": "120Mi"}}, 2550, 1308),
        ({"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "4Gi"}}}, 3000, 1188),
        ({"initContainers": []}, 1000, 256),
        (
            {"containers": [], "initContainers": [], "resources": {"limits": {"memory": "4Gi"}}},
            0,
            4096,
        ),
    ],
)
def test_sidecars_overhead_and_what_the_pod_as_a_whole_asks_for(
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


def test_an_app_group_of_pods_is_a_job_if_no_workload_speaks_for_them() -> None:
    def group(name: str, pods: list[str]) -> Object:
        workloads = [{"workload": {"kind": "Pod", "name": pod, "selector": pod}} for pod in pods]
        spec = {"topologySortingAlgorithm": "KahnSort", "workloads": workloads}
        return kind("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", name, spec)

    made = imported(
        *machines(),
        job(),
        group("same", ["train-0", "train-1"]),
        group("own", ["p", "q"]),
        pod("p", "n0", gpus=2),
        pod("q", "n1", gpus=2),
    )
    assert set(jobs_of(made)) == {"train", "own"}
    own = jobs_of(made)["own"]
    assert (own["nodes"], own["each"]["gpus"]) == (["n0", "n1"], 2)


def test_what_is_written_reads_back_as_the_same_scenario() -> None:
    made = imported(*machines(), job(), claim("train-0", "train", 0, "n0", 40_000))
    document = parse_yaml(made.text())
    assert build_scenario(Scenario.from_dict(document)).instance == made.problem.instance


def test_jobs_that_wait_are_packed_before_one_is_left_out() -> None:
    # Spread, the pods of "a" would leave 7 GPUs on each of two nodes, too few for those of "b".
    made = imported(*machines(3), job("a", gpus=1), job("b", gpus=8))
    assert set(jobs_of(made)) == {"a", "b"}
    assert not any("without room" in note for note in made.notes)
