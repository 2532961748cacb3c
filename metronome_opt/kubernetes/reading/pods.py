"""Pods, for import and for the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.reading.fields import Field, KubernetesObject, ReadingContext
from metronome_opt.kubernetes.reading.kinds import TRAFFIC, workload_kinds
from metronome_opt.kubernetes.reading.resources import needs_of
from metronome_opt.scenario.nodes import Resources

HOSTNAME = "kubernetes.io/hostname"
"""The label by which the controller's pods select their node."""

SCHEDULING_GATE = f"{DEFAULT_GROUP}/place"
"""The scheduling gate that holds a pod until it has its node."""

_OVER = ("Succeeded", "Failed")
_REPLICA_SET = "pod-template-hash"  # a label with the end of the name of a Deployment's ReplicaSet
_LAST = 10**9


def group_of(pod: Field) -> str | None:
    """Return the PodGroup of a pod or a template, of older releases that of a Workload."""
    workload = pod.at("spec.workloadRef")
    stated = [workload / name for name in ("name", "podGroup", "podGroupReplicaKey")]
    names = [pod.at("spec.schedulingGroup.podGroupName"), *stated]
    return "-".join(name.text() for name in names if name) or None


@dataclass(frozen=True, kw_only=True)
class Pod(KubernetesObject):
    """A pod."""

    @classmethod
    def of(cls, value: Mapping[str, Any], context: ReadingContext | None = None) -> Self:
        """Return the pod of an answer of the API server."""
        namespace, name = (value["metadata"][key] for key in ("namespace", "name"))
        where, context = f"Pod {namespace}/{name}", context or ReadingContext()
        names = {"kind": "Pod", "group": "", "namespace": namespace, "name": name}
        return cls(value, where, context=context, **names)

    @property
    def uid(self) -> str:
        """Identity among pods of its name."""
        return self.at("metadata.uid").text()

    @property
    def version(self) -> str:
        """Version, which changes with it."""
        return str(self.at("metadata.resourceVersion").value or "")

    @property
    def created(self) -> str:
        """Time of creation, as text that sorts by time."""
        return str(self.at("metadata.creationTimestamp").value or "")

    @property
    def leaving(self) -> bool:
        """Return True if it is being deleted."""
        return bool(self.at("metadata.deletionTimestamp"))

    @cached_property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return self.at("status.phase").text("Unknown")

    @property
    def is_over(self) -> bool:
        """Return True if it has ended, also if it failed."""
        return self.phase in _OVER

    @cached_property
    def node(self) -> str | None:
        """The node that it is bound to; None before."""
        stated = self.at("spec.nodeName")
        return None if stated.value in (None, "") else stated.text()

    @cached_property
    def gang(self) -> str | None:
        """The PodGroup that it is in; None if it is in none."""
        return group_of(self)

    @property
    def states_traffic(self) -> bool:
        """Return True if it states the traffic of its job."""
        return not TRAFFIC.isdisjoint(self.annotations)

    @cached_property
    def needs(self) -> Resources:
        """Resources that it needs on its node."""
        return needs_of(self / "spec")

    # ------------------------------------------------------------------ for the controller

    @property
    def place(self) -> str | None:
        """The node that the controller gave it; None before."""
        return self.annotations.get(f"{DEFAULT_GROUP}/node")

    @cached_property
    def _scheduling_gates(self) -> list[str]:
        return [(gate / "name").text() for gate in self.at("spec.schedulingGates").items()]

    @property
    def held_by_others(self) -> bool:
        """Return True if other scheduling gates hold it."""
        return any(gate != SCHEDULING_GATE for gate in self._scheduling_gates)

    @property
    def asks(self) -> bool:
        """Return True if it is for the controller."""
        return SCHEDULING_GATE in self._scheduling_gates or self.place is not None

    @cached_property
    def job(self) -> str:
        """The job that it is a task of, by annotation, PodGroup, label or owner."""
        labels = (label.split() for kind in workload_kinds() for label in kind.job_labels)
        known = ([self.labels.get(label) or "" for label in names] for names in labels)
        owner = self.owner[1] if self.owner else ""
        stated = [
            self.annotations.get(f"{DEFAULT_GROUP}/job"),
            self.gang,
            *("-".join(values) for values in known if all(values)),
            owner.removesuffix(f"-{self.labels.get(_REPLICA_SET)}"),
        ]
        return f"{self.namespace}/{next(filter(None, stated), self.name)}"

    @cached_property
    def rank(self) -> tuple[int, str]:
        """Position among the tasks of its job."""
        labels = (label for kind in workload_kinds() for label in kind.rank_labels)
        for key in (f"{DEFAULT_GROUP}/task", *labels):
            stated = self.annotations.get(key) or self.labels.get(key)
            if stated is not None and stated.isascii() and stated.isdigit():
                return int(stated[:9]), self.name
        return _LAST, self.name

    @property
    def references(self) -> list[dict[str, Any]]:
        """References to it and to what controls it, for events."""
        own = {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}
        owners = [owner.value for owner in self.at("metadata.ownerReferences").items()]
        others = [{key: owner[key] for key in own} for owner in owners if owner.get("controller")]
        return [{**one, "namespace": self.namespace} for one in (own, *others[:1])]
