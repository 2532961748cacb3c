"""A cluster in memory: pods that a controller of jobs recreates, claims, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

from metronome_opt.kubernetes.claims.names import Manifest
from metronome_opt.kubernetes.controller.claims import Assignment, Slots, pod_annotations
from metronome_opt.kubernetes.controller.client import NODES, PODS, ClusterError, Resource
from metronome_opt.kubernetes.controller.live import LiveCluster
from metronome_opt.kubernetes.reading.pods import SCHEDULING_GATE, Pod
from metronome_opt.scenario.cluster_input import ClusterSpec
from tests.kubernetes.state.states import spec

GROUP = "metronome.x-k8s.io"
GPUS = 4
"""Of each pod; nodes have eight."""
GPU = "nvidia.com/gpu"
TRAFFIC = (
    "{periodMicroseconds: 200000, "
    "phases: [{startMicroseconds: 100000, lengthMicroseconds: 60000, rate: 6G}]}"
)


class Killed(BaseException):
    """The controller was killed."""


def spec_of(nodes: int) -> ClusterSpec:
    """Return a cluster of nodes of eight GPUs in one rack."""
    return spec(nodes, 50_000, 240, gpus=8)


class FakeCluster(LiveCluster):
    """Pods by name; the controller is killed after `left` actions."""

    def __init__(self, nodes: int) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.pods_by_name: dict[str, dict[str, Any]] = {}
        self.claims_by_name: dict[str, Manifest] = {}
        self.claim_lists = 0
        self.events: list[tuple[str, str, str]] = []  # of the job, or of the node
        self.allocatable: dict[str, dict[str, str]] = {}
        self.others: list[Manifest] = []  # objects of other kinds
        self.labels: dict[str, dict[str, str]] = {}  # of nodes
        self.lists: Counter[str] = Counter()
        self.ready = {f"n{index}": True for index in range(nodes)}
        self.cordoned: set[str] = set()
        self.left: int | None = None
        self.bind = True
        self.now_s = 1_767_225_600  # of pods that are made: 2026 begins
        self._uids = 0

    # ------------------------------------------------------------------ events of the cluster

    def submit(self, job: str, pods: int, **annotations: str) -> None:
        """Make the pods of a job."""
        for index in range(pods):
            self._make(f"{job}-{index}", job, pods, annotations)

    def _make(self, name: str, job: str, tasks: int, annotations: Mapping[str, str]) -> None:
        self._uids += 1
        stated = {"tasks": str(tasks), "traffic": TRAFFIC, **annotations}
        created = datetime.fromtimestamp(self.now_s, UTC)
        self.pods_by_name[name] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{self._uids}",
                "creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}",
                "labels": {"job-name": job},
                "annotations": {
                    f"{GROUP}/{key.replace('_', '-')}": value for key, value in stated.items()
                },
            },
            "spec": {
                "schedulingGates": [{"name": SCHEDULING_GATE}],
                "containers": [{"resources": {"limits": {GPU: str(GPUS)}}}],
            },
            "status": {"phase": "Pending"},
            "again": (job, tasks, annotations),
        }

    def run_other(self, name: str, node: str, gpus: int) -> None:
        """Run a pod that is not ours."""
        self._make(name, name, 1, {})
        pod = self.pods_by_name[name]
        pod["metadata"]["annotations"] = {}
        pod["spec"] = {
            "nodeName": node,
            "containers": [{"resources": {"limits": {GPU: str(gpus)}}}],
        }
        pod["status"] = {"phase": "Running"}

    def remove(self, job: str) -> None:
        """Delete a job with its pods."""
        for name in [name for name, pod in self.pods_by_name.items() if pod["again"][0] == job]:
            del self.pods_by_name[name]

    def listed(self, kind: Resource) -> list[Manifest]:
        """Return the objects of a kind, as an API server does."""
        self.lists[kind.__name__] += 1
        if kind is PODS:
            return [*self.pods_by_name.values()]
        if kind is NODES:
            return self._nodes()
        version = kind._api_info.resource.api_version
        known = [item for item in self.others if item["kind"] == kind.__name__]
        if not known or known[0]["apiVersion"] != version:
            raise ClusterError("no such kind", 404)
        return known

    def _nodes(self) -> list[Manifest]:
        return [
            {
                "metadata": {"name": name, "uid": name, "labels": self.labels.get(name)},
                "spec": {"unschedulable": name in self.cordoned},
                "status": {
                    "conditions": [{"type": "Ready", "status": str(ready)}],
                    "allocatable": self.allocatable.get(name),
                },
            }
            for name, ready in self.ready.items()
        ]

    def used(self) -> Counter[str]:
        """Return the GPUs that pods have on each node."""
        used: Counter[str] = Counter()
        for pod in self.pods_by_name.values():
            if pod["spec"].get("nodeName") and pod["status"]["phase"] != "Succeeded":
                (container,) = pod["spec"]["containers"]
                used[pod["spec"]["nodeName"]] += int(container["resources"]["limits"][GPU])
        return used

    def _act(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1

    # ------------------------------------------------------------------ actions of a controller

    def assign(self, tasks: Sequence[Assignment], slots: Slots) -> None:
        for pod, number, node in tasks:
            self._act()
            value = self.pods_by_name[pod.name]
            assert value["metadata"]["uid"] == pod.uid
            stated = pod_annotations(slots, pod.name, number)
            value["metadata"]["annotations"] |= {f"{GROUP}/node": node, **stated}
            value["spec"]["schedulingGates"] = []
            if self.bind:
                value["spec"]["nodeName"] = node

    def annotate(self, task: Assignment, slots: Slots) -> None:
        self._act()
        stated = pod_annotations(slots, task.pod.name, task.number)
        self.pods_by_name[task.pod.name]["metadata"]["annotations"] |= stated

    def claims(self, namespace: str | None) -> list[Manifest]:
        assert namespace is None or namespace in ("default", "elsewhere")
        self.claim_lists += 1
        return [deepcopy(item) for item in self.claims_by_name.values()]

    def claim(self, manifests: Sequence[Manifest]) -> None:
        for item in manifests:
            self._act()
            self.claims_by_name[item["metadata"]["name"]] = item

    def unclaim(self, job: str) -> None:
        for name in [name for name, of in self.claims_by_name.items() if of["spec"]["job"] == job]:
            self._act()
            del self.claims_by_name[name]

    def delete(self, pod: Pod) -> None:
        self._act()
        value = self.pods_by_name[pod.name]
        assert value["metadata"]["uid"] == pod.uid
        self._make(pod.name, *value["again"])

    def event(
        self, about: Sequence[Mapping[str, Any]], reason: str, message: str, **_: bool
    ) -> None:
        pod = self.pods_by_name.get(about[0]["name"])
        self.events.append((Pod.of(pod).job if pod else about[0]["name"], reason, message))
