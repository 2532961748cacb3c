"""Studies: what they refuse, what they draw, and that those in the repository keep their word."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from metronome_opt import evaluate, solve
from metronome_opt.errors import InputError
from metronome_opt.instance import Instance
from metronome_opt.scenario import (
    Cluster,
    JobTraffic,
    Scenario,
    Work,
    build_scenario,
    data_folder,
    find_workloads,
    read_scenario,
    read_workload,
)
from metronome_opt.scenario.traffic import Setting, iteration
from metronome_opt.simulate.conditions import Conditions
from metronome_opt.simulate.policies import POLICIES
from metronome_opt.simulate.study import Cell, PolicyName, Study, find_study, read_study
from tests.scenario.examples import number, scenario

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"
NAMES = (
    "snapshot",
    "static-24",
    "dynamic-24",
    "priority",
    "drift",
    "wrong-profile",
    "fabric-256",
    "fabric-1024",
)
NIC = 50_000  # Mbit/s


def document(**changes: Any) -> dict[str, Any]:
    """Return a study of five jobs that arrive on four nodes."""
    return {
        "format": "metronome-study/1",
        "name": "small",
        "slot_ms": 5,
        "hyperperiod_ms": 6000,
        "cluster": {
            "topology": "single-switch",
            "nodes": 4,
            "gpus": 4,
            "nic_gbps": 50,
            "gpu": {"name": "GPU", "sustained_tflops": number(23)},
        },
        "draw": {"dynamic": {"count": 5}},
        **changes,
    }


def study(**changes: Any) -> Study:
    return Study.from_dict(document(**changes))


@cache
def stored(name: str) -> Study:
    return read_study(STUDIES / f"{name}.yaml")


def cells(name: str) -> Mapping[str, Cell]:
    return {cell.label: cell for cell in stored(name).cells}


def alone_s(job: Work, cluster: Cluster) -> float:
    """Return the seconds of an iteration at the full rate of an interface."""
    flops = 10**12 * cluster.gpu.sustained_tflops.value
    return _alone_s(job.model, Setting(job.workers, job.batch, flops, NIC))


@cache
def _alone_s(model: str, setting: Setting) -> float:
    workload = read_workload(find_workloads()[model.lower()])
    return float(iteration(workload, setting).duration) / 1000


def gpu_seconds(jobs: tuple[Work, ...], cluster: Cluster) -> float:
    return sum(job.workers * (job.iterations or 0) * alone_s(job, cluster) for job in jobs)


def traffic(study: Study, job: Work) -> JobTraffic:
    """Return the traffic of a job that has the cluster to itself, a worker on each node."""
    cluster = study.cluster
    if job.nodes is None:
        alone = {**dict(cluster), "nodes": job.workers, "topology": "single-switch"}
        alone |= {"racks": None, "oversubscription": None}
        cluster = Cluster.model_validate(alone)
    made = Scenario(
        name="alone",
        slot_ms=study.slot_ms,
        hyperperiod_ms=study.hyperperiod_ms,
        cluster=cluster,
        jobs=(job,),
    )
    return build_scenario(made).traffic[0]


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {"lood": [1]}}, "grid.lood: unknown parameter; known are count, hours, load"),
        ({"grid": {"load": []}}, "grid.load: empty"),
        ({"grid": {"load": 0.5}}, "grid.load: must be a list, got 0.5"),
        ({"grid": {"load": [0.5, "x"]}}, "grid.load[1]: "),
        ({"grid": {"load": [0.5, -1]}}, "grid.load[1]: "),
        ({"grid": {"load": [0.5, 0.8, 0.5]}}, "grid.load[2]: 0.5 is named twice"),
        ({"grid": {"load": [[0.5]]}}, "grid.load[0]: must be a number, text, true or false"),
        ({"grid": {"mix": ["any", "odd"]}}, "grid.mix[1]: must be 'harmonic', 'any' or 'free'"),
        ({"grid": {"jitter": [0.5]}}, "grid.jitter[0]: must be at most 0.3, got 0.5"),
        ({"grid": {"cushions": ["yes"]}}, "grid.cushions[0]: "),
        ({"grid": {"priorities": ["1-2"]}}, "grid.priorities[0]: must be text such as '1/2/4'"),
        ({"grid": {"count": list(range(1, 10_002))}}, "grid: has more than 10000 cells"),
        ({"policies": ["default", "best"]}, "policies[1]: must be 'default', 'exclusive'"),
        ({"policies": []}, "policies: empty"),
        ({"policies": ["ideal", "ideal"]}, "policies[1]: 'ideal' is named twice"),
        ({"seeds": 0}, "seeds: must be at least 1, got 0"),
        ({"seeds": "ten"}, "seeds: must be an integer, got 'ten'"),
        ({"sample_s": 0}, "sample_s: "),
        ({"hyperperiod_ms": 7}, "hyperperiod_ms: 7: must be a multiple of slot_ms, 5"),
        ({"conditions": {"jiter": 0.1}}, "conditions.jiter: unknown field"),
        ({"draw": {}}, "draw.given: give exactly one of given, snapshot, static, dynamic, found 0"),
        ({"draw": {"dynamic": {"count": 1}, "static": {}}}, "draw.dynamic: give exactly one of"),
        ({"draw": {"poisson": {}}}, "draw.poisson: unknown field"),
        ({"draw": {"dynamic": {}}}, "draw.dynamic.count: give either count or hours"),
        ({"draw": {"dynamic": {"count": 1, "hours": 1}}}, "draw.dynamic.count: give either"),
        ({"draw": {"dynamic": {"count": 1, "workers": [8, 2]}}}, "draw.dynamic.workers: must be"),
        ({"draw": {"snapshot": {"mixes": {}}}}, "draw.snapshot.mixes: empty"),
        ({"draw": {"snapshot": {"mixes": {"a": []}}}}, "draw.snapshot.mixes.a: empty"),
        (
            {"draw": {"snapshot": {"mixes": {"a": [{"model": "XLM", "batch": 1}]}, "mix": "b"}}},
            "draw.snapshot.mix: there is no mix 'b'; there are a",
        ),
        ({"format": "metronome-scenario/1"}, "format: must be 'metronome-study/1'"),
        ({"polices": []}, "polices: unknown field"),
    ],
)
def test_a_bad_study_is_refused_with_one_line_that_names_the_place(
    changes: dict[str, Any], message: str
) -> None:
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
def test_jobs_that_cannot_be_drawn_are_told_of_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    made = study(**changes)
    with pytest.raises(InputError) as caught:
        made.scenario(made.cells[0], 0)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------ cells and files


def test_cells_are_all_combinations_in_order_and_go_where_they_belong() -> None:
    made = study(
        grid={"load": [0.5, 1], "cushions": [True, False]}, conditions={"jitter": 0.02}, seeds=3
    )
    assert [cell.label for cell in made.cells] == [
        "load=0.5, cushions=true",
        "load=0.5, cushions=false",
        "load=1, cushions=true",
        "load=1, cushions=false",
    ]
    assert made.cells[1].settings == {"load": 0.5, "cushions": False}
    assert made.conditions_of(made.cells[0]) == Conditions(jitter=0.02)
    assert made.conditions_of(made.cells[1]) == Conditions(jitter=0.02, cushions=False)
    assert len(set(made.cells)) == 4


def test_a_study_without_a_grid_has_one_cell() -> None:
    (cell,) = study().cells
    assert (cell.settings, cell.label) == ({}, "all")
    assert study().policies == tuple(POLICIES) == get_args(PolicyName)


def test_a_study_is_read_as_it_is_written() -> None:
    draw = {"dynamic": {"count": 3, "priorities": "1/10", "workers": [2, 4], "load": 0.5}}
    made = study(draw=draw, grid={"priorities": ["1/10", "1/4/16"], "cushions": [True]})
    written = made.model_dump(mode="json", include={"draw", "grid", "conditions", "policies"})
    assert study(**yaml.safe_load(yaml.safe_dump(written))) == made


def test_a_scenario_is_a_study_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(scenario()))
    found = read_study(path)
    (cell,) = found.cells
    original = read_scenario(path)
    assert found.scenario(cell, 0).jobs == found.scenario(cell, 1).jobs == original.jobs
    assert found.scenario(cell, 0).cluster == original.cluster
    assert found.conditions_of(cell) == Conditions()
    stormy = Study.of_scenario(original, Conditions(jitter=0.1), seeds=3)
    assert stormy.conditions_of(stormy.cells[0]).jitter == 0.1
    assert stormy.seeds == 3


def test_studies_are_found_by_name_from_below_and_by_file(tmp_path: Path) -> None:
    home = tmp_path / "benchmarks" / "studies"
    below = tmp_path / "some" / "where"
    home.mkdir(parents=True)
    below.mkdir(parents=True)
    (home / "mine.yaml").write_text(yaml.safe_dump(document(name="by-name")))
    (below / "file.yaml").write_text(yaml.safe_dump(document(name="by-file")))
    assert find_study("mine", below).name == "by-name"
    assert find_study("file.yaml", below).name == "by-file"
    assert find_study("paper-24", below).name == "paper-24"
    with pytest.raises(InputError, match=r"'yours' is not known: .*studies has mine, and"):
        find_study("yours", below)


def test_workloads_of_ones_own_are_looked_for_beside_the_study(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    text = (data_folder() / "workloads" / "vgg16.yaml").read_text()
    (folder / "mine.yaml").write_text(text.replace("name: VGG16", "name: Mine"))
    draw = {"snapshot": {"mixes": {"a": [{"model": "Mine", "batch": 59}]}}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(document(workloads="own", draw=draw)))
    found = read_study(tmp_path / "study.yaml")
    (job,) = build_scenario(found.scenario(found.cells[0], 0)).instance.jobs
    assert job.name == "mine-0"


# ------------------------------------------------------------------ what is drawn


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_alone_decides(name: str) -> None:
    made = read_study(STUDIES / f"{name}.yaml")
    cell = made.cells[-1]
    assert made.scenario(cell, 4) == stored(name).scenario(cell, 4)
    assert made.scenario(cell, 4).jobs != made.scenario(cell, 5).jobs


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), load=st.floats(0.1, 2), count=st.integers(2, 60))
def test_the_load_says_in_which_time_the_jobs_arrive(seed: int, load: float, count: int) -> None:
    made = study(draw={"dynamic": {"count": count}}, grid={"load": [load, 2 * load]})
    thin, dense = (made.scenario(cell, seed).jobs for cell in made.cells)
    assert len(thin) == count
    span = gpu_seconds(thin, made.cluster) / 16 / load
    assert 0 <= thin[0].arrival_s <= thin[-1].arrival_s <= span
    for early, late in zip(dense, thin, strict=True):  # the same jobs in half the time
        assert early.arrival_s == pytest.approx(late.arrival_s / 2)
        assert early.model_copy(update={"arrival_s": late.arrival_s}) == late


def test_arrivals_are_even_over_that_time() -> None:
    made = study(draw={"dynamic": {"count": 30, "load": 0.8}})
    shares = []
    for seed in range(100):
        jobs = made.scenario(made.cells[0], seed).jobs
        span = gpu_seconds(jobs, made.cluster) / 16 / 0.8
        shares += [job.arrival_s / span for job in jobs]
    # 3,000 values, evenly from 0 to 1: standard errors 0.005 and about 0.004
    assert statistics.mean(shares) == pytest.approx(1 / 2, abs=0.02)
    assert statistics.pstdev(shares) == pytest.approx(12**-0.5, abs=0.015)


def test_a_warm_cluster_is_as_full_at_the_beginning_as_in_the_long_run() -> None:
    made = study(draw={"dynamic": {"hours": 0.5, "load": 2}})
    cluster = made.cluster
    busy, arriving = [], []
    for seed in range(60):
        jobs = made.scenario(made.cells[0], seed).jobs
        assert [job.arrival_s for job in jobs] == sorted(job.arrival_s for job in jobs)
        early = tuple(job for job in jobs if job.arrival_s < alone_s(job, cluster))
        busy.append(sum(job.workers for job in early) / 16)
        late = tuple(job for job in jobs if job not in early)
        arriving.append(gpu_seconds(late, cluster) / 16 / 1800)
        assert all(0 < (job.iterations or 0) <= 1000 for job in jobs)
    # about six jobs run at a time, so that a run is off by 0.9 or so, the mean of 60 by 0.12
    assert statistics.mean(busy) == pytest.approx(2, abs=0.35)
    assert statistics.mean(arriving) == pytest.approx(2, abs=0.35)


def test_jobs_have_the_workers_that_their_models_can_use() -> None:
    made = study(draw={"dynamic": {"count": 500}})
    jobs = made.scenario(made.cells[0], 1).jobs
    seen: dict[str, Counter[int]] = {}
    for job in jobs:
        seen.setdefault(job.model, Counter())[job.workers] += 1
        assert 200 <= (job.iterations or 0) <= 1000
        assert job.nodes is None
    assert len(seen) == 13
    assert set(seen.pop("GPT3")) == {4, 8}
    assert set(seen.pop("GPT2")) == {2}
    assert all(set(counts) <= set(range(2, 9)) for counts in seen.values())
    assert {job.priority for job in jobs} == {1, 2, 4}


def test_mixes_keep_their_promise_about_periods() -> None:
    made = study(draw={"dynamic": {"count": 120}}, grid={"mix": ["harmonic", "any", "free"]})
    harmonic, free_choice, free = (
        [traffic(made, job).rounded for job in made.scenario(cell, 2).jobs] for cell in made.cells
    )
    models = [job.model for job in made.scenario(made.cells[0], 2).jobs]
    for model, tuned, close in zip(models, harmonic, free_choice, strict=True):
        if model not in ("GPT2", "GPT3"):  # whose batches leave no choice
            assert 5 * tuned.period in (75, 125, 375, 750, 1500)
            assert tuned.idle_error <= 0.05
        if model != "GPT3":
            assert close.idle_error <= 0.05
        assert tuned.idle_error <= 0.1
        assert 6000 % (5 * close.period) == 0
    assert statistics.mean(float(rounded.idle_error) for rounded in free) > 0.05


def test_the_batch_is_half_to_twice_the_shipped_one() -> None:
    usual = {
        job.model: job.batch
        for job in read_scenario(data_folder() / "scenarios/paper-24.yaml").jobs
    }
    made = study(draw={"dynamic": {"count": 200}}, grid={"mix": ["harmonic", "any", "free"]})
    for cell in made.cells:
        for job in made.scenario(cell, 0).jobs:
            assert round(usual[job.model] / 2) <= job.batch <= 2 * usual[job.model]


# ------------------------------------------------------------------ the studies of the repository


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_study_is_what_its_cells_say_and_its_jobs_can_be_built(name: str) -> None:
    made = stored(name)
    assert made.name == name
    assert made.seeds >= 10
    assert len(made.cells) == prod(len(values) for values in made.grid.values())
    for cell in made.cells:
        made.conditions_of(cell)
        drawn = made.scenario(cell, 0)
        if all(job.nodes for job in drawn.jobs):
            build_scenario(drawn)
        for job in {job.model: job for job in drawn.jobs}.values():
            assert traffic(made, job).phases
            assert job.iterations


def test_all_stored_studies_are_listed_here() -> None:
    assert {path.stem for path in STUDIES.iterdir()} == set(NAMES)


def best_score(instance: Instance) -> float:
    """Return the best compatibility that shifts reach; all weights are 1, both links alike."""
    result = solve(instance, time_limit=20, workers=1)
    assert result.status == "optimal"
    score = evaluate(instance, result.schedule.offsets).score_min
    assert score is not None
    return float(score)


@pytest.mark.parametrize("cell", cells("snapshot").values(), ids=cells("snapshot"))
def test_a_snapshot_has_the_score_that_its_name_says_on_one_link(cell: Cell) -> None:
    drawn = stored("snapshot").scenario(cell, 7)
    instance = build_scenario(drawn).instance
    count, score = str(cell.settings["mix"]).split("-")
    assert len(drawn.jobs) == {"two": 2, "three": 3, "four": 4}[count]
    assert [dict(job.links) for job in instance.jobs] == [
        {"node-00": 1, "node-01": 1} for _ in drawn.jobs
    ]
    assert best_score(instance) == pytest.approx(float(score), abs=0.005)
    periods = sorted(job.period for job in instance.jobs)
    assert all(longer % shorter == 0 for shorter, longer in pairwise(periods))
    for job, entry in zip(drawn.jobs, build_scenario(drawn).traffic, strict=True):
        assert entry.rounded.idle_error <= 0.05
        assert 0 <= job.arrival_s < entry.exact.duration / 1000
        assert (job.iterations or 0) * entry.exact.duration / 1000 == pytest.approx(120, rel=0.01)


def test_static_jobs_are_the_same_wherever_they_run_and_take_the_same_time_alone() -> None:
    made = stored("static-24")
    for seed in range(3):
        by_label = {
            label: made.scenario(cell, seed).jobs for label, cell in cells("static-24").items()
        }
        for mix in ("harmonic", "any", "free"):
            pinned, loose = (
                by_label[f"placement={placement}, mix={mix}"] for placement in ("given", "chosen")
            )
            assert len({job.model for job in pinned}) == 13
            for here, there in zip(pinned, loose, strict=True):
                assert here.nodes is not None
                assert len(set(here.nodes)) == here.workers == there.workers
                assert there.nodes is None
                assert here.priority == there.priority
                assert here.arrival_s == there.arrival_s == 0
                total = (here.iterations or 0) * float(traffic(made, here).exact.duration) / 1000
                assert total == pytest.approx(300, rel=0.01)


def test_disturbances_meet_the_same_jobs() -> None:
    for name in ("drift", "wrong-profile"):
        made = stored(name)
        drawn = {(cell.settings.get("mix"), made.scenario(cell, 3).jobs) for cell in made.cells}
        assert len(drawn) == len(made.grid["mix"])
    settings_of_drift = [stored("drift").conditions_of(cell) for cell in stored("drift").cells]
    assert len(settings_of_drift) == 3 * 20
    assert len({str(each) for each in settings_of_drift}) == 20


def test_priorities_differ_in_nothing_else() -> None:
    made = stored("priority")
    drawn = {str(cell.settings["priorities"]): made.scenario(cell, 0).jobs for cell in made.cells}
    two, three = drawn["1/10"], drawn["1/4/16"]
    for cell in made.cells:  # nor does how links are shared
        assert made.scenario(cell, 0).jobs == drawn[str(cell.settings["priorities"])]
    assert {job.priority for job in two} == {1, 10}
    assert {job.priority for job in three} == {1, 4, 16}
    assert [job.model_copy(update={"priority": 1}) for job in two] == [
        job.model_copy(update={"priority": 1}) for job in three
    ]
