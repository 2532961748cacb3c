"""Fixtures of the tests marked `cluster`: a real API server, a fresh namespace."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.cluster import Connection, Kind, UnknownKindError, connect
from metronome_opt.kubernetes.cluster.connect import each
from metronome_opt.kubernetes.cluster.objects import capacities_of, claims_of
from metronome_opt.kubernetes.cluster.plan import carry_out, plan_definitions, wait_served
from metronome_opt.kubernetes.schemas import Manifest, custom_resource_definitions
from tests.kubernetes.cluster.exports import GROUP, rbac_kind
from tests.kubernetes.cluster.server import ORDINARY, ApiServer, binaries

CLAIMS = claims_of(GROUP)
NAMESPACES = Kind("v1", "Namespace", "namespaces", namespaced=False)


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
    given = os.environ.get("KUBECONFIG")
    if given and os.environ.get("METRONOME_TEST_APISERVER") != "1":
        return Path(given)
    if os.environ.get("METRONOME_TEST_APISERVER") != "1":
        pytest.skip("needs an API server: set KUBECONFIG, or METRONOME_TEST_APISERVER=1")
    server: ApiServer = request.getfixturevalue("api_server")
    return server.kubeconfig()


@pytest.fixture
def namespace(kubeconfig: Path) -> Iterator[str]:
    """Return the name of a fresh namespace."""
    # No two runs share a namespace: without controllers one that is deleted never goes away, nor do
    # the claims in it, which tests that read all namespaces would find.
    name = f"metronome-test-{secrets.token_hex(4)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    with connect(kubeconfig) as connection:
        connection.apply(NAMESPACES, manifest)
        yield name
        with contextlib.suppress(UnknownKindError):
            claims = connection.list(CLAIMS, name)
            each(lambda item: connection.delete(CLAIMS, item["metadata"]["name"], name), claims)
        connection.delete(NAMESPACES, name)


@pytest.fixture
def cluster(kubeconfig: Path, namespace: str) -> Iterator[Connection]:
    """Return an administrator's connection that looks at the fresh namespace."""
    with connect(kubeconfig, namespace=namespace) as connection:
        yield connection


@pytest.fixture(scope="session")
def definitions(kubeconfig: Path) -> None:
    """Make the cluster know claims and capacities."""
    with connect(kubeconfig) as connection:
        wanted = custom_resource_definitions(GROUP)
        assert not carry_out(connection, plan_definitions(connection, wanted)).failed
        wait_served(connection, [CLAIMS, capacities_of(GROUP)], 60)


Run = Callable[..., tuple[int, str, str]]
Grant = Callable[[Iterable[Manifest]], None]


@pytest.fixture
def grant(cluster: Connection) -> Iterator[Grant]:
    """Return a way to apply roles and bindings, which are deleted in the end."""
    made: list[Manifest] = []

    def call(items: Iterable[Manifest]) -> None:
        for item in items:
            cluster.apply(rbac_kind(item), item)
            made.append(item)

    yield call
    for item in made:
        metadata = item["metadata"]
        cluster.delete(rbac_kind(item), metadata["name"], metadata.get("namespace"))


@pytest.fixture
def run(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a way to run `metronome claims` as the administrator."""
    return lambda *arguments: run_as(kubeconfig, capsys, *arguments)


@pytest.fixture
def ordinary(api_server: ApiServer, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a way to run `metronome claims` as a user without rights of his own."""
    return lambda *arguments: run_as(api_server.kubeconfig(ORDINARY), capsys, *arguments)


def run_as(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], command: str, *arguments: str
) -> tuple[int, str, str]:
    status = main(["claims", command, "--kubeconfig", str(kubeconfig), *arguments])
    return status, *capsys.readouterr()
