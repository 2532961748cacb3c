"""The command `import` on the example cluster, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from metronome_opt.__main__ import main

EXAMPLE = Path(__file__).parents[2] / "docs" / "example-cluster"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    output = tmp_path / "cluster.yaml"
    assert main(["import", str(EXAMPLE), "--output", str(output)]) == 0
    return output


def test_the_example_is_solved_and_its_claims_are_called_like_pods(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schedule, folder = tmp_path / "schedule.json", tmp_path / "manifests"
    solve = [
        "solve",
        str(scenario),
        "--solver",
        "greedy",
        "--objectives",
        "contention",
        "--output",
        str(schedule),
    ]
    assert main([*solve, "--claims", str(folder)]) == 0
    assert main(["verify", str(scenario), str(schedule)]) == 0
    claims = (folder / "claims.yaml").read_text()
    for name in ("bert-worker-3", "vgg19-master-0", "resnet50-workers-0-1", "ablation-2"):
        assert f"  name: {name}\n" in claims
    assert claims.count("  namespace: vision\n") == 6
    capsys.readouterr()

    # What was claimed, read together with the workloads, is how they run now.
    again = tmp_path / "again.yaml"
    assert main(["import", str(EXAMPLE), str(folder), "--output", str(again)]) == 0
    assert "8 jobs, 8 of them running" in capsys.readouterr().out
    assert again.read_text().count("current_offset_ms: ") == 8


def test_the_example_is_a_cluster_to_place_jobs_in(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    assert main(["place", str(state), "--cluster", str(scenario), "--with-jobs", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    placed = {claim["gang"]["name"]: claim["nodes"] for claim in state["claims"]}
    assert {"ablation", "bert", "gpt", "resnet50", "vgg19"} < set(placed)
    assert {"llama", "ranking", "tuning"} < set(placed)
    assert placed["vgg19"] == ["gpu-0", "gpu-1", "gpu-3", "gpu-4"]


def test_json_has_the_scenario_and_the_notes(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = scenario.read_text()
    assert main(["import", str(EXAMPLE / "nodes.yaml"), "--output", str(scenario)]) == 2
    assert "no nodes" in capsys.readouterr().err
    assert scenario.read_text() == before  # a refused import leaves the old one
    options = ["--json", "--nic-gbps", "50", "--slot-ms", "10"]
    files = [str(EXAMPLE / name) for name in ("nodes.yaml", "ablation-job.yaml")]
    assert main(["import", *files, *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scenario"]["slot_ms"] == 10
    assert {link["capacity"] for link in result["scenario"]["cluster"]["links"]} == {50_000}
    assert (result["output"], result["notes"]) == (None, [])
