"""Small objects of a cluster, for tests to put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading.machines import ImportOptions
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.scenario import Imported, make_scenario

GROUP = "metronome.x-k8s.io"
Object = dict[str, Any]

PATTERN = {
    "periodMicroseconds": 100_000,
    "phases": [{"startMicroseconds": 20_000, "lengthMicroseconds": 30_000, "rate": "10G"}],
}
TRAFFIC = {
    f"{GROUP}/traffic": (
        "{periodMicroseconds: 100000, "
        "phases: [{startMicroseconds: 20000, lengthMicroseconds: 30000, rate: 10G}]}"
    )
}


def metadata(name: str, namespace: str | None = "team", **fields: Any) -> Object:
    where = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **where, **fields}


def kube(version: str, kind: str, head: Object, spec: Object, **more: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": head, "spec": spec, **more}


def node(name: str, gpus: int = 8, zone: str | None = None, **spec: Any) -> Object:
    labels = {} if zone is None else {"topology.kubernetes.io/zone": zone}
    has = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus)}
    head = metadata(name, None, labels=labels)
    return kube("v1", "Node", head, spec, status={"allocatable": has})


def capacity(name: str, carries: str = "50G", uplink: str | None = None) -> Object:
    links = [{"name": f"{name}-nic", "capacity": carries, "scope": "Node"}]
    if uplink is not None:
        links.append({"name": uplink, "capacity": "80G", "scope": "Shared"})
    head = metadata(name, None)
    return kube(f"{GROUP}/v1alpha1", "STBandwidthCapacity", head, {"links": links})


def machines(count: int = 2, **options: Any) -> list[Object]:
    """Return nodes ``n0``, ``n1``, ... with an interface of 50 Gbit/s each."""
    names = [f"n{index}" for index in range(count)]
    return [make for name in names for make in (node(name, **options), capacity(name))]


def template(gpus: int = 1, **spec: Any) -> Object:
    resources = {
        "requests": {"cpu": "500m", "memory": "1.5Gi"},
        "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {},
    }
    return {"spec": {"containers": [{"name": "main", "resources": resources}], **spec}}


def owned_by(kind: str, name: str) -> Object:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True}]}


def job(name: str = "train", pods: int = 2, gpus: int = 1, **fields: Any) -> Object:
    """Return an Indexed Job; `fields` replace those of its metadata."""
    spec = {"completionMode": "Indexed", "parallelism": pods, "completions": pods}
    head = metadata(name, **{"annotations": TRAFFIC, **fields})
    return kube("batch/v1", "Job", head, {**spec, "template": template(gpus)})


def train_job(
    nodes: int, name: str = "llama", trainer: Object | None = None, annotations: Object = TRAFFIC
) -> Object:
    needs = {"numNodes": nodes, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": needs if trainer is None else trainer,
    }
    head = metadata(name, annotations=annotations)
    return kube("trainer.kubeflow.org/v1alpha1", "TrainJob", head, spec)


def pod(name: str, on: str | None, gpus: int = 1, phase: str = "Running", **fields: Any) -> Object:
    spec = {**template(gpus)["spec"], **({} if on is None else {"nodeName": on})}
    return kube("v1", "Pod", metadata(name, **fields), spec, status={"phase": phase})


def claim(name: str, of: str, task: int, on: str, offset: int = 0) -> Object:
    times = {"offsetMicroseconds": offset, "stretchMicroseconds": 0}
    spec = {
        "job": of,
        "task": task,
        "traffic": {**PATTERN, "priority": 3},
        "allocation": {"node": on, **times, "hyperperiodMicroseconds": 100_000},
    }
    return kube(f"{GROUP}/v1alpha1", "STBandwidthClaim", metadata(name), spec)


def imported(*objects: Object, gpu_resources: Sequence[str] = (), **choices: Any) -> Imported:
    read = Objects(gpu_resources)
    read.add((f"file: document {index}", item) for index, item in enumerate(objects))
    return make_scenario(read, ImportOptions(**choices))


def fault(*objects: Object, **choices: Any) -> str:
    """Return the line that refuses some objects."""
    with pytest.raises(InputError) as caught:
        imported(*objects, **choices)
    (line,) = caught.value.lines
    return line


def jobs_of(made: Imported) -> dict[str, Object]:
    return {entry["name"]: entry for entry in made.document["jobs"]}
