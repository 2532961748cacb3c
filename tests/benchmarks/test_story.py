"""The loop of a cluster on real networks."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.story.bed import Bed, bed
from benchmarks.story.jobs import JOBS, NAMESPACE
from benchmarks.story.outcome import lateness, table
from benchmarks.story.servers import lacking
from benchmarks.testbed.network import missing
from metronome_opt.kubernetes.claims.names import DEFAULT_GROUP
from metronome_opt.kubernetes.controller.client import CLAIMS, PODS, listed
from metronome_opt.kubernetes.state.store import read_cluster_state
from tests.kubernetes.cluster.server import wait_for

LATE_MS = 10.0  # whoever woke up later than this was disturbed by something else
NEAR = 1.05


def annotated(bed: Bed, job: str) -> list[dict[str, str]]:
    pods = listed(bed.client, PODS, NAMESPACE, {"job-name": job})
    return [pod["metadata"].get("annotations") or {} for pod in pods]


def claims(bed: Bed, job: str) -> list[dict[str, Any]]:
    found = listed(bed.client, CLAIMS, NAMESPACE)
    return [item for item in found if item["spec"]["job"] == f"{NAMESPACE}/{job}"]


def check_placed(bed: Bed, *jobs: str) -> None:
    """All pods of these jobs have a node and the windows of their claims, and files that say so."""
    for job in jobs:
        wait_for(partial(lambda job: len(claims(bed, job)) == 2, job))
        nodes = {each[f"{DEFAULT_GROUP}/node"] for each in annotated(bed, job)}
        assert nodes == set(JOBS[job].nodes)  # or its bursts cross other links, or none
        slots = {each[f"{DEFAULT_GROUP}/slots"] for each in annotated(bed, job)}
        (offset,) = {item["spec"]["allocation"]["offsetMicroseconds"] for item in claims(bed, job)}
        assert [json.loads(each)["offset_ms"] for each in slots] == [offset / 1000]
    files = [path.read_text() for path in bed.folder.glob("volumes/*/*/claim")]
    assert {json.loads(text)["job"] for text in files} >= {f"{NAMESPACE}/{job}" for job in jobs}


@pytest.mark.cluster
@pytest.mark.netns
@pytest.mark.slow
def test_jobs_that_fit_run_as_if_alone_though_the_controller_is_killed(tmp_path: Path) -> None:
    if os.environ.get("METRONOME_TEST_APISERVER") != "1":
        pytest.skip("needs an API server of its own: METRONOME_TEST_APISERVER=1 starts one")
    if (reason := missing() or lacking()) is not None:
        pytest.skip(reason)
    folder = tmp_path / "story"
    with bed(folder, gated=True) as running:
        with running.step("two jobs come", 15):
            running.submit("a")
            running.submit("b")
            check_placed(running, "a", "b")
        with running.step("the controller is killed as it lets the third go", 20):
            running.submit("c", wait=False)
            slots = f"{DEFAULT_GROUP}/slots"
            wait_for(lambda: any(slots in each for each in annotated(running, "c")))
            running.controller.kill()
            running.controller.start()
            running.wait_running("c")
            check_placed(running, "a", "b", "c")
        with running.step("the first one ends", 10):
            running.finish("a")
            wait_for(lambda: not claims(running, "a"))
            phases = running.phases()
            assert [phases[pod] for pod in JOBS["a"].pods] == ["Succeeded", "Succeeded"]
            check_placed(running, "b", "c")
    state = read_cluster_state(folder / "state")
    assert set(state.reservations) == {f"{NAMESPACE}/b", f"{NAMESPACE}/c"}
    found = table({"with": folder})
    assert "".join(found.index.get_level_values("job")) == "ababcbc"
    if lateness(folder)[1] < LATE_MS:
        assert (found["with"] <= NEAR * found["alone"]).all(), found
