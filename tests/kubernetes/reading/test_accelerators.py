"""Accelerators of all makers count as GPUs, by resource or by claimed device, and are not mixed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

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
    pod,
)

DEVICES = "resource.k8s.io/v1"


def with_resource(item: Object, name: str, amount: str | None = None) -> Object:
    """Return a node or a Job whose GPUs are another resource."""
    changed = copy.deepcopy(item)
    if item["kind"] == "Node":
        amounts = [changed["status"]["allocatable"]]
    else:
        spec = changed["spec"]["template"]["spec"]
        amounts = [part["resources"]["limits"] for part in spec["containers"]]
    for each in amounts:
        each[name] = amount or each["nvidia.com/gpu"]
        each.pop("nvidia.com/gpu")
    return changed


def cluster(name: str, amount: str | None = None) -> list[Object]:
    first, link, second, other = machines()
    return [with_resource(first, name, amount), link, with_resource(second, name, amount), other]


@pytest.mark.parametrize(
    "name",
    [
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "google.com/tpu",
        "huawei.com/Ascend910",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/gpu.shared",
        "amd.com/gpu",
    ],
)
def test_known_accelerators_are_gpus(name: str) -> None:
    made = imported(*cluster(name, "16"), with_resource(job(), name, "16"))
    assert jobs_of(made)["train"]["each"]["gpus"] == 16
    assert [node["has"]["gpus"] for node in made.document["cluster"]["nodes"]] == [16, 16]
    assert not made.notes


def test_another_resource_has_to_be_named() -> None:
    name = "accelerator.example/chip"
    objects = [*cluster(name), with_resource(job(), name)]
    line = fault(*objects)
    assert "Job team/train: states traffic, but cannot be read: without GPUs; of " in line
    assert f"of {name}, --gpu-resource names the one that counts" in line
    made = imported(*objects, gpu_resources=[name])
    assert jobs_of(made)["train"]["each"]["gpus"] == 1


def test_what_is_named_counts_alone() -> None:
    """With one resource named, jobs and nodes of another one are not read, which a note says."""
    other = with_resource(job("other"), "amd.com/gpu")
    amd = cluster("amd.com/gpu", "4")
    amd[0]["metadata"]["name"] = amd[1]["metadata"]["name"] = "a0"
    amd[1]["spec"]["links"][0]["name"] = "a0-nic"
    objects = [*machines(), *amd[:2], job(), other]
    assert fault(*objects).startswith(
        "jobs ask for accelerators of several kinds, amd.com/gpu and nvidia.com/gpu; "
        "--gpu-resource amd.com/gpu reads only these"
    )
    made = imported(*objects, gpu_resources=["amd.com/gpu"])
    assert list(jobs_of(made)) == ["other"]
    reason = "without GPUs of --gpu-resource, with nvidia.com/gpu"
    assert f"1 dropped, {reason}: Job team/train" in made.notes


def test_a_node_that_no_job_wants_is_a_note() -> None:
    amd = cluster("amd.com/gpu", "4")
    amd[0]["metadata"]["name"] = "a0"
    made = imported(*machines(), amd[0], job())
    assert "amd.com/gpu of node a0 and others dropped: no job asks for it" in made.notes


def test_a_node_that_counts_its_chips_in_several_ways_has_them_once() -> None:
    """A Trainium node offers 16 devices and, of the same ones, 32 cores."""
    nodes = cluster("aws.amazon.com/neuron", "16")
    for each in nodes[::2]:
        each["status"]["allocatable"]["aws.amazon.com/neuroncore"] = "32"
    for name, count in ("aws.amazon.com/neuron", 16), ("aws.amazon.com/neuroncore", 32):
        made = imported(*nodes, with_resource(job(), name, "8"))
        assert made.document["cluster"]["nodes"][0]["has"]["gpus"] == count


# ------------------------------------------------------------------ claimed devices


def device(name: str = "gpu", kind: str = "ResourceClaimTemplate", **request: Any) -> Object:
    stated = {"requests": [{"name": "r", **request}]}
    spec = {"devices": stated}
    return kube(
        DEVICES, kind, metadata(name), {"spec": spec} if kind.endswith("Template") else spec
    )


def claiming(made: Object, name: str = "gpu", key: str = "resourceClaimTemplateName") -> Object:
    """Return a Job or a Pod that claims devices instead of asking for a resource."""
    changed = copy.deepcopy(made)
    spec = changed["spec"] if made["kind"] == "Pod" else changed["spec"]["template"]["spec"]
    spec["containers"] = [{"name": "main", "resources": {"claims": [{"name": "g"}]}}]
    spec["resourceClaims"] = [{"name": "g", key: name}]
    return changed


def device_class(name: str, expression: str, **spec: Any) -> Object:
    selectors = [{"cel": {"expression": expression}}]
    head = metadata(name, None)
    return kube(DEVICES, "DeviceClass", head, {"selectors": selectors, **spec})


GPU = {"deviceClassName": "gpu.nvidia.com", "count": 2}


@pytest.mark.parametrize(
    "request_",
    [
        {"exactly": GPU},
        GPU,  # as until v1beta1
        {"firstAvailable": [{"name": "a", **GPU}, {"name": "b", "deviceClassName": "mig"}]},
    ],
)
def test_claimed_devices_are_gpus_by_their_class(request_: Object) -> None:
    made = imported(*machines(), device(**request_), claiming(job()))
    assert jobs_of(made)["train"]["each"]["gpus"] == 2


@pytest.mark.parametrize(
    ("expression", "spec"),
    [
        ("device.driver == 'gpu.nvidia.com' && device.attributes['x'].type == 'gpu'", {}),
        ("true", {"extendedResourceName": "nvidia.com/gpu"}),
    ],
)
def test_a_class_states_the_driver_of_its_devices(expression: str, spec: Object) -> None:
    claim = device(exactly={"deviceClassName": "a100"})
    stated = device_class("a100", expression, **spec)
    made = imported(*machines(), stated, claim, claiming(job()))
    assert jobs_of(made)["train"]["each"]["gpus"] == 1
    assert made.document["cluster"]["nodes"][0]["has"]["gpus"] == 8  # of the device plugin


def test_nodes_have_the_devices_of_their_slices() -> None:
    """A node of two GPUs, one of which is also offered in two partitions."""
    nodes = machines(2)
    slices = []
    for each in nodes[::2]:
        del each["status"]["allocatable"]["nvidia.com/gpu"]
        kinds = ("gpu", "gpu", "mig", "mig")
        devices = [
            {"name": f"d{index}", "attributes": {"type": {"string": kind}}}
            for index, kind in enumerate(kinds)
        ]
        name = each["metadata"]["name"]
        spec = {"driver": "gpu.nvidia.com", "nodeName": name, "devices": devices}
        slices.append(kube(DEVICES, "ResourceSlice", metadata(name, None), spec))
    made = imported(*nodes, *slices, device(exactly=GPU), claiming(job()))
    assert [node["has"]["gpus"] for node in made.document["cluster"]["nodes"]] == [2, 2]


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], "ResourceClaimTemplate gpu is missing; add it"),
        (
            [device(exactly={"deviceClassName": "fpga.example"})],
            "class fpga.example is not known; --gpu-resource fpga.example counts its devices",
        ),
        (
            [device(exactly={**GPU, "allocationMode": "All"})],
            "ResourceClaimTemplate team/gpu takes all devices of a node; state their number",
        ),
        (
            [device(exactly={**GPU, "adminAccess": True})],
            "ResourceClaimTemplate team/gpu only monitors devices",
        ),
    ],
)
def test_claims_that_cannot_be_counted(objects: list[Object], reason: str) -> None:
    line = fault(*machines(), *objects, claiming(job()))
    assert f"states traffic, but cannot be read: claims devices (DRA): {reason}; " in line
    silent = claiming(job("silent", annotations={}))
    assert "claims devices (DRA)" in str(imported(*machines(), *objects, silent, job()).notes)


def test_a_claim_that_pods_share_is_not_counted_for_each() -> None:
    claim = device(kind="ResourceClaim", exactly=GPU)
    line = fault(*machines(), claim, claiming(job(), key="resourceClaimName"))
    assert "all pods share ResourceClaim team/gpu; claim by a ResourceClaimTemplate" in line
    both = claiming(job())
    both["spec"]["template"]["spec"]["containers"].append(
        {"name": "b", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    )
    both["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "gpu"}]
    assert "all pods share ResourceClaim team/gpu; " in fault(*machines(), claim, both)
    gang = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "gpu"}]}
    pods = kube("scheduling.k8s.io/v1alpha3", "PodGroup", metadata("gang"), gang)
    member = claiming(job())
    member["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    line = fault(*machines(), pods, device(exactly=GPU), member)
    assert "pods of a PodGroup share claim g; let each have its own" in line
    policies = [{"targetReplicatedJobs": ["w"], "job": gang}, gang]
    inner = {"name": "w", "template": {"spec": claiming(job())["spec"]}}
    for scheduling in ({"replicatedJobs": policies[:1]}, policies[1]):
        spec = {"replicatedJobs": [inner], "scheduling": scheduling}
        head = metadata("set", annotations=TRAFFIC)
        made = kube("jobset.x-k8s.io/v1alpha2", "JobSet", head, spec)
        line = fault(*machines(), device(exactly=GPU), made)
        assert "pods of a PodGroup share claim g; let each have its own" in line


def test_a_class_of_interfaces_beside_gpus_is_no_gpu() -> None:
    made = job()
    made["spec"]["template"]["spec"]["resourceClaims"] = [
        {"name": "nic", "resourceClaimTemplateName": "nic"}
    ]
    nic = device("nic", exactly={"deviceClassName": "rdma.example"})
    assert jobs_of(imported(*machines(), nic, made))["train"]["each"]["gpus"] == 1


def test_a_share_of_a_gpu_is_named() -> None:
    made = job(gpus=0)
    made["spec"]["template"]["metadata"] = {"annotations": {"gpu-fraction": "0.5"}}
    line = fault(*machines(), made)
    assert "cannot be read: with a share of a GPU (gpu-fraction); GPUs are whole; " in line


def test_devices_of_others_are_taken_off_their_node() -> None:
    other = claiming(pod("other", "n0"))
    made = imported(*machines(), device(exactly=GPU), other, job())
    assert made.document["cluster"]["nodes"][0]["has"]["gpus"] == 6
