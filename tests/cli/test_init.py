"""`metronome init` writes a scenario that all commands take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt import allocate
from tests.cli.typed import Captured, error_of, metronome, printed
from tests.scenario.test_cluster_input import DOCUMENT as CLUSTER


@pytest.fixture
def mine(two: Path) -> Path:
    assert metronome("init mine.yaml") == 0
    return two / "mine.yaml"


def test_init_writes_a_scenario_that_solves(mine: Path, capsys: Captured) -> None:
    assert yaml.safe_load(mine.read_text())["name"] == "mine"
    schema = mine.read_text().splitlines()[0].partition("$schema=file://")[2]
    assert json.loads(Path(schema).read_text())["properties"]["jobs"]
    assert all(job["iterations"] for job in yaml.safe_load(mine.read_text())["jobs"])  # simulate
    said, *table = printed(capsys, "validate mine.yaml")
    assert said.startswith("mine.yaml: a scenario: 4 nodes, 4 jobs on 6 links; slots of 5 ms, all")
    language = " ".join(table[-2].split())
    assert language == "language 1 2 GPT1 341.0 340 1 49,722 node-01, node-03"
    text = "\n".join(printed(capsys, "solve mine.yaml --output s.json"))
    assert "optimal, contention 15,029.3" in text  # at the nearest placements
    assert "node-00 x 2, node-02 x 2" in text
    assert metronome("report s.json --output page.html") == 0
    page = (mine.parent / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "{{" not in page.partition("<script")[0]  # all fields are filled in
    assert page.count('"where":"node-00 x 2, node-02 x 2"') == 2
    assert page.count('"where":"node-01, node-03"') == 1


def test_nodes_and_slots_gain_in_the_scenario_of_init(mine: Path) -> None:
    """Language fits on a node, and the bursts of vision-a and vision-b one after the other."""
    result = allocate(mine, time_limit=4)
    assert result.value is not None
    assert result.value < 1.05
    assert len(set((result.schedule.places or {})["language"])) == 1
    assert {"vision-a", "vision-b"} <= set(result.offsets)


JOB = {"format": "metronome-job/1", "name": "new", "model": "VGG19", "batch": 64, "workers": 2}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "an instance: 2 jobs on 1 link; slots of 5 ms, all repeats after"),
        (JOB, "a job: new"),
        (CLUSTER, "a cluster: 4 nodes"),
    ],
)
def test_validate_names_the_kind_of_file(
    document: dict[str, Any] | None, said: str, two: Path, capsys: Captured
) -> None:
    if document:
        (two / "two.json").write_text(json.dumps(document))
    assert printed(capsys, "validate two.json")[0].startswith(f"two.json: {said}")


def test_notes_go_to_standard_error_and_json_has_them(mine: Path, capsys: Captured) -> None:
    text = mine.read_text().replace("nic_gbps: 50", "nic_gbps: 12.5")
    mine.write_text(text.replace("period_ms: 200", "period_ms: 203.3"))
    capsys.readouterr()
    assert metronome("validate mine.yaml --json") == 0
    out, error = capsys.readouterr()
    notes = json.loads(out)["notes"]
    assert error.splitlines() == [f"note: {note}" for note in notes]
    assert notes == ["jobs without nodes are on the nearest nodes, one job after the other"]


def test_validate_lists_faults(mine: Path, capsys: Captured) -> None:
    mine.write_text(mine.read_text().replace("workers: 4", "worker: 4", 1))
    capsys.readouterr()
    assert metronome("validate mine.yaml") == 2
    unknown, missing = capsys.readouterr().err.splitlines()
    assert unknown.endswith("jobs[0].worker: unknown field (perhaps workers), got 4")
    assert missing.endswith("jobs[0].workers: missing")
    mine.write_text("format: metronome-schedule/2\n")
    line = error_of(capsys, "validate mine.yaml")
    assert "mine.yaml: format: must be one of 'metronome-scenario/1', " in line
    assert line.endswith("got 'metronome-schedule/2'\n")
