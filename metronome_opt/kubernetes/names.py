"""Names of a cluster: RFC 1123 labels for whatever jobs, nodes and racks are called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import InputError, show
from metronome_opt.scenario.deployment import Deployment, Task

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


def labels(names: Iterable[str]) -> dict[str, str]:
    """Give every name an RFC 1123 label of its own.

    A name that is a label keeps it. Any other becomes lower-case, with a dash for what a label
    may not contain, cut to length, and ends in a hash of the original, so that ``GPT 2`` and
    ``gpt_2`` stay apart and the label of a name does not depend on the names beside it. Should a
    label be taken nevertheless, the hash grows.

    Returns
    -------
    dict
        The label of each name; no two are the same.
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


@dataclass(frozen=True)
class Naming:
    """Who is called what in one export.

    Attributes
    ----------
    group
        API group of the claims, also the prefix of labels and annotations.
    namespace
        Namespace of every namespaced object whose job names no other.
    namespaces
        Of the jobs that do.
    jobs, racks, regions
        Label of each original name.
    nodes
        What the cluster calls each node: its own name if a Node may have it, dots and all, else
        its label. A capacity is called like its node.
    tasks
        Label of each task, by job name and index: the name of its pod and of its claim. It is the
        name that its pod has in the cluster where that is known and a label.
    """

    group: str
    namespace: str
    namespaces: Mapping[str, str]
    jobs: Mapping[str, str]
    nodes: Mapping[str, str]
    racks: Mapping[str, str]
    regions: Mapping[str, str]
    tasks: Mapping[tuple[str, int], str]

    @classmethod
    def of(cls, deployment: Deployment, group: str, namespace: str) -> Naming:
        """Name everything in `deployment`.

        Raises
        ------
        InputError
            If `group` is not a domain that a custom resource may use or `namespace` not a label.
        """
        _check_group(group)
        jobs = labels(task.job for task in deployment.tasks)
        namespaces = {
            task.job: task.namespace for task in deployment.tasks if task.namespace is not None
        }
        for each in (namespace, *namespaces.values()):
            if not is_label(each):
                raise InputError(
                    f"namespace: {show(each)} is not a namespace; use lower-case letters, digits "
                    f"and dashes, at most {LABEL_LENGTH}"
                )
        racks = {node.rack for node in deployment.nodes if node.rack is not None}
        for pair in deployment.rack_cost:
            racks.update(pair)
        return cls(
            group=group,
            namespace=namespace,
            namespaces=namespaces,
            jobs=jobs,
            nodes={
                name: name if is_subdomain(name) else label
                for name, label in labels(node.name for node in deployment.nodes).items()
            },
            racks=labels(racks),
            regions=labels(node.region for node in deployment.nodes if node.region is not None),
            tasks=_tasks(deployment.tasks, jobs),
        )

    def task(self, task: Task) -> str:
        """Return the name of a task's pod, claim and workload."""
        return self.tasks[task.job, task.index]

    def namespace_of(self, job: str) -> str:
        """Return where the objects of a job live."""
        return self.namespaces.get(job, self.namespace)

    def metadata(
        self,
        name: str,
        *,
        namespaced: bool = True,
        job: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        originals: Mapping[str, tuple[str | None, str | None]] | None = None,
    ) -> dict[str, Any]:
        """Return the metadata of an object.

        Parameters
        ----------
        name
            Name of the object.
        namespaced
            Whether it lives in a namespace.
        job
            The job that it belongs to; None if it belongs to no one.
        labels
            Labels beside ``app.kubernetes.io/managed-by``; None is left out.
        originals
            For each role (``job``, ``node``, ...) the original name and the one used here; where
            they differ the original is kept in an annotation ``<group>/original-<role>``.
        """
        given = {key: value for key, value in (labels or {}).items() if value is not None}
        changed = {
            f"{self.group}/original-{role}": original
            for role, (original, used) in (originals or {}).items()
            if original is not None and original != used
        }
        return {
            "name": name,
            **({"namespace": self.namespace_of(job or "")} if namespaced else {}),
            "labels": {"app.kubernetes.io/managed-by": MANAGER, **given},
            **({"annotations": changed} if changed else {}),
        }


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


def _check_group(group: str) -> None:
    if not is_subdomain(group) or "." not in group:
        raise InputError(
            f"group: {show(group)} is not an API group; use a domain such as {DEFAULT_GROUP}"
        )
    if f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        raise InputError(
            f"group: {show(group)} is reserved for Kubernetes itself; use a domain of your own"
        )
