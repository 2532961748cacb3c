"""Two thousand claims at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from metronome_opt.kubernetes.cluster import Connection
from metronome_opt.kubernetes.cluster.objects import claims_of
from tests.kubernetes.cluster.exports import GROUP, claim, write
from tests.kubernetes.cluster.measured import run_measured

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

TASKS = 8


def export(folder: Path, namespace: str, jobs: int) -> str:
    tasks = (claim(f"j{job:03}", task, namespace) for job in range(jobs) for task in range(TASKS))
    return write(folder, *tasks)


def apply(folder: str, kubeconfig: Path) -> tuple[str, int]:
    """Apply an export in a process of its own; return its last line and its peak memory in KiB."""
    lines, peak = run_measured(["claims", "apply", folder, "--kubeconfig", str(kubeconfig)])
    return lines[-1], peak


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
