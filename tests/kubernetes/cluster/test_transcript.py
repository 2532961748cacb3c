"""The session with a cluster in the documents, run line by line against a real API server."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.cluster.server import ApiServer, binaries
from tests.transcripts import ROOT, agrees, run, session

pytestmark = pytest.mark.cluster


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of a shell that reaches a new server."""
    if os.environ.get("METRONOME_TEST_APISERVER") != "1":
        pytest.skip("needs an API server of its own: METRONOME_TEST_APISERVER=1 starts one")
    programs = binaries()
    if programs is None or not (programs / "kubectl").exists():
        pytest.skip(
            "etcd, kube-apiserver and kubectl: not on PATH or in ~/.cache/kube-apiserver/bin"
        )
    folder = tmp_path / "server"
    folder.mkdir()
    server = ApiServer(folder, programs)
    try:
        server.start()
        path = os.pathsep.join([str(Path(sys.executable).parent), str(programs), os.defpath])
        yield {
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(server.kubeconfig()),
            "COLUMNS": "100",
        }
    finally:
        server.stop()


def test_session_agrees_with_the_document(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "here"
    shutil.copytree(ROOT / "docs" / "example-cluster", folder / "docs" / "example-cluster")
    for command, expected in session("docs/kubernetes.md", "A cluster takes the claims"):
        printed = run(command, folder, environment)
        assert agrees(printed, expected), (command, printed)
