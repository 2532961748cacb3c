"""The example cluster, put into a real API server and read back from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lightkube.core.client import Client

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.client import Resource, apply, connect, delete, resource, server_of
from metronome_opt.kubernetes.kinds import KINDS, ObjectKind
from metronome_opt.kubernetes.reading import read_manifests
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.cluster.conftest import DEFINITIONS, NAMESPACES
from tests.kubernetes.cluster.server import ApiServer, wait_served
from tests.transcripts import ROOT

pytestmark = pytest.mark.cluster

EXAMPLE = ROOT / "docs" / "example-cluster"
BUILT_IN = {"", "batch", "scheduling.k8s.io", "metronome.x-k8s.io"}  # groups that are there


def served(kind: ObjectKind) -> Resource:
    version = f"{kind.group}/{kind.versions[-1]}".removeprefix("/")
    return resource(version, kind.kind, kind.resource, namespaced=kind.namespaced)


def definition(kind: ObjectKind) -> Manifest:
    """Return a definition that takes anything."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.resource}.{kind.group}",
            # Groups of the Kubernetes community want to know that somebody agreed.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"kind": kind.kind, "plural": kind.resource, "singular": kind.kind.lower()},
            "versions": [
                {
                    "name": kind.versions[-1],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def example(api_server: ApiServer, definitions: None) -> Iterator[Client]:
    del definitions
    foreign = [kind for kind in KINDS.values() if kind.group not in BUILT_IN]
    with connect(api_server.kubeconfig()) as client:
        for kind in foreign:
            apply(client, DEFINITIONS, definition(kind))
        wait_served(client, *map(served, foreign))
        items = [dict(item) for _, item in read_manifests([EXAMPLE])]
        spaces = {item["metadata"].get("namespace") for item in items} - {None, "default"}
        for name in spaces:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            apply(client, NAMESPACES, space)
        for item in items:
            kind = KINDS[item["kind"], item["apiVersion"].rpartition("/")[0]]
            apply(client, served(kind), item)
        yield client
        for kind in foreign:  # other tests have definitions of their own, or none
            delete(client, DEFINITIONS, f"{kind.resource}.{kind.group}", None)


def test_the_example_reads_back_from_the_cluster_as_from_its_files(
    example: Client, api_server: ApiServer, tmp_path: Path
) -> None:
    files, live = tmp_path / "files.yaml", tmp_path / "live.yaml"
    assert main(["import", str(EXAMPLE), "--output", str(files)]) == 0
    options = ["--from-cluster", "--all-namespaces", "--kubeconfig", str(api_server.kubeconfig())]
    assert main(["import", *options, "--output", str(live)]) == 0
    renamed = files.read_text().replace("name: files", "name: live")
    documents = [text[text.index("format:") :] for text in (renamed, live.read_text())]
    assert documents[0] == documents[1]
    assert server_of(example) not in live.read_text()
