"""Objects of a running cluster, through its API server."""

from __future__ import annotations

from collections.abc import Sequence

from lightkube.core.client import Client

from metronome_opt.kubernetes.client import (
    ALL_NAMESPACES,
    ClusterError,
    listed,
    resource,
    server_of,
)
from metronome_opt.kubernetes.kinds import KINDS, ObjectKind
from metronome_opt.kubernetes.objects import Objects

_UNKNOWN, _FORBIDDEN = 404, 403


def read_live(
    objects: Objects,
    client: Client,
    namespaces: Sequence[str | None],
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
    """
    notes = []
    for kind in KINDS.values():
        # Pods of other namespaces hold GPUs as well.
        note = _read(objects, client, kind, [ALL_NAMESPACES]) if kind.kind == "Pod" else ""
        if note is not None:
            note = _read(objects, client, kind, namespaces)
        notes += [note] if note else []
    return notes


def _read(
    objects: Objects,
    client: Client,
    kind: ObjectKind,
    namespaces: Sequence[str | None],
) -> str | None:
    """Take in the objects of a kind; return why not."""
    name = f"{kind.resource}.{kind.group}" if kind.group else kind.resource
    # One definition serves all versions, so that the newest has all objects.
    for version in reversed(kind.versions):
        api_version = f"{kind.group}/{version}" if kind.group else version
        asked = resource(api_version, kind.kind, kind.resource, namespaced=kind.namespaced)
        try:
            for namespace in namespaces if kind.namespaced else [None]:
                items = listed(client, asked, namespace)
                objects.add(((server_of(client), item) for item in items), yielding=True)
            return None
        except ClusterError as error:
            if error.code == _FORBIDDEN:
                return f"{name}: left unread: {error}"
            if error.code != _UNKNOWN:
                raise
    return f"{name}: the cluster does not know this kind"
