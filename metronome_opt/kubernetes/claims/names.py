"""Names in a cluster: of our kinds, and RFC 1123 labels for jobs, nodes and racks of any name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import yaml

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.placed_instance import Deployment

DEFAULT_GROUP = "metronome.x-k8s.io"
DEFAULT_NAMESPACE = "default"
MANAGER = "metronome-opt"
VERSION = "v1alpha1"
CLAIM = "STBandwidthClaim"
CAPACITY = "STBandwidthCapacity"

Manifest = dict[str, Any]
Manifests = Mapping[str, Sequence[Manifest]]

_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_HASH_LENGTH = 8


def read_shipped(name: str) -> list[Any]:
    """Return the documents of a YAML file beside this module."""
    text = files("metronome_opt.kubernetes.claims").joinpath(name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def _is_label(name: str) -> bool:
    return len(name) <= _LABEL_LENGTH and _LABEL.fullmatch(name) is not None


def check_namespace(name: str) -> str:
    """Return `name` if a namespace may have it; else raise InputError."""
    if not _is_label(name):
        must = f"must be lower-case letters, digits and dashes, at most {_LABEL_LENGTH}"
        raise InputError(f"namespace: {quote(name)}: {must}")
    return name


def labels(names: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return an RFC 1123 label for every name; all differ, also from those that are taken.

    A name that is no label becomes lower-case, with a dash for what a label may not contain, cut to
    length, and ends in a hash of the original, so that ``GPT 2`` and ``gpt_2`` differ, whatever
    names are beside them. Should a label be taken nevertheless, the hash grows.
    """
    originals = sorted(set(names))
    result = {name: name for name in originals if _is_label(name) and name not in taken}
    used = {*taken, *result}
    for name in originals:
        if name not in result:
            digest = hashlib.sha256(name.encode()).hexdigest()
            words = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
            candidates = (
                f"{words[: _LABEL_LENGTH - 1 - length].rstrip('-')}-{digest[:length]}".lstrip("-")
                for length in range(_HASH_LENGTH, _LABEL_LENGTH)
            )
            result[name] = next(label for label in candidates if label not in used)
            used.add(result[name])
    return result


class Naming:
    """Labels of the objects of one export, in a namespace unless their job names another.

    A node has its own name if a Node may have it, dots and all, and so has its capacity. Pod and
    claim of a task, by job and index, have the name of its pod in the cluster where that is known
    and a label, else the label of the job and the index.
    """

    def __init__(self, deployment: Deployment, namespace: str) -> None:
        tasks, nodes = deployment.tasks, deployment.cluster.nodes
        self._namespace = namespace
        self._namespaces = {task.job: task.namespace for task in tasks if task.namespace}
        for name in (namespace, *self._namespaces.values()):
            check_namespace(name)
        self.jobs = labels(task.job for task in tasks)
        self.nodes = labels(node.name for node in nodes)
        for name in self.nodes:
            if len(name) <= _SUBDOMAIN_LENGTH and all(map(_LABEL.fullmatch, name.split("."))):
                self.nodes[name] = name
        distant = [rack for pair in deployment.cluster.rack_cost for rack in pair]
        self.racks = labels([*distant, *(node.rack for node in nodes if node.rack is not None)])
        self.regions = labels(node.region for node in nodes if node.region is not None)
        pods = {
            (task.job, task.index): task.pod
            for task in tasks
            if task.pod is not None and _is_label(task.pod)
        }
        # Job labels differ and an index has no dash, so no two of these are equal.
        keys = [(task.job, task.index) for task in tasks if (task.job, task.index) not in pods]
        plain = {(job, index): f"{self.jobs[job]}-{index}" for job, index in keys}
        made = labels(plain.values(), pods.values())
        self.tasks = {**pods, **{key: made[name] for key, name in plain.items()}}

    def namespace_of(self, job: str) -> str:
        """Return the namespace of the objects of a job."""
        return self._namespaces.get(job, self._namespace)

    def manifest(
        self,
        version: str,
        kind: str,
        name: str,
        spec: Mapping[str, Any],
        *,
        job: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        originals: Mapping[str, tuple[str | None, str | None]] | None = None,
    ) -> dict[str, Any]:
        """Return an object of a job, or one shared by all jobs.

        Labels that are None are dropped. `originals` has by role (``node``, ...) the original name
        and the one used here; where the two differ an annotation ``original-<role>`` keeps it.
        """
        stated = {"app.kubernetes.io/managed-by": MANAGER, **(labels or {})}
        changed = {**(originals or {})}
        if job is not None:
            stated[f"{DEFAULT_GROUP}/job"] = self.jobs[job]
            changed = {"job": (job, self.jobs[job]), **changed}
        annotations = {
            f"{DEFAULT_GROUP}/original-{role}": original
            for role, (original, used) in changed.items()
            if original is not None and original != used
        }
        metadata = {
            "name": name,
            **({"namespace": self.namespace_of(job or "")} if kind != CAPACITY else {}),
            "labels": {key: value for key, value in stated.items() if value is not None},
            **({"annotations": annotations} if annotations else {}),
        }
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
