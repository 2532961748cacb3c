"""Objects that are read, sorted by kind; every value knows its place, for messages of one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from metronome_opt.errors import InputError, format_path, quote
from metronome_opt.kubernetes.names import DEFAULT_NAMESPACE
from metronome_opt.kubernetes.quantities import parse_quantity
from metronome_opt.kubernetes.schemas import CAPACITY, CLAIM, VERSION

# The versions of each kind that are understood, by kind and group.
WORKLOADS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("PyTorchJob", "kubeflow.org"): ("v1",),
    ("MPIJob", "kubeflow.org"): ("v1", "v2beta1"),
    ("Job", "batch.volcano.sh"): ("v1alpha1",),
    ("JobSet", "jobset.x-k8s.io"): ("v1alpha2",),
    ("Job", "batch"): ("v1",),
    ("TrainJob", "trainer.kubeflow.org"): ("v1alpha1",),
    ("RayJob", "ray.io"): ("v1alpha1", "v1"),
    ("RayCluster", "ray.io"): ("v1alpha1", "v1"),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): ("v1",),
}
SOURCES = ("model", "traffic", "claim-template")
"""Annotations that say what a workload sends."""
_OTHERS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Node", ""): ("v1",),
    ("Pod", ""): ("v1",),
    ("PriorityClass", "scheduling.k8s.io"): ("v1",),
    ("AppGroup", "appgroup.diktyo.x-k8s.io"): ("v1alpha1",),
    ("NetworkTopology", "networktopology.diktyo.x-k8s.io"): ("v1alpha1",),
    ("TrainingRuntime", "trainer.kubeflow.org"): ("v1alpha1",),
    ("ClusterTrainingRuntime", "trainer.kubeflow.org"): ("v1alpha1",),
}
_CLUSTER_SCOPED = ("Node", "PriorityClass", "ClusterTrainingRuntime", CAPACITY)
_LARGEST = 2**63 - 1  # integers of Kubernetes have 64 bits


@dataclass(frozen=True)
class Field:
    """A value and where it stands."""

    value: Any  # None if nothing is there, which to Kubernetes is the same as null
    where: str  # the object: its file, kind and name
    path: tuple[str | int, ...] = ()  # the place in the object

    def __bool__(self) -> bool:
        """Whether anything is there."""
        return self.value is not None

    def __truediv__(self, name: str) -> Field:
        """Return a field of this mapping; an empty one if it is not there."""
        return Field(self._mapping().get(name), self.where, (*self.path, name))

    def fail(self, message: str) -> NoReturn:
        """Refuse the value in one line: the object, the place, `message` and the value."""
        at = f"{format_path(list(self.path))}: " if self.path else ""
        found = f", got {quote(self.value)}" if self else ""
        raise InputError(f"{self.where}: {at}{message}{found}")

    def text(self, default: str | None = None) -> str:
        """Return text that is not empty; refuse what is missing if there is no default."""
        if not self:
            return self.fail("missing") if default is None else default
        if not isinstance(self.value, str) or not self.value:
            self.fail("must be text that is not empty")
        return self.value

    def integer(self, least: int, default: int | None = None, most: int = _LARGEST) -> int:
        """Return an integer of a range; refuse what is missing if there is no default."""
        if not self:
            return self.fail("missing") if default is None else default
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail("must be an integer")
        if not least <= self.value <= most:
            self.fail(f"must be between {least} and {most}")
        return self.value

    def optional(self, least: int) -> int | None:
        """Return an integer of at least `least`; None if it is missing."""
        return self.integer(least) if self else None

    def flag(self) -> bool:
        """Return a truth value, false if it is missing."""
        if self and not isinstance(self.value, bool):
            self.fail("must be true or false")
        return bool(self.value)

    def quantity(self) -> Fraction:
        """Return a Kubernetes quantity, in its own unit, not negative."""
        if not self:
            self.fail("missing")
        try:
            return parse_quantity(self.value)
        except InputError as error:
            self.fail(str(error))

    def items(self) -> list[Field]:
        """Return the elements of a list; none if it is missing."""
        if self and not isinstance(self.value, list):
            self.fail("must be a list")
        return [
            Field(value, self.where, (*self.path, index))
            for index, value in enumerate(self.value or ())
        ]

    def texts(self) -> Mapping[str, str]:
        """Return a mapping of text to text, as labels and annotations are."""
        for name, value in self._mapping().items():
            if not isinstance(value, str):
                (self / name).fail("must be text; put it in quotes")
        return self._mapping()

    def _mapping(self) -> Mapping[str, Any]:
        if self and not isinstance(self.value, dict):
            self.fail("must be a mapping")
        return self.value or {}


@dataclass(frozen=True, kw_only=True)
class Found(Field):
    """An object; the core group has no name, and a kind without namespaces an empty one."""

    kind: str
    group: str
    namespace: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    @property
    def title(self) -> str:
        """Its kind, namespace and name, as messages have them."""
        return f"{self.kind} {self.namespace}{'/' if self.namespace else ''}{self.name}"

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""
        return (self / "metadata" / "labels").texts()

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return (self / "metadata" / "annotations").texts()

    @property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of the object that controls this one; None if there is none."""
        for reference in (self / "metadata" / "ownerReferences").items():
            if (reference / "controller").flag():
                return (reference / "kind").text(), (reference / "name").text()
        return None


class Objects:
    """All objects that were read, of claims and capacities those of one API group.

    Attributes
    ----------
    passed
        How many objects were passed over, by kind.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.passed: Counter[str] = Counter()
        ours = dict.fromkeys([(CLAIM, group), (CAPACITY, group)], (VERSION,))
        self._known = {**WORKLOADS, **_OTHERS, **ours}
        self._found: dict[tuple[str, ...], Found] = {}

    def sources(self, annotations: Mapping[str, str]) -> list[str]:
        """Return which of the annotations say what a workload sends, without our prefix."""
        return [name for name in SOURCES if f"{self.group}/{name}" in annotations]

    def of(self, kind: str, group: str | None = None) -> list[Found]:
        """Return the objects of a kind by namespace and name; of one group if it is given."""
        found = [each for each in self._found.values() if each.kind == kind]
        return sorted(
            (each for each in found if group in (None, each.group)), key=lambda each: each.key
        )

    def workloads(self) -> Iterator[Found]:
        """Yield the workloads, kind by kind."""
        for kind, group in WORKLOADS:
            yield from self.of(kind, group)

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
            for inner, item in _unpacked(where, document):
                self._add(inner, item, namespace or DEFAULT_NAMESPACE, yielding=yielding)

    def _add(self, where: str, document: Any, namespace: str, *, yielding: bool) -> None:
        root = Field(document, where)
        if not (root / "kind") or not (root / "apiVersion"):
            self.passed["no Kubernetes object"] += 1
            return
        kind = (root / "kind").text()
        group, slash, version = (root / "apiVersion").text().rpartition("/")
        known = self._known.get((kind, group))
        if known is None:
            self._refuse_annotated(
                Found(document, where, kind=kind, group="", namespace="", name="")
            )
            self.passed[f"{kind} ({group})" if slash else kind] += 1
            return
        metadata = root / "metadata"
        name = (metadata / "name").text()
        scope = "" if kind in _CLUSTER_SCOPED else (metadata / "namespace").text(namespace)
        found = Found(document, where, kind=kind, group=group, namespace=scope, name=name)
        found = replace(found, where=f"{where}: {found.title}")
        if version not in known:
            (found / "apiVersion").fail(f"version must be {' or '.join(known)}")
        other = self._found.setdefault((kind, group, scope, name), found)
        if _said(other) != _said(found) and not yielding:
            raise InputError(
                f"{found.where}: says another thing than {other.where}; keep one of them"
            )

    def _refuse_annotated(self, found: Found) -> None:
        """Refuse an object that says what it sends, and whose pods we cannot tell."""
        annotations = dict(_annotations(found.value))
        ignored = annotations.get(f"{self.group}/ignore", "").lower() == "true"
        stated = self.sources(annotations)
        if stated and not ignored and found.owner is None:
            kinds = ", ".join(f"{kind} ({group})" for kind, group in WORKLOADS)
            name = (found / "metadata" / "name").text("without a name")
            raise InputError(
                f"{found.where}: {found.kind} {name}: has the annotation {self.group}/{stated[0]}, "
                f"and is of a kind whose pods are not known; these are: {kinds}"
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


def _said(found: Found) -> dict[str, Any]:
    """Return what an object says beside what a cluster writes into it."""
    return {name: found.value[name] for name in found.value if name not in ("metadata", "status")}


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
