"""Windows of a job as its pods carry them, and claims of its tasks, which their pods own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from metronome_opt.kubernetes.claims.manifests import claim_spec
from metronome_opt.kubernetes.claims.names import (
    CLAIM,
    DEFAULT_GROUP,
    MANAGER,
    VERSION,
    Manifest,
    labels,
)
from metronome_opt.kubernetes.controller.inject import nccl_values
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.state import ClusterState

OURS = {"app.kubernetes.io/managed-by": MANAGER}
"""Labels of all claims that we write."""

Slots = Mapping[str, Any]
"""Windows of a job in the annotation of its pods, which gates read."""


def slots_of(state: ClusterState, reservation: Reservation) -> Slots:
    """Return the windows of a reservation.

    A burst that is late by a hundredth of the period is on time: plans keep twice that distance
    between bursts, see `metronome_opt.allocation.slots.plan_search`.
    """
    slot_ms = state.cluster.slot_ms
    return {
        "offset_ms": slot_ms * reservation.offset,
        "period_ms": slot_ms * reservation.period,
        "starts_ms": sorted(slot_ms * phase.start for phase in reservation.gang.phases),
        "cushion_ms": slot_ms * reservation.period / 100,
        "gated": reservation.gated,
        "job": reservation.job,
        **({"traffic_class": reservation.traffic_class} if reservation.traffic_class else {}),
        **({"paths": [list(its) for its in reservation.paths]} if reservation.paths else {}),
    }


def pod_annotations(slots: Slots, name: str, task: int = 0) -> dict[str, str]:
    """Return windows as annotations of the pod of a task; pod and claim have equal names."""
    stated = {"claim": name, "slots": json.dumps(slots)}
    if "paths" in slots:
        stated["path"] = ",".join(map(str, slots["paths"][task]))
    if (traffic_class := slots.get("traffic_class")) is not None:
        stated |= nccl_values(traffic_class)
    return {f"{DEFAULT_GROUP}/{key}": value for key, value in stated.items()}


def stated_slots(pod: Pod) -> Any:
    """Return the windows that a pod carries; None if it carries none that can be read."""
    with suppress(ValueError, LookupError, RecursionError):
        return json.loads(pod.annotations[f"{DEFAULT_GROUP}/slots"])
    return None


# ------------------------------------------------------------------ claims


class Assignment(NamedTuple):
    """A pod, the number of its task, and the node that it gets."""

    pod: Pod
    number: int
    node: str


def claim_labels(job: str) -> dict[str, str]:
    """Return the labels of the claims of a job, ``NAMESPACE/NAME``."""
    name = job.partition("/")[2]
    return {**OURS, f"{DEFAULT_GROUP}/job": labels([name])[name]}


def claim_manifests(
    state: ClusterState, reservation: Reservation, tasks: Sequence[Assignment]
) -> list[Manifest]:
    """Return the claims of some tasks of a job with a reservation."""
    if not tasks:
        return []
    routes = state.placement(reservation).routes
    slots = {
        "offset": reservation.offset,
        "stretch": reservation.stretch,
        "hyperperiod": state.cluster.hyperperiod,
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
                "labels": claim_labels(reservation.job),
                "ownerReferences": [owner],
            },
            "spec": claim_spec(
                reservation.gang,
                number,
                (node, routes[number]),
                1000 * state.cluster.slot_ms,
                slots,
                parts=flows,
                gated=reservation.gated,
                traffic_class=reservation.traffic_class or None,
                path=reservation.paths[number] if reservation.paths else (),
            ),
        }

    return [manifest(*task) for task in tasks]


def key(manifest: Manifest) -> tuple[str, str]:
    """Return the namespace and the name of a claim."""
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def matches(claim: Mapping[str, Any] | None, wanted: Manifest) -> bool:
    """Return True if a claim exists, of this very pod, with this specification."""
    if claim is None or claim.get("spec") != wanted["spec"]:
        return False
    owners = {owner.get("uid") for owner in claim["metadata"].get("ownerReferences") or ()}
    return wanted["metadata"]["ownerReferences"][0]["uid"] in owners
