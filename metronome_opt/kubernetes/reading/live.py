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
    NODES,
    PODS,
    TOPOLOGIES,
    capacities_of,
    claims_of,
)
from metronome_opt.kubernetes.reading.objects import WORKLOADS, Objects

_RUNTIMES = [
    Kind("trainer.kubeflow.org/v1alpha1", name, f"{name.lower()}s", namespaced=namespaced)
    for name, namespaced in (("ClusterTrainingRuntime", False), ("TrainingRuntime", True))
]
_CLASSES = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)


def read_live(
    objects: Objects,
    connection: Connection,
    namespaces: Sequence[str] | None,
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """Take in the objects of a running cluster; return a line for each kind that is not read.

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
    """
    everywhere: Sequence[str] = [ALL_NAMESPACES]
    asked = everywhere if namespaces is None else namespaces

    def read(kind: Kind, places: Sequence[str], labels: Mapping[str, str]) -> list[str]:
        """Take in the objects of a kind; return why not."""
        found = []
        try:
            for place in places if kind.namespaced else everywhere:
                found += connection.list(kind, place, labels=labels)
        except UnknownKindError:
            return [f"{kind.resource}: the cluster does not know this kind"]
        except ForbiddenError as error:
            return [f"{kind.resource}: left unread: {error}"]
        objects.add(((connection.server, item) for item in found), yielding=True)
        return []

    notes = []
    for kind in (NODES, capacities_of(objects.group), _CLASSES):
        notes += read(kind, everywhere, {})
    # Nobody keeps a cluster's one topology in the namespace of their jobs.
    notes += read(TOPOLOGIES, everywhere, {})
    notes += read(PODS, everywhere, {}) and read(PODS, asked, {})
    for (name, group), versions in WORKLOADS.items():
        failures = []
        # One definition serves all versions, so that the newest has all objects.
        for version in reversed(versions):
            kind = Kind(f"{group}/{version}", name, f"{name.lower()}s", namespaced=True)
            failure = read(kind, asked, labels or {})
            failures += failure
            if not failure:
                break
        else:
            notes += failures[:1]
    runtimes = _RUNTIMES if objects.of("TrainJob") else ()
    for kind in (claims_of(objects.group), APP_GROUPS, *runtimes):
        notes += read(kind, asked, {})
    return notes
