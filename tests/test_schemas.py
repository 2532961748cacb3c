"""The schemas that editors check files by: current, and of one mind with the readers."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.workload import data_folder
from tests.scenario.examples import scenario
from tests.schemas import DOCUMENTS, path_of, text_of


def faults(name: str, document: Any) -> list[str]:
    schema = json.loads(path_of(name).read_text(encoding="utf-8"))
    return [each.message for each in jsonschema.Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_is_current(name: str) -> None:
    remedy = f"{path_of(name)}: python -m tests.schemas makes it anew"
    assert path_of(name).read_text(encoding="utf-8") == text_of(name), remedy


@pytest.mark.parametrize("name", ["scenario", "workload"])
def test_shipped_files_have_their_schema(name: str) -> None:
    for path in (data_folder() / f"{name}s").glob("*.yaml"):
        assert faults(name, yaml.safe_load(path.read_text(encoding="utf-8"))) == [], path


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("jobs", 0, "worker"), 4),
        (("jobs", 0, "workers"), 1),
        (("jobs", 0, "nodes"), 3),
        (("cluster", "oversubscription"), []),
        (("cluster", "topology"), "ring"),
        (("slot_ms",), 0.5),
        (("format",), "metronome-scenario/2"),
    ],
)
def test_schema_refuses_fields_that_reader_refuses(
    way: tuple[str | int, ...], value: Any, tmp_path: Path
) -> None:
    document: Any = copy.deepcopy(scenario())
    assert faults("scenario", document) == []
    inner = document
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = value
    assert faults("scenario", document)
    (tmp_path / "s.json").write_text(json.dumps(document))
    assert main(["validate", str(tmp_path / "s.json")]) == 2


@pytest.mark.parametrize("traffic", ["burst", {"period_ms": 9, "phases": []}])
def test_schema_and_reader_agree_on_a_single_worker_of_stated_traffic(traffic: Any) -> None:
    document: Any = copy.deepcopy(scenario())
    phases = [{"start_ms": 0, "length_ms": 10, "rate_mbps": 100}]
    pattern = {"period_ms": 100, "phases": phases}
    stated = traffic if traffic == "burst" else {**traffic, "phases": phases, "period_ms": 100}
    document["patterns"] = {"burst": pattern}
    document["jobs"] = [{"name": "alone", "traffic": stated, "workers": 1}]
    assert faults("scenario", document) == []
    assert Scenario.from_dict(document).jobs[0].workers == 1
    by_model = {"name": "alone", "model": "VGG19", "batch": 8, "workers": 1}
    assert faults("scenario", {**document, "jobs": [by_model]})
    head = {"format": "metronome-job/1"}
    assert faults("job", {**head, "name": "alone", "traffic": pattern, "workers": 1}) == []
    assert faults("job", {**head, **by_model})


def test_both_forms_of_a_job_have_a_schema() -> None:
    head = {"format": "metronome-job/1", "name": "a"}
    assert faults("job", {**head, "model": "VGG19", "batch": 64, "workers": 2}) == []
    bursts = [{"start": 0, "length": 6, "rate": 20_000}]
    assert faults("job", {**head, "tasks": 2, "period": 30, "phases": bursts}) == []
    assert faults("job", {**head, "workers": 2, "tasks": 2})
