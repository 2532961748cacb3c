"""The session with a cluster in the documents, run line by line against a real API server."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.kubernetes.cluster.server import ApiServer
from tests.transcripts import ROOT, agrees, run, session

pytestmark = pytest.mark.cluster


def test_session_agrees_with_the_document(api_server: ApiServer, tmp_path: Path) -> None:
    if not (api_server.programs / "kubectl").exists():
        pytest.skip(f"kubectl: not in {api_server.programs}")
    path = [str(Path(sys.executable).parent), str(api_server.programs), os.defpath]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "KUBECONFIG": str(api_server.kubeconfig()),
        "COLUMNS": "100",
    }
    folder = tmp_path / "here"
    shutil.copytree(ROOT / "docs" / "example-cluster", folder / "docs" / "example-cluster")
    for command, expected in session("docs/kubernetes.md", "A cluster takes the claims"):
        printed = run(command, folder, environment)
        assert agrees(printed, expected), (command, printed)
