"""Exports for the tests: the two jobs of the example, and as many jobs as wanted."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from metronome_opt.kubernetes import build_manifests, write_manifests
from metronome_opt.kubernetes.cluster.objects import Desired, Kind
from metronome_opt.kubernetes.files import dump_objects
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.example import two_jobs

GROUP = "metronome.x-k8s.io"


def two_jobs_export(folder: Path, namespace: str, **changes: Any) -> Path:
    """Write the example to a folder, some fields of its schedule or its API group changed."""
    group = changes.pop("group", GROUP)
    files = build_manifests(*two_jobs(**changes), group=group, namespace=namespace)
    write_manifests(files, folder)
    return folder


def claim(job: str, task: int, namespace: str = "default", offset: int = 0) -> Manifest:
    """Return a claim with nothing special about it."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "STBandwidthClaim",
        "metadata": {
            "name": f"{job}-{task}",
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "metronome-opt",
                f"{GROUP}/job": job,
            },
        },
        "spec": {
            "job": job,
            "task": task,
            "traffic": {
                "periodMicroseconds": 200_000,
                "phases": [
                    {"startMicroseconds": 0, "lengthMicroseconds": 60_000, "rate": "40G"},
                ],
                "priority": 1,
            },
            "allocation": {
                "node": f"node-{task}",
                "link": f"node-{task}",
                "offsetMicroseconds": offset,
                "stretchMicroseconds": 0,
                "hyperperiodMicroseconds": 200_000,
            },
        },
    }


def capacity(node: str, rate: str = "50G") -> Manifest:
    """Return the capacity of a node with one link."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "STBandwidthCapacity",
        "metadata": {"name": node, "labels": {"app.kubernetes.io/managed-by": "metronome-opt"}},
        "spec": {"links": [{"name": node, "capacity": rate, "scope": "Node"}]},
    }


def desired(*objects: Manifest) -> Desired:
    """Return an export of these objects."""
    return Desired.of(copy.deepcopy(list(objects)), GROUP)


def write(folder: Path, *objects: Manifest) -> str:
    """Write objects to a folder of their own; return its name."""
    folder.mkdir(exist_ok=True)
    (folder / "claims.yaml").write_text(dump_objects(objects))
    return str(folder)


def rbac_kind(item: Manifest) -> Kind:
    """Return the resource of a role or a binding."""
    kind = item["kind"]
    plural = f"{kind.lower()}s"
    return Kind(item["apiVersion"], kind, plural, namespaced=kind.startswith("Role"))
