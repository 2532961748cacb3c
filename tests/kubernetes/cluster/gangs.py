"""Nodes of which nothing but the objects is there, and pods that ask for a place on them."""

from __future__ import annotations

from typing import Any

from metronome_opt.kubernetes.cluster import Connection
from metronome_opt.kubernetes.cluster.objects import NODES, PODS
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.cluster.exports import GROUP
from tests.kubernetes.controller.fake import GPU, GPUS, TRAFFIC

NAMES = [f"n{index}" for index in range(4)]


def make_nodes(cluster: Connection) -> None:
    """Make nodes of eight GPUs that are ready."""
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    has = {GPU: "8", "cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"conditions": [ready], "capacity": has, "allocatable": has}
    for name in NAMES:
        labels = {"kubernetes.io/hostname": name}
        metadata = {"name": name, "labels": labels}
        cluster.apply(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        cluster.merge(NODES, f"{name}/status", None, {"status": status})
        cluster.merge(NODES, name, None, {"spec": {"taints": None}})


def remove_nodes(cluster: Connection) -> None:
    """Delete the nodes and the test's pods, which would hold room on nodes of the same names."""
    for item in cluster.list(PODS):
        cluster.delete(PODS, item["metadata"]["name"], now=True)
    for name in NAMES:
        cluster.delete(NODES, name)


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


def submit(cluster: Connection, namespace: str, job: str, tasks: int, **spec: Any) -> None:
    """Make the pods of a job."""
    for index in range(tasks):
        manifest = pod(f"{job}-{index}", namespace, **spec)
        manifest["metadata"] |= {
            "labels": {"job-name": job},
            "annotations": {f"{GROUP}/tasks": str(tasks), f"{GROUP}/traffic": TRAFFIC},
        }
        cluster.create(PODS, manifest)


def pods(cluster: Connection, namespace: str) -> dict[str, Manifest]:
    """Return the pods of a namespace by name."""
    return {item["metadata"]["name"]: item for item in cluster.list(PODS, namespace)}
