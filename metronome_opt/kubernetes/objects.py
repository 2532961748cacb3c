"""Kubernetes objects that were read, by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.fields import Field, KubernetesObject
from metronome_opt.kubernetes.kinds import KINDS, TRAFFIC_SOURCES, workload_kinds
from metronome_opt.kubernetes.names import DEFAULT_GROUP, DEFAULT_NAMESPACE

_MAX_KIND = 63  # characters


class Objects:
    """All objects that were read.

    Attributes
    ----------
    passed
        How many objects were passed over, by kind.
    """

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self._objects: dict[tuple[str, ...], KubernetesObject] = {}

    def of(self, kind: str, group: str | None = None) -> list[KubernetesObject]:
        """Return the objects of a kind by namespace and name; of one group if it is given."""
        return sorted(
            (
                each
                for each in self._objects.values()
                if each.kind == kind and group in (None, each.group)
            ),
            key=lambda each: each.key,
        )

    def workloads(self) -> Iterator[KubernetesObject]:
        """Yield the workloads, kind by kind."""
        for each in workload_kinds():
            yield from self.of(each.kind, each.group)

    def add(
        self,
        documents: Iterable[tuple[str, Any]],
        namespace: str | None = None,
        *,
        yielding: bool = False,
    ) -> None:
        """Take objects in. An object that is there twice and says the same both times is one.

        Parameters
        ----------
        documents
            Each with where it stands; a list counts as the objects in it.
        namespace
            That of objects that name none; ``default`` if None.
        yielding
            Whether what is there already goes before what is added.

        Raises
        ------
        InputError
            If an object has no name, is of a version that is not known, or contradicts another one
            of the same name.
        """
        for where, document in documents:
            for inner, item in _unpack(where, document):
                self._add(inner, item, namespace or DEFAULT_NAMESPACE, yielding=yielding)

    def _add(self, where: str, document: Any, namespace: str, *, yielding: bool) -> None:
        root = Field(document, where)
        if not (root / "kind") or not (root / "apiVersion"):
            self.passed["no Kubernetes object"] += 1
            return
        kind = (root / "kind").text(longest=_MAX_KIND)
        group, slash, version = (root / "apiVersion").text().rpartition("/")
        known = KINDS.get((kind, group))
        if known is None:
            _refuse_annotated(root, kind)
            self.passed[f"{kind} ({group})" if slash else kind] += 1
            return
        name = root.at("metadata.name").text()
        scope = root.at("metadata.namespace").text(namespace) if known.namespaced else ""
        item = KubernetesObject(
            document, where, kind=kind, group=group, namespace=scope, name=name
        )
        item = replace(item, where=f"{where}: {item.title}")
        if version not in known.versions:
            (item / "apiVersion").fail(f"version must be {' or '.join(known.versions)}")
        other = self._objects.setdefault((kind, group, scope, name), item)
        if not yielding and _stated(other) != _stated(item):
            raise InputError(
                f"{item.where}: says another thing than {other.where}; keep one of them"
            )


def _refuse_annotated(root: Field, kind: str) -> None:
    """Refuse an object that states its traffic, and whose pods are not known."""
    annotations = dict(_annotations(root.value))
    sources = [name for name in TRAFFIC_SOURCES if f"{DEFAULT_GROUP}/{name}" in annotations]
    ignored = annotations.get(f"{DEFAULT_GROUP}/ignore", "").lower() == "true"
    owned = any(
        (reference / "controller").flag()
        for reference in root.at("metadata.ownerReferences").items()
    )
    if sources and not ignored and not owned:
        name = root.at("metadata.name").text("without a name")
        kinds = ", ".join(f"{each.kind} ({each.group})" for each in workload_kinds())
        raise InputError(
            f"{root.where}: {kind} {name}: has the annotation {DEFAULT_GROUP}/{sources[0]}, and is "
            f"of a kind whose pods are not known; these are: {kinds}"
        )


def _annotations(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the annotations of an object and of the templates in it."""
    if isinstance(value, dict):
        metadata = value.get("metadata")
        stated = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(stated, dict):
            yield from ((name, str(text)) for name, text in stated.items())
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _annotations(each)


def _stated(item: KubernetesObject) -> dict[str, Any]:
    """Return what an object says beside what a cluster writes into it."""
    return {name: item.value[name] for name in item.value if name not in ("metadata", "status")}


def _unpack(where: str, document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a list one by one, anything else as it is."""
    kind = document.get("kind") if isinstance(document, dict) else None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield where, document
        return
    for index, item in enumerate(items):
        if isinstance(item, dict) and "kind" not in item and kind != "List":
            item = {"apiVersion": document.get("apiVersion"), "kind": kind[:-4], **item}
        yield from _unpack(f"{where}: items[{index}]", item)
