"""Values of Kubernetes objects that know their location, for messages of one line."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn

from metronome_opt.errors import InputError, format_path, quote
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.claims.quantities import parse_quantity

_MAX_INTEGER = 2**63 - 1  # integers of Kubernetes have 64 bits
_MAX_NAME = 253  # characters


@dataclass
class ReadingContext:
    """Objects that are read together, for those that refer to others.

    Attributes
    ----------
    objects
        The objects by kind, group, namespace and name.
    gpu_resources
        Resources that count as GPUs; none for all accelerators that are known.
    """

    objects: dict[tuple[str, ...], KubernetesObject] = field(default_factory=dict)
    gpu_resources: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Field:
    """A value and its location."""

    value: Any  # None if it is missing, which Kubernetes does not tell from null
    where: str  # the object: its file, kind and name
    path: tuple[str | int, ...] = ()  # the location in the object
    root: KubernetesObject | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __bool__(self) -> bool:
        """Return True if there is a value."""
        return self.value is not None

    def __truediv__(self, name: str) -> Field:
        """Return a field of this mapping; an empty one if it is missing."""
        return self._inner((name,))

    def at(self, path: str) -> Field:
        """Return the field at a path of names with dots between them."""
        return self._inner(path.split("."))

    def _inner(self, names: Sequence[str]) -> Field:
        value = self.value
        for depth, name in enumerate(names):  # no fields in between: pods are many
            if value is None:
                break
            if not isinstance(value, dict):
                self.inside(value, *names[:depth]).fail("must be a mapping")
            value = value.get(name)
        return self.inside(value, *names)

    def inside(self, value: Any, *path: str | int) -> Field:
        """Return a value inside this one."""
        root = self if isinstance(self, KubernetesObject) else self.root
        return Field(value, self.where, (*self.path, *path), root=root)

    @property
    def position(self) -> str:
        """The object and the location in it."""
        return f"{self.where}: {format_path(list(self.path))}" if self.path else self.where

    def fail(self, message: str) -> NoReturn:
        """Refuse the value in one line: the object, the location, `message` and the value."""
        got = f", got {quote(self.value)}" if self else ""
        raise InputError(f"{self.position}: {message}{got}")

    def text(self, default: str | None = None, longest: int = _MAX_NAME) -> str:
        """Return a name or a word; refuse a missing one without a default."""
        if not self:
            return self.fail("missing") if default is None else default
        if not isinstance(self.value, str) or not self.value:
            self.fail("must be text that is not empty")
        if len(self.value) > longest or not self.value.isprintable():
            self.fail(f"must be at most {longest} printable characters")
        return self.value

    def integer(self, minimum: int, default: int | None = None, maximum: int = _MAX_INTEGER) -> int:
        """Return an integer of a range; refuse a missing one without a default."""
        if not self:
            return self.fail("missing") if default is None else default
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail("must be an integer")
        if not minimum <= self.value <= maximum:
            self.fail(f"must be between {minimum} and {maximum}")
        return self.value

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
        return [self.inside(value, index) for index, value in enumerate(self.value or ())]

    def mapping(self) -> Mapping[str, Any]:
        """Return the values of a mapping by name; none if it is missing."""
        if self and not isinstance(self.value, dict):
            self.fail("must be a mapping")
        return self.value or {}

    def texts(self) -> Mapping[str, str]:
        """Return a mapping of text to text, as labels and annotations are."""
        for name, value in self.mapping().items():
            if not isinstance(value, str):
                (self / name).fail("must be text; put it in quotes")
        return self.mapping()


@dataclass(frozen=True, kw_only=True)
class KubernetesObject(Field):
    """An object; its namespace is empty if its kind has none."""

    kind: str
    group: str
    namespace: str
    name: str
    is_generated: bool = False  # whether its name begins like this, and its end is not known yet
    context: ReadingContext = field(default_factory=ReadingContext, repr=False, compare=False)

    def find(self, kind: str, group: str, name: str) -> KubernetesObject | None:
        """Return an object without a namespace, or of its namespace, that was read with it."""
        found = (self.context.objects.get((kind, group, at, name)) for at in ("", self.namespace))
        return next(filter(None, found), None)

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and name."""
        return self.namespace, self.name

    @property
    def title(self) -> str:
        """Its kind, namespace and name, for messages."""
        return f"{self.kind} {self.namespace}{'/' if self.namespace else ''}{self.name}"

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """Its labels, which may be empty."""
        labels = self.at("metadata.labels")
        for name in filter(labels.texts().get, labels.texts()):
            (labels / name).text()
        return labels.texts()

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self.at("metadata.annotations").texts()

    @property
    def owners(self) -> set[tuple[str, str, str]]:
        """Kinds, namespaces and names of the objects that own this one."""
        references = self.at("metadata.ownerReferences").items()
        names = ((owner / "kind", owner / "name") for owner in references)
        return {(kind.text(""), self.namespace, name.text("")) for kind, name in names}

    @cached_property
    def owner(self) -> tuple[str, str] | None:
        """Kind and name of the object that controls this one; None if there is none."""
        for reference in self.at("metadata.ownerReferences").items():
            if (reference / "controller").flag():
                return (reference / "kind").text(), (reference / "name").text()
        return None


class UnsuitableError(Exception):
    """An object that is no job of a scenario; the text is the reason."""


class UnreadableError(UnsuitableError):
    """An object that would be a job if it could be read; if it states traffic, it is refused."""


class Faults:
    """Faults of several objects, which are refused together, and objects that are dropped."""

    def __init__(self) -> None:
        self.dropped: dict[str, list[str]] = defaultdict(list)  # titles by reason
        self._lines: list[str] = []

    @contextmanager
    def collect(self, title: str = "", where: str = "") -> Iterator[None]:
        """Keep the fault of an object, or the reason why it is dropped.

        An unreadable object is refused if its location is given, as for one that states traffic.
        """
        try:
            yield
        except InputError as error:
            self._lines += error.lines
        except UnsuitableError as reason:
            if where and isinstance(reason, UnreadableError):
                remedy = f'correct it, or add {DEFAULT_GROUP}/ignore: "true"'
                fault = f"states traffic, but cannot be read: {reason}"
                self._lines.append(f"{where}: {fault}; {remedy}")
                return
            self.dropped[str(reason)].append(title)

    def refuse(self) -> None:
        """Raise an `InputError` of all faults, if there are any."""
        if self._lines:
            first, *others = dict.fromkeys(self._lines)
            raise InputError(first, others)


def replace_item(mapping: Field, name: str, item: Mapping[str, Any], key: str = "name") -> None:
    """Add an item to a list of a mapping, in place of an item with an equal `key`."""
    items = (mapping / name).items()
    others = [other.value for other in items if (other / key).value != item[key]]
    mapping.value[name] = [*others, dict(item)]
