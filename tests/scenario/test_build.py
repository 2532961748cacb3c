"""Scenarios become instances: values worked out by hand, and errors that name the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt import load
from metronome_opt.allocation.scenario_search import nearest
from metronome_opt.problem.instance import write_instance
from metronome_opt.scenario import Scenario, build_scenario, read_scenario, spread
from metronome_opt.scenario.build import common_hyperperiod, with_hyperperiod
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.placed_instance import Deployment, PlacedInstance
from metronome_opt.scenario.workload import find_files
from tests.builders import fault_of
from tests.fabrics import scene
from tests.scenario.examples import number, scenario


def built(document: dict[str, Any]) -> PlacedInstance:
    return build_scenario(spread(Scenario.from_dict(document)))


def bursts(job: Any) -> list[tuple[int, int, int]]:
    return [(phase.start, phase.length, phase.rate) for phase in job.phases]


def links_of_tasks(problem: PlacedInstance) -> list[tuple[str, ...]]:
    """Return the links of the tasks of the first job."""
    return [task.links for task in problem.deployment.tasks if task.job == "one"]


def test_small_scenario_worked_out_by_hand() -> None:
    problem = built(scenario())
    one, two = problem.instance.jobs
    # VGG16: 3 * 2 * 30.94 GFLOP at 1 TFLOP/s, 185.64 ms. 138,357,544 * 4 bytes * 1.5 are 830 MB or
    # 6641.16 Mbit, which a ring sends out of each node once: at 50 Gbit/s 132.8 ms, 14 slots at
    # 47,437 Mbit/s. 0 sends to 0, 0 to 1, 1 to 3 in the other rack, 3 back to 0.
    assert bursts(one) == [(19, 14, 47_437)]
    assert one.period == 33
    assert dict(one.links) == dict.fromkeys(
        ("node-00", "node-01", "node-03", "rack-0-uplink", "rack-1-uplink"), 1
    )
    # ResNet50 is spread over the nodes with most GPUs free, by name: node-02, node-04.
    uplinks = ("rack-0-uplink", "rack-1-uplink")
    assert dict(two.links) == dict.fromkeys(("node-02", "node-04", *uplinks), 1)
    assert (one.weight, two.weight) == (1, 4)
    assert links_of_tasks(problem) == [
        (),
        ("node-00",),
        ("node-01", "rack-0-uplink"),
        ("node-03", "rack-1-uplink"),
    ]
    assert (len(problem.deployment.cluster.nodes), len(problem.instance.links)) == (6, 8)
    assert problem.traffic[0].title == "VGG16"
    assert problem.iterations[0].volume == Fraction(138_357_544 * 4 * 3, 2) * 8 / 10**6


def test_slowdowns_are_multiples_of_the_best_place_of_the_empty_cluster() -> None:
    """VGG16 has no node with 4 GPUs and nothing better; ResNet50 has one with 2.

    It computes 98.1 ms. 25,557,032 * 4 bytes are 817.8 Mbit, of which a GPU sends as much to the
    other one: 16.4 ms over the network, 12 slots with the computing; 5.1 ms at the 160 Gbit/s that
    are assumed inside a node, 103.2 ms together, 10 slots.
    """
    one, two = built(scenario()).instance.jobs
    assert [one.best_ms, one.period] == [None, 33]
    assert [two.best_ms, two.period] == [100, 12]
    document = scenario()
    document["jobs"][1]["nodes"] = ["node-02", "node-02"]
    _, two = built(document).instance.jobs
    assert [two.best_ms, two.period, dict(two.links)] == [None, 10, {}]


def test_jobs_without_nodes_have_no_instance() -> None:
    fault = fault_of(lambda: build_scenario(Scenario.from_dict(scenario())))
    assert fault.startswith("jobs[1].nodes: missing; name the node of each task")


def in_full(**changes: Any) -> dict[str, Any]:
    """Return the scenario with a flow for each task of the first job."""
    document = scenario(**changes)
    document["jobs"][0]["allreduce"] = "tasks"
    return document


def test_tasks_with_flows_of_their_own() -> None:
    """Two tasks of node-00 have 25 Gbit/s each, and as much three on the uplink.

    The 6641.16 Mbit take 265.65 ms, 27 slots at 24,597 Mbit/s; the rest is as above.
    """
    problem = built(in_full())
    one = problem.instance.jobs[0]
    assert bursts(one) == [(19, 27, 24_597)]
    # On two nodes in each rack two flows share 75 Gbit/s: 177.1 ms, 18 slots.
    assert [one.period, one.best_ms] == [46, 370]
    assert dict(one.links) == {
        "node-00": 2,
        "node-01": 1,
        "node-03": 1,
        "rack-0-uplink": 3,
        "rack-1-uplink": 1,
    }
    assert links_of_tasks(problem) == [
        ("node-00", "rack-0-uplink"),
        ("node-00", "rack-0-uplink"),
        ("node-01", "rack-0-uplink"),
        ("node-03", "rack-1-uplink"),
    ]


@pytest.mark.parametrize(
    ("nodes", "flows"),
    [
        # Each of the four is followed by one in the other rack.
        ("0314", {"node-00": 1, "node-01": 1, "node-03": 1, "node-04": 1, "up-0": 2, "up-1": 2}),
        # All of node 0 before node 3, as it has the first task.
        ("030", {"node-00": 1, "node-03": 1, "up-0": 1, "up-1": 1}),
        ("0011", {"node-00": 1, "node-01": 1}),
        ("000", {}),
    ],
)
def test_nodes_of_a_ring_are_in_the_order_of_their_first_tasks(
    nodes: str, flows: dict[str, int]
) -> None:
    network = Scenario.from_dict(scenario()).cluster
    placement = compute_placement(network, [f"node-0{node}" for node in nodes], "ring")
    assert placement.links == {
        name.replace("up-", "rack-") + "-uplink" * ("up" in name): count
        for name, count in flows.items()
    }


Change = Callable[[dict[str, Any]], Any]


def job(**fields: Any) -> Change:
    return lambda document: document["jobs"][0].update(fields)


def cluster(**fields: Any) -> Change:
    return lambda document: document["cluster"].update(fields)


def top(**fields: Any) -> Change:
    return lambda document: document.update(fields)


SLOW = cluster(nic_gbps=None, nic_mbps=1)

# Beside those of tests/data/bad.
FAULTS: dict[str, tuple[Change, str]] = {
    "missing": (lambda document: document.pop("slot_ms"), "slot_ms: missing"),
    "too long": (top(hyperperiod_ms=10**9), "hyperperiod_ms: 1000000000: is 100000000 slots, abov"),
    "no uplink": (cluster(oversubscription=10**6), "cluster.oversubscription: 1000000: leaves an"),
    "slow nic": (
        lambda document: (job(allreduce="tasks")(document), SLOW(document)),
        "jobs[0].workers: 4: rack-0-uplink has less than 1 Mbit/s for each",
    ),
    "count": (job(nodes={"node-00": 0}), "jobs[0].nodes['node-00']: must be a positive number of"),
    "text": (job(nodes="node-00"), "jobs[0].nodes: must be a list of nodes or a mapping of nodes"),
    "jitter": (job(jitter=-0.1), "jobs[0].jitter: must be at least 0.0, got -0.1"),
    "much jitter": (job(jitter=1.5), "jobs[0].jitter: must be at most 1.0, got 1.5"),
    "jitter text": (job(jitter="unknown"), "jobs[0].jitter: Input should be a valid number, got"),
    "jitter truth": (job(jitter=True), "jobs[0].jitter: Input should be a valid number, got True"),
    "jitter nan": (job(jitter=math.nan), "jobs[0].jitter: Input should be a finite number, got n"),
    "groups": (job(model="GPT3", workers=2, nodes=None), "jobs[0].workers: 2: must be a multiple"),
    "no ring": (
        job(model="DLRM", allreduce="ring"),
        "jobs[0].allreduce: 'ring': what 'DLRM' sends is more than an all-reduce among all workers",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_bad_scenarios(name: str, tmp_path: Path) -> None:
    change, message = FAULTS[name]
    document = scenario()
    change(document)
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(document))
    fault = fault_of(lambda: build_scenario(spread(read_scenario(file))))
    assert fault.removeprefix(f"{file}: ").startswith(message)


def test_periods_stay_however_late_they_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    # 46 slots against ResNet50's 98.1 + 16.4 ms, 12 slots: together 276. Of 46 to 48 slots, at most
    # 5 % more than 46, the first that 12 divides is 48.
    small = Scenario.from_dict(in_full())
    monkeypatch.setenv("METRONOME_HYPERPERIOD_LIMIT", "275")
    problem = build_scenario(spread(small))
    assert [job.period for job in problem.instance.jobs] == [46, 12]
    assert problem.instance.needs_stretch
    assert problem.notes == [  # none on periods
        "cluster.gpu.link_gbps: not known of 'GPU'; 160 Gbit/s inside a node are assumed"
    ]
    found = build_scenario(spread(with_hyperperiod(small)))
    assert [job.period for job in found.instance.jobs] == [48, 12]
    monkeypatch.delenv("METRONOME_HYPERPERIOD_LIMIT")
    # 60 x 276 is 2^4 3^2 5 23, with 60 divisors.
    assert with_hyperperiod(small).hyperperiod_ms == 165_600


@pytest.mark.parametrize(
    ("periods", "longest", "expected"),
    [
        ({6, 4}, 12, 12),
        ({7, 8}, 55, 8),  # 7 may become 8 at 20 %, not at 10 %
        ({100, 97}, 9699, 100),  # 97 to 101 and 100 to 105: 100 is both
        ({7}, 6, None),
        ({20_000_000, 19_999_997}, 10**6, None),  # took minutes, as did the next one
        ({400_000, 399_989}, 10**6, 400_000),  # 399,989 to 419,988
    ],
)
def test_the_shortest_hyperperiod_with_divisors_close_above(
    periods: set[int], longest: int, expected: int | None
) -> None:
    assert common_hyperperiod(periods, longest) == expected


BURST = {"start_ms": 100, "length_ms": 50, "rate_gbps": 12.5}


PATTERNS = {"burst": {"period_ms": 200, "phases": [BURST]}}


def shared(**fields: Any) -> dict[str, Any]:
    """Return the scenario with patterns and no GPU; its second job is changed."""
    document = scenario(patterns=PATTERNS)
    del document["cluster"]["gpu"]
    for job in document["jobs"]:
        del job["model"], job["batch"]
        job["traffic"] = "burst"
    document["jobs"][1].update(fields)
    return document


def test_jobs_share_patterns_and_need_no_gpu_for_them() -> None:
    one, two = built(shared(rate_mbps=6250)).instance.jobs
    # At half the rate the burst takes twice as long, and so the iteration 50 ms more.
    assert [bursts(one), bursts(two)] == [[(10, 5, 12_500)], [(10, 10, 6250)]]
    assert (one.period, two.period) == (20, 25)


def test_job_that_overloads_a_link_alone_is_noted() -> None:
    document = shared()
    document["cluster"] |= {"nic_gbps": 20, "oversubscription": 3}  # 3 x 20 / 3: uplinks carry 20
    problem = built(document)
    (note,) = problem.notes
    assert note == (
        "job one overloads rack-0-uplink by itself: 3 x 12,500 Mbit/s at once, 20,000 fit; no "
        "offset helps, other nodes or a lower rate do"
    )
    assert replace(problem, places={}).notes == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"traffic": "brust"}, "jobs[1].traffic: there is no pattern 'brust'; there are burst"),
        ({"model": "VGG16"}, "jobs[1].model: the job states its traffic"),
        ({"rate_gbps": 0.0001}, "jobs[1].rate_gbps: 0.0001: must be a whole number of Mbit/s"),
        ({"rate_gbps": 25_000}, "jobs[1].rate_gbps: 25000.0: no machine sends 25 Tbit/s; look at"),
        ({"traffic": None, "model": "VGG16", "batch": 2}, "jobs[1].model: 'VGG16': the cluster do"),
    ],
)
def test_bad_patterns_and_rates(fields: dict[str, Any], message: str) -> None:
    assert fault_of(lambda: built(shared(**fields))).startswith(message)


def test_workloads_of_own_folder_come_first(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    text = find_files("workloads")["vgg16"].read_text()
    (mine / "tiny.yaml").write_text(text.replace("name: VGG16", "name: Tiny"))
    document = scenario(workloads="mine")
    document["jobs"][0]["model"] = "Tiny"
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(document))
    assert [entry.title for entry in load(file).traffic] == ["Tiny", "ResNet50"]
    (mine / "tiny.yaml").write_text("format: metronome-workload/1")
    fault = fault_of(lambda: load(file))
    assert fault.startswith(f"{file}: ")
    assert "tiny.yaml: name: missing" in fault


def test_load_reads_instances_and_scenarios(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario()))
    placed = nearest(read_scenario(file))
    assert load(file) == placed
    write_instance(placed.instance, tmp_path / "instance.json")
    problem = load(tmp_path / "instance.json")
    assert (problem.instance, problem.traffic) == (placed.instance, ())
    assert problem.deployment == Deployment.of_instance(placed.instance)


# ------------------------------------------------------------------ machines by name

TRAFFIC = {"period_ms": 100, "phases": [{"start_ms": 20, "length_ms": 30, "rate_mbps": 10_000}]}
CAPACITIES = {"x-nic": 50_000, "y-nic": 25_000, "z-nic": 10_000, "up": 40_000}
# Two racks, the first of two nodes with an uplink, and a node on its own.
LISTED: dict[str, Any] = {
    "topology": "listed",
    "nodes": [
        {"name": "x", "has": {"gpus": 4}, "interface": "x-nic", "rack": "r", "region": "n"},
        {"name": "y", "has": {"gpus": 4}, "interface": "y-nic", "rack": "r", "region": "n"},
        {"name": "z", "has": {"gpus": 2}, "interface": "z-nic", "rack": "s", "region": "m"},
    ],
    "racks": [{"name": "r", "uplink": "up"}, {"name": "s"}],
    "links": [{"name": name, "capacity": mbps} for name, mbps in CAPACITIES.items()],
    "zone_costs": [{"origin": "r", "destination": "s", "cost": 20}],
}


def listed(cluster: dict[str, Any] = LISTED, **changes: Any) -> PlacedInstance:
    """Return a job that states its traffic, with `changes`, on machines by name."""
    stated = {"name": "one", "traffic": TRAFFIC, "workers": 3, "nodes": ["x", "y", "z"]}
    return build_scenario(spread(scene(cluster, {**stated, **changes})))


def test_listed_machines_and_stated_traffic() -> None:
    problem = listed()
    (read,) = problem.instance.jobs
    assert {link.name: link.capacity for link in problem.instance.links} == CAPACITIES
    assert (read.period, bursts(read)) == (10, [(2, 3, 10_000)])
    # Three nodes, two of them behind the uplink; the third rack has none.
    assert dict(read.links) == {"x-nic": 1, "y-nic": 1, "z-nic": 1, "up": 2}
    assert problem.deployment.cluster.rack_cost == {("r", "s"): 20}


def test_workers_take_all_gpus_they_need() -> None:
    # x and y have room for two workers of two GPUs each, z for one.
    wide: dict[str, Any] = {"nodes": None, "workers": 5, "each": {"gpus": 2}}
    assert [task.node for task in listed(**wide).deployment.tasks] == ["x", "x", "y", "y", "z"]


def test_worker_of_several_gpus_sends_as_one_gpu() -> None:
    gpu = {"name": "any", "sustained_tflops": number(20)}
    by_model = {"traffic": None, "model": "VGG16", "batch": 4, "nodes": ["x", "y"], "workers": 2}
    with_gpu = {**LISTED, "gpu": gpu}
    pods = listed(with_gpu, **by_model, each={"gpus": 4})
    flat = listed(with_gpu, **{**by_model, "workers": 8, "nodes": {"x": 4, "y": 4}})
    assert pods.iterations[0].volume == flat.iterations[0].volume
    assert pods.traffic[0].step.compute_ms == flat.traffic[0].step.compute_ms
    gpt3 = {**by_model, "model": "GPT3", "each": {"gpus": 2}}
    fault = fault_of(lambda: listed(with_gpu, **gpt3))
    assert fault.startswith("jobs[0].each.gpus: 2: ")
    assert fault.endswith("state the traffic")


def test_stated_times_are_exact_and_rounded_like_computed_ones() -> None:
    # A pause of 24.9 ms goes to 20 ms, the burst of 30.1 ms to four slots at three quarters of its
    # rate, the rest of 45.1 ms to 50 ms.
    phases = [{"start_ms": 24.9, "length_ms": 30.1, "rate_mbps": 10_000}]
    problem = listed(traffic={"period_ms": 100.1, "phases": phases})
    (read,) = problem.instance.jobs
    assert (read.period, bursts(read)) == (11, [(2, 4, 7525)])
    (exact,) = problem.iterations
    assert (exact.duration, exact.rest) == (Fraction("100.1"), Fraction("45.1"))
    assert problem.traffic[0].title == "stated"


def stating(*phases: tuple[int, int]) -> dict[str, Any]:
    each = [{"start_ms": start, "length_ms": length, "rate_mbps": 1} for start, length in phases]
    return {"traffic": {"period_ms": 100, "phases": each}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traffic": None}, "model: missing; name a workload, or state the traffic"),
        ({"traffic": None, "model": "VGG16"}, "batch: missing; say how many samples"),
        ({"each": {"gpus": 0}, "nodes": None}, "each.gpus: 0: a worker needs at least 1"),
        ({"nodes": None, "workers": 6, "each": {"gpus": 2}}, "workers: 6: no room; free: 10 GPUs,"),
        (
            {"nodes": ["x", "z", "z"], "each": {"gpus": 2}},
            "nodes: z has 2 GPUs, and its tasks need more",
        ),
        (
            {"nodes": ["x", "z", "z"], "each": {"gpus": 1, "cpu_millicores": 1}},
            "nodes: x has 0 millicores, and its tasks need more",
        ),
        (
            {"nodes": ["x", "z", "z"], "each": {"gpus": 1, "memory_mib": 1}},
            "nodes: x has 0 MiBs, and its tasks need more",
        ),
        ({"pods": ["a"]}, "pods: names 1 pod, but workers is 3"),
        ({"pods": ["a", "b", "a"]}, "pods[2]: 'a' is also jobs[0].pods[0]; a pod is one"),
        ({"traffic": {"period_ms": 0, "phases": []}}, "traffic.period_ms: must be betw"),
        (stating((0, 50), (40, 10)), "traffic.phases[1].start_ms: 40: is before the end of the bu"),
        (stating((60, 41)), "traffic.phases[0].length_ms: 41: the burst ends at 101 ms, after the"),
        (stating((0, 0)), "traffic.phases[0].length_ms: must be between 0.000001 and 1000000000,"),
    ],
)
def test_bad_jobs(change: dict[str, Any], message: str) -> None:
    assert fault_of(lambda: listed(**change)).startswith(f"jobs[0].{message}")
