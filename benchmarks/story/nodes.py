"""A namespace and ready nodes on an API server."""

from __future__ import annotations

import time
from collections.abc import Mapping

from metronome_opt.kubernetes.cluster import Connection, Kind
from metronome_opt.kubernetes.cluster.connect import each
from metronome_opt.kubernetes.cluster.objects import NODES

_HAS = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def prepare(connection: Connection, namespace: str, nodes: Mapping[str, int]) -> None:
    """Make a namespace in which pods may be made, and ready nodes with so many GPUs each."""
    spaces = Kind("v1", "Namespace", "namespaces", namespaced=False)
    accounts = Kind("v1", "ServiceAccount", "serviceaccounts", namespaced=True)
    metadata = {"name": namespace}
    connection.apply(spaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    account = {"name": "default", "namespace": namespace}
    connection.apply(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }

    def make(name: str) -> None:
        has = {**_HAS, "nvidia.com/gpu": str(nodes[name])}
        status = {"capacity": has, "allocatable": has, "conditions": [ready]}
        labels = {"kubernetes.io/hostname": name, "pool": namespace}
        metadata = {"name": name, "labels": labels}
        connection.apply(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        connection.merge(NODES, f"{name}/status", None, {"status": status})
        connection.merge(NODES, name, None, {"spec": {"taints": None}})

    each(make, [*nodes])
