"""Two thousand claims at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.kubernetes.cluster import Connection
from metronome_opt.kubernetes.cluster.kinds import claims_of
from metronome_opt.kubernetes.dump import dump_objects
from tests.kubernetes.cluster.exports import GROUP, claim

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

TASKS = 8


def export(folder: Path, namespace: str, jobs: int) -> Path:
    folder.mkdir()
    objects = (claim(f"j{job:03}", task, namespace) for job in range(jobs) for task in range(TASKS))
    (folder / "claims.yaml").write_text(dump_objects(objects))
    return folder


def apply(folder: Path, kubeconfig: Path) -> tuple[str, int]:
    """Apply an export in a process of its own; return its last line and its peak memory in KiB."""
    command = [sys.executable, "-m", "metronome_opt", "claims", "apply", str(folder)]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(kubeconfig)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as stream:
        said = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return said.splitlines()[-1], usage.ru_maxrss


def test_memory_hardly_grows_with_the_claims_that_are_applied(
    cluster: Connection, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    _, few = apply(export(tmp_path / "few", namespace, 1), kubeconfig)
    folder = export(tmp_path / "many", namespace, 250)
    said, many = apply(folder, kubeconfig)
    assert said == f"in all {249 * TASKS} created; {TASKS} objects are so already"
    assert len(cluster.list(claims_of(GROUP), namespace)) == 250 * TASKS
    said, again = apply(folder, kubeconfig)
    assert said == f"nothing to do: {250 * TASKS} objects are so already"
    assert max(many, again) < few + 64 * 1024  # 32 KiB for each claim, more than its YAML takes
