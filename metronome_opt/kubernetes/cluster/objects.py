"""The objects of an export: resources, the jobs they belong to, files, and the rights they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml

from metronome_opt.errors import InputError, quote
from metronome_opt.kubernetes.files import read_manifests
from metronome_opt.kubernetes.manifests import APPGROUP, NETWORK_TOPOLOGY
from metronome_opt.kubernetes.names import DEFAULT_GROUP, MANAGER, is_label, is_subdomain, labels
from metronome_opt.kubernetes.schemas import (
    CAPACITIES,
    CAPACITY,
    CLAIM,
    CLAIMS,
    DEFINITION,
    KUSTOMIZATION,
    VERSION,
    Manifest,
    check_manifests,
    custom_resource_definitions,
)


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


NODES = Kind("v1", "Node", "nodes", namespaced=False)
PODS = Kind("v1", "Pod", "pods", namespaced=True)
APP_GROUPS = Kind(*APPGROUP, "appgroups", namespaced=True)
TOPOLOGIES = Kind(*NETWORK_TOPOLOGY, "networktopologies", namespaced=True)
DEFINITIONS = Kind(*DEFINITION, "customresourcedefinitions", namespaced=False)

Identity = tuple[Kind, str | None, str]


def claims_of(group: str) -> Kind:
    """Return the resource of STBandwidthClaim in an API group."""
    return Kind(f"{group}/{VERSION}", CLAIM, CLAIMS, namespaced=True)


def capacities_of(group: str) -> Kind:
    """Return the resource of STBandwidthCapacity in an API group."""
    return Kind(f"{group}/{VERSION}", CAPACITY, CAPACITIES, namespaced=False)


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
        f"{title(manifest)}: kind {quote(key[1])} of {quote(key[0])} is not part of an export; "
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

    @classmethod
    def of(cls, objects: Iterable[Manifest], group: str) -> Desired:
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
        return cls(
            group=group,
            definitions=tuple(definitions),
            shared=tuple(shared),
            jobs={job: tuple(items) for job, items in sorted(jobs.items())},
        )

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the objects."""
        objects = [*self.shared, *(item for items in self.jobs.values() for item in items)]
        found = {item["metadata"].get("namespace") for item in objects}
        return sorted(name for name in found if name is not None)


def read_desired(paths: Iterable[str | Path], namespace: str | None = None) -> Desired:
    """Read and check the objects of an export, from folders or files that it wrote.

    Raises
    ------
    InputError
        If something cannot be read, is not valid, is not part of an export, or is in another
        namespace than `namespace`, unless that is None.
    """
    files: dict[str, list[Manifest]] = {}
    for where, item in read_manifests(paths):
        if _key(item) != KUSTOMIZATION:
            files.setdefault(where.partition(": ")[0], []).append(item)
    objects = [item for items in files.values() for item in items]
    groups = sorted(
        {str(item.get("apiVersion")).partition("/")[0] for item in objects if _is_claim(item)}
    )
    if not groups:
        raise InputError(f"{', '.join(files)}: no {CLAIM} there; name a folder that claims wrote")
    if len(groups) > 1:
        named = " and ".join(quote(group) for group in groups)
        raise InputError(f"{', '.join(files)}: claims have to be of one API group, not of {named}")
    known = any(_key(item) == DEFINITION for item in objects)
    # Without definitions among them, objects are held against ours; the server has the last word.
    check_manifests(files if known else {"": custom_resource_definitions(groups[0]), **files})
    for item in objects:
        if namespace is not None and item["metadata"].get("namespace") not in (None, namespace):
            raise InputError(
                f"--namespace {namespace}: {title(item)} is in another namespace; write the "
                "manifests for it, or leave the option out"
            )
    return Desired.of(objects, groups[0])


def _key(manifest: Mapping[str, Any]) -> tuple[Any, Any]:
    return manifest.get("apiVersion"), manifest.get("kind")


def _is_claim(manifest: Mapping[str, Any]) -> bool:
    return manifest.get("kind") == CLAIM


def rbac_manifests(
    group: str,
    namespace: str,
    *,
    user: str | None = None,
    account: str | None = None,
    definitions: bool = False,
) -> list[Manifest]:
    """Return the roles and bindings that give somebody just the rights needed in a namespace.

    That is a user, or else a service account, ``NAMESPACE:NAME`` or ``NAME``; without either the
    one that is called as we are. With `definitions` they may be applied and deleted too.

    Raises
    ------
    InputError
        If no group or service account is called so.
    """
    if not is_subdomain(group):
        raise InputError(f"--group {quote(group)}: is not an API group; use a domain")
    place, colon, name = (account or MANAGER).rpartition(":")
    place = place if colon else namespace
    if user is not None:
        title = f"user:{labels([user])[user]}"  # users may be called anything
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    elif is_label(place) and is_label(name):
        title = f"serviceaccount:{place}:{name}"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": place}
    else:
        raise InputError(
            f"--serviceaccount {quote(account)}: is none; give its NAME, or NAMESPACE:NAME"
        )
    own = MANAGER if group == DEFAULT_GROUP else f"{MANAGER}:{group}"
    role = f"{own}-definitions" if definitions else own
    text = Template(files(__package__).joinpath("rbac.yaml").read_text(encoding="utf-8"))
    filled = text.substitute(group=group, namespace=namespace, own=own, role=role, subject=title)
    objects: list[Manifest] = list(yaml.safe_load_all(filled))
    for item in objects:
        if item["kind"].endswith("Binding"):
            item["subjects"] = [subject]
        elif item["kind"] == "ClusterRole" and not definitions:
            del item["rules"][1:]
    return objects
