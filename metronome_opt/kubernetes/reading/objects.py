"""The objects that are read, sorted by kind, each with where it was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.crd import CAPACITY, CLAIM, VERSION
from metronome_opt.kubernetes.diktyo import APPGROUP, NETWORK_TOPOLOGY
from metronome_opt.kubernetes.names import DEFAULT_NAMESPACE
from metronome_opt.kubernetes.reading.fields import Field

Document = Mapping[str, Any]

# The versions of each kind that are understood, by kind and group.
WORKLOADS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("PyTorchJob", "kubeflow.org"): ("v1",),
    ("MPIJob", "kubeflow.org"): ("v1", "v2beta1"),
    ("Job", "batch.volcano.sh"): ("v1alpha1",),
    ("JobSet", "jobset.x-k8s.io"): ("v1alpha2",),
    ("Job", "batch"): ("v1",),
}
_OTHERS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Node", ""): ("v1",),
    ("Pod", ""): ("v1",),
    ("PriorityClass", "scheduling.k8s.io"): ("v1",),
    **{
        (kind, version.partition("/")[0]): (version.partition("/")[2],)
        for version, kind in (APPGROUP, NETWORK_TOPOLOGY)
    },
}
_CLUSTER_SCOPED = ("Node", "PriorityClass", CAPACITY)


@dataclass(frozen=True)
class Found:
    """An object.

    Attributes
    ----------
    kind, group, version
        What it is; the core group has no name.
    namespace, name
        Who it is; a kind without namespaces has an empty one.
    root
        All of it.
    """

    kind: str
    group: str
    version: str
    namespace: str
    name: str
    root: Field

    @property
    def where(self) -> str:
        """The object as messages name it, with its file."""
        return self.root.where

    @property
    def spec(self) -> Field:
        """What is wanted of it."""
        return self.root / "spec"

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return (self.root / "metadata" / "labels").texts()

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return (self.root / "metadata" / "annotations").texts()

    @property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of the object that controls this one; None if there is none."""
        for reference in (self.root / "metadata" / "ownerReferences").items():
            if (reference / "controller").flag():
                return (reference / "kind").text(), (reference / "name").text()
        return None


class Objects:
    """All objects that were read.

    Parameters
    ----------
    group
        API group of claims and capacities.

    Attributes
    ----------
    passed
        How many objects were passed over, by kind.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.passed: Counter[str] = Counter()
        self._found: dict[tuple[str, str], dict[tuple[str, str], Found]] = {}
        ours = {(CLAIM, group): (VERSION,), (CAPACITY, group): (VERSION,)}
        self._known = {**WORKLOADS, **_OTHERS, **ours}

    def __len__(self) -> int:
        return sum(map(len, self._found.values()))

    def of(self, kind: str, group: str = "") -> list[Found]:
        """Return the objects of a kind by namespace and name."""
        return [found for _, found in sorted(self._found.get((kind, group), {}).items())]

    def of_key(self, key: tuple[str, str]) -> list[Found]:
        """Return the objects of a kind by its API version and name."""
        version, kind = key
        return self.of(kind, version.rpartition("/")[0])

    def workloads(self) -> Iterator[Found]:
        """Yield the workloads, kind by kind."""
        for kind, group in WORKLOADS:
            yield from self.of(kind, group)

    def add(
        self,
        documents: Iterable[tuple[str, Document]],
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
            for inner, item in _unpacked(where, document):
                self._add(inner, item, namespace or DEFAULT_NAMESPACE, yielding=yielding)

    def _add(self, where: str, document: Any, namespace: str, *, yielding: bool) -> None:
        root = Field(document, where)
        if not isinstance(document, dict):
            root.fail("must be a mapping")
        if not (root / "kind") or not (root / "apiVersion"):
            self.passed["no Kubernetes object"] += 1
            return
        kind = (root / "kind").text()
        group, slash, version = (root / "apiVersion").text().rpartition("/")
        if (kind, group) not in self._known:
            self.passed[f"{kind} ({group})" if slash else kind] += 1
            return
        name = (root / "metadata" / "name").text()
        scope = ""
        if kind not in _CLUSTER_SCOPED:
            scope = (root / "metadata" / "namespace").text(namespace)
        root = Field(document, f"{where}: {kind} {scope}{'/' if scope else ''}{name}")
        known = self._known[kind, group]
        if version not in known:
            (root / "apiVersion").fail(f"version must be {' or '.join(known)}")
        found = Found(kind, group, version, scope, name, root)
        other = self._found.setdefault((kind, group), {}).setdefault((scope, name), found)
        if _said(other) != _said(found) and not yielding:
            raise InputError(
                f"{found.where}: says another thing than {other.where}; keep one of them"
            )


def _said(found: Found) -> dict[str, Any]:
    """Return what an object says beside what a cluster writes into it."""
    document: Document = found.root.value
    return {name: value for name, value in document.items() if name not in ("metadata", "status")}


def _unpacked(where: str, document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a list one by one, anything else as it is."""
    kind = document.get("kind") if isinstance(document, dict) else None
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield where, document
        return
    for index, item in enumerate(items):
        if isinstance(item, dict) and "kind" not in item and kind != "List":
            item = {"apiVersion": document.get("apiVersion"), "kind": kind[:-4], **item}
        yield from _unpacked(f"{where}: items[{index}]", item)
