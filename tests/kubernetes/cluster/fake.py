"""A cluster in memory that knows fields and managers, and fails when it is told to.

It merges as an API server does as far as the objects here go: lists as a whole.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from metronome_opt.kubernetes.cluster import ALL_NAMESPACES
from metronome_opt.kubernetes.cluster.connect import ClusterError
from metronome_opt.kubernetes.cluster.objects import Kind
from metronome_opt.kubernetes.schemas import Manifest

Key = tuple[Kind, str | None, str]
OURS = "metronome-opt"


class FakeCluster:
    """What stands in for a connection.

    Parameters
    ----------
    failures
        Numbers of the changing requests that fail, counted from 0.
    passing
        Whether a failure looks as if it may pass.
    late
        Whether a failure comes after the change is made: the answer is lost.
    """

    server = "https://fake"
    namespace = "default"

    def __init__(
        self, failures: Iterable[int] = (), *, passing: bool = False, late: bool = False
    ) -> None:
        self.objects: dict[Key, Manifest] = {}
        self.failures = set(failures)
        self.passing = passing
        self.late = late
        self.changes = 0

    def seed(self, kind: Kind, manifest: Manifest) -> None:
        self._apply(kind, manifest)

    def state(self) -> dict[Key, Manifest]:
        return copy.deepcopy(self.objects)

    def list(
        self, kind: Kind, namespace: str | None = None, *, name: str | None = None
    ) -> list[Manifest]:
        place = (namespace or self.namespace) if kind.namespaced else None
        return [
            copy.deepcopy(item)
            for key, item in self.objects.items()
            if key[0] == kind and place in (key[1], ALL_NAMESPACES) and name in (None, key[2])
        ]

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Manifest | None:
        return next(iter(self.list(kind, namespace, name=name)), None)

    def apply(
        self, kind: Kind, manifest: Manifest, *, force: bool = False, dry_run: bool = False
    ) -> Manifest:
        del force
        if dry_run:
            return self._applied(kind, manifest)
        with self._failing():
            return self._apply(kind, manifest)

    def merge(
        self, kind: Kind, name: str, namespace: str | None, patch: Mapping[str, Any]
    ) -> Manifest:
        """Merge as RFC 7396 has it, and note whom the patch says, or us if a value changes."""
        with self._failing():
            item = self.objects[(kind, namespace, name)]
            before = copy.deepcopy(item)
            _patch(item, copy.deepcopy(patch))
            values = [
                {**it, "metadata": {**it["metadata"], "managedFields": 0}} for it in (before, item)
            ]
            if values[0] != values[1]:
                entry = {"manager": OURS, "operation": "Update", "fieldsV1": {}}
                item["metadata"]["managedFields"].append(entry)
            return copy.deepcopy(item)

    def delete(
        self, kind: Kind, name: str, namespace: str | None = None, *, dry_run: bool = False
    ) -> bool:
        if dry_run:
            return (kind, namespace, name) in self.objects
        with self._failing():
            return self.objects.pop((kind, namespace, name), None) is not None

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let a change fail, before or after it is made."""
        fails = self.changes in self.failures
        self.changes += 1
        if fails and not self.late:
            raise ClusterError("https://fake: broken", passing=self.passing)
        yield
        if fails:
            raise ClusterError("https://fake: broken", passing=self.passing)

    def _apply(self, kind: Kind, manifest: Manifest) -> Manifest:
        result = self._applied(kind, manifest)
        self.objects[_key(kind, manifest)] = result
        return copy.deepcopy(result)

    def _applied(self, kind: Kind, manifest: Manifest) -> Manifest:
        live = copy.deepcopy(self.objects.get(_key(kind, manifest), {"metadata": {}}))
        entries = live["metadata"].get("managedFields", [])
        ours: dict[str, Any] = next(
            (one["fieldsV1"] for one in entries if one["manager"] == OURS), {}
        )
        others = [one for one in entries if one["manager"] != OURS]
        noted = _fields({key: manifest[key] for key in manifest if key in ("metadata", "spec")})
        _drop(live, ours, noted)
        _merge(live, copy.deepcopy(manifest))
        entry = {"manager": OURS, "operation": "Apply", "fieldsV1": noted}
        live["metadata"]["managedFields"] = [*others, entry]
        return live


def _key(kind: Kind, manifest: Manifest) -> Key:
    return kind, manifest["metadata"].get("namespace"), manifest["metadata"]["name"]


def _fields(node: Mapping[str, Any], top: bool = True) -> dict[str, Any]:
    return {
        f"f:{name}": _fields(value, top=False) if isinstance(value, Mapping) else {}
        for name, value in node.items()
        if not (top is False and name in ("name", "namespace") and "labels" in node)
    }


def _drop(node: dict[str, Any], ours: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
    """Remove what we managed and state no longer."""
    for field, inner in ours.items():
        name = field[2:]
        if name not in node:
            continue
        if inner:
            _drop(node[name], inner, noted.get(field, {}))
        if field not in noted and not (inner and node[name]):
            del node[name]


def _merge(node: dict[str, Any], manifest: Mapping[str, Any]) -> None:
    for name, value in manifest.items():
        if isinstance(value, Mapping) and isinstance(node.get(name), dict):
            _merge(node[name], value)
        else:
            node[name] = value


def _patch(node: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for name, value in patch.items():
        if value is None:
            node.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(node.get(name), dict):
            _patch(node[name], value)
        else:
            node[name] = value
