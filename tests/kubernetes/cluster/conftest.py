"""Fixtures of the tests marked `cluster`: a real API server, a fresh namespace."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from lightkube.core.client import Client

from metronome_opt.kubernetes.claims.names import Manifest, read_shipped
from metronome_opt.kubernetes.controller.client import (
    CAPACITIES,
    CLAIMS,
    Resource,
    apply,
    connect,
    delete,
    listed,
    resource,
)
from tests.kubernetes.cluster.server import NAMESPACES, ApiServer, binaries, wait_served

DEFINITIONS = resource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Start a server for this session; tests may kill it if they start it again."""
    if os.environ.get("METRONOME_TEST_APISERVER") != "1":
        pytest.skip("needs an API server of its own: METRONOME_TEST_APISERVER=1 starts one")
    programs = binaries()
    if programs is None:
        pytest.skip("etcd and kube-apiserver: neither on PATH nor in ~/.cache/kube-apiserver/bin")
    server = ApiServer(tmp_path_factory.mktemp("api-server"), programs)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Path:
    """Return the kubeconfig of an administrator: the one in KUBECONFIG, else of our own server."""
    if os.environ.get("METRONOME_TEST_APISERVER") == "1":
        server: ApiServer = request.getfixturevalue("api_server")
        return server.kubeconfig()
    if "KUBECONFIG" not in os.environ:
        pytest.skip("needs an API server: set KUBECONFIG, or METRONOME_TEST_APISERVER=1")
    return Path(os.environ["KUBECONFIG"])


@pytest.fixture
def namespace(kubeconfig: Path) -> Iterator[str]:
    """Return the name of a fresh namespace."""
    # No two runs share a namespace: without controllers one that is deleted never goes away, nor do
    # the claims in it, which tests that read all namespaces would find.
    name = f"metronome-test-{secrets.token_hex(4)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    with connect(kubeconfig) as client:
        apply(client, NAMESPACES, manifest)
        yield name
        for item in listed(client, CLAIMS, name):
            delete(client, CLAIMS, item["metadata"]["name"], name)
        delete(client, NAMESPACES, name, None)


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Client]:
    """Return an administrator's client."""
    with connect(kubeconfig) as client:
        yield client


@pytest.fixture(scope="session")
def definitions(kubeconfig: Path) -> None:
    """Make the cluster know claims and capacities."""
    with connect(kubeconfig) as client:
        for item in read_shipped("crds.yaml"):
            apply(client, DEFINITIONS, item)
        wait_served(client, CLAIMS, CAPACITIES)


Grant = Callable[[Iterable[Manifest]], None]


@pytest.fixture
def grant(cluster: Client) -> Iterator[Grant]:
    """Return a way to apply cluster roles and their bindings, which are deleted in the end."""
    made: list[tuple[Resource, str]] = []

    def call(items: Iterable[Manifest]) -> None:
        for item in items:
            plural = f"{item['kind'].lower()}s"
            kind = resource(item["apiVersion"], item["kind"], plural, namespaced=False)
            apply(cluster, kind, item)
            made.append((kind, item["metadata"]["name"]))

    yield call
    for kind, name in made:
        delete(cluster, kind, name, None)
