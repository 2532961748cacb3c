"""Records of training steps, and the traffic that is made of them."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import load
from metronome_opt.files.records import read_record
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.measured import MeasuredStep
from metronome_opt.scenario.workload import Workload, find_files
from tests.builders import fault_of
from tests.scenario.examples import measured, one_each, scenario, spread

MB = 10**6


def step(**changes: Any) -> MeasuredStep:
    return MeasuredStep(**measured(**changes))


def bursts(exact: Iteration) -> list[tuple[float, float]]:
    """Return the pause before each burst and its length, in ms."""
    return [(float(burst.after), float(burst.duration)) for burst in exact.bursts]


# ------------------------------------------------------------------ timelines


def test_bucket_is_sent_when_ready() -> None:
    # Two workers send a bucket once: 10 MB are 80 Mbit, 40 ms at 2 Gbit/s, 20 MB are 80 ms.
    # Forward ends at 100, so the first is sent from 150 to 190; the second is ready when the
    # backward pass ends, at 300, and sent until 380; the optimiser takes until 400.
    exact = step().step(2).at(one_each(2, 2000))
    assert bursts(exact) == [(150, 40), (110, 80)]
    assert [exact.rest, exact.duration] == [20, 400]


def test_computing_waits_for_all_to_all() -> None:
    there = {"kind": "all-to-all", "bytes": 20 * MB, "begin": "forward", "after_ms": 10.0}
    back = {**there, "begin": "backward", "after_ms": 200.0}
    bucket = {"bytes": 10 * MB, "ready_ms": spread(190)}
    exact = step(exchanges=[there, back], buckets=[bucket]).step(2).at(one_each(2, 2000))
    # Half of 20 MB takes 40 ms: from 10 to 50. The passes end at 340; the bucket is ready at 330
    # and sent until 370, then the exchange until 410, then comes the optimiser.
    assert bursts(exact) == [(10, 40), (280, 40), (0, 40)]
    assert [exact.rest, exact.duration] == [20, 430]


def test_pipeline_drains_and_fills() -> None:
    there = {"kind": "hand-over", "bytes": 5 * MB, "begin": "forward", "after_ms": 100}
    bucket = {"bytes": MB, "ready_ms": spread(200)}
    slices = step(stages=2, microbatches=2, exchanges=[there], buckets=[bucket])
    exact = slices.step(4).at(one_each(4, 1000))
    # Two forward passes hand 40 Mbit over at 100 and 200; between the passes 300 ms, then two
    # backward ones from 500 on, the last ready at 900; 8 Mbit among the two of a stage. Of the 920
    # ms without traffic a worker computes 620, and waits for the other stage for the rest.
    assert bursts(exact) == [(100, 40), (60, 40), (660, 8)]
    assert [exact.rest, exact.duration] == [20, 928]
    assert fault_of(lambda: slices.step(3)).startswith("workers: 3: must be a multiple of the 2 st")


sizes = st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 2000)), min_size=1, max_size=30)


def record_of(made: list[tuple[int, int]]) -> MeasuredStep:
    """Return a record of buckets of some bytes, ready after some tenths of ms."""
    ready = sorted(tenths for _, tenths in made)
    buckets = [
        {"bytes": size, "ready_ms": spread(tenths / 10)}
        for (size, _), tenths in zip(made, ready, strict=True)
    ]
    return step(buckets=buckets)


@given(sizes, st.integers(2, 64), st.integers(1, 10**6), st.integers(1, 10**6))
def test_volume_is_exact_and_faster_links_shorten_iterations(
    made: list[tuple[int, int]], workers: int, one: int, other: int
) -> None:
    record = record_of(made)
    slow, fast = (record.step(workers).at(one_each(workers, rate)) for rate in sorted((one, other)))
    sent = sum(Fraction(2 * (workers - 1) * size, workers) for size, _ in made) * 8 / 10**6
    assert slow.volume == fast.volume == sent
    assert slow.duration >= fast.duration >= 100 + 200 + 20
    first, *later = slow.bursts
    assert first.after >= 100  # the forward pass
    assert all(burst.after >= 0 for burst in later)
    endless = record.step(workers).at(one_each(workers, 10**30))
    assert 0 <= endless.duration - 320 < Fraction(1, 10**6)


@given(sizes, st.integers(2, 64), st.integers(1, 10**5), st.integers(1, 50))
def test_rounding_keeps_volume_and_length(
    made: list[tuple[int, int]], workers: int, rate: int, slot_ms: int
) -> None:
    exact = record_of(made).step(workers).at(one_each(workers, rate))
    phases, slots = exact.to_slots(slot_ms)
    assert -1 <= slots - exact.duration / slot_ms <= 4
    assert sum(phase.length * phase.rate for phase in phases) * slot_ms >= 1000 * exact.volume
    assert all(phase.rate <= rate for phase in phases)
    assert all(one.start + one.length <= other.start for one, other in pairwise(phases))


@pytest.mark.parametrize(
    ("stated", "own", "jitter"),
    [
        ({}, {}, None),
        ({"jitter": 0.04}, {}, 0.04),
        ({"jitter": 0.04}, {"jitter": 0}, 0),
    ],
)
def test_jitter_is_the_jobs_or_the_steps(
    stated: dict[str, float], own: dict[str, float], jitter: float | None, tmp_path: Path
) -> None:
    path = written(tmp_path, {**TINY, **own})
    (tmp_path / "records" / "tiny.json").write_text(json.dumps(measured(**stated)))
    assert load(path).instance.jobs[0].jitter == jitter


# ------------------------------------------------------------------ records


BUCKET = {"bytes": 10 * MB, "ready_ms": spread(50)}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"colour": 1}, "colour: unknown field, got 1"),
    ({"forward_ms": spread(0)}, "forward_ms.median: must be between 0.000001 and 1000000000, got"),
    ({"buckets": [BUCKET, {**BUCKET, "bytes": 0}]}, "buckets[1].bytes: must be at least 1, got 0"),
    (
        {"buckets": [BUCKET, {**BUCKET, "ready_ms": spread(200.5)}]},
        "buckets[1].ready_ms.median: 200.5: is after the end of the backward pass, 200 ms; measure",
    ),
    (
        {"exchanges": [{"kind": "hand-over", "bytes": 1, "begin": "forward", "after_ms": 101}]},
        "exchanges[0].after_ms: 101: is after the end of the forward pass, 100 ms",
    ),
    ({"microbatches": 10**9}, "microbatches: must be at most 1024"),
    ({"jitter": -0.1}, "jitter: must be at least 0.0, got -0.1"),
    ({"forward_ms": {**spread(100), "low": 101}}, "forward_ms.low: 101: is above high, 100"),
    ({"stages": 2}, "exchanges: no hand-over; 2 stages hand activations over"),
]


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_bad_records(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(measured(**changes)))
    assert fault_of(lambda: read_record(MeasuredStep, path)).startswith(f"{path}: {message}")


# ------------------------------------------------------------------ scenarios


def written(folder: Path, *jobs: dict[str, Any], **changes: Any) -> Path:
    """Write a scenario of jobs on two nodes each, with a record of Tiny beside it."""
    (folder / "records").mkdir()
    (folder / "records" / "tiny.json").write_text(json.dumps(measured()))
    document = scenario(measured="records", **changes)
    document["cluster"] |= {"nic_gbps": 2, "gpu": None}
    two = {"workers": 2, "nodes": ["node-00", "node-01"]}
    document["jobs"] = [{"name": f"job-{index}", **two, **job} for index, job in enumerate(jobs)]
    path = folder / "scenario.json"
    path.write_text(json.dumps(document))
    return path


OLD_FAITHFUL = "{}, measured on Old Faithful (cpu, 2 threads)"
TINY = {"model": "Tiny", "traffic": "measured"}
TF32 = {"bert", "dlrm", "gpt2", "resnet50", "vgg11", "vgg16", "vgg19", "wideresnet101"}


def test_scenario_uses_records(tmp_path: Path) -> None:
    problem = load(written(tmp_path, TINY, {**TINY, "model": "tiny", "batch": 3}))
    for job in problem.instance.jobs:
        phases = [(phase.start, phase.length, phase.rate) for phase in job.phases]
        assert (phases, job.period) == ([(15, 4, 2000), (30, 8, 2000)], 40)
    assert {entry.title for entry in problem.traffic} == {OLD_FAITHFUL.format("Tiny")}


def test_shipped_records_are_of_the_device_and_precision_of_their_folder() -> None:
    for folder, models in {
        "h200-bfloat16": set(find_files("workloads")),
        "h200-tf32": TF32,
    }.items():
        found = find_files(f"measured/{folder}", None)
        assert set(found) == models
        for name, record in (
            (name, read_record(MeasuredStep, path)) for name, path in found.items()
        ):
            assert record.model.lower() == name
            assert (record.device.name, record.jitter is None) == ("NVIDIA H200", False)
            assert f"h200-{record.precision}" == folder


def gpu(name: str) -> dict[str, Any]:
    return {"gpu": {"name": name, "sustained_tflops": 1}}


@pytest.mark.parametrize("name", ["H200", "h200", "NVIDIA H200", "NVIDIA-H200"])
def test_shipped_records_are_found_by_the_gpu(name: str) -> None:
    document = scenario()
    document["cluster"] |= gpu(name)
    jobs = [("a", "BERT", "measured"), ("b", "bert", "measured-tf32")]
    nodes = ["node-00", "node-01"]
    document["jobs"] = [
        {"name": job, "model": model, "traffic": traffic, "workers": 2, "nodes": nodes}
        for job, model, traffic in jobs
    ]
    problem = build_scenario(Scenario.from_dict(document))
    # Both passes and the optimiser, in the records.
    assert [float(entry.step.compute_ms) for entry in problem.traffic] == [
        pytest.approx(33.418 + 55.043 + 11.057),
        pytest.approx(42.149 + 99.531 + 7.418),
    ]
    assert [job.jitter for job in problem.instance.jobs] == [0.1022, 0.0021]
    assert {entry.algorithm for entry in problem.traffic} == {"ring"}


def test_records_of_ones_own_come_first_whatever_the_gpu(tmp_path: Path) -> None:
    path = written(tmp_path, {**TINY, "model": "BERT"})
    (tmp_path / "records" / "bert.json").write_text(json.dumps(measured(model="BERT")))
    document = json.loads(path.read_text())
    document["cluster"] |= gpu("H200")
    path.write_text(json.dumps(document))
    assert [entry.title for entry in load(path).traffic] == [OLD_FAITHFUL.format("BERT")]


@pytest.mark.parametrize(
    ("name", "model", "traffic", "message"),
    [
        ("A100", "BERT", "measured", "'BERT': no step was measured on the cluster's GPU, 'A100'; "),
        ("GH200", "BERT", "measured", "'BERT': no step was measured on the cluster's GPU, 'GH200'"),
        ("H100", "BERT", "measured-tf32", "'BERT': no step was measured on the cluster's GPU, 'H1"),
        (None, "BERT", "measured", "'BERT': no step was measured on the cluster's GPU, which clus"),
        ("H200", "GPT3", "measured-tf32", "there is no measured-tf32 step of 'GPT3'; known are b"),
        ("H200", "Huge", "measured", "there is no measured step of 'Huge'; known are bert, camemb"),
    ],
)
def test_a_step_that_was_not_measured_is_one_line(
    name: str | None, model: str, traffic: str, message: str
) -> None:
    document = scenario()
    document["cluster"] |= gpu(name) if name else {"gpu": None}
    document["jobs"] = [{"name": "a", "model": model, "traffic": traffic, "workers": 2}]
    fault = fault_of(lambda: build_scenario(Scenario.from_dict(document)))
    assert fault.startswith(f"jobs[0].model: {message}")
    remedy = "; name such a GPU in cluster.gpu, or a folder of your own in measured"
    assert fault.endswith(f"there are steps of H200{remedy}") == (name != "H200")


def test_jobs_of_the_shipped_scenario_are_of_all_models_and_meet() -> None:
    problem = load("paper-24-measured")
    assert {entry.title for entry in problem.traffic} == {
        f"{read_record(Workload, path).name}, measured on NVIDIA H200 (cuda)"
        for path in find_files("workloads").values()
    }
    assert all(job.links and job.jitter for job in problem.instance.jobs)
    assert all(len(problem.instance.jobs_on[f"rack-{rack}-uplink"]) > 1 for rack in range(4))


@pytest.mark.parametrize(
    ("job", "changes", "message"),
    [
        ({"batch": 4}, {}, "jobs[0].batch: 4: the step of Tiny was measured with 3; leave batch o"),
        ({"model": "Huge"}, {}, "jobs[0].model: there is no measured step of 'Huge'; known are "),
        ({}, {"hyperperiod_ms": 390}, "jobs[0].model: 'Tiny': an iteration takes 400 ms, more th"),
        ({}, {"measured": "nowhere"}, "measured: there is no folder"),
        (
            {},
            {"patterns": {"measured": {"period_ms": 1, "phases": []}}},
            "patterns.measured: 'measured' is taken; rename the pattern",
        ),
    ],
)
def test_bad_scenarios(
    job: dict[str, Any], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, {**TINY, **job})
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert fault_of(lambda: load(path)).startswith(f"{path}: {message}")
