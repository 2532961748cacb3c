"""Traffic of instances is verified by hand-worked values, and agrees with their building."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.errors import InputError
from metronome_opt.problem.instance import Job
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.free_resources import FreeResources
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.scenario.verification import check_traffic
from tests.fabrics import scene, tree
from tests.tiers import examples

A100 = {"name": "A100", "sustained_tflops": 23}


def scenario(cluster: dict[str, Any], *jobs: dict[str, Any], **fields: Any) -> Scenario:
    return scene(cluster, *jobs, **{"slot_ms": 5, **fields})


# ------------------------------------------------------------------ by hand

# Gradients of BERT are 10.88 Gbit, which 2 x 15/16 of 16 GPUs send in a ring, and 2 x 7/8 of 8.
EIGHTS = {"topology": "single-switch", "nodes": 8, "gpus": 8, "nic_gbps": 100, "gpu": A100}
WRONG = "stated 39 slots from 69 on at 97,641 Mbit/s, but 39 slots from 70 on at 97,642 Mbit/s"
REST = [{"start": 0, "length": 1, "rate": 1}]


def bert(name: str, nodes: str, **fields: Any) -> dict[str, Any]:
    places = [f"node-0{node}" for node in nodes.split()]
    job = {"name": name, "model": "BERT", "batch": 8, "workers": len(places), "nodes": places}
    return {**job, **fields}


def problem_of(asked: Scenario) -> PlacedInstance:
    problem = build_problem(asked)
    assert check_traffic(asked, problem) == ()
    return problem


def only_job(asked: Scenario) -> Job:
    (job,) = problem_of(asked).instance.jobs
    return job


def bursts(job: Job) -> list[tuple[int, int, int]]:
    return [(phase.start, phase.length, phase.rate) for phase in job.phases]


TWO = " ".join(8 * "0" + 8 * "1")
ONE = " ".join(8 * "0")
APART = "0 1 2 3 4 5 6 7"


@pytest.mark.parametrize(
    ("nodes", "phases", "period", "best_ms"),
    [
        # 351.36 ms of computing, then 2 x 15/16 x 10.88 = 20.4 Gbit at 100 Gbit/s in 41 slots.
        (TWO, [(70, 41, 99_513)], 111, None),
        # 2 x 7/8 x 10.88 Gbit at 1852.8 Gbit/s: 10.3 ms in 2 slots, the whole 361.6 ms in 72.
        (ONE, [(70, 2, 1_904_000)], 72, None),
        # The same at 100 Gbit/s: 190.4 ms in 39 slots; on one node the iteration has 72 of them.
        (APART, [(70, 39, 97_642)], 109, 360),
    ],
)
def test_iterations_of_bert(nodes: str, phases: Any, period: int, best_ms: int | None) -> None:
    job = only_job(scenario(EIGHTS, bert("a", nodes)))
    assert bursts(job) == phases
    assert (job.period, job.best_ms) == (period, best_ms)


def test_period_is_a_divisor_of_the_hyperperiod() -> None:
    asked = scenario(EIGHTS, bert("a", TWO), hyperperiod_ms=5 * 240)  # 120 after 111 slots
    assert only_job(asked).period == 120


def pair(*transfers: dict[str, Any], compute: int, slot_ms: int, **fields: Any) -> Scenario:
    """Return two workers on two nodes that send 1 Mbit/ms; an all-reduce sends its buffer once."""
    cluster = {"topology": "single-switch", "nodes": 2, "gpus": 1, "nic_gbps": 1}
    each = [{"kind": "all-reduce", **transfer} for transfer in transfers]
    step = {"compute_ms": str(compute), "transfers": each, **fields}
    job = {"name": "a", "traffic": step, "workers": 2, "nodes": ["node-00", "node-01"]}
    return scenario(cluster, job, slot_ms=slot_ms)


@pytest.mark.parametrize(
    ("is_fine", "phases", "period"),
    [
        # Bursts in [10, 14) and [16, 21); 19 ms are left of 40.
        (False, [(2, 1, 800), (3, 1, 1000)], 8),
        # The pause of 2 ms is none: 9 Mbit in 11 ms, which are 3 slots.
        (True, [(2, 3, 600)], 9),
    ],
)
def test_fine_bursts_without_a_pause_are_one(is_fine: bool, phases: Any, period: int) -> None:
    asked = pair(
        {"mbit": "4", "ready_ms": "10", "needed_ms": "40"},
        {"mbit": "5", "ready_ms": "16", "needed_ms": "40"},
        compute=40,
        slot_ms=5,
        is_fine=is_fine,
    )
    job = only_job(asked)
    assert bursts(job) == phases
    assert job.period == period


def test_late_bursts_end_when_they_are_needed_or_delay_the_computing() -> None:
    # The first has 10 ms for 4 Mbit, the second 20 ms for 25: computing waits for 5 ms.
    asked = pair(
        {"mbit": "4", "ready_ms": "0", "needed_ms": "10", "is_late": True},
        {"mbit": "25", "ready_ms": "10", "needed_ms": "30", "is_late": True},
        compute=30,
        slot_ms=1,
    )
    job = only_job(asked)
    assert (bursts(job), job.period) == ([(6, 4, 1000), (10, 25, 1000)], 35)


def all_to_all(cluster: dict[str, Any], nodes: list[str], size: int) -> Job:
    """Return a job that computes for 50 ms, then exchanges a buffer of a size in bytes."""
    burst: dict[str, Any] = {"start_ms": 50, "length_ms": 1, "rate_gbps": 1}
    burst |= {"collective": "all-to-all", "bytes": size}
    traffic = {"period_ms": 51, "phases": [burst]}
    job = {"name": "a", "workers": len(nodes), "nodes": nodes, "traffic": traffic}
    return only_job(scenario(cluster, job))


def test_flows_of_an_all_to_all_have_equal_parts() -> None:
    """Of eight tasks on four nodes in two racks six are beyond a node, four beyond a rack.

    A flow is that of two pairs, 2 x 800 / 8 Mbit; 12 Gbit/s are for 2 x 3 of them, 16 for 4 x 2.
    """
    cluster = {"topology": "leaf-spine", "nodes": 4, "gpus": 2, "nic_gbps": 12, "racks": 2}
    nodes = [f"node-0{node}" for node in range(4) for _ in "12"]
    found = all_to_all({**cluster, "oversubscription": 1.5}, nodes, 10**8)
    uplinks = dict.fromkeys(["rack-0-uplink", "rack-1-uplink"], 8)
    assert dict(found.links) == dict.fromkeys(nodes, 6) | uplinks
    assert bursts(found) == [(10, 20, 2000)]


def test_no_task_has_more_than_64_flows_on_a_link_in_an_all_to_all() -> None:
    """Beyond the nodes are 69 tasks of 140, and 71: pairs of them, rounded up, are 35 and 36."""
    cluster = {"topology": "single-switch", "nodes": 2, "gpus": 71, "nic_mbps": 2_485_000}
    found = all_to_all(cluster, 71 * ["node-00"] + 69 * ["node-01"], 175 * 10**6)
    assert dict(found.links) == {"node-00": 71 * 35, "node-01": 69 * 36}
    # Of 1.4 Gbit a flow has 2 / 140, 20 Mbit; what stays in a node takes 4.4 ms.
    assert bursts(found) == [(10, 4, 1000)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phases": [{"start": 69, "length": 39, "rate": 97_641}]}, f"phases[0]: {WRONG}"),
        (
            {"phases": [{"start": 70, "length": 39, "rate": 97_642}, *REST]},
            "phases[1]: stated 1 slot from 0 on at 1 Mbit/s, but nothing",
        ),
        ({"period": 110}, "period: stated 110 slots, but 109 slots"),
        ({"best_ms": "721/2"}, "best_ms: stated 721/2 ms, but 360 ms"),
        ({"best_ms": None}, "best_ms: stated 545 ms, but 360 ms"),
        (
            {"links": {f"node-0{node}": 1 for node in range(7)}},
            "node-07: stated 0 flows, but 1 flow",
        ),
    ],
)
def test_what_is_false_of_a_job_is_named(changes: dict[str, Any], said: str) -> None:
    asked = scenario(EIGHTS, bert("a", APART))
    problem = problem_of(asked)
    (job,) = problem.instance.jobs
    wrong = Job.model_validate({**job.model_dump(), **changes})
    false = replace(problem, instance=problem.instance.replace(jobs=(wrong,)))
    assert [str(fault) for fault in check_traffic(asked, false)] == [f"places.a: {said}"]


@pytest.mark.parametrize(
    ("allreduce", "best_ms"),
    # Of eight tasks four on a node; on r0 all are beside its first interface, on r1 beside both.
    [("ring", 1305), ("tasks", 4160)],
)
def test_racks_of_nodes_with_other_gpus_are_not_alike(allreduce: str, best_ms: int) -> None:
    nodes = [
        {
            "name": f"n{index}",
            "has": {"gpus": gpus, "cpu_millicores": 4},
            "interfaces": [f"n{index}-x", f"n{index}-y"],
            "rack": f"r{index // 2}",
        }
        for index, gpus in enumerate((8, 8, 4, 4))
    ]
    links = {f"n{node}-{rail}": 10_000 for node in range(4) for rail in "xy"}
    links |= {"up0": 1000, "up1": 1000}
    cluster = {
        "topology": "listed",
        "nodes": nodes,
        "racks": [{"name": "r0", "uplink": "up0"}, {"name": "r1", "uplink": "up1"}],
        "links": [{"name": name, "capacity": capacity} for name, capacity in links.items()],
        "gpu": A100,
    }
    places = ["n0"] * 4 + ["n1"] * 4
    each = {"gpus": 1, "cpu_millicores": 1}
    job = {**bert("a", APART), "each": each, "allreduce": allreduce, "nodes": places}
    assert only_job(scenario(cluster, job)).best_ms == best_ms


def test_racks_whose_nodes_are_in_another_order_are_not_alike() -> None:
    """In both pods the first node of the file has a narrow uplink; in p1 its rack is the second.

    The first rack of a pod gets two of three tasks, so that in p1 one flow crosses an uplink.
    """
    above = {"p0": None, "p1": None, "x0": "p0", "y0": "p0", "x1": "p1", "y1": "p1"}
    homes = dict(zip(("n0", "n1", "n2", "n3"), ("x0", "y0", "y1", "x1"), strict=True))
    speeds: dict[str, Any] = {"nic": 100_000, "uplink": 1000, "gpu": A100}
    cluster = tree(homes, above, ("p0", "p1", "x0", "y1"), **speeds)
    job = {**bert("a", "0 0 1"), "nodes": ["n0", "n0", "n1"], "allreduce": "tasks"}
    found = only_job(scenario(cluster, job))
    # 2 x 2/3 x 10.88 Gbit at 1 Gbit/s after 351.36 ms, or at half of that.
    assert found.best_ms == 14_860
    assert 5 * found.period == 29_365


# ------------------------------------------------------------------ drawn

PATTERN: dict[str, Any] = {
    "period_ms": 90.5,
    "phases": [
        {"start_ms": 10, "length_ms": 20, "rate_mbps": 9001},
        {"start_ms": 30, "length_ms": 12.5, "rate_gbps": 20},
    ],
}


@st.composite
def uniform(draw: st.DrawFn) -> dict[str, Any]:
    racks = draw(st.integers(1, 4))
    cluster: dict[str, Any] = {
        "topology": "leaf-spine",
        "racks": racks,
        "nodes": racks * draw(st.integers(1, 4)),
        "gpus": draw(st.integers(1, 8)),
        "nic_gbps": draw(st.sampled_from([1, 25, 100])),
        "oversubscription": draw(st.sampled_from([1, 2, 7.5])),
    }
    if draw(st.booleans()):
        cluster |= {"topology": "single-switch"}
        del cluster["racks"], cluster["oversubscription"]
    return cluster


@st.composite
def listed(draw: st.DrawFn) -> dict[str, Any]:
    """Draw racks in racks, with uplinks or without, and nodes of different sizes and interfaces."""
    racks: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 5))):
        within = draw(st.sampled_from([None, *(rack["name"] for rack in racks)]))
        racks.append({"name": f"r{index}", "within": within})
        if draw(st.booleans()):
            racks[-1]["uplink"] = f"up{index}"
            capacity = draw(st.sampled_from([9, 10_000, 50_000, 400_000]))
            links.append({"name": f"up{index}", "capacity": capacity})
    homes = [rack["name"] for rack in racks]  # each of which holds a node
    homes += draw(st.lists(st.sampled_from([None, *homes]), min_size=1, max_size=4))
    nodes: list[dict[str, Any]] = []
    for index, rack in enumerate(draw(st.permutations(homes))):
        rails = [f"n{index}-{rail}" for rail in range(draw(st.sampled_from([1, 1, 2, 3, 4])))]
        has = {"gpus": draw(st.integers(1, 8)), "cpu_millicores": draw(st.sampled_from([4, 9]))}
        nodes.append({"name": f"n{index}", "has": has, "interfaces": rails, "rack": rack})
        capacities = st.sampled_from([1, 10_000, 25_000, 25_001])
        links += [{"name": rail, "capacity": draw(capacities)} for rail in rails]
    return {
        "topology": "listed",
        "racks": racks,
        "nodes": nodes,
        "links": draw(st.permutations(links)),
    }


COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point")


@st.composite
def transfers(draw: st.DrawFn, gpus: int) -> dict[str, Any]:
    ready = draw(st.integers(0, 40))
    return {
        "kind": draw(st.sampled_from(COLLECTIVES)),
        "mbit": draw(st.sampled_from(["1/3", "40", "90", "7001/2"])),
        "ready_ms": str(ready),
        "needed_ms": str(draw(st.integers(ready, 50))),
        "group": draw(st.one_of(st.none(), st.integers(2, gpus))),
        "max_mbps": draw(st.sampled_from([None, None, 3000, 70_000])),
        "is_late": draw(st.booleans()),
        "is_idle": draw(st.integers(0, 4)) == 0,
    }


@st.composite
def stated(draw: st.DrawFn, gpus: int) -> dict[str, Any]:
    """Draw traffic that a job states: by rates, by collectives, or as a step."""
    kind = draw(
        st.sampled_from(["rates", "collectives", "step", "step"] if gpus > 1 else ["rates"])
    )
    if kind == "rates":
        return {"traffic": PATTERN}
    if kind == "step":
        each = draw(st.lists(transfers(gpus), min_size=1, max_size=6))
        each.sort(key=lambda transfer: int(transfer["ready_ms"]))
        each[0]["is_idle"] = False
        return {"traffic": {"compute_ms": "50", "transfers": each, "is_fine": draw(st.booleans())}}
    phases = [dict(phase) for phase in PATTERN["phases"]]
    for phase in phases[draw(st.integers(0, 1)) :]:
        phase |= {"collective": draw(st.sampled_from(COLLECTIVES)), "bytes": 25 * 10**6 + 1}
        if draw(st.booleans()):
            phase["group"] = draw(st.integers(2, gpus))
    return {"traffic": {**PATTERN, "phases": phases}}


@st.composite
def described(draw: st.DrawFn, name: str) -> dict[str, Any]:
    gpus, workers = draw(st.sampled_from([1, 1, 1, 2, 4])), draw(st.integers(1, 12))
    job: dict[str, Any] = {"name": name, "workers": workers}
    job["each"] = {"gpus": gpus, "cpu_millicores": draw(st.integers(0, 3))}
    model = draw(st.sampled_from([None, None, None, "BERT", "GPT2", "DLRM", "GPT3"]))
    if model is None:
        job |= draw(stated(workers * gpus))
    else:
        job |= {"model": model, "batch": draw(st.integers(1, 8)), "workers": max(2, workers)}
        if draw(st.integers(0, 3)) == 0:
            del job["batch"]
            job["traffic"] = "measured"
        if model == "GPT3":
            job |= {"workers": draw(st.sampled_from([4, 8, 12])), "each": {"gpus": 1}}
    if draw(st.booleans()):
        job["rate_mbps"] = draw(st.sampled_from([700, 8000, 40_000]))
    job["allreduce"] = draw(st.sampled_from([None, None, "ring", "tree", "tasks"]))
    return job


@st.composite
def scenarios(draw: st.DrawFn, clusters: st.SearchStrategy[dict[str, Any]]) -> Scenario:
    cluster = draw(clusters)
    gpu = {"name": draw(st.sampled_from(["A100", "any"])), "sustained_tflops": 150}
    grid = {"slot_ms": draw(st.sampled_from([1, 5, 7]))}
    if draw(st.booleans()):
        grid["hyperperiod_ms"] = grid["slot_ms"] * draw(st.sampled_from([5040, 25_200, 101]))
    jobs = [draw(described(name)) for name in "abc"[: draw(st.integers(1, 3))]]
    background = {}
    if cluster["topology"] == "listed" and draw(st.booleans()):
        wide = [link["name"] for link in cluster["links"] if link["capacity"] > 1]
        background = dict.fromkeys(wide[:1], draw(st.sampled_from(["12.5%", "2 Mbit/s"])))
    try:
        return scenario({**cluster, "gpu": gpu, "background": background}, *jobs, **grid)
    except InputError as error:
        raise AssertionError(str(error)) from error


def places_of(data: st.DataObject, asked: Scenario) -> Mapping[str, tuple[str, ...]]:
    """Draw placements that nodes hold, packed or in any order; jobs without room have none."""
    room, places = FreeResources(asked.cluster), {}
    for job in asked.jobs:
        free = [name for name, count in room.tasks_by_node(job.each).items() for _ in range(count)]
        order = data.draw(st.permutations(free)) if data.draw(st.booleans()) else free
        if len(order) >= job.workers:
            places[job.name] = tuple(order[: job.workers])
            room.take(places[job.name], job.each)
    return places


def built(asked: Scenario, places: Mapping[str, tuple[str, ...]]) -> PlacedInstance | None:
    """Return the instance of the placed jobs that can be built, None without any."""
    while places:
        try:
            return build_problem(asked, places)
        except InputError as error:  # too long for the hyperperiod, too narrow, too many parts
            names = [job.name for job in asked.jobs if job.name in places]
            index = int(str(error).partition("[")[2].partition("]")[0])
            places = {name: nodes for name, nodes in places.items() if name != names[index]}
    return None


@given(st.data())
@examples(200, deadline=None)
def test_both_ways_to_compute_traffic_agree(data: st.DataObject) -> None:
    asked = data.draw(scenarios(st.one_of(uniform(), listed())))
    problem = built(asked, places_of(data, asked))
    assume(problem is not None)
    assert problem is not None
    assert [str(fault) for fault in check_traffic(asked, problem)] == []
