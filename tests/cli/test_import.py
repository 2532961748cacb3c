"""`metronome import` reads the example cluster into a scenario."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt import allocate
from tests.cli.typed import Captured, error_of, metronome, printed

EXAMPLE = Path(__file__).parents[2] / "docs" / "example-cluster"


@pytest.fixture
def scenario(two: Path) -> Path:
    assert metronome(f"import {EXAMPLE} --output cluster.yaml") == 0
    return two / "cluster.yaml"


def test_the_example_is_solved_and_claims_are_named_after_pods(
    scenario: Path, capsys: Captured
) -> None:
    solve = "solve cluster.yaml --solver greedy"
    assert metronome(f"{solve} --output s.json --claims manifests") == 0
    assert metronome("verify cluster.yaml s.json") == 0
    claims = Path("manifests/claims.yaml").read_text()
    for name in ("bert-worker-1", "vgg19-master-0", "resnet50-workers-0-1", "ablation-2"):
        assert f"  name: {name}\n" in claims
    assert claims.count("  namespace: vision\n") == 6
    # Claims and workloads, read together, are jobs that run.
    count = scenario.read_text().count("  workers: ")
    lines = printed(capsys, f"import {EXAMPLE} manifests --output again.yaml")
    assert f"{count} jobs, {count} of them running" in "\n".join(lines)
    assert Path("again.yaml").read_text().count("current_offset_ms: ") == count


@pytest.mark.slow
def test_jobs_of_the_example_gain_and_none_loses(scenario: Path) -> None:
    # The two jobs that run send 380 of 480 ms on each uplink together, so windows can keep them
    # apart; all others have room within a machine or a zone.
    jobs = allocate(scenario).to_frame()
    gains = jobs.unshifted_ms / jobs.expected_ms - 1
    assert min(gains["gpt"], gains["bert"]) > 0.1
    assert min(gains) > -0.001


def test_json_has_the_scenario_and_the_notes(scenario: Path, capsys: Captured) -> None:
    before = scenario.read_text()
    assert "no nodes" in error_of(capsys, f"import {EXAMPLE}/nodes.yaml --output cluster.yaml")
    assert scenario.read_text() == before  # a refused import leaves the old one
    files = f"{EXAMPLE}/nodes.yaml {EXAMPLE}/ablation-job.yaml"
    result = json.loads(
        "".join(printed(capsys, f"import {files} --json --nic-gbps 50 --slot-ms 10"))
    )
    assert result["scenario"]["slot_ms"] == 10
    assert {link["capacity"] for link in result["scenario"]["cluster"]["links"]} == {50_000}
    assert (result["output"], result["notes"]) == (None, [])


def test_a_named_resource_counts_as_gpus(two: Path, capsys: Captured) -> None:
    text = (EXAMPLE / "nodes.yaml").read_text().replace("nvidia.com/gpu:", "x.example/chip:")
    (two / "nodes.yaml").write_text(text)
    typed = "import nodes.yaml --nic-gbps 50 --output c.yaml"
    assert "no nodes" in error_of(capsys, typed)
    lines = printed(capsys, f"{typed} --gpu-resource x.example/chip")
    assert "a cluster without jobs: 8 nodes" in "\n".join(lines)
