"""Fields of objects: what an object states, what it differs in, and who manages it.

An API server notes in ``metadata.managedFields`` which manager applied which field. Lists count as
one field here. Where that is too coarse, a dry run of the server decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import place
from metronome_opt.kubernetes.check import Manifest
from metronome_opt.kubernetes.names import MANAGER

Path = tuple[str, ...]

_SERVERS_OWN = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}
_ABSENT = object()


@dataclass(frozen=True)
class Change:
    """One field that differs.

    Attributes
    ----------
    path
        As people write it: ``spec.allocation.offsetMicroseconds``.
    before, after
        The values; None where the field is not there.
    """

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {_brief(self.before)} -> {_brief(self.after)}"


def stated(manifest: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the fields that an object states, beside its identity and its status."""
    return {
        path: value
        for path, value in _leaves(manifest)
        if path not in _IDENTITY and path[0] != "status"
    }


def managed(live: Mapping[str, Any]) -> set[Path]:
    """Return the fields of an object that we have applied."""
    found: set[Path] = set()
    for entry in live["metadata"].get("managedFields") or ():
        if entry.get("manager") == MANAGER and entry.get("operation") == "Apply":
            found |= set(_noted(entry.get("fieldsV1") or {}, ()))
    return found


def is_so(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Return whether an object certainly is as stated, and we manage just what is stated.

    If it is, applying `manifest` would change nothing.
    """
    wanted = stated(manifest)
    return managed(live) == set(wanted) and all(
        _at(live, path) == value for path, value in wanted.items()
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what differs between two states of an object, but for what only the server sets."""
    old, new = _flat(_told(before), ()), _flat(_told(after), ())
    paths = [*old, *(path for path in new if path not in old)]
    return tuple(
        Change(place(list(path)), old.get(path), new.get(path))
        for path in paths
        if old.get(path, _ABSENT) != new.get(path, _ABSENT)
    )


def managers(live: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """Return who manages what of an object: manager, operation, fields; no times."""
    return {
        (
            str(entry.get("manager")),
            f"{entry.get('operation')} {entry.get('subresource', '')}",
            json.dumps(entry.get("fieldsV1"), sort_keys=True),
        )
        for entry in live["metadata"].get("managedFields") or ()
    }


def former(live: Mapping[str, Any], manifest: Mapping[str, Any] | None = None) -> Manifest:
    """Return what to apply, by force, to give an object the values back that it had.

    Parameters
    ----------
    live
        The object as it was.
    manifest
        What was applied to it since; None if it was deleted since.
    """
    paths = stated(_told(live)) if manifest is None else {*managed(live), *stated(manifest)}
    result: Manifest = {}
    for path in sorted({*_IDENTITY, *paths}):
        value = _at(live, path)
        if value is not _ABSENT:
            _put(result, path, value)
    return result


def former_managers(live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of ``metadata.managedFields`` as they were, but for a status."""
    entries = []
    for entry in live["metadata"].get("managedFields") or ():
        fields = {name: of for name, of in entry.get("fieldsV1", {}).items() if name != "f:status"}
        if fields:
            entries.append({**entry, "fieldsV1": fields})
    return entries


def _leaves(node: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    for name, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _noted(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    """Yield the fields of a fieldsV1: ``f:`` is a field, anything else an element of a list."""
    inner = {name[2:]: of for name, of in fields.items() if name.startswith("f:")}
    elements = any(name[:2] in {"k:", "v:", "i:"} for name in fields)
    if path and (elements or not inner):
        yield path
        return
    for name, of in inner.items():
        yield from _noted(of, (*path, name))


def _at(node: Any, path: Path) -> Any:
    for name in path:
        if not isinstance(node, Mapping) or name not in node:
            return _ABSENT
        node = node[name]
    return node


def _put(node: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        node = node.setdefault(name, {})
    node[path[-1]] = value


def _told(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without what only the server sets."""
    metadata = {
        key: value for key, value in manifest["metadata"].items() if key not in _SERVERS_OWN
    }
    return {
        **{key: value for key, value in manifest.items() if key != "status"},
        "metadata": metadata,
    }


def _flat(node: Any, path: tuple[str | int, ...]) -> dict[tuple[str | int, ...], Any]:
    if isinstance(node, Mapping) and node:
        items: Any = node.items()
    elif isinstance(node, list) and node:
        items = enumerate(node)
    else:
        return {path: node}
    result: dict[tuple[str | int, ...], Any] = {}
    for step, value in items:
        result |= _flat(value, (*path, step))
    return result


def _brief(value: Any) -> str:
    text = "none" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
