"""Actions of a controller in a running cluster."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar

from lightkube.core.client import Client

from metronome_opt.kubernetes.claims.names import (
    DEFAULT_GROUP,
    DEFAULT_NAMESPACE,
    MANAGER,
    Manifest,
)
from metronome_opt.kubernetes.controller.claims import (
    OURS,
    Assignment,
    Slots,
    claim_labels,
    key,
    pod_annotations,
)
from metronome_opt.kubernetes.controller.client import (
    ALL_NAMESPACES,
    CLAIMS,
    EVENTS,
    NODES,
    PODS,
    ClusterError,
    Resource,
    apply,
    delete,
    listed,
    merge,
    resource,
)
from metronome_opt.kubernetes.reading.fields import KubernetesObject
from metronome_opt.kubernetes.reading.kinds import DEVICE_KINDS, HYPER_NODE, KINDS, POD_GROUP
from metronome_opt.kubernetes.reading.objects import Objects
from metronome_opt.kubernetes.reading.pods import HOSTNAME, Pod
from metronome_opt.kubernetes.reading.resources import count_claimable

_THREADS = 4  # most of the time is spent on waiting for the server
Item = TypeVar("Item")


class LiveCluster:
    """A cluster behind an API server; some resources count as GPUs, by default known ones."""

    def __init__(self, client: Client, gpu_resources: Sequence[str] = ()) -> None:
        self._client = client
        self._gpu_resources = gpu_resources
        self._hosts: dict[str, str] = {}
        self._objects = Objects()

    def pods(self) -> list[Pod]:
        """Return all pods; if any claims devices, read what these are."""
        self._objects = Objects(self._gpu_resources)
        pods = [Pod.of(item, self._objects.context) for item in self.listed(PODS)]
        if any(pod.at("spec.resourceClaims") for pod in pods):
            self._read(DEVICE_KINDS)
        return pods

    def nodes(self) -> list[KubernetesObject]:
        """Return all nodes, after their pods were read."""
        nodes = []
        for item in self.listed(NODES):
            name, context = item["metadata"]["name"], self._objects.context
            own = {"kind": "Node", "group": "", "namespace": "", "name": name}
            nodes.append(KubernetesObject(item, f"Node {name}", context=context, **own))
        self._hosts = {node.name: node.labels.get(HOSTNAME, "") for node in nodes}
        return nodes

    def claimable(self) -> dict[str, Counter[str]]:
        """Return the devices that can be claimed, by node and resource."""
        return count_claimable(self._objects.of("ResourceSlice"))

    def constraints(self) -> Objects:
        """Read the objects that say where pods may run together."""
        self._read((POD_GROUP, HYPER_NODE))
        return self._objects

    def _read(self, names: Collection[str]) -> None:
        """Read all objects of some kinds, in the first version that the server knows."""
        for kind in (kind for kind in KINDS.values() if kind.kind in names):
            for version in kind.versions:
                where, is_namespaced = f"{kind.group}/{version}", kind.namespaced
                wanted = resource(where, kind.kind, kind.plural, namespaced=is_namespaced)
                try:
                    found = [("cluster", item) for item in self.listed(wanted)]
                    self._objects.add(found, are_all=False)
                except ClusterError as error:
                    if error.code != 404:
                        raise
                else:
                    break

    def listed(self, kind: Resource) -> list[Manifest]:
        """Return the objects of a kind in all namespaces."""
        return listed(self._client, kind, ALL_NAMESPACES)

    def claims(self, namespace: str | None) -> list[Manifest]:
        """Return the claims that we have written to a namespace, None for all."""
        return listed(self._client, CLAIMS, namespace or ALL_NAMESPACES, OURS)

    def claim(self, manifests: Sequence[Manifest]) -> None:
        """Write claims."""
        _act_on(lambda item: apply(self._client, CLAIMS, item), manifests)

    def assign(self, tasks: Sequence[Assignment], slots: Slots) -> None:
        """Give waiting pods their nodes and windows, and release them."""
        _act_on(lambda task: self._assign(task, slots), tasks)

    def _assign(self, task: Assignment, slots: Slots) -> None:
        pod, number, node = task
        stated = {f"{DEFAULT_GROUP}/node": node, **pod_annotations(slots, pod.name, number)}
        selector = {HOSTNAME: self._hosts.get(node) or node}
        spec = {"nodeSelector": selector, "schedulingGates": None}
        self._patch(pod, {"metadata": {"annotations": stated}, "spec": spec})

    def annotate(self, task: Assignment, slots: Slots) -> None:
        """Give a running pod other windows."""
        stated = pod_annotations(slots, task.pod.name, task.number)
        self._patch(task.pod, {"metadata": {"annotations": stated}})

    def _patch(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Change this very pod, in the version that was read."""
        seen = {name: pod.value["metadata"][name] for name in ("uid", "resourceVersion")}
        merged = {**patch, "metadata": {**patch["metadata"], **seen}}
        merge(self._client, PODS, pod.name, pod.namespace, merged)

    def delete(self, pod: Pod) -> None:
        """Delete a pod, but no later pod of its name."""
        delete(self._client, PODS, pod.name, pod.namespace, pod.uid)

    def unclaim(self, job: str) -> None:
        """Delete the claims of a job."""
        namespace = job.partition("/")[0]
        items = listed(self._client, CLAIMS, namespace, claim_labels(job))
        _act_on(lambda item: delete(self._client, CLAIMS, key(item)[1], namespace), items)

    # ------------------------------------------------------------------ events

    def event(
        self, about: Sequence[Mapping[str, Any]], reason: str, message: str, *, warning: bool
    ) -> None:
        """Write an event on some objects."""
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
            apply(self._client, EVENTS, event)


def _act_on(action: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Act on all items, several at a time; after a failure no further action is begun."""
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        for _ in pool.map(action, items):  # which cancels the rest after a failure
            pass
