"""Workloads that wait for their nodes: a scheduling gate, and the windows of their loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP, Manifest
from metronome_opt.kubernetes.reading.annotations import Annotations, merge
from metronome_opt.kubernetes.reading.fields import Faults, Field, KubernetesObject, replace_item
from metronome_opt.kubernetes.reading.kinds import PodTemplate, kind_of, pods_of, states_traffic
from metronome_opt.kubernetes.reading.limits import CONSTRAINTS
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.pods import SCHEDULING_GATE
from metronome_opt.kubernetes.reading.resources import explain_no_gpus

FOLDER = "/etc/metronome"
"""The folder in which a container sees its windows, and their changes."""

_VOLUME = "metronome"


VARIABLE: Mapping[str, Any] = {"name": "METRONOME_CLAIM", "value": f"{FOLDER}/claim"}


_NCCL = {"nccl-ib-tc": "NCCL_IB_TC", "nccl-ib-sl": "NCCL_IB_SL"}
"""Annotations of a pod, and the variables that NCCL reads from them when it starts."""


def nccl_values(traffic_class: int) -> dict[str, str]:
    """Return the annotations by which NCCL sends in a traffic class over InfiniBand or RoCE.

    The traffic class of NCCL is a byte: class 3, say, is 96, the code point CS3 above two bits for
    congestion; its service level is 3.
    """
    return {"nccl-ib-tc": str(traffic_class << 5), "nccl-ib-sl": str(traffic_class)}


def _nccl_variables(stated: str | None) -> list[Mapping[str, Any]]:
    """Return the variables of a stated class, or of the class that a pod gets with its windows.

    NCCL ignores empty variables, which pods without a class have. Source: NVIDIA/nccl,
    src/misc/param.cc, `ncclLoadParam`.
    """
    if stated is not None:
        return [{"name": _NCCL[key], "value": v} for key, v in nccl_values(int(stated)).items()]
    fields = {key: f"metadata.annotations['{DEFAULT_GROUP}/{key}']" for key in _NCCL}
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": fields[key]}}}
        for key, name in _NCCL.items()
    ]


MOUNT: Mapping[str, Any] = {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}

_SLOTS = {"fieldPath": f"metadata.annotations['{DEFAULT_GROUP}/slots']"}
VOLUME: Mapping[str, Any] = {
    "name": _VOLUME,
    "downwardAPI": {"items": [{"path": "claim", "fieldRef": _SLOTS}]},
}


def inject(
    documents: Iterable[tuple[str, Any]], gpu_resources: Iterable[str] = ()
) -> tuple[list[Manifest], list[str]]:
    """Return workloads that wait for their nodes, and the titles of the changed ones.

    An object that is no workload, holds no GPUs, or is a single pod, which sends nothing, is
    returned unchanged. A second injection changes nothing.

    Parameters
    ----------
    documents
        Objects with their locations.
    gpu_resources
        Resources that count as GPUs; none for all accelerators that are known.

    Raises
    ------
    InputError
        If a workload does not state its traffic, or states what cannot be imported.
    """
    copies = [(where, deepcopy(document)) for where, document in documents]
    objects = Objects(gpu_resources)
    objects.add(copies)
    changed, faults = [], Faults()
    for workload in objects.workloads():
        where = workload.where if states_traffic(workload.value) else ""
        with faults.collect(where=where):
            if not objects.has_owner_of(workload) and _inject(workload):
                changed.append(workload.title)
    faults.refuse()
    return [document for _, document in copies], changed


def _inject(workload: KubernetesObject) -> bool:
    """Gate the pods of a workload that hold GPUs; return whether there are any."""
    kind = kind_of(workload)
    if Annotations(workload.where, workload.annotations).ignored:
        return False
    by_job: dict[str | None, list[PodTemplate]] = defaultdict(list)
    every = list(pods_of(workload))
    for pods in every:
        if pods.holds_gpus:
            by_job[pods.job].append(pods)
    if not by_job and any(pods.names for pods in every):
        raise explain_no_gpus(every[-1].template)
    gated: dict[int, PodTemplate] = {}  # jobs may have one template
    for holding in by_job.values():
        tasks = sum(len(pods.names) for pods in holding)
        for pods in holding if tasks > 1 else ():
            if gated.setdefault(id(pods.template.value), pods) is pods:
                annotations = _annotations(workload, tasks, pods)
                template, environments = pods.template, pods.template.at("spec.containers").items()
                if kind.patch is not None:
                    template, environments = kind.patch(workload, pods)
                _gate(template, annotations, environments)
    return bool(gated)


def _gate(template: Field, annotations: Mapping[str, str], environments: Iterable[Field]) -> None:
    """Gate the pods of a template, and mount their windows in their containers."""
    metadata = (template / "metadata").value or {}
    template.value["metadata"] = {**metadata, "annotations": dict(annotations)}
    spec = template / "spec"
    replace_item(spec, "schedulingGates", {"name": SCHEDULING_GATE})
    replace_item(spec, "volumes", VOLUME)
    for container in (spec / "containers").items():
        replace_item(container, "volumeMounts", MOUNT)
    stated = annotations.get(f"{DEFAULT_GROUP}/traffic-class")
    for environment in environments:
        own = [(variable / "name").value for variable in (environment / "env").items()]
        for variable in _nccl_variables(stated):
            if stated is not None or variable["name"] not in own:
                replace_item(environment, "env", variable)
        replace_item(environment, "env", VARIABLE)


def _annotations(workload: KubernetesObject, tasks: int, pods: PodTemplate) -> dict[str, str]:
    """Return the annotations of a pod: its traffic, its job if it is known, its number of tasks.

    Constraints on its nodes come with them.
    """
    checked = Annotations(workload.where, merge(workload.annotations, *pods.stated))
    checked.check()
    if not checked.traffic():
        checked["traffic"].fail("missing; state what a task sends: traffic, or model and batch")
    ours = {
        name: text
        for name, text in workload.annotations.items()
        if name.startswith(DEFAULT_GROUP) or name in CONSTRAINTS
    }
    is_named = pods.is_named and not workload.is_generated
    job = {f"{DEFAULT_GROUP}/job": pods.job or workload.name} if is_named else {}
    return {
        **merge(ours, *pods.stated),
        **job,
        f"{DEFAULT_GROUP}/tasks": str(tasks),
    }
