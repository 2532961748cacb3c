"""Every ending of a simulation is an exact record, and remaining simulations are known."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from metronome_opt.bench.campaign import Case, remaining_cases
from metronome_opt.bench.process import Limits
from metronome_opt.bench.simulations import (
    SimulationRecord,
    check_records,
    check_scenarios,
    checksum,
    choose_cells,
    plan,
    read_value,
    sort_records,
)
from metronome_opt.bench.studies import write_tables
from metronome_opt.engine.conditions import Conditions
from metronome_opt.errors import InputError
from metronome_opt.files.journal import read_journal
from metronome_opt.simulation import simulate
from metronome_opt.simulation.study import Study
from tests.bench.examples import LIMITS, campaign, faked
from tests.bench.simulation_examples import job, simulation, unfinished

STUDY: dict[str, Any] = {
    "format": "metronome-study/1",
    "name": "pair",
    "slot_ms": 5,
    "hyperperiod_ms": 1500,
    "cluster": {
        "topology": "leaf-spine",
        "nodes": 4,
        "gpus": 1,
        "nic_gbps": 12.5,
        "racks": 2,
        "oversubscription": "4:3",
        "gpu": {"name": "any", "sustained_tflops": {"value": 20.1, "assumed": "for tests"}},
    },
    "draw": {
        "given": {
            "work": [
                {"name": name, "model": "VGG19", "batch": 64, "workers": 2, "iterations": 3}
                for name in ("a", "b")
            ]
        }
    },
    "grid": {"jitter": [0.0, 0.05], "drift_ppm": [0, 10]},
    "seeds": 2,
}


def a_study(**changes: Any) -> Study:
    return Study.from_dict(STUDY | changes)


def cases(
    *policies: str, seeds: int = 1, limits: Limits = LIMITS, **changes: Any
) -> list[Case[SimulationRecord]]:
    """Return simulations of the first cell by the fake worker."""
    study = a_study(**changes)
    return faked(plan(study, study.cells[:1], policies, seeds=seeds, limits=limits))


ENDINGS = {
    "simulated": ("done", None),
    "abort": ("crash", "signal 6"),
    "hang": ("out_of_time", "killed 0.6 s after its limit of 1 s"),
    "eat": ("out_of_memory", "more memory than 400 MB was needed"),
    "refuse": ("refused", "jobs[0].batch: is not to be had"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SimulationRecord]:
    """Run all the fakes in one campaign; their records by name, as they are read again."""
    path = tmp_path_factory.mktemp("fakes") / "r.jsonl"
    # Only "hang" is to meet the limit of time, however slow the machine is.
    patient = Limits(time_s=60, memory_mb=LIMITS.memory_mb)
    others = cases(*(name for name in ENDINGS if name != "hang"), limits=patient)
    watcher = campaign([*others, *cases("hang")], path, kind=SimulationRecord)
    assert watcher.losses == []
    written = read_journal([path], SimulationRecord)
    assert written == watcher.records
    return {record.policy: record for record in written}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDINGS)
def test_every_ending_is_a_record_of_its_own(
    name: str, outcomes: dict[str, SimulationRecord]
) -> None:
    kind, words = ENDINGS[name]
    record = outcomes[name]
    assert record.kind == kind
    assert record.succeeded == (name == "simulated")
    assert (record.jobs is None) == (record.runtime_s is None) == (name != "simulated")
    assert (words or "") in (record.error or "")
    assert (words or "7 events") in record.outcome
    (case,) = cases(name)
    assert (case.title, case.key) == (f"pair jitter=0.0, drift_ppm=0 {name} seed 0", record.key)
    assert record.versions["python"]


@pytest.mark.slow
def test_tables_of_a_simulation_are_recorded(outcomes: dict[str, SimulationRecord]) -> None:
    record = outcomes["simulated"]
    assert record.jobs is not None
    assert {name: list(column) for name, column in record.jobs.items()} == {
        "job": ["a", "b"],
        "completion_s": [1 / 3, 1 / 3],
        "score": [None, None],
        "finished": [True, True],
    }
    assert (record.makespan_s, record.events, record.notes) == (1 / 3, 7, ("fake",))
    assert record.cell == {"jitter": 0.0, "drift_ppm": 0}
    assert record.conditions == Conditions()


# ------------------------------------------------------------------ what is left


@pytest.mark.slow
def test_crashes_are_repeated_and_limited_runs_under_wider_limits(
    outcomes: dict[str, SimulationRecord],
) -> None:
    def left(limits: Limits) -> set[str]:
        return {
            case.fields["policy"]
            for case in remaining_cases(cases(*ENDINGS, limits=limits), outcomes.values())
        }

    assert left(LIMITS) == {"abort"}
    assert left(Limits(time_s=1, memory_mb=300)) == {"abort"}
    assert left(Limits(time_s=2, memory_mb=400)) == {"abort", "hang"}
    assert left(Limits(time_s=1, memory_mb=500)) == {"abort", "eat"}
    assert left(Limits(time_s=2)) == {"abort", "hang", "eat"}


def test_other_studies_and_conditions_are_refused() -> None:
    study = a_study()
    (case,) = cases("simulated")
    chosen = {name: case.fields[name] for name in ("cell", "conditions")}
    held = simulation("simulated", **chosen)
    mine = replace(held, study_sha256=checksum(study))
    check_records([mine], study, {})
    with pytest.raises(InputError, match="holds simulations of the study 'example', which is"):
        check_records([simulation("default")], study, {})
    with pytest.raises(InputError, match=r"conditions \(horizon_s was None, now it is 0.1\)"):
        check_records([mine], study, {"horizon_s": 0.1})


def test_checksum_allows_more_cases_of_a_study_but_no_changes(tmp_path: Path) -> None:
    study = a_study()
    wider = {"seeds": 20, "about": "more", "policies": ["ideal"], "grid": {"jitter": [0.0, 0.1]}}
    assert checksum(a_study(**wider)) == checksum(study)
    for change in ({"slot_ms": 3}, {"name": "other"}):
        assert checksum(a_study(**change)) != checksum(study)
    workload = tmp_path / "w.yaml"
    workload.write_text("a", encoding="utf-8")
    own = study.model_copy(update={"workloads": str(tmp_path)})
    traced = study.of_trace(str(workload))
    before = {checksum(own), checksum(traced)}
    workload.write_text("b", encoding="utf-8")
    assert len({checksum(own), checksum(traced), checksum(study)} | before) == 5


# ------------------------------------------------------------------ cells and scenarios


@pytest.mark.parametrize(
    ("wanted", "count"),
    [({}, 4), ({"jitter": "0.05"}, 2), ({"jitter": "0", "drift_ppm": "10"}, 1)],
)
def test_cells_are_chosen_by_their_settings(wanted: Mapping[str, str], count: int) -> None:
    chosen = choose_cells(a_study(), wanted)
    assert len(chosen) == count
    for name, value in wanted.items():
        assert {cell.settings[name] for cell in chosen} == {read_value(value)}


def test_impossible_scenarios_are_refused_beforehand() -> None:
    check_scenarios(a_study(), a_study().cells[:1])
    work = [{"name": "a", "model": "VGG19", "batch": 64, "workers": 2}]
    study = a_study(draw={"given": {"work": work}})
    with pytest.raises(InputError, match=r"jobs\[0\]\.iterations: missing"):
        check_scenarios(study, study.cells)


@pytest.mark.slow
def test_a_real_simulation_is_recorded_as_it_is_simulated(tmp_path: Path) -> None:
    study = a_study()
    (case,) = plan(study, study.cells[2:3], ["default"], seeds=1, limits=Limits(time_s=60))
    (record,) = campaign([case], tmp_path / "r.jsonl", kind=SimulationRecord).records
    assert record.error is None
    scenario = study.scenario(study.cells[2], 0)
    run = simulate(scenario, "default", conditions=Conditions(jitter=0.05))
    assert (record.makespan_s, record.events) == (run.makespan_s, run.events)
    for columns, frame in ((record.jobs, run.jobs), (record.links, run.links)):
        expected = pd.DataFrame({name: list(column) for name, column in (columns or {}).items()})
        pd.testing.assert_frame_equal(expected, frame, check_dtype=False, check_exact=True)


# ------------------------------------------------------------------ tables


@pytest.mark.slow
def test_tables_are_the_same_whatever_the_order_of_the_records(tmp_path: Path) -> None:
    study = a_study(policies=["ideal", "default"])
    records = [
        simulation(policy, [job("b"), job("a")], seed=seed, cell=cell.settings)
        for cell in study.cells
        for policy in ("ideal", "default", "cassini")
        for seed in (0, 1)
    ]
    texts = set()
    for number in range(2):
        random.Random(number).shuffle(records)
        written = write_tables(sort_records(records, study), tmp_path)
        assert [path.name for path in written] == ["jobs.csv", "links.csv", "estimates.csv"]
        texts.add(b"".join(path.read_bytes() for path in written))
    assert len(texts) == 1
    table = pd.read_csv(tmp_path / "jobs.csv")
    assert " ".join(table.columns[:7]) == "study jitter drift_ppm policy seed job model"
    assert len(table) == 4 * 3 * 2 * 2
    assert table.policy[:12].tolist() == ["ideal"] * 4 + ["default"] * 4 + ["cassini"] * 4
    assert table.seed[:4].tolist() == [0, 0, 1, 1]
    assert table.job[:4].tolist() == ["b", "a", "b", "a"]


def test_a_setting_named_like_a_column_gets_a_prefix_and_failures_are_left_out(
    tmp_path: Path,
) -> None:
    records = [
        simulation("default", [job("a", workers=4)], cell={"workers": 8}),
        simulation("default", kind="crash", seed=1, cell={"workers": 8}),
        simulation("default", [unfinished("a", workers=2)], cell={"workers": 2}),
    ]
    table, links, _ = map(pd.read_csv, write_tables(records, tmp_path))
    assert table[["cell_workers", "workers"]].to_numpy().tolist() == [[8, 4], [2, 2]]
    assert table.end_s.isna().tolist() == [False, True]
    assert list(links.workers) == [8, 2]


@pytest.mark.parametrize(
    ("conditions", "network", "seeds"),
    [({}, None, 1), ({"jitter": 0.1}, None, 2), ({"sharing": "tcp"}, None, 2), ({}, "tcp", 2)],
)
def test_an_undisturbed_scenario_is_simulated_once(
    conditions: dict[str, Any], network: str | None, seeds: int
) -> None:
    given = a_study(grid={}, cluster=STUDY["cluster"] | ({"network": network} if network else {}))
    planned = plan(given, given.cells, ["x"], seeds=None, limits=LIMITS, overrides=conditions)
    assert [case.fields["seed"] for case in planned] == list(range(seeds))


def test_conditions_are_those_of_the_cell_with_changes() -> None:
    study = a_study(conditions={"sharing": "tcp"})
    planned = plan(
        study, study.cells[-1:], ["x"], seeds=1, limits=LIMITS, overrides={"horizon_s": 10}
    )
    assert planned[0].fields["conditions"] == Conditions(
        jitter=0.05, drift_ppm=10, sharing="tcp", horizon_s=10
    )
    for overrides, message in (
        ({"jitters": 0}, "'jitters' is not a condition; choose from jitter, "),
        ({"jitter": 0}, "jitter: is varied by the study"),
        ({"horizon_s": 0}, "horizon_s: must be more than 0.0, got 0"),
        ({"sharing": "best"}, "sharing: must be 'fair', 'tcp', 'weighted' or 'strict', got 'best'"),
    ):
        with pytest.raises(InputError, match=message):
            plan(study, study.cells, ["x"], seeds=1, limits=LIMITS, overrides=overrides)
