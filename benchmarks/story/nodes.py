"""A namespace and ready nodes on an API server."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lightkube.core.client import Client

from metronome_opt.kubernetes.controller.client import NODES, apply, merge, resource

_HAS = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def prepare(client: Client, namespace: str, nodes: Mapping[str, int]) -> None:
    """Make a namespace in which pods may be made, and ready nodes with so many GPUs each."""
    spaces = resource("v1", "Namespace", "namespaces", namespaced=False)
    accounts = resource("v1", "ServiceAccount", "serviceaccounts")
    metadata = {"name": namespace}
    apply(client, spaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = {"name": "default", "namespace": namespace}
    apply(client, accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    for name, gpus in nodes.items():
        has = {**_HAS, "nvidia.com/gpu": str(gpus)}
        status = {"capacity": has, "allocatable": has, "conditions": [ready]}
        labels = {"kubernetes.io/hostname": name, "pool": namespace}
        named = {"name": name, "labels": labels}
        apply(client, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": named})
        merge(client, NODES, f"{name}/status", None, {"status": status})
        merge(client, NODES, name, None, {"spec": {"taints": None}})
