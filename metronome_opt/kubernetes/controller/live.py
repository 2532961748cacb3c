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
from metronome_opt.kubernetes.controller.claims import OURS, Task, claim_labels, key
from metronome_opt.kubernetes.controller.slots import Slots
from metronome_opt.kubernetes.names import DEFAULT_GROUP, DEFAULT_NAMESPACE, MANAGER
from metronome_opt.kubernetes.pods import Pod
from metronome_opt.kubernetes.schemas import Manifest

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
    may_act
        Whether this is still the one that acts; asked before anything is changed.
    """

    def __init__(
        self, connection: Connection, *, may_act: Callable[[], bool] = lambda: True
    ) -> None:
        self._connection = connection
        self._may_act = may_act
        self._hosts: dict[str, str] = {}

    def _check(self) -> None:
        if not self._may_act():
            raise LostLeadershipError("the Lease was not renewed in time; nothing more is done")

    def pods(self) -> list[Pod]:
        """Return all pods, those of others too."""
        return [Pod.of(item) for item in self._connection.list(PODS, ALL_NAMESPACES)]

    def nodes(self) -> list[Mapping[str, Any]]:
        """Return all nodes."""
        nodes = self._connection.list(NODES)
        self._hosts = {
            node["metadata"]["name"]: (node["metadata"].get("labels") or {}).get(_HOSTNAME, "")
            for node in nodes
        }
        return list(nodes)

    def claims(self, namespace: str | None) -> list[Manifest]:
        """Return the claims of a namespace, None for all, that we have written."""
        return self._connection.list(CLAIMS, namespace or ALL_NAMESPACES, labels=OURS)

    def claim(self, manifests: Sequence[Manifest]) -> None:
        """Write claims."""
        self._check()
        each(lambda item: self._connection.apply(CLAIMS, item, force=True), manifests)

    def assign(self, tasks: Sequence[Task], slots: Slots) -> None:
        """Give waiting pods their nodes and their slots; they wait no longer."""
        self._check()
        each(lambda task: self._assign(task.pod, task.node, slots), tasks)

    def _assign(self, pod: Pod, node: str, slots: Slots) -> None:
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

    def unclaim(self, job: str) -> None:
        """Delete the claims of a job."""
        self._check()
        namespace = job.partition("/")[0]
        items = self._connection.list(CLAIMS, namespace, labels=claim_labels(job))
        each(lambda item: self._connection.delete(CLAIMS, key(item)[1], namespace), items)

    # ------------------------------------------------------------------ events

    def event(
        self, about: Sequence[Mapping[str, Any]], reason: str, message: str, *, warning: bool
    ) -> None:
        """Write an event on each of some objects."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for concerned in about:
            text = f"{concerned['uid']} {reason} {message}"
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{concerned['name'][:200]}.{digest}",
                    "namespace": concerned.get("namespace", DEFAULT_NAMESPACE),
                },
                "involvedObject": dict(concerned),
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {"component": MANAGER},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            self._connection.apply(EVENTS, event, force=True)
