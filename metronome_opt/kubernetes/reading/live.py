"""Objects of a running cluster, through its API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metronome_opt.kubernetes.cluster import (
    ALL_NAMESPACES,
    Connection,
    ForbiddenError,
    Kind,
    UnknownKindError,
)
from metronome_opt.kubernetes.cluster.objects import (
    APP_GROUPS,
    TOPOLOGIES,
    capacities_of,
    claims_of,
)
from metronome_opt.kubernetes.reading.objects import WORKLOADS, Objects

NODES = Kind("v1", "Node", "nodes", namespaced=False)
PODS = Kind("v1", "Pod", "pods", namespaced=True)
PRIORITY_CLASSES = Kind(
    "scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False
)


def read_live(
    objects: Objects,
    connection: Connection,
    namespaces: Sequence[str] | None,
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """Take in the objects of a running cluster.

    Parameters
    ----------
    objects
        Where they go. What is there already, from files, goes before what the cluster says.
    connection
        To its API server.
    namespaces
        Where workloads and claims are looked for; None for everywhere. Pods are looked for
        everywhere if that is allowed, since those of others hold GPUs too.
    labels
        Read only workloads that carry these. Claims are read all the same: what runs takes its
        share of the links, whether it is asked for or not.

    Returns
    -------
    list of str
        A line for each kind that the cluster does not know or that may not be read.

    Raises
    ------
    ClusterError
        If the API server cannot be asked.
    """
    everywhere = [ALL_NAMESPACES]
    asked = everywhere if namespaces is None else list(namespaces)
    notes: list[str] = []

    def read(kind: Kind, places: Sequence[str], labels: Mapping[str, str]) -> str | None:
        """Take in the objects of a kind; return why not."""
        found = []
        try:
            for place in places if kind.namespaced else everywhere:
                found += connection.list(kind, place, labels=labels)
        except UnknownKindError:
            return f"{kind.resource}: the cluster does not know this kind"
        except ForbiddenError as error:
            return f"{kind.resource}: left unread: {error}"
        objects.add(((connection.server, item) for item in found), yielding=True)
        return None

    for kind in (
        NODES,
        capacities_of(objects.group),
        TOPOLOGIES,
        PRIORITY_CLASSES,
        claims_of(objects.group),
        APP_GROUPS,
    ):
        # Nobody keeps a cluster's one topology in the namespace of their jobs.
        failure = read(kind, everywhere if kind is TOPOLOGIES else asked, {})
        notes += [failure] if failure else []
    failure = read(PODS, everywhere, {})
    if failure and asked != everywhere:
        failure = read(PODS, asked, {})
    notes += [failure] if failure else []
    for (kind_name, group), versions in WORKLOADS.items():
        plural = f"{kind_name.lower()}s"
        # One definition serves all versions, so that the newest has all objects.
        failures = []
        for version in reversed(versions):
            kind = Kind(f"{group}/{version}", kind_name, plural, namespaced=True)
            failure = read(kind, asked, labels or {})
            if failure is None:
                break
            failures.append(failure)
        else:
            notes += failures[:1]
    return notes
