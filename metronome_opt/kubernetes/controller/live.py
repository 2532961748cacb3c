"""Actions of a controller in a running cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from metronome_opt.errors import MetronomeError
from metronome_opt.kubernetes.cluster import ALL_NAMESPACES, Connection, Kind
from metronome_opt.kubernetes.cluster.connect import each
from metronome_opt.kubernetes.cluster.objects import NODES, PODS, claims_of
from metronome_opt.kubernetes.controller.pods import Pod
from metronome_opt.kubernetes.controller.reconcile import Task
from metronome_opt.kubernetes.controller.slots import Slots
from metronome_opt.kubernetes.manifests import claimed_traffic
from metronome_opt.kubernetes.names import DEFAULT_GROUP, MANAGER, labels
from metronome_opt.kubernetes.schemas import CLAIM, VERSION
from metronome_opt.scheduling.gang import Claim
from metronome_opt.scheduling.state import ClusterState

EVENTS = Kind("v1", "Event", "events", namespaced=True)
CLAIMS = claims_of(DEFAULT_GROUP)

_HOSTNAME = "kubernetes.io/hostname"


class LostLeadershipError(MetronomeError):
    """Another controller may have taken over."""

    exit_status = 1
    passing = True


class LiveCluster:
    """A cluster behind an API server.

    Parameters
    ----------
    connection
        To the API server.
    state
        Of which nodes and links are known.
    may_act
        Whether this is still the one that acts; asked before anything is changed.
    """

    def __init__(
        self,
        connection: Connection,
        state: ClusterState,
        *,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection = connection
        self._state = state
        self._may_act = may_act
        self._hosts: dict[str, str] = {}

    def _check(self) -> None:
        if not self._may_act():
            raise LostLeadershipError("the Lease was not renewed in time; nothing more is done")

    def pods(self, namespace: str = ALL_NAMESPACES) -> list[Pod]:
        """Return all pods."""
        return [Pod(item) for item in self._connection.list(PODS, namespace)]

    def nodes(self) -> list[Mapping[str, Any]]:
        """Return all nodes."""
        nodes = self._connection.list(NODES)
        self._hosts = {
            node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(_HOSTNAME, "")
            for node in nodes
        }
        return list(nodes)

    def claim(self, claim: Claim, tasks: Sequence[Task], slots: Slots) -> None:
        """Write the claims of tasks; each goes with its pod."""
        self._check()
        routes = self._state.cluster.routes(claim.nodes)

        def write(task: Task) -> None:
            manifest = self._manifest(claim, task, routes[task.number], slots)
            self._connection.apply(CLAIMS, manifest, force=True)

        each(write, tasks)

    def ungate(self, tasks: Sequence[Task], slots: Slots) -> None:
        """Give waiting pods their nodes and their slots; they wait no longer."""
        self._check()
        each(lambda task: self._ungate(task.pod, task.node, slots), tasks)

    def _ungate(self, pod: Pod, node: str, slots: Slots) -> None:
        annotations = {f"{DEFAULT_GROUP}/node": node, **slots.annotations(pod.job, pod.name)}
        if pod.binds:
            self._connection.bind(pod.value, node, annotations)
            return
        selector = {_HOSTNAME: self._hosts.get(node) or node}
        spec = {"nodeSelector": selector, "schedulingGates": None}
        self._patch(pod, {"metadata": {"annotations": annotations}, "spec": spec})

    def annotate(self, pod: Pod, slots: Slots) -> None:
        """Give a running pod other slots."""
        self._check()
        self._patch(pod, {"metadata": {"annotations": slots.annotations(pod.job, pod.name)}})

    def _patch(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Change this very pod, as it was seen."""
        seen = {name: pod.value["metadata"][name] for name in ("uid", "resourceVersion")}
        metadata = {**patch["metadata"], **seen}
        self._connection.merge(PODS, pod.name, pod.namespace, {**patch, "metadata": metadata})

    def delete(self, pod: Pod) -> None:
        """Delete a pod, but no later one of its name."""
        self._check()
        self._connection.delete(PODS, pod.name, pod.namespace, uid=pod.uid)

    # ------------------------------------------------------------------ claims

    def _manifest(
        self, claim: Claim, task: Task, links: Sequence[str], slots: Slots
    ) -> dict[str, Any]:
        slot_us = 1000 * self._state.cluster.slot_ms
        pod = task.pod
        allocation = {
            "node": task.node,
            **({"link": links[0]} if links else {}),
            "offsetMicroseconds": slots.offset_us,
            "stretchMicroseconds": slot_us * claim.stretch,
            "hyperperiodMicroseconds": slot_us * self._state.cluster.hyperperiod,
            **({} if slots.gated else {"gated": False}),
        }
        return {
            "apiVersion": f"{DEFAULT_GROUP}/{VERSION}",
            "kind": CLAIM,
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "labels": _labels(claim.job),
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
                ],
            },
            "spec": {
                "job": claim.job,
                "task": task.number,
                "traffic": claimed_traffic(claim.gang, slot_us),
                "allocation": allocation,
            },
        }

    def unclaim(self, job: str) -> None:
        """Delete the claims of a job."""
        self._check()
        namespace = job.partition("/")[0]
        for item in self._connection.list(CLAIMS, namespace, labels=_labels(job)):
            self._connection.delete(CLAIMS, item["metadata"]["name"], namespace)

    # ------------------------------------------------------------------ events

    def event(self, pods: Sequence[Pod], reason: str, message: str, *, warning: bool) -> None:
        """Write an event on the first pod of a job, and on what controls it."""
        pod = pods[0]
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
            }
        ]
        if pod.owner is not None:
            owner = {key: pod.owner[key] for key in ("apiVersion", "kind", "name", "uid")}
            about.append({**owner, "namespace": pod.namespace})
        for concerned in about:
            text = f"{concerned['uid']} {reason} {message}"
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{concerned['name'][:200]}.{digest}",
                    "namespace": pod.namespace,
                },
                "involvedObject": concerned,
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {"component": MANAGER},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            self._connection.apply(EVENTS, event, force=True)


def _labels(job: str) -> dict[str, str]:
    name = job.partition("/")[2]
    return {
        "app.kubernetes.io/managed-by": MANAGER,
        f"{DEFAULT_GROUP}/job": labels([name])[name],
    }
