"""Kubernetes objects that were read, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import DEFAULT_NAMESPACE
from metronome_opt.kubernetes.reading.fields import Faults, Field, KubernetesObject, ReadingContext
from metronome_opt.kubernetes.reading.kinds import (
    IGNORE,
    KINDS,
    POD_GROUP,
    WorkloadKind,
    states_traffic,
    workload_kinds,
)
from metronome_opt.kubernetes.reading.pods import Pod
from metronome_opt.kubernetes.reading.resources import RUNTIMES, gpu_names

_BEARERS = (("Pod", ""), (POD_GROUP, "scheduling.k8s.io"))  # of traffic, beside workloads
_MAX_KIND = 63  # characters
_REMEDY = f'annotate what it makes, or add {IGNORE}: "true"'


class Objects:
    """All objects that were read, of which some resources count as GPUs; by default known ones."""

    def __init__(self, gpu_resources: Iterable[str] = ()) -> None:
        self.ignored: Counter[str] = Counter()  # by kind: numbers of objects that are not read
        self.context = ReadingContext(gpu_resources=gpu_names(gpu_resources))
        self._objects = self.context.objects
        self._names: set[tuple[str, ...]] = set()  # kinds, namespaces and names of all objects
        self._generated: Counter[tuple[str, ...]] = Counter()  # by kind, namespace and begin
        self._unread: list[KubernetesObject] = []  # that state traffic, of kinds that are not read

    def of(self, kind: str, group: str | None = None) -> list[KubernetesObject]:
        """Return the objects of a kind by namespace and name; of one group if it is given."""
        known = (item for item in self._objects.values() if item.kind == kind)
        return sorted(
            (item for item in known if group in (None, item.group)), key=lambda item: item.key
        )

    def pods(self) -> list[Pod]:
        """Return the pods that have not ended."""
        return [pod for pod in self.of("Pod") if isinstance(pod, Pod) and not pod.is_over]

    def workloads(self) -> Iterator[KubernetesObject]:
        """Yield the workloads, kind by kind."""
        for kind in workload_kinds():
            yield from self.of(kind.kind, kind.group)

    def has_owner_of(self, item: KubernetesObject) -> bool:
        """Return whether the object that controls another one was read."""
        kind, name = item.owner or ("", "")
        return (kind, item.namespace, name) in self._names

    @property
    def are_of_jobs(self) -> bool:
        """Whether there are workloads, gangs or claims."""
        if any(KINDS[kind, group].is_of_jobs for kind, group, *_ in self._objects):
            return True
        stated = any(states_traffic(workload.value) for workload in self.workloads())
        return stated or any(pod.gang or pod.states_traffic for pod in self.pods())

    def add(self, documents: Iterable[tuple[str, Any]], *, are_all: bool = True) -> None:
        """Add the objects of documents and lists, with their locations; equal ones are one.

        Objects without a name, of an unknown version, that contradict another one of their name, or
        that state traffic and are not read although `documents` are all, are refused together.
        """
        faults = Faults()
        for where, document in documents:
            for inner, item in _unpack(where, document):
                with faults.collect():
                    self._add(inner, item)
        with faults.collect():
            lines = [
                f"{item.where}: states traffic, which is read of no {item.kind} "
                f"{item.at('apiVersion').value}; {_REMEDY}"
                for item in (self._find_unread() if are_all else ())
            ]
            if lines:
                raise InputError(lines[0], lines[1:])
        faults.refuse()

    def _add(self, where: str, document: Any) -> None:
        root = Field(document, where)
        is_annotated = states_traffic(document)
        if not is_annotated and (not (root / "kind") or not (root / "apiVersion")):
            if root.value and "topology" in root.value:
                remedy = "give topology.conf, or what scontrol show topology prints"
                file = where.partition(": document")[0]
                raise InputError(f"{file}: Slurm's topology.yaml is not read; {remedy}")
            self.ignored["no Kubernetes object"] += 1
            return
        kind = (root / "kind").text(longest=_MAX_KIND)
        group, slash, version = (root / "apiVersion").text().rpartition("/")
        known = KINDS.get((kind, group))
        is_needed = is_annotated or (known and not isinstance(known, WorkloadKind))
        if known is None or (not is_needed and version not in known.versions):
            self.ignored[f"{kind} ({group})" if slash else kind] += 1
            if not is_annotated:
                return
        name = root.at("metadata.name")
        given = (name if name else root.at("metadata.generateName") or name).text()
        is_namespaced = known is None or known.namespaced
        scope = root.at("metadata.namespace").text(DEFAULT_NAMESPACE) if is_namespaced else ""
        full = given
        if not name:  # a name is made each time
            self._generated[kind, scope, given] += 1
            number = self._generated[kind, scope, given]
            full = given if number == 1 else f"{given}{number}"
        make = Pod if kind == "Pod" else KubernetesObject
        item = make(document, where, kind=kind, group=group, namespace=scope, name=full)
        place = f"{where}: {item.title}"
        item = replace(item, where=place, is_generated=not name, context=self.context)
        if known is None:
            self._unread.append(item)
            return
        if version not in known.versions:
            (item / "apiVersion").fail(f"version must be {' or '.join(known.versions)}")
        other = self._objects.setdefault((kind, group, scope, full), item)
        self._names.add((kind, scope, full))
        if is_annotated and not isinstance(known, WorkloadKind) and (kind, group) not in _BEARERS:
            self._unread.append(item)
        written = ("metadata", "status")  # by the cluster
        names = {*item.value, *other.value}.difference(written)
        if any(item.value.get(name) != other.value.get(name) for name in names):
            raise InputError(f"{item.where}: differs from {other.where}; keep one of them")

    def _find_unread(self) -> list[KubernetesObject]:
        """Return the unread objects that state traffic, but for owners and parts of read ones."""
        left = self._unread
        if not left:
            return []
        stated = [item for item in self._objects.values() if states_traffic(item.value)]
        references = [job.at("spec.runtimeRef") for job in self.of("TrainJob")]
        runtimes = {((at / "kind").value or RUNTIMES[0], (at / "name").value) for at in references}
        left = [item for item in left if (item.kind, item.name) not in runtimes]
        read = self._names - {(item.kind, item.namespace, item.name) for item in left}
        owners = {owner for item in stated for owner in item.owners}
        while through := [
            item
            for item in left
            if (item.kind, item.namespace, item.name) in owners
            or not (read | owners).isdisjoint(item.owners)
        ]:
            left = [item for item in left if item not in through]
            read |= {(item.kind, item.namespace, item.name) for item in through}
            owners |= {owner for item in through for owner in item.owners}
        return left


def _unpack(where: str, document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a list, or a document that is no list."""
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list) or not str(document.get("kind")).endswith("List"):
        yield where, document
        return
    stated = {}
    if document["kind"] != "List":  # items of a NodeList, say, do not repeat its kind
        kind = document["kind"].removesuffix("List")
        stated = {"apiVersion": document.get("apiVersion"), "kind": kind}
    for index, item in enumerate(items):
        whole = stated | item if isinstance(item, dict) else item
        yield from _unpack(f"{where}: items[{index}]", whole)
