"""Traces, groups of equal jobs and rings are drawn as published."""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.job_spec import JobSpec
from metronome_opt.scenario.published import read_published
from metronome_opt.simulation import simulate
from metronome_opt.simulation.generators.traces import read_trace
from metronome_opt.simulation.state import training_jobs
from metronome_opt.simulation.study import Study
from tests.simulation.studies import study, traffic_of

DATA = Path(__file__).parents[3] / "shared" / "data"

MURI = """job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,\
iteration_time,resource_time_0,resource_time_1,resource_time_2,priority
0,16,2000,600,VGG19,16,1,1,302,102,78,123,1
1,4,1000,50,gpt2,4,1,1,430,0.6,419,49,0
"""
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-03 23:40:02,2951.0,16,47216.0,6214e9
"""
SIA = """name,time,application,num_replicas,batch_size
bert-2,811.5,bert,12,384
"""


def _scenario(file: Path, seed: int = 0, **parameters: Any) -> Scenario:
    made = study(
        hyperperiod_ms=None,
        cluster={"topology": "single-switch", "nodes": 4, "gpus": 8, "nic_gbps": 50},
        draw={"trace": {"file": str(file), **parameters}},
    )
    return made.scenario(made.cells[0], seed)


def _jobs(file: Path, seed: int = 0, **parameters: Any) -> tuple[JobSpec, ...]:
    return _scenario(file, seed, **parameters).jobs


def test_trace_that_states_iterations(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(MURI)
    small, large = _jobs(tmp_path / "trace.csv", faster=10, jitter=0.03)
    assert (small.workers, small.each.gpus, small.arrival_s, small.iterations) == (1, 4, 0, 5)
    assert (large.workers, large.each.gpus, large.iterations) == (2, 8, 60)
    assert large.arrival_s == pytest.approx(0.1)
    assert large.jitter == 0.03
    stated = traffic_of(large)
    (burst,) = stated.phases
    times = map(int, (stated.period_ms, burst.start_ms, burst.length_ms))
    assert tuple(times) == (302, 302 - 123, 123)
    assert burst.rate == 50_000


def test_trace_without_lengths_takes_published_gpu_hours(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(SIA)
    (job,) = _jobs(tmp_path / "trace.csv", published="sia-rtx")
    assert (job.workers, job.each.gpus) == (3, 4)  # 4 divides 12 and a node's 8
    seconds = (job.iterations or 0) * float(traffic_of(job).period_ms) / 1000
    assert 12 * seconds == pytest.approx(2.42 * 3600, rel=1e-3)
    with pytest.raises(InputError, match="GPU hours of 'bert'"):
        _jobs(tmp_path / "trace.csv", published="muri")


def test_trace_may_call_imagenet_resnet50(tmp_path: Path) -> None:
    made = []
    for model in ("imagenet", "ResNet50"):
        path = tmp_path / f"{model}.csv"
        path.write_text(SIA.replace(",bert,", f",{model},"))
        made.append(_jobs(path, published="sia-rtx"))
    assert made[0] == made[1]


def test_seeds_take_windows(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(MURI)
    first, second = (_jobs(tmp_path / "trace.csv", seed, count=1) for seed in range(2))
    assert [jobs[0].iterations for jobs in (first, second)] == [50, 600]
    with pytest.raises(InputError, match=r"count: 1: .* has 2 windows of this number of jobs, and"):
        _jobs(tmp_path / "trace.csv", 2, count=1)


def test_job_on_one_node_sends_inside_it(tmp_path: Path) -> None:
    """Of 937 ms two nodes sent for 510, at 50 Gbit/s; GPUs of one node have 160."""
    (tmp_path / "trace.csv").write_text(SIA.replace("bert,12,384", "bert,8,256"))
    scenario = _scenario(tmp_path / "trace.csv", published="sia-rtx")
    (job,) = scenario.jobs
    step = read_published("sia-rtx").step("bert", 8, 32)
    assert (job.workers, job.each.gpus, step.nodes) == (1, 8, 2)
    assert (float(step.iteration_ms), float(step.network_ms)) == (937.325, 510.005)
    (training,) = training_jobs(scenario)
    assert training.best_ms == pytest.approx(937.325 - 510.005 + 510.005 * 50 / 160)
    run = simulate(scenario, "nearest")
    assert run.jobs["alone_ms"].tolist() == [training.best_ms]
    assert set(run.links["carried_gbit"]) == {0}


def test_too_many_iterations_are_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(MURI.replace(",600,", ",6e14,"))
    with pytest.raises(InputError, match=r"faster: job-1 has 6e.14 iterations, above 1,000"):
        _jobs(tmp_path / "trace.csv")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1: columns of no known trace"),
        ("a,b\n1,2\n", "line 1: columns of no known trace"),
        (SIA.splitlines()[0] + "\n", "holds no arrivals"),
        (SIA.replace("811.5", "-1"), "line 2: time: must be a number from 0 to 1e.15, got '-1'"),
        (SIA.replace("811.5", "nan"), "line 2: time: must be a number"),
        (SIA.replace("12,384", ""), "line 2: num_replicas: must be a number from 1 to 1e.15, got"),
        (MURI.replace("123,1", "400,1"), "line 2: resource_time_2: 400: is above iteration_time"),
        (MURI.replace("2000", "1e300"), "line 2: submit_time: must be a number from 0 to 1e.15"),
        (MURI.replace("0,16,", "0,16.5,"), "line 2: num_gpu: must be a whole number, got '16.5'"),
        (SIA.replace("384", "384,1,2"), "line 2: has more columns than line 1, 5"),
        ("name,time\0", "cannot be read|columns of no known"),
    ],
)
def test_damaged_trace_is_one_line(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(InputError, match=error) as raised:
        read_trace(tmp_path / "trace.csv")
    assert str(tmp_path / "trace.csv") in str(raised.value)


def test_trace_without_models_draws_them(tmp_path: Path) -> None:
    with lzma.open(tmp_path / "trace.csv.xz", "wt") as file:
        file.write(PHILLY)
    drawn = [_jobs(tmp_path / "trace.csv.xz", seed) for seed in range(10)]
    assert len({job.stated for jobs in drawn for job in jobs}) > 2
    large, small = drawn[0]  # in the order of time
    assert (large.workers, small.workers) == (2, 1)
    seconds = (large.iterations or 0) * float(traffic_of(large).period_ms) / 1000
    assert seconds == pytest.approx(2951, abs=1)


def test_compressed_trace_is_read(tmp_path: Path) -> None:
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(SIA.encode()))
    (tmp_path / "trace.csv.xz").write_bytes(lzma.compress(SIA.encode()))
    assert read_trace(tmp_path / "trace.csv.gz") == read_trace(tmp_path / "trace.csv.xz")


def test_compressed_files_that_are_none_or_cut_off(tmp_path: Path) -> None:
    (tmp_path / "none.csv.gz").write_text(SIA)
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(SIA.encode())[:-12])
    (tmp_path / "none.csv.xz").write_text(SIA)
    for path in (*tmp_path.iterdir(), tmp_path / "missing.csv"):
        with pytest.raises(InputError, match=r"cannot be read .*; get the file again"):
            read_trace(path)


def ring(apart: float = 0.1, **cluster: Any) -> Study:
    return study(
        hyperperiod_ms=None,
        cluster={
            "topology": "leaf-spine",
            "nodes": 10,
            "gpus": 8,
            "nic_gbps": 50,
            "racks": 5,
            "oversubscription": "2:1",
            **cluster,
        },
        draw={"ring": {"model": "vgg19", "gpus": 16, "apart": apart, "seconds": 30}},
    )


def test_two_jobs_of_ring_share_each_uplink() -> None:
    made = ring()
    scenario = made.scenario(made.cells[0], 3)
    network = scenario.cluster
    pairs = [compute_placement(network, job.nodes or ()) for job in scenario.jobs]
    links = Counter(link for pair in pairs for link in pair.links if "rack" in link)
    assert len(scenario.jobs) == 5
    assert set(links.values()) == {2}
    stated = [traffic_of(job) for job in scenario.jobs]
    periods = [float(each.period_ms) for each in stated]
    assert max(periods) > min(periods)
    assert all(0.95 * 302 - 1 <= period <= 1.05 * 302 + 1 for period in periods)
    assert {float(each.phases[0].length_ms) for each in stated} == {123}
    for job, period in zip(scenario.jobs, periods, strict=True):
        assert 0 <= job.arrival_s < period / 1000
        assert (job.iterations or 0) * period == pytest.approx(30_000, rel=0.01)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (ring(racks=2), "model: jobs of a ring need three racks of two nodes or more"),
        (ring(nodes=5), "model: jobs of a ring need three racks of two nodes or more"),
        (ring(gpus=4), "gpus: 16: must be those of two nodes, 8"),
    ],
)
def test_ring_refuses_clusters_that_have_no_place(made: Study, message: str) -> None:
    with pytest.raises(InputError, match=message):
        made.scenario(made.cells[0], 0)


def test_job_of_one_task_takes_room_and_no_network() -> None:
    traffic = {"period_ms": 100, "phases": [{"start_ms": 50, "length_ms": 50, "rate_gbps": 50}]}
    job = {"workers": 1, "each": {"gpus": 4}, "traffic": traffic, "iterations": 10}
    made = study(draw={"given": {"work": [{"name": name, **job} for name in "abcde"]}})
    run = simulate(made.scenario(made.cells[0], 0), "nearest")
    ends = sorted(run.jobs["end_s"])
    assert ends == pytest.approx([1, 1, 1, 1, 2])  # four nodes of four GPUs


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the public data")
@pytest.mark.parametrize(
    ("file", "count", "large"),
    [("muri/trace1.csv", 1494, 32), ("muri/trace3.csv", 992, 32), ("sia/newtrace-2.csv", 960, 16)],
)
def test_published_traces(file: str, count: int, large: int) -> None:
    arrivals = read_trace(DATA / file)
    assert len(arrivals) == count
    assert max(arrival.gpus for arrival in arrivals) == large
