"""Kubernetes objects that were read, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.claims.names import DEFAULT_NAMESPACE
from metronome_opt.kubernetes.reading.fields import Faults, Field, KubernetesObject
from metronome_opt.kubernetes.reading.kinds import KINDS, workload_kinds
from metronome_opt.kubernetes.reading.pods import Pod

_MAX_KIND = 63  # characters


class Objects:
    """All objects that were read."""

    def __init__(self) -> None:
        self.ignored: Counter[str] = Counter()  # by kind: numbers of objects that are not read
        self._objects: dict[tuple[str, ...], KubernetesObject] = {}

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

    @property
    def are_of_jobs(self) -> bool:
        """Whether there are workloads, gangs or claims."""
        stated = any(KINDS[kind, group].is_of_jobs for kind, group, *_ in self._objects)
        return stated or any(pod.gang for pod in self.pods())

    def add(self, documents: Iterable[tuple[str, Any]]) -> None:
        """Add the objects of documents and lists, with their locations; equal ones are one.

        Objects without a name, of an unknown version, or that contradict another one of their name
        are refused together.
        """
        faults = Faults()
        for where, document in documents:
            for inner, item in _unpack(where, document):
                with faults.collect():
                    self._add(inner, item)
        faults.refuse()

    def _add(self, where: str, document: Any) -> None:
        root = Field(document, where)
        if not (root / "kind") or not (root / "apiVersion"):
            if root.value and "topology" in root.value:
                remedy = "give topology.conf, or what scontrol show topology prints"
                file = where.partition(": document")[0]
                raise InputError(f"{file}: Slurm's topology.yaml is not read; {remedy}")
            self.ignored["no Kubernetes object"] += 1
            return
        kind = (root / "kind").text(longest=_MAX_KIND)
        group, slash, version = (root / "apiVersion").text().rpartition("/")
        known = KINDS.get((kind, group))
        if known is None:
            self.ignored[f"{kind} ({group})" if slash else kind] += 1
            return
        name = root.at("metadata.name").text()
        scope = root.at("metadata.namespace").text(DEFAULT_NAMESPACE) if known.namespaced else ""
        make = Pod if kind == "Pod" else KubernetesObject
        item = make(document, where, kind=kind, group=group, namespace=scope, name=name)
        item = replace(item, where=f"{where}: {item.title}")
        if version not in known.versions:
            (item / "apiVersion").fail(f"version must be {' or '.join(known.versions)}")
        other = self._objects.setdefault((kind, group, scope, name), item)
        written = ("metadata", "status")  # by the cluster
        names = {*item.value, *other.value}.difference(written)
        if any(item.value.get(name) != other.value.get(name) for name in names):
            raise InputError(f"{item.where}: differs from {other.where}; keep one of them")


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
