"""Names in a cluster: RFC 1123 labels for jobs, nodes and racks of any name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from metronome_opt.errors import InputError, quote
from metronome_opt.scenario.placed_instance import Deployment, Task

LABEL_LENGTH = 63
DEFAULT_GROUP = "metronome.x-k8s.io"
DEFAULT_NAMESPACE = "default"
MANAGER = "metronome-opt"

_LABEL = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN_LENGTH = 253
_SHORT_HASH = 8


def is_label(name: str) -> bool:
    """Return whether `name` is an RFC 1123 label as it stands."""
    return len(name) <= LABEL_LENGTH and _LABEL.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    """Return whether `name` is an RFC 1123 subdomain as it stands, as the names of Nodes are."""
    return len(name) <= _SUBDOMAIN_LENGTH and all(map(_LABEL.fullmatch, name.split(".")))


def check_namespace(name: str) -> str:
    """Return `name` if a namespace may have it; else raise InputError."""
    if not is_label(name):
        raise InputError(
            f"namespace: {quote(name)} is not a namespace; use lower-case letters, digits "
            f"and dashes, at most {LABEL_LENGTH}"
        )
    return name


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return an RFC 1123 label for every name; no two are the same.

    A name that is a label keeps it. Any other becomes lower-case, with a dash for what a label
    may not contain, cut to length, and ends in a hash of the original, so that ``GPT 2`` and
    ``gpt_2`` differ and the label of a name does not depend on the names beside it. Should a
    label be taken nevertheless, the hash grows.
    """
    originals = sorted(set(names))
    result = {name: name for name in originals if is_label(name)}
    taken = set(result)
    for name in originals:
        if name not in result:
            result[name] = _derived(name, taken)
            taken.add(result[name])
    return result


def _derived(name: str, taken: set[str]) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()
    words = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    candidates = (
        f"{words[: LABEL_LENGTH - 1 - length].rstrip('-')}-{digest[:length]}".lstrip("-")
        for length in range(_SHORT_HASH, LABEL_LENGTH)
    )
    return next(candidate for candidate in candidates if candidate not in taken)


class Naming:
    """Names of the objects of one export.

    Parameters
    ----------
    deployment
        The cluster and the tasks that are named.
    namespace
        Namespace of every namespaced object whose job names no other.

    Attributes
    ----------
    jobs, racks, regions
        Label of each original name.
    nodes
        Name of each node in the cluster: its own if a Node may have it, dots and all, else its
        label. A capacity is called like its node.
    tasks
        Label of each task, by job name and index: the name of its pod and of its claim. It is the
        name that its pod has in the cluster where that is known and a label.

    Raises
    ------
    InputError
        If `namespace` is not a label.
    """

    def __init__(self, deployment: Deployment, namespace: str) -> None:
        self._namespace = namespace
        self._namespaces = {each.job: each.namespace for each in deployment.tasks if each.namespace}
        for each in (namespace, *self._namespaces.values()):
            check_namespace(each)
        nodes = deployment.cluster.nodes
        self.jobs = labels(task.job for task in deployment.tasks)
        self.nodes = {
            name: name if is_subdomain(name) else label
            for name, label in labels(node.name for node in nodes).items()
        }
        distant = [rack for pair in deployment.cluster.rack_cost for rack in pair]
        self.racks = labels([*distant, *(node.rack for node in nodes if node.rack is not None)])
        self.regions = labels(node.region for node in nodes if node.region is not None)
        self.tasks = _tasks(deployment.tasks, self.jobs)

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
        namespaced: bool = True,
        labels: Mapping[str, str | None] | None = None,
        originals: Mapping[str, tuple[str | None, str | None]] | None = None,
    ) -> dict[str, Any]:
        """Return an object, of a job or shared by all.

        Labels that are None are left out. `originals` has for each role (``node``, ...) the
        original name and the one used here; where they differ the original is kept in an annotation
        ``metronome.x-k8s.io/original-<role>``.
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
            **({"namespace": self.namespace_of(job or "")} if namespaced else {}),
            "labels": {key: value for key, value in stated.items() if value is not None},
            **({"annotations": annotations} if annotations else {}),
        }
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _tasks(tasks: Iterable[Task], jobs: Mapping[str, str]) -> dict[tuple[str, int], str]:
    """Return the label of each task: the name of its pod, else its job's label and its index."""
    given, plain = {}, {}
    for task in tasks:
        if task.pod is not None and is_label(task.pod):
            given[task.job, task.index] = task.pod
        else:
            # Job labels differ and an index has no dash, so no two of these are the same.
            plain[task.job, task.index] = f"{jobs[task.job]}-{task.index}"
    short = labels(plain.values())
    taken = set(given.values())
    made = {
        key: _derived(name, taken) if short[name] in taken else short[name]
        for key, name in plain.items()
    }
    return {**given, **made}
