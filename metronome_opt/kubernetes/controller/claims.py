"""Slots of a job as its pods carry them, and claims of its tasks, each owned by its pod."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from metronome_opt.kubernetes.claims.manifests import claim_spec
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP, MANAGER, labels
from metronome_opt.kubernetes.claims.schemas import CLAIM, VERSION, Manifest
from metronome_opt.kubernetes.controller.inject import nccl_values
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState

OURS = {"app.kubernetes.io/managed-by": MANAGER}
"""Labels of all claims that we write."""


Slots = Mapping[str, Any]
"""Slots of a job as the annotation of its pods has them, which its gates read."""


def slots_of(state: ClusterState, claim: Reservation) -> Slots:
    """Return the slots of a reservation.

    A burst is on time if it is late by a hundredth of the period: plans keep twice that distance
    between bursts, see `metronome_opt.allocation.slots.plan_search`.
    """
    slot_ms = state.cluster.slot_ms
    return {
        "offset_ms": slot_ms * claim.offset,
        "period_ms": slot_ms * claim.period,
        "starts_ms": sorted(slot_ms * phase.start for phase in claim.gang.phases),
        "cushion_ms": slot_ms * claim.period / 100,
        "gated": claim.gated,
        "job": claim.job,
        **({"traffic_class": claim.traffic_class} if claim.traffic_class else {}),
        **({"paths": [list(its) for its in claim.paths]} if claim.paths else {}),
    }


def pod_annotations(slots: Slots, name: str, task: int = 0) -> dict[str, str]:
    """Return slots as annotations of the pod of a task and a name, which its claim has too."""
    stated = {"claim": name, "slots": json.dumps(slots)}
    if "paths" in slots:
        stated["path"] = ",".join(map(str, slots["paths"][task]))
    if (traffic_class := slots.get("traffic_class")) is not None:
        stated |= nccl_values(traffic_class)
    return {f"{DEFAULT_GROUP}/{key}": value for key, value in stated.items()}


def stated_slots(pod: Pod) -> Any:
    """Return the slots that a pod carries; None if it carries none that can be read."""
    with suppress(ValueError, LookupError, RecursionError):
        return json.loads(pod.annotations[f"{DEFAULT_GROUP}/slots"])
    return None


# ------------------------------------------------------------------ claims


class Assignment(NamedTuple):
    """A pod as a task of its job, and the node that it gets."""

    pod: Pod
    number: int
    node: str


def claim_labels(job: str) -> dict[str, str]:
    """Return the labels of the claims of a job, ``NAMESPACE/NAME``."""
    name = job.partition("/")[2]
    return {**OURS, f"{DEFAULT_GROUP}/job": labels([name])[name]}


def claim_manifests(
    state: ClusterState, claim: Reservation, tasks: Sequence[Assignment]
) -> list[Manifest]:
    """Return the claims of some tasks of a job that has its place."""
    if not tasks:
        return []
    slot_us = 1000 * state.cluster.slot_ms
    routes = state.placement(claim).routes
    times = {
        "offsetMicroseconds": slot_us * claim.offset,
        "stretchMicroseconds": slot_us * claim.stretch,
        "hyperperiodMicroseconds": slot_us * state.cluster.hyperperiod,
        "gated": None if claim.gated else False,
        "trafficClass": claim.traffic_class or None,
    }

    def manifest(pod: Pod, number: int, node: str) -> Manifest:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        flows = routes[number].count(routes[number][0]) if routes[number] else 1
        return {
            "apiVersion": f"{DEFAULT_GROUP}/{VERSION}",
            "kind": CLAIM,
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "labels": claim_labels(claim.job),
                "ownerReferences": [owner],
            },
            "spec": claim_spec(
                claim.gang,
                number,
                (node, routes[number]),
                slot_us,
                {**times, "path": list(claim.paths[number]) or None if claim.paths else None},
                flows,
            ),
        }

    return [manifest(*task) for task in tasks]


def key(manifest: Manifest) -> tuple[str, str]:
    """Return the namespace and the name of a claim."""
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def matches(claim: Mapping[str, Any] | None, wanted: Manifest) -> bool:
    """Return whether a claim exists, of this very pod, with this specification."""
    if claim is None or claim.get("spec") != wanted["spec"]:
        return False
    owners = {each.get("uid") for each in claim["metadata"].get("ownerReferences") or ()}
    return wanted["metadata"]["ownerReferences"][0]["uid"] in owners
