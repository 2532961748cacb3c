"""Workloads that ask for a place: a scheduling gate, and the slots that their loops will read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.names import DEFAULT_GROUP
from metronome_opt.kubernetes.reading.jobs import read_pattern
from metronome_opt.kubernetes.reading.kinds import replicas
from metronome_opt.kubernetes.reading.objects import Found, Objects
from metronome_opt.kubernetes.reading.resources import GPU_RESOURCES
from metronome_opt.kubernetes.schemas import CLAIM, Manifest

SCHEDULING_GATE = f"{DEFAULT_GROUP}/place"
"""The scheduling gate that holds a pod until it has its place."""

FOLDER = "/etc/metronome"
"""Where a container finds its slots, and sees them change."""

_VOLUME = "metronome"
_TRAFFIC, _MODEL, _TEMPLATE = (
    f"{DEFAULT_GROUP}/{name}" for name in ("traffic", "model", "claim-template")
)
_PATTERN = ("periodMicroseconds", "phases")
_COPIED = {
    _TRAFFIC,
    _MODEL,
    _TEMPLATE,
    *(f"{DEFAULT_GROUP}/{name}" for name in ("batch", "priority", "most-racks")),
}
_TRAINER = "node"  # the job and the container of a TrainJob in which training happens


def _from_annotation(name: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": f"metadata.annotations['{DEFAULT_GROUP}/{name}']"}}


VARIABLES: tuple[Mapping[str, Any], ...] = (
    {"name": "METRONOME_CLAIM", "value": f"{FOLDER}/claim"},
    {"name": "METRONOME_OFFSET_MS", "valueFrom": _from_annotation("offset-ms")},
    {"name": "METRONOME_PERIOD_MS", "valueFrom": _from_annotation("period-ms")},
    {"name": "METRONOME_STARTS_MS", "valueFrom": _from_annotation("starts-ms")},
    {"name": "METRONOME_CUSHION_MS", "valueFrom": _from_annotation("cushion-ms")},
    {"name": "METRONOME_GATED", "valueFrom": _from_annotation("gated")},
)
"""Environment of a container: the file is followed, the numbers are those of the start."""

MOUNT: Mapping[str, Any] = {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}

VOLUME: Mapping[str, Any] = {
    "name": _VOLUME,
    "downwardAPI": {"items": [{"path": "claim", **_from_annotation("slots")}]},
}


def inject(documents: Iterable[tuple[str, Any]]) -> tuple[list[Manifest], list[str]]:
    """Return workloads that wait for their place, and the titles of those that were changed.

    What is no workload, holds no GPUs, or is a single pod, which sends nothing, is returned as it
    is. What was injected before is injected once more, which changes nothing.

    Parameters
    ----------
    documents
        Objects, each with where it stands.

    Raises
    ------
    InputError
        If a workload does not say what it sends, or cannot be read.
    """
    copies = [(where, deepcopy(document)) for where, document in documents]
    objects = Objects(DEFAULT_GROUP)
    objects.add(copies)
    changed = []
    for found in objects.workloads():
        into = _into_train_job if found.kind == "TrainJob" else _into_templates
        if into(found, objects):
            changed.append(found.title)
    return [document for _, document in copies], changed


def _into_templates(found: Found, objects: Objects) -> bool:
    """Let the pods of a workload that hold GPUs wait; return whether there are any."""
    every = list(replicas(found, objects))
    if len({each.group for each in every}) > 1:
        (found / "spec" / "replicas").fail(
            "its groups are jobs of their own that share a template; write an object for each"
        )
    holding = [each for each in every if each.needs(GPU_RESOURCES).gpus]
    tasks = sum(len(each.names) for each in holding)
    if tasks < 2:
        return False
    for each in holding:
        template = each.template.value
        stated = (each.template / "metadata" / "annotations").texts()
        metadata = template.get("metadata") or {}
        annotations = _annotations(found, tasks, stated, objects)
        template["metadata"] = {**metadata, "annotations": annotations}
        spec = template["spec"]
        _add(spec, "schedulingGates", {"name": SCHEDULING_GATE})
        _add(spec, "volumes", VOLUME)
        for container in spec["containers"]:
            _add(container, "volumeMounts", MOUNT)
            for variable in VARIABLES:
                _add(container, "env", variable)
    return True


def _into_train_job(found: Found, objects: Objects) -> bool:
    """Patch the runtime of a TrainJob, whose pods it does not have itself."""
    spec = found / "spec"
    tasks = (spec / "trainer" / "numNodes").integer(1)
    pod = {
        "metadata": {"annotations": _annotations(found, tasks, {}, objects)},
        "spec": {
            "schedulingGates": [{"name": SCHEDULING_GATE}],
            "volumes": [dict(VOLUME)],
            "containers": [{"name": _TRAINER, "volumeMounts": [dict(MOUNT)]}],
        },
    }
    job = {"name": _TRAINER, "template": {"spec": {"template": pod}}}
    patch = {
        "manager": f"{DEFAULT_GROUP}/inject",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    for variable in VARIABLES:
        _add(found.value["spec"]["trainer"], "env", variable)
    _add(found.value["spec"], "runtimePatches", patch, key="manager")
    return True


def _annotations(
    found: Found, tasks: int, stated: Mapping[str, str], objects: Objects
) -> dict[str, str]:
    """Return the annotations of a pod: what it sends, which job it is of, how many there are."""
    own = {key: value for key, value in found.annotations.items() if key in _COPIED}
    given = {**own, **stated}
    template = given.pop(_TEMPLATE, None)
    if template is not None:
        claims = {claim.key: claim for claim in objects.of(CLAIM)}
        claim = claims.get((found.namespace, template))
        if claim is None:
            raise InputError(
                f"{found.where}: annotation {_TEMPLATE}: no STBandwidthClaim {template} in "
                f"{found.namespace}; read it as well"
            )
        traffic = claim / "spec" / "traffic"
        read_pattern(traffic)  # refuses what no pod could ask for
        given[_TRAFFIC] = json.dumps({name: traffic.value[name] for name in _PATTERN})
    if not {_TRAFFIC, _MODEL} & set(given):
        raise InputError(
            f"{found.where}: annotation {_TRAFFIC}: missing; say what a task sends: "
            "traffic, or model and batch"
        )
    return {
        **given,
        f"{DEFAULT_GROUP}/job": found.name,
        f"{DEFAULT_GROUP}/tasks": str(tasks),
    }


def _add(value: dict[str, Any], field: str, item: Mapping[str, Any], *, key: str = "name") -> None:
    """Add an item to a list of a mapping, in place of one of the same name."""
    kept = [each for each in value.get(field) or () if each[key] != item[key]]
    value[field] = [*kept, dict(item)]
