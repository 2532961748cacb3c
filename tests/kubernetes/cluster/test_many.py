"""Two thousand claims at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from metronome_opt.kubernetes.cluster import Connection
from metronome_opt.kubernetes.cluster.objects import claims_of
from metronome_opt.kubernetes.dump import dump_objects
from tests.kubernetes.cluster.exports import GROUP, claim

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

TASKS = 8


def export(folder: Path, namespace: str, jobs: int) -> Path:
    folder.mkdir()
    objects = (claim(f"j{job:03}", task, namespace) for job in range(jobs) for task in range(TASKS))
    (folder / "claims.yaml").write_text(dump_objects(objects))
    return folder


# What a parent learns of a child's memory begins with its own, so the child has to look itself.
PROGRAM = """
import sys
from pathlib import Path
from metronome_opt.__main__ import main

status = main(sys.argv[1:])
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
sys.exit(status)
"""


def apply(folder: Path, kubeconfig: Path) -> tuple[str, int]:
    """Apply an export in a process of its own; return its last line and its peak memory in KiB."""
    command = ["claims", "apply", str(folder), "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command], capture_output=True, text=True, check=True
    )
    *_, said, peak = done.stdout.splitlines()
    return said, int(peak)


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
