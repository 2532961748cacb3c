"""The objects of an export: their resources, the jobs they belong to, reading them from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metronome_opt.documents import read_documents
from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes import crd, diktyo
from metronome_opt.kubernetes.check import DEFINITION, KUSTOMIZATION, Manifest, check_manifests
from metronome_opt.kubernetes.names import MANAGER

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, order=True)
class Kind:
    """A resource: what objects of it say of themselves, and where they are found."""

    api_version: str  # batch/v1; the core group has no name: v1
    kind: str  # Job
    plural: str  # jobs, as in addresses
    namespaced: bool

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def resource(self) -> str:
        """What RBAC and `kubectl api-resources` call it: ``jobs.batch``, ``nodes``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


APP_GROUPS = Kind(*diktyo.APPGROUP, "appgroups", namespaced=True)
TOPOLOGIES = Kind(*diktyo.NETWORK_TOPOLOGY, "networktopologies", namespaced=True)
DEFINITIONS = Kind(*DEFINITION, "customresourcedefinitions", namespaced=False)

Identity = tuple[Kind, str | None, str]


def claims_of(group: str) -> Kind:
    """Return the resource of STBandwidthClaim in an API group."""
    return Kind(f"{group}/{crd.VERSION}", crd.CLAIM, crd.CLAIMS, namespaced=True)


def capacities_of(group: str) -> Kind:
    """Return the resource of STBandwidthCapacity in an API group."""
    return Kind(f"{group}/{crd.VERSION}", crd.CAPACITY, crd.CAPACITIES, namespaced=False)


def identity(manifest: Mapping[str, Any], group: str) -> Identity:
    """Return what tells an object of an export from all others: resource, namespace, name.

    Raises
    ------
    InputError
        If its kind is not part of an export.
    """
    key = (manifest.get("apiVersion"), manifest.get("kind"))
    for kind in (claims_of(group), capacities_of(group), APP_GROUPS, TOPOLOGIES, DEFINITIONS):
        if (kind.api_version, kind.kind) == key:
            return kind, manifest["metadata"].get("namespace"), manifest["metadata"]["name"]
    raise InputError(
        f"{title(manifest)}: kind {show(key[1])} of {show(key[0])} is not part of an export; "
        "apply it with kubectl"
    )


def title(manifest: Mapping[str, Any]) -> str:
    """Return how messages name an object: its kind, namespace and name."""
    metadata = manifest.get("metadata") or {}
    namespace = metadata.get("namespace")
    return f"{manifest.get('kind')} {f'{namespace}/' if namespace else ''}{metadata.get('name')}"


def is_ours(manifest: Mapping[str, Any]) -> bool:
    """Return whether an object carries our label."""
    labels = manifest["metadata"].get("labels") or {}
    return bool(labels.get("app.kubernetes.io/managed-by") == MANAGER)


@dataclass(frozen=True, order=True)
class JobKey:
    """A job of the cluster: its namespace and its label."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def job_of(manifest: Mapping[str, Any], group: str) -> JobKey | None:
    """Return the job that an object belongs to: by its label, a claim without one by its name."""
    kind, namespace, name = identity(manifest, group)
    if kind not in (APP_GROUPS, claims_of(group)) or namespace is None:
        return None
    label = (manifest["metadata"].get("labels") or {}).get(f"{group}/job")
    if label is None:
        label = manifest["spec"]["job"] if kind == claims_of(group) else name
    return JobKey(namespace, label)


@dataclass(frozen=True)
class Desired:
    """The objects of an export."""

    group: str  # of the claims
    definitions: tuple[Manifest, ...]
    shared: tuple[Manifest, ...]  # capacities and network topologies
    jobs: Mapping[JobKey, tuple[Manifest, ...]]  # of each its AppGroup, if there is one, and claims

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
    files = {
        str(path): [item for item in read_documents(path) if _key(item) != KUSTOMIZATION]
        for path in _files(paths)
    }
    objects = [item for items in files.values() for item in items]
    group = _group(objects, ", ".join(files))
    known = any(_key(item) == DEFINITION for item in objects)
    # Without definitions among them, objects are held against ours; the server has the last word.
    check_manifests(files if known else {"": crd.custom_resource_definitions(group), **files})
    for item in objects:
        if namespace is not None and item["metadata"].get("namespace") not in (None, namespace):
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
    first = (APP_GROUPS, capacities_of(group))
    for item in sorted(objects, key=lambda item: identity(item, group)[0] not in first):
        job = job_of(item, group)
        if identity(item, group)[0] == DEFINITIONS:
            definitions.append(item)
        elif job is None:
            shared.append(item)
        else:
            jobs.setdefault(job, []).append(item)
    return Desired(
        group=group,
        definitions=tuple(definitions),
        shared=tuple(shared),
        jobs={job: tuple(items) for job, items in sorted(jobs.items())},
    )


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
    claims = [item for item in objects if item.get("kind") == crd.CLAIM]
    groups = sorted({str(item.get("apiVersion")).partition("/")[0] for item in claims})
    if not groups:
        raise InputError(f"{where}: no STBandwidthClaim there; name a folder that claims wrote")
    if len(groups) > 1:
        named = " and ".join(show(group) for group in groups)
        raise InputError(f"{where}: claims have to be of one API group, these are of {named}")
    return groups[0]
