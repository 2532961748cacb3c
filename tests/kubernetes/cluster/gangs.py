"""Nodes of which nothing but the objects is there, and pods that ask for a place on them."""

from __future__ import annotations

from typing import Any

from lightkube.core.client import Client

from metronome_opt.kubernetes.client import NODES, PODS, apply, delete, listed, merge
from metronome_opt.kubernetes.controller.live import CLAIMS
from metronome_opt.kubernetes.pods import SCHEDULING_GATE
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.controller.fake import GPU, GPUS, GROUP, TRAFFIC

NAMES = [f"n{index}" for index in range(4)]


def make_nodes(cluster: Client) -> None:
    """Make nodes of eight GPUs that are ready."""
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    has = {GPU: "8", "cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"conditions": [ready], "capacity": has, "allocatable": has}
    for name in NAMES:
        labels = {"kubernetes.io/hostname": name}
        metadata = {"name": name, "labels": labels}
        apply(cluster, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        merge(cluster, NODES, f"{name}/status", None, {"status": status})
        merge(cluster, NODES, name, None, {"spec": {"taints": None}})


def remove_nodes(cluster: Client, namespace: str) -> None:
    """Delete the nodes and the test's pods, which would hold room on nodes of the same names."""
    for name in pods(cluster, namespace):
        remove(cluster, name, namespace)
    for name in NAMES:
        delete(cluster, NODES, name, None)


def remove(cluster: Client, name: str, namespace: str) -> None:
    """Delete a pod; it gets no time to end."""
    cluster.delete(PODS, name, namespace=namespace, grace_period=0)


def pod(name: str, namespace: str, gpus: int = GPUS, **spec: Any) -> Manifest:
    """Return a pod that needs GPUs."""
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "a", "image": "a", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], **spec},
    }


def submit(cluster: Client, namespace: str, job: str, tasks: int) -> None:
    """Make the pods of a job, behind the scheduling gate."""
    for index in range(tasks):
        manifest = pod(f"{job}-{index}", namespace, schedulingGates=[{"name": SCHEDULING_GATE}])
        manifest["metadata"] |= {
            "labels": {"job-name": job},
            "annotations": {f"{GROUP}/tasks": str(tasks), f"{GROUP}/traffic": TRAFFIC},
        }
        cluster.create(PODS(manifest))


def pods(cluster: Client, namespace: str) -> dict[str, Manifest]:
    """Return the pods of a namespace by name."""
    return {item["metadata"]["name"]: item for item in listed(cluster, PODS, namespace)}


def claims(cluster: Client, namespace: str) -> dict[str, Manifest]:
    """Return the claims of a namespace by name."""
    return {item["metadata"]["name"]: item for item in listed(cluster, CLAIMS, namespace)}
