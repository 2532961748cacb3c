"""Scenarios of machines by name, and of jobs that state their traffic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Link, Phase
from metronome_opt.scenario import Scenario, build_scenario, spread
from metronome_opt.scenario.placed_instance import PlacedInstance
from tests.scenario.examples import number

TRAFFIC = {"period_ms": 100, "phases": [{"start_ms": 20, "length_ms": 30, "rate_mbps": 10_000}]}


def cluster(**changes: Any) -> dict[str, Any]:
    """Return two racks, the first of two nodes with an uplink, and a node on its own."""
    return {
        "topology": "listed",
        "nodes": [
            {"name": "x", "has": {"gpus": 4}, "interface": "x-nic", "rack": "r", "region": "n"},
            {"name": "y", "has": {"gpus": 4}, "interface": "y-nic", "rack": "r", "region": "n"},
            {"name": "z", "has": {"gpus": 2}, "interface": "z-nic", "rack": "s", "region": "m"},
        ],
        "racks": [{"name": "r", "uplink": "up"}, {"name": "s"}],
        "links": [
            {"name": "x-nic", "capacity": 50_000},
            {"name": "y-nic", "capacity": 25_000},
            {"name": "z-nic", "capacity": 10_000},
            {"name": "up", "capacity": 40_000},
        ],
        "zone_costs": [{"origin": "r", "destination": "s", "cost": 20}],
        **changes,
    }


def job(**changes: Any) -> dict[str, Any]:
    return {"name": "one", "traffic": TRAFFIC, "workers": 3, "nodes": ["x", "y", "z"], **changes}


def scenario(*jobs: dict[str, Any], **changes: Any) -> Scenario:
    name = {"format": "metronome-scenario/1", "name": "listed", "slot_ms": 10}
    document = {**name, "cluster": cluster(), "jobs": list(jobs or [job()]), **changes}
    return Scenario.from_dict(document)


def built(*jobs: dict[str, Any], **changes: Any) -> PlacedInstance:
    return build_scenario(spread(scenario(*jobs, **changes)))


def test_listed_machines_and_stated_traffic() -> None:
    problem = built()
    (read,) = problem.instance.jobs
    assert problem.instance.links == tuple(
        Link(name=name, capacity=capacity)
        for name, capacity in (
            ("x-nic", 50_000),
            ("y-nic", 25_000),
            ("z-nic", 10_000),
            ("up", 40_000),
        )
    )
    assert (read.period, read.phases) == (10, (Phase(start=2, length=3, rate=10_000),))
    # Three nodes, two of them behind the uplink; the third rack has none.
    assert dict(read.links) == {"x-nic": 1, "y-nic": 1, "z-nic": 1, "up": 2}
    assert problem.deployment.cluster.rack_cost == {("r", "s"): 20}


def test_workers_take_all_gpus_they_need() -> None:
    # x and y have room for two workers of two GPUs each, z for one.
    wide = job(nodes=None, workers=5, each={"gpus": 2})
    nodes = [task.node for task in built(wide).deployment.tasks]
    assert nodes == ["x", "x", "y", "y", "z"]
    with pytest.raises(
        InputError, match="workers: 6: no room; free: 10 GPUs, room for 5 workers of 2"
    ):
        built({**wide, "workers": 6})
    with pytest.raises(InputError, match=r"jobs\[0\]\.nodes: z has 2 GPUs and more tasks"):
        built(job(nodes=["x", "z", "z"], each={"gpus": 2}))


def test_worker_of_several_gpus_sends_as_one_gpu() -> None:
    gpu = {"name": "any", "sustained_tflops": number(20)}
    by_model = {"name": "one", "model": "VGG16", "batch": 4, "nodes": ["x", "y"], "workers": 2}
    with_gpu = cluster(gpu=gpu)
    pods = built({**by_model, "each": {"gpus": 4}}, cluster=with_gpu)
    ring = {**by_model, "workers": 8, "nodes": {"x": 4, "y": 4}}
    flat = built(ring, cluster=with_gpu)
    assert pods.iterations[0].volume == flat.iterations[0].volume
    assert pods.traffic[0].step.compute_ms == flat.traffic[0].step.compute_ms
    gpt3 = {**by_model, "model": "GPT3", "each": {"gpus": 2}}
    with pytest.raises(InputError, match=r"jobs\[0\]\.each\.gpus: 2: .* state the traffic"):
        built(gpt3, cluster=with_gpu)
    with pytest.raises(InputError, match=r"jobs\[0\]\.model: 'VGG16': .*how fast its GPUs are"):
        built(by_model)


def test_stated_times_are_exact_and_rounded_like_computed_ones() -> None:
    # A pause of 24.9 ms goes to 20 ms, the burst of 30.1 ms to four slots at three quarters of its
    # rate, the rest of 45.1 ms to 50 ms.
    phases = [{"start_ms": 24.9, "length_ms": 30.1, "rate_mbps": 10_000}]
    problem = built(job(traffic={"period_ms": 100.1, "phases": phases}))
    (read,) = problem.instance.jobs
    assert (read.period, read.phases) == (11, (Phase(start=2, length=4, rate=7525),))
    assert problem.iterations[0].duration == Fraction("100.1")
    assert problem.iterations[0].rest == Fraction("45.1")
    assert problem.traffic[0].title == "stated"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traffic": None}, "jobs[0].model: missing; name a workload, or state the traffic"),
        ({"traffic": None, "model": "VGG16"}, "jobs[0].batch: missing; say how many samples"),
        ({"model": "VGG16"}, "jobs[0].model: the job states its traffic; leave one of the two"),
        ({"each": {"gpus": 0}, "nodes": None}, "jobs[0].each.gpus: 0: a worker needs at least 1"),
        ({"pods": ["a"]}, "jobs[0].pods: names 1 pod, but workers is 3"),
        ({"pods": ["a", "b", "a"]}, "jobs[0].pods[2]: 'a' is also jobs[0].pods[0]; a pod is one"),
        ({"traffic": {"period_ms": 0, "phases": []}}, "jobs[0].traffic.period_ms: must be betw"),
    ],
)
def test_bad_jobs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        scenario(job(**change))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([(0, 50), (40, 10)], "phases[1].start_ms: 40: is before the end of the burst before it"),
        ([(60, 41)], "phases[0].length_ms: 41: the burst ends at 101 ms, after the period of 100"),
        ([(0, 0)], "phases[0].length_ms: must be between 0.000001 and 1000000000, got 0"),
    ],
)
def test_bad_traffic(phases: list[tuple[int, int]], message: str) -> None:
    listed = [{"start_ms": start, "length_ms": length, "rate_mbps": 1} for start, length in phases]
    with pytest.raises(InputError) as caught:
        scenario(job(traffic={"period_ms": 100, "phases": listed}))
    assert str(caught.value).startswith(f"jobs[0].traffic.{message}")
