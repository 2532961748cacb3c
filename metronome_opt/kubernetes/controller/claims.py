"""Claims of the tasks of a job as manifests, each owned by its pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from metronome_opt.cluster.gang import Reservation
from metronome_opt.cluster.state import ClusterState
from metronome_opt.kubernetes.controller.slots import Slots
from metronome_opt.kubernetes.manifests import claimed_traffic
from metronome_opt.kubernetes.names import DEFAULT_GROUP, MANAGER, labels
from metronome_opt.kubernetes.pods import Pod
from metronome_opt.kubernetes.schemas import CLAIM, VERSION, Manifest

OURS = {"app.kubernetes.io/managed-by": MANAGER}
"""Labels of all claims that we write."""


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
    state: ClusterState, claim: Reservation, tasks: Sequence[Assignment], slots: Slots
) -> list[Manifest]:
    """Return the claims of some tasks of a job that has its place."""
    if not tasks:
        return []
    slot_us = 1000 * state.cluster.slot_ms
    routes = state.placement(claim).routes
    traffic = claimed_traffic(claim.gang, slot_us)
    times = {
        "offsetMicroseconds": slots.offset_us,
        "stretchMicroseconds": slot_us * claim.stretch,
        "hyperperiodMicroseconds": slot_us * state.cluster.hyperperiod,
        **({} if slots.gated else {"gated": False}),
    }

    def manifest(pod: Pod, number: int, node: str) -> Manifest:
        links = routes[number]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        return {
            "apiVersion": f"{DEFAULT_GROUP}/{VERSION}",
            "kind": CLAIM,
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "labels": claim_labels(claim.job),
                "ownerReferences": [owner],
            },
            "spec": {
                "job": claim.job,
                "task": number,
                "traffic": traffic,
                "allocation": {"node": node, **({"link": links[0]} if links else {}), **times},
            },
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
