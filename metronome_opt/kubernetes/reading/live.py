"""Objects of a running cluster, through its API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightkube.core.client import Client

from metronome_opt.kubernetes.client import (
    ALL_NAMESPACES,
    ClusterError,
    listed,
    resource,
    server_of,
)
from metronome_opt.kubernetes.kinds import KINDS, ObjectKind, WorkloadKind
from metronome_opt.kubernetes.objects import Objects

# The one topology of a cluster is rarely in the namespace of jobs, and pods of others hold GPUs.
_EVERYWHERE = ("NetworkTopology", "Pod")
_UNKNOWN, _FORBIDDEN = 404, 403


def read_live(
    objects: Objects,
    client: Client,
    namespaces: Sequence[str | None],
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """Take in the objects of a running cluster; return a line for each kind that is not read.

    Parameters
    ----------
    objects
        Where they go. What is there already, from files, goes before what the cluster has.
    client
        Of its API server.
    namespaces
        Where workloads and claims are looked for; None stands for the client's own.
    labels
        Read only workloads that carry these. Claims are read all the same: what runs takes its
        share of the links, whether it is asked for or not.
    """
    notes = []
    for kind in KINDS.values():
        chosen = labels if isinstance(kind, WorkloadKind) else None
        places = [ALL_NAMESPACES] if kind.kind in _EVERYWHERE else namespaces
        note = _read(objects, client, kind, places, chosen)
        if note and kind.kind == "Pod":
            note = _read(objects, client, kind, namespaces, chosen)
        notes += [note] if note else []
    return notes


def _read(
    objects: Objects,
    client: Client,
    kind: ObjectKind,
    namespaces: Sequence[str | None],
    labels: Mapping[str, str] | None,
) -> str | None:
    """Take in the objects of a kind; return why not."""
    name = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
    # One definition serves all versions, so that the newest has all objects.
    for version in reversed(kind.versions):
        api_version = f"{kind.group}/{version}" if kind.group else version
        asked = resource(api_version, kind.kind, kind.resource, namespaced=kind.namespaced)
        try:
            for namespace in namespaces if kind.namespaced else [None]:
                items = listed(client, asked, namespace, labels)
                objects.add(((server_of(client), item) for item in items), yielding=True)
            return None
        except ClusterError as error:
            if error.code == _FORBIDDEN:
                return f"{name}: left unread: {error}"
            if error.code != _UNKNOWN:
                raise
    return f"{name}: the cluster does not know this kind"
