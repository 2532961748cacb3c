"""Study documents are refused with their location, or give cells and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError
from metronome_opt.scenario import build_scenario, read_scenario
from metronome_opt.scenario.workload import data_folder
from metronome_opt.simulation.study import find_study, read_study
from tests.scenario.examples import scenario
from tests.simulation.studies import document, study


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {"lood": [1]}}, "grid.lood: unknown parameter; known are count, load"),
        ({"grid": {"load": []}}, "grid.load: empty"),
        ({"grid": {"cluster": ["wide"]}}, "grid.cluster[0]: 'wide' is none of clusters: none"),
        ({"cluster": None}, "cluster: missing; or name some of clusters in grid.cluster"),
        ({"grid": {"load": [0.5, -1]}}, "grid.load[1]: "),
        ({"grid": {"load": [0.5, 0.8, 0.5]}}, "grid.load[2]: 0.5 is named twice"),
        ({"grid": {"load": [[0.5]]}}, "grid.load[0]: must be a number, text, true or false"),
        ({"grid": {"mix": ["any", "odd"]}}, "grid.mix[1]: must be 'harmonic', 'any' or 'free'"),
        ({"grid": {"jitter": [0.5]}}, "grid.jitter[0]: must be at most 0.3, got 0.5"),
        ({"grid": {"priorities": ["1-2"]}}, "grid.priorities[0]: must be text such as '1/2/4'"),
        ({"grid": {"count": list(range(1, 10_002))}}, "grid: has more than 10000 cells"),
        (
            {"policies": ["default", "best"]},
            "policies[1]: 'best' is not known; choose from default, nearest",
        ),
        ({"policies": ["ideal", "ideal"]}, "policies[1]: 'ideal' is named twice"),
        ({"hyperperiod_ms": 7}, "hyperperiod_ms: 7: must be a multiple of slot_ms, 5"),
        (
            {"draw": {}},
            "draw.given: give exactly one of given, snapshot, static, dynamic, trace, ring",
        ),
        ({"draw": {"dynamic": {"count": 1}, "static": {}}}, "draw.dynamic: give exactly one of"),
        ({"draw": {"poisson": {}}}, "draw.poisson: unknown field"),
        ({"draw": {"dynamic": {}}}, "draw.dynamic.count: missing"),
        ({"draw": {"dynamic": {"count": 1, "workers": [8, 2]}}}, "draw.dynamic.workers: must be"),
        ({"draw": {"snapshot": {"mixes": {"a": []}}}}, "draw.snapshot.mixes.a: empty"),
        (
            {"draw": {"snapshot": {"mixes": {"a": [{"model": "XLM", "batch": 1}]}, "mix": "b"}}},
            "draw.snapshot.mix: there is no mix 'b'; there are a",
        ),
        ({"format": "metronome-scenario/1"}, "format: must be 'metronome-study/1'"),
    ],
)
def test_invalid_study_is_refused_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        study(**changes)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"draw": {"snapshot": {"mixes": {"a": [{"model": "VGG6", "batch": 1}]}}}},
            "small: draw.snapshot.model: there is no workload 'VGG6'; known are bert,",
        ),
        (
            {"draw": {"snapshot": {"mixes": {"a": [{"model": "GPT3", "batch": 1}]}}}},
            "small: draw.snapshot.workers: 2: must be a multiple of 4",
        ),
        ({"hyperperiod_ms": 500}, "small: draw.dynamic.mix: any: no batch of"),
        (
            {"draw": {"dynamic": {"count": 50, "workers": [2, 3]}}},
            "small: draw.dynamic.workers: 2 to 3: GPT3 needs a multiple of 4",
        ),
        (
            {"draw": {"dynamic": {"count": 1, "workers": [2, 17]}}},
            "small: draw.dynamic.workers: 17: the cluster has 16 GPUs",
        ),
        ({"draw": {"static": {}}}, "small: draw.static.workers: the cluster has no room"),
        ({"draw": {"given": {"work": []}}}, "small: jobs: empty"),
        ({"workloads": "nowhere"}, "workloads: there is no folder 'nowhere'"),
    ],
)
def test_impossible_draw_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    made = study(**changes)
    with pytest.raises(InputError) as caught:
        made.scenario(made.cells[0], 0)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_cells_are_ordered_combinations_of_grid() -> None:
    made = study(
        grid={"load": [0.5, 1], "drift_ppm": [0, 10]}, conditions={"jitter": 0.02}, seeds=3
    )
    assert [cell.label for cell in made.cells] == [
        "load=0.5, drift_ppm=0",
        "load=0.5, drift_ppm=10",
        "load=1, drift_ppm=0",
        "load=1, drift_ppm=10",
    ]
    assert made.cells[1].settings == {"load": 0.5, "drift_ppm": 10}
    assert made.conditions_of(made.cells[0]) == Conditions(jitter=0.02)
    assert made.conditions_of(made.cells[1]) == Conditions(jitter=0.02, drift_ppm=10)
    assert len(set(made.cells)) == 4


def test_grid_chooses_clusters() -> None:
    few, many = (
        {"topology": "single-switch", "nodes": n, "gpus": 4 // n, "nic_gbps": 50} for n in (1, 2)
    )
    made = study(
        cluster=None,
        clusters={"few": few, "many": many},
        draw={"periodic": {"count": 2, "workers": [2, 2]}},
        hyperperiod_ms=None,
        grid={"cluster": ["few", "many"], "jitter": [0.0, 0.1]},
    )
    nodes = [len(made.scenario(cell, 0).cluster.nodes) for cell in made.cells]
    assert nodes == [1, 1, 2, 2]
    assert [made.conditions_of(cell).jitter for cell in made.cells] == [0.0, 0.1, 0.0, 0.1]


def test_scenario_is_read_as_study(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(scenario()))
    own = read_study(path)
    (cell,) = own.cells
    original = read_scenario(path)
    assert own.scenario(cell, 0).jobs == own.scenario(cell, 1).jobs == original.jobs
    assert own.scenario(cell, 0).cluster == original.cluster
    assert own.conditions_of(cell) == Conditions()


def test_study_is_found_by_name_or_file(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(document(name="by-file")))
    assert find_study(tmp_path / "file.yaml").name == "by-file"
    assert find_study("paper-24").name == "paper-24"
    assert find_study("snapshot").name == "snapshot"
    with pytest.raises(InputError, match=r"'yours' is not known: .*snapshot$"):
        find_study("yours")


def test_workloads_are_read_beside_study(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    text = (data_folder() / "workloads" / "vgg16.yaml").read_text()
    (folder / "mine.yaml").write_text(text.replace("name: VGG16", "name: Mine"))
    draw = {"snapshot": {"mixes": {"a": [{"model": "Mine", "batch": 59}]}}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(document(workloads="own", draw=draw)))
    own = read_study(tmp_path / "study.yaml")
    (job,) = build_scenario(own.scenario(own.cells[0], 0)).instance.jobs
    assert job.name == "mine-0"
