"""Objects of a running cluster, through its API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightkube.core.client import Client
from lightkube.generic_resource import GenericNamespacedResource

from metronome_opt.kubernetes.client import (
    ALL_NAMESPACES,
    NODES,
    PODS,
    ClusterError,
    Resource,
    capacities_of,
    claims_of,
    listed,
    resource,
    server_of,
)
from metronome_opt.kubernetes.manifests import APPGROUP, NETWORK_TOPOLOGY
from metronome_opt.kubernetes.reading.objects import WORKLOADS, Objects

_RUNTIMES = [
    resource("trainer.kubeflow.org/v1alpha1", name, f"{name.lower()}s", namespaced=namespaced)
    for name, namespaced in (("ClusterTrainingRuntime", False), ("TrainingRuntime", True))
]
_CLASSES = resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)
_APP_GROUPS = resource(*APPGROUP, "appgroups")
_TOPOLOGIES = resource(*NETWORK_TOPOLOGY, "networktopologies")


def read_live(
    objects: Objects,
    client: Client,
    namespaces: Sequence[str] | None,
    labels: Mapping[str, str] | None = None,
) -> list[str]:
    """Take in the objects of a running cluster; return a line for each kind that is not read.

    Parameters
    ----------
    objects
        Where they go. What is there already, from files, goes before what the cluster says.
    client
        Of its API server.
    namespaces
        Where workloads and claims are looked for; None for everywhere. Pods are looked for
        everywhere if that is allowed, since those of others hold GPUs too.
    labels
        Read only workloads that carry these. Claims are read all the same: what runs takes its
        share of the links, whether it is asked for or not.
    """
    everywhere: Sequence[str] = [ALL_NAMESPACES]
    asked = everywhere if namespaces is None else namespaces

    def read(kind: Resource, places: Sequence[str], labels: Mapping[str, str]) -> list[str]:
        """Take in the objects of a kind; return why not."""
        found = []
        try:
            for place in places:
                found += listed(client, kind, place, labels)
        except ClusterError as error:
            info = kind._api_info
            name = ".".join(filter(None, (info.plural, info.resource.group)))
            reasons = {404: "the cluster does not know this kind", 403: f"left unread: {error}"}
            if error.code not in reasons:
                raise
            return [f"{name}: {reasons[error.code]}"]
        objects.add(((server, item) for item in found), yielding=True)
        return []

    server = server_of(client)
    notes = []
    for kind in (NODES, capacities_of(objects.group), _CLASSES, _TOPOLOGIES):
        notes += read(kind, everywhere, {})
    notes += read(PODS, everywhere, {}) and read(PODS, asked, {})
    for (name, group), versions in WORKLOADS.items():
        failures = []
        # One definition serves all versions, so that the newest has all objects.
        for version in reversed(versions):
            kind = resource(f"{group}/{version}", name, f"{name.lower()}s")
            failure = read(kind, asked, labels or {})
            failures += failure
            if not failure:
                break
        else:
            notes += failures[:1]
    runtimes = _RUNTIMES if objects.of("TrainJob") else ()
    for kind in (claims_of(objects.group), _APP_GROUPS, *runtimes):
        namespaced = issubclass(kind, GenericNamespacedResource)
        notes += read(kind, asked if namespaced else everywhere, {})
    return notes
