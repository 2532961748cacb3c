"""Kinds of workloads whose pods another object makes, or that come in groups."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.errors import InputError
from tests.kubernetes.reading.manifests import (
    GROUP,
    TRAFFIC,
    Object,
    imported,
    job,
    jobs_of,
    machines,
    metadata,
    node,
    pod,
    template,
    thing,
)

ONE_EACH = {"limits": {"nvidia.com/gpu": "1", "cpu": "4"}}


def owned_by(kind: str, name: str) -> Object:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def train_job(annotations: Object = TRAFFIC, **trainer: Any) -> Object:
    head = metadata("train", annotations=annotations)
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    return thing("trainer.kubeflow.org/v1alpha1", "TrainJob", head, spec)


def runtime(gpus: int = 2, nodes: int = 3) -> Object:
    """Return a runtime of three nodes with two GPUs each, as an administrator writes it."""
    node_job = {"name": "node", "template": {"spec": {"template": template(gpus)}}}
    data = {"name": "dataset-initializer", "template": {"spec": {"template": template(0)}}}
    spec = {
        "mlPolicy": {"numNodes": nodes, "torch": {"numProcPerNode": "auto"}},
        "template": {"spec": {"replicatedJobs": [data, node_job]}},
    }
    head = metadata("torch-distributed", None)
    return thing("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", head, spec)


def job_set(pods: int, **fields: Any) -> Object:
    spec = {"parallelism": pods, "completions": pods, "template": template(4)}
    jobs = [{"name": "node", "template": {"spec": spec}}]
    version = "jobset.x-k8s.io/v1alpha2"
    return thing(version, "JobSet", metadata("train", **fields), {"replicatedJobs": jobs})


def ray_cluster(**groups: int) -> Object:
    workers = [
        {"groupName": name, "replicas": count, "template": template()}
        for name, count in groups.items()
    ]
    return {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": workers}


def ray_job(spec: Object, **more: Any) -> Object:
    head = metadata("rank", annotations=TRAFFIC)
    return thing("ray.io/v1", "RayJob", head, {"rayClusterSpec": spec}, **more)


def leaders(replicas: int, size: int, **templates: Any) -> Object:
    inner = {"size": size, "workerTemplate": template(), **templates}
    head = metadata("lws", annotations=TRAFFIC)
    spec = {"replicas": replicas, "leaderWorkerTemplate": inner}
    return thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", head, spec)


def test_a_train_job_says_what_it_needs_or_its_runtime_does() -> None:
    alone = jobs_of(imported(*machines(), train_job(numNodes=2, resourcesPerNode=ONE_EACH)))
    assert alone["train"]["pods"] == ["train-node-0-0", "train-node-0-1"]
    assert alone["train"]["each"] == {"gpus": 1, "cpu_millicores": 4000}
    by_runtime = jobs_of(imported(*machines(), train_job(), runtime()))["train"]
    assert (by_runtime["workers"], by_runtime["each"]["gpus"]) == (3, 2)
    both = train_job(numNodes=4, resourcesPerNode=ONE_EACH)
    stated = jobs_of(imported(*machines(), both, runtime()))["train"]
    assert (stated["workers"], stated["each"]["gpus"]) == (4, 1)


def test_the_pods_of_a_train_job_are_those_of_its_job() -> None:
    names = ["train-node-0-0-abcde", "train-node-0-1-fghij"]
    owner = owned_by("Job", "train-node-0")
    pods = [pod(name, f"n{index}", **owner) for index, name in enumerate(names)]
    read = jobs_of(imported(*machines(), train_job(numNodes=2, resourcesPerNode=ONE_EACH), *pods))[
        "train"
    ]
    assert (read["pods"], read["nodes"]) == (names, ["n0", "n1"])


def test_where_its_job_set_is_there_that_counts() -> None:
    made = job_set(2, annotations=TRAFFIC, **owned_by("TrainJob", "train"))
    read = jobs_of(imported(*machines(), train_job({}), made))
    assert list(read) == ["train"]
    assert (read["train"]["workers"], read["train"]["each"]["gpus"]) == (2, 4)


def test_a_train_job_without_its_runtime() -> None:
    told = (
        r"train: spec\.trainer\.numNodes: missing; state it, or read the ClusterTrainingRuntime t"
    )
    with pytest.raises(InputError, match=told):
        imported(*machines(), train_job())
    told = r"train: spec\.trainer\.resourcesPerNode: missing; state it, or read the ClusterTrai"
    with pytest.raises(InputError, match=told):
        imported(*machines(), train_job(numNodes=2))
    half = {"limits": {"nvidia.com/gpu": "500m"}}
    with pytest.raises(InputError, match=r"resourcesPerNode: asks for 0\.5 GPUs; GPUs are whole"):
        imported(*machines(), train_job(numNodes=2, resourcesPerNode=half))
    silent = imported(*machines(), job("other"), train_job({}))  # nobody asked for it
    assert "1 left out, without GPUs: TrainJob team/train" in silent.notes


def test_workers_of_a_ray_cluster_have_random_names() -> None:
    spec = ray_cluster(gpu=2)
    cluster = thing("ray.io/v1", "RayCluster", metadata("ray", annotations=TRAFFIC), spec)
    read = jobs_of(imported(*machines(), cluster))["ray"]
    assert read["pods"] == ["ray-gpu-worker-0", "ray-gpu-worker-1"]
    owner = owned_by("RayCluster", "ray")
    pods = [
        pod("ray-gpu-worker-zzzzz", "n1", **owner),
        pod("ray-gpu-worker-aaaaa", "n0", **owner),
        pod("ray-gpu-worker-bbbbb", "n0", **owned_by("RayCluster", "another")),
        pod("ray-head", "n0", gpus=0, **owner),
    ]
    read = jobs_of(imported(*machines(), cluster, *pods))["ray"]
    assert read["pods"] == ["ray-gpu-worker-aaaaa", "ray-gpu-worker-zzzzz"]
    assert read["nodes"] == ["n0", "n1"]


def test_a_ray_job_is_the_job_of_its_cluster() -> None:
    spec = ray_cluster(gpu=2, spot=1)
    status = {"status": {"rayClusterName": "rank-x7v2q"}}
    names = ["rank-x7v2q-gpu-worker-aaaaa", "rank-x7v2q-gpu-worker-bbbbb"]
    names.append("rank-x7v2q-spot-worker-ccccc")
    owner = owned_by("RayCluster", "rank-x7v2q")
    pods = [pod(name, "n0", **owner) for name in names]
    read = jobs_of(imported(*machines(), ray_job(spec, **status), *pods))
    assert read["rank"]["pods"] == names
    head = metadata("rank-x7v2q", **owned_by("RayJob", "rank"))
    cluster = thing("ray.io/v1", "RayCluster", head, spec)
    again = jobs_of(imported(*machines(), ray_job(spec), cluster, *pods))
    assert again == read  # and the cluster is no job of its own


def test_what_a_ray_group_says_of_its_size() -> None:
    spec = ray_cluster(least=1, hosts=2, off=4)
    least, hosts, off = spec["workerGroupSpecs"]
    least["minReplicas"] = 3
    hosts["numOfHosts"] = 2
    off["suspend"] = True
    assert jobs_of(imported(*machines(), ray_job(spec)))["rank"]["workers"] == 3 + 2 * 2
    over = {"status": {"jobDeploymentStatus": "Complete"}}
    made = imported(*machines(), job("other"), ray_job(spec, **over))
    assert "1 left out, done: RayJob team/rank" in made.notes


def test_each_group_of_a_leader_worker_set_is_a_job() -> None:
    read = jobs_of(imported(*machines(), leaders(2, 3), pod("lws-1", "n1"), pod("lws-1-2", "n0")))
    assert {name: entry["pods"] for name, entry in read.items()} == {
        "lws-0": ["lws-0", "lws-0-1", "lws-0-2"],
        "lws-1": ["lws-1", "lws-1-1", "lws-1-2"],
    }
    one = jobs_of(imported(*machines(), leaders(1, 2, leaderTemplate=template(0)), job("other")))
    assert "lws" not in one  # its leader holds no GPU, so that a single pod is left
    with pytest.raises(InputError, match=r"leaderWorkerTemplate\.size: must be between 1 and"):
        imported(*machines(), leaders(1, 0))


@pytest.mark.parametrize("inside", [False, True], ids=["its own", "of its template"])
def test_an_annotated_workload_of_another_kind_is_an_error(inside: bool) -> None:
    head = metadata("web", annotations={} if inside else TRAFFIC)
    inner = {**template(), "metadata": {"annotations": TRAFFIC if inside else {}}}
    other = thing("kubeflow.org/v1", "PaddleJob", head, {"template": inner})
    with pytest.raises(InputError) as caught:
        imported(*machines(), job(), other)
    told = str(caught.value)
    assert told.startswith(
        f"file: document 5: PaddleJob web: has the annotation {GROUP}/traffic, and is"
    )
    assert "LeaderWorkerSet (leaderworkerset.x-k8s.io)" in told
    assert "\n" not in told
    owned = {**other, "metadata": {**head, **owned_by("Job", "train")}}
    assert imported(*machines(), job(), owned).notes[-1].startswith("passed over, of kinds that")
    ignored = {**other, "metadata": metadata("web", annotations={f"{GROUP}/ignore": "true"})}
    assert imported(*machines(), job(), ignored)


def test_uplinks_that_nobody_states_can_be_chosen() -> None:
    nodes = [node(f"n{index}", zone=f"z{index // 2}") for index in range(4)]
    waiting = job(pods=4)
    free = imported(*nodes, waiting, nic_mbps=50_000)
    assert len(free.problem.instance.links) == 4
    chosen = imported(*nodes, waiting, nic_mbps=50_000, uplink_mbps=80_000)
    capacities = {link.name: link.capacity for link in chosen.problem.instance.links}
    assert (capacities["z0-uplink"], capacities["z1-uplink"]) == (80_000, 80_000)
    assert "2 uplinks are taken to carry 80000 Mbit/s, as was chosen" in chosen.notes
    shared = imported(*nodes, waiting, nic_mbps=50_000, oversubscription=3)
    capacities = {link.name: link.capacity for link in shared.problem.instance.links}
    assert capacities["z0-uplink"] == 33_333  # of 2 x 50,000, rounded down
    with pytest.raises(InputError, match="no node says in which zone it is, by the label topology"):
        imported(node("n0"), node("n1"), waiting, nic_mbps=50_000, uplink_mbps=80_000)


@pytest.mark.parametrize("rate", ["25000", "25", "20T"])
def test_rates_that_no_machine_sends_are_refused(rate: str) -> None:
    wrong = {f"{GROUP}/traffic": TRAFFIC[f"{GROUP}/traffic"].replace("10G", rate)}
    with pytest.raises(
        InputError, match=r"phases\[0\]\.rate: no machine sends .* bit/s; write the"
    ):
        imported(*machines(), job(annotations=wrong))
