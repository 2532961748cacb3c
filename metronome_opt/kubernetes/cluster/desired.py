"""What an export wants the cluster to hold, job by job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metronome_opt.documents import read_documents
from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes.check import KUSTOMIZATION, Manifest, check_manifests
from metronome_opt.kubernetes.cluster.kinds import (
    APP_GROUPS,
    DEFINITIONS,
    Kind,
    capacities_of,
    claims_of,
    kind_of,
    title,
)
from metronome_opt.kubernetes.crd import CLAIM, custom_resource_definitions

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, order=True)
class JobKey:
    """A job of the cluster: its namespace and its label."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Desired:
    """The objects of an export.

    Attributes
    ----------
    group
        API group of the claims.
    definitions
        The CustomResourceDefinitions.
    shared
        What belongs to no job: capacities and network topologies.
    jobs
        The objects of each job: its AppGroup, if there is one, and its claims.
    """

    group: str
    definitions: tuple[Manifest, ...]
    shared: tuple[Manifest, ...]
    jobs: Mapping[JobKey, tuple[Manifest, ...]]

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the objects."""
        objects = [*self.shared, *(item for items in self.jobs.values() for item in items)]
        found = {item["metadata"].get("namespace") for item in objects}
        return sorted(name for name in found if name is not None)


def read_desired(paths: Iterable[str | Path], namespace: str | None = None) -> Desired:
    """Read and check the objects of an export.

    Parameters
    ----------
    paths
        Folders that an export wrote, or files of one.
    namespace
        The namespace that all objects have to be in; None for whatever they name.

    Raises
    ------
    InputError
        If something cannot be read, is not valid, is not part of an export, or names another
        namespace.
    """
    files = {str(path): read_documents(path) for path in _files(paths)}
    files = {
        name: [item for item in items if _key(item) != KUSTOMIZATION]
        for name, items in files.items()
    }
    objects = [item for items in files.values() for item in items]
    group = _group(objects, ", ".join(files))
    known = any(_key(item) == (DEFINITIONS.api_version, DEFINITIONS.kind) for item in objects)
    # Without definitions among them, objects are held against ours; the server has the last word.
    check_manifests(files if known else {"": custom_resource_definitions(group), **files})
    for item in objects:
        stated = item["metadata"].get("namespace")
        if namespace is not None and stated is not None and stated != namespace:
            raise InputError(
                f"--namespace {namespace}: {title(item)} is in another namespace; write the "
                "manifests for it, or leave the option out"
            )
    return arrange(objects, group)


def arrange(objects: Iterable[Manifest], group: str) -> Desired:
    """Sort checked objects by what they belong to."""
    definitions: list[Manifest] = []
    shared: list[Manifest] = []
    jobs: dict[JobKey, list[Manifest]] = {}
    for item in objects:
        key = job_of(item, group)
        if kind_of(item, group) == DEFINITIONS:
            definitions.append(item)
        elif key is None:
            shared.append(item)
        else:
            jobs.setdefault(key, []).append(item)
    order = {APP_GROUPS: 0, capacities_of(group): 0}

    def rank(item: Manifest) -> int:
        return order.get(kind_of(item, group), 1)

    return Desired(
        group=group,
        definitions=tuple(definitions),
        shared=tuple(sorted(shared, key=rank)),
        jobs={key: tuple(sorted(items, key=rank)) for key, items in sorted(jobs.items())},
    )


def job_of(manifest: Mapping[str, Any], group: str) -> JobKey | None:
    """Return the job that an object belongs to: by its label, a claim without one by its name."""
    kind: Kind = kind_of(manifest, group)
    if kind not in (APP_GROUPS, claims_of(group)):
        return None
    metadata = manifest["metadata"]
    label = (metadata.get("labels") or {}).get(f"{group}/job")
    if label is None:
        label = manifest["spec"]["job"] if kind == claims_of(group) else metadata["name"]
    return JobKey(metadata["namespace"], label)


def _key(manifest: Mapping[str, Any]) -> tuple[Any, Any]:
    return manifest.get("apiVersion"), manifest.get("kind")


def _files(paths: Iterable[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(item for item in path.iterdir() if item.suffix in _SUFFIXES)
        if not inside:
            raise InputError(f"{path}: holds no manifests; name a folder that claims wrote")
        found += inside
    return found


def _group(objects: Iterable[Manifest], where: str) -> str:
    groups = {
        str(item.get("apiVersion")).partition("/")[0]
        for item in objects
        if item.get("kind") == CLAIM
    }
    if not groups:
        raise InputError(f"{where}: no STBandwidthClaim there; name a folder that claims wrote")
    if len(groups) > 1:
        named = " and ".join(show(group) for group in sorted(groups))
        raise InputError(f"{where}: claims have to be of one API group, these are of {named}")
    return groups.pop()
