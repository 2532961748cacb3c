"""What a controller does to a running cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from metronome_opt.kubernetes.cluster import ALL_NAMESPACES, Connection, Kind
from metronome_opt.kubernetes.cluster.connect import each
from metronome_opt.kubernetes.cluster.objects import claims_of
from metronome_opt.kubernetes.controller.marks import Marks
from metronome_opt.kubernetes.controller.pods import Pod
from metronome_opt.kubernetes.inject import GATE
from metronome_opt.kubernetes.names import DEFAULT_GROUP, MANAGER, labels
from metronome_opt.kubernetes.quantities import quantity
from metronome_opt.kubernetes.schemas import CLAIM, VERSION
from metronome_opt.scheduling.gang import Claim
from metronome_opt.scheduling.state import ClusterState

NODES = Kind("v1", "Node", "nodes", namespaced=False)
PODS = Kind("v1", "Pod", "pods", namespaced=True)
EVENTS = Kind("v1", "Event", "events", namespaced=True)
CLAIMS = claims_of(DEFAULT_GROUP)

_HOSTNAME = "kubernetes.io/hostname"


class LiveCluster:
    """A cluster behind an API server.

    Parameters
    ----------
    connection
        To the API server.
    state
        Of which nodes and links are known.
    """

    def __init__(self, connection: Connection, state: ClusterState) -> None:
        self._connection = connection
        self._state = state
        self._hosts: dict[str, str] = {}

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

    def let_go(self, places: Sequence[tuple[Pod, str]], marks: Marks) -> None:
        """Give waiting pods their nodes and their slots; see `Cluster`."""
        each(lambda place: self._let_go(*place, marks), places)

    def _let_go(self, pod: Pod, node: str, marks: Marks) -> None:
        annotations = {f"{DEFAULT_GROUP}/node": node, **marks.annotations(pod.job, pod.name)}
        if pod.binds:
            self._connection.bind(pod.value, node, annotations)
            return
        gates = [gate for gate in pod.value["spec"]["schedulingGates"] if gate["name"] != GATE]
        self._patch(
            pod,
            {
                "metadata": {"annotations": annotations},
                "spec": {
                    "nodeSelector": {_HOSTNAME: self._hosts.get(node) or node},
                    "schedulingGates": gates or None,
                },
            },
        )

    def mark(self, pod: Pod, marks: Marks) -> None:
        """Give a running pod other slots."""
        self._patch(pod, {"metadata": {"annotations": marks.annotations(pod.job, pod.name)}})

    def _patch(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Change this very pod, as it was seen."""
        seen = {name: pod.value["metadata"][name] for name in ("uid", "resourceVersion")}
        metadata = {**patch["metadata"], **seen}
        self._connection.merge(PODS, pod.name, pod.namespace, {**patch, "metadata": metadata})

    def delete(self, pod: Pod) -> None:
        """Delete a pod, but no later one of its name."""
        self._connection.delete(PODS, pod.name, pod.namespace, uid=pod.uid)

    # ------------------------------------------------------------------ claims

    def claim(self, claim: Claim, pods: Sequence[Pod], marks: Marks) -> None:
        """Write a claim for each pod; each goes with its pod."""
        manifests = [self._manifest(claim, index, pod, marks) for index, pod in enumerate(pods)]
        each(lambda manifest: self._connection.apply(CLAIMS, manifest, force=True), manifests)

    def _manifest(self, claim: Claim, index: int, pod: Pod, marks: Marks) -> dict[str, Any]:
        slot_us = 1000 * self._state.cluster.slot_ms
        node = pod.place or claim.nodes[index]
        routes = self._state.cluster.routes(claim.nodes)
        links = routes[index]
        allocation = {
            "node": node,
            **({"link": links[0]} if links else {}),
            "offsetMicroseconds": marks.offset_us,
            "stretchMicroseconds": slot_us * claim.stretch,
            "hyperperiodMicroseconds": slot_us * self._state.cluster.hyperperiod,
        }
        phases = [
            {
                "startMicroseconds": slot_us * phase.start,
                "lengthMicroseconds": slot_us * phase.length,
                "rate": quantity(phase.rate),
            }
            for phase in sorted(claim.gang.phases, key=lambda phase: phase.start)
        ]
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
                "task": index,
                "traffic": {
                    "periodMicroseconds": slot_us * claim.gang.period,
                    "phases": phases,
                    "priority": claim.gang.weight,
                },
                "allocation": allocation,
            },
        }

    def unclaim(self, job: str) -> None:
        """Delete the claims of a job."""
        namespace = job.partition("/")[0]
        for item in self._connection.list(CLAIMS, namespace, labels=_labels(job)):
            self._connection.delete(CLAIMS, item["metadata"]["name"], namespace)

    # ------------------------------------------------------------------ events

    def tell(self, pods: Sequence[Pod], reason: str, message: str, *, warning: bool = True) -> None:
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
