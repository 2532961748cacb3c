"""The resources of an API server that are talked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metronome_opt.errors import InputError, show
from metronome_opt.kubernetes import crd, diktyo
from metronome_opt.kubernetes.check import DEFINITION


@dataclass(frozen=True, order=True)
class Kind:
    """A resource: what objects of it say of themselves, and where they are found.

    Attributes
    ----------
    api_version, kind
        As in the objects: ``batch/v1``, ``Job``; the core group has no name, ``v1``, ``Node``.
    plural
        Its name in addresses: ``jobs``.
    namespaced
        Whether its objects live in namespaces.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.api_version.rpartition("/")[2]

    @property
    def resource(self) -> str:
        """What RBAC and `kubectl api-resources` call it: ``jobs.batch``, ``nodes``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


APP_GROUPS = Kind(*diktyo.APPGROUP, "appgroups", namespaced=True)
TOPOLOGIES = Kind(*diktyo.NETWORK_TOPOLOGY, "networktopologies", namespaced=True)
DEFINITIONS = Kind(*DEFINITION, "customresourcedefinitions", namespaced=False)


def claims_of(group: str) -> Kind:
    """Return the resource of STBandwidthClaim in an API group."""
    return Kind(f"{group}/{crd.VERSION}", crd.CLAIM, crd.CLAIMS, namespaced=True)


def capacities_of(group: str) -> Kind:
    """Return the resource of STBandwidthCapacity in an API group."""
    return Kind(f"{group}/{crd.VERSION}", crd.CAPACITY, crd.CAPACITIES, namespaced=False)


def kind_of(manifest: Mapping[str, Any], group: str) -> Kind:
    """Return the resource of an object that an export may hold.

    Raises
    ------
    InputError
        If it is none of these.
    """
    key = (manifest.get("apiVersion"), manifest.get("kind"))
    for kind in (claims_of(group), capacities_of(group), APP_GROUPS, TOPOLOGIES, DEFINITIONS):
        if (kind.api_version, kind.kind) == key:
            return kind
    raise InputError(
        f"{title(manifest)}: kind {show(key[1])} of {show(key[0])} is not part of an export; "
        "apply it with kubectl"
    )


def title(manifest: Mapping[str, Any]) -> str:
    """Return how messages name an object: its kind, namespace and name."""
    metadata = manifest.get("metadata") or {}
    namespace = metadata.get("namespace")
    name = metadata.get("name")
    return f"{manifest.get('kind')} {f'{namespace}/' if namespace else ''}{name}"
