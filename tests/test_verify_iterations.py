"""Traffic of instances: what the judge computes by itself, by hand, and beside what builds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metronome_opt.allocation.demand import Demand
from metronome_opt.allocation.places import Room
from metronome_opt.engine.runner import Pattern
from metronome_opt.errors import InputError
from metronome_opt.instance import Job
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import Problem, build_problem
from metronome_opt.scenario.job_traffic import read_traffic
from metronome_opt.scenario.judge import check_traffic
from tests.tiers import examples

HEAD = {"format": "metronome-scenario/1", "name": "drawn"}
A100 = {"name": "A100", "sustained_tflops": 23}


def scenario(cluster: dict[str, Any], *jobs: dict[str, Any], **fields: Any) -> Scenario:
    return Scenario.from_dict({**HEAD, "slot_ms": 5, "cluster": cluster, "jobs": jobs, **fields})


# ------------------------------------------------------------------ by hand

# Gradients of BERT are 10.88 Gbit, which 2 x 15/16 of 16 GPUs send in a ring, and 2 x 7/8 of 8.
EIGHTS = {
    "topology": "single-switch",
    "nodes": 8,
    "gpus": 8,
    "nic_gbps": 100,
    "gpu": A100,
}


def bert(name: str, nodes: str, **fields: Any) -> dict[str, Any]:
    places = [f"node-0{node}" for node in nodes.split()]
    job = {"name": name, "model": "BERT", "batch": 8, "workers": len(places), "nodes": places}
    return {**job, **fields}


def problem_of(asked: Scenario) -> Problem:
    problem = build_problem(asked)
    assert check_traffic(asked, problem) == ()
    return problem


def only_job(asked: Scenario) -> Job:
    (job,) = problem_of(asked).instance.jobs
    return job


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
    assert [(phase.start, phase.length, phase.rate) for phase in job.phases] == phases
    assert (job.period, job.best_ms) == (period, best_ms)


# ------------------------------------------------------------------ drawn

PATTERN = {
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
        "mbit": draw(st.sampled_from(["1/3", "40", "900", "7001/2"])),
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
    kind = draw(st.sampled_from(["rates", "collectives", "step"] if gpus > 1 else ["rates"]))
    if kind == "rates":
        return {"traffic": PATTERN}
    if kind == "step":
        each = draw(st.lists(transfers(gpus), min_size=1, max_size=6))
        each.sort(key=lambda transfer: int(transfer["ready_ms"]))
        each[0]["is_idle"] = False
        return {"traffic": {"compute_ms": "50", "transfers": each, "is_fine": draw(st.booleans())}}
    phases = [dict(phase) for phase in PATTERN["phases"]]  # type: ignore[attr-defined]
    for phase in phases[draw(st.integers(0, 1)) :]:
        phase |= {"collective": draw(st.sampled_from(COLLECTIVES)), "bytes": 25 * 10**6 + 1}
        if draw(st.booleans()):
            phase["group"] = draw(st.integers(2, gpus))
    return {"traffic": {**PATTERN, "phases": phases}}


@st.composite
def described(draw: st.DrawFn, name: str) -> dict[str, Any]:
    each = {
        "gpus": draw(st.sampled_from([1, 1, 1, 2, 4])),
        "cpu_millicores": draw(st.integers(0, 3)),
    }
    job = {"name": name, "workers": draw(st.integers(1, 12)), "each": each}
    model = draw(st.sampled_from([None, None, "BERT", "GPT2", "DLRM", "GPT3"]))
    if model is None:
        job |= draw(stated(job["workers"] * each["gpus"]))
    else:
        job |= {"model": model, "batch": draw(st.integers(1, 8)), "workers": max(2, job["workers"])}
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


def places_of(draw: st.DrawFn, asked: Scenario) -> Mapping[str, tuple[str, ...]]:
    """Draw places that nodes hold; jobs that cannot be, or that have no room left, have none."""
    room, places = Room(asked.cluster), {}
    for job in asked.jobs:
        try:
            (traffic,) = read_traffic(asked.model_copy(update={"jobs": (job,)}))
        except InputError:
            continue
        nodes: tuple[str, ...] = ()
        if draw(st.booleans()):
            demand = Demand(
                job.name,
                job.workers,
                job.each,
                traffic=lambda _: Pattern((), (), ()),
                best_ms=1.0,
                algorithm=traffic.algorithm,
            )
            nearest = room.nearest(demand)
            nodes = () if nearest is None else nearest.nodes
        else:
            free = [name for name, count in room.tasks_of(job.each).items() for _ in range(count)]
            nodes = tuple(draw(st.permutations(free))[: job.workers])
        if len(nodes) == job.workers:
            room.take(nodes, job.each)
            places[job.name] = nodes
    return places


def built(asked: Scenario, places: Mapping[str, tuple[str, ...]]) -> Problem | None:
    """Return the instance of the jobs that can be built at their places, None without any."""
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
    problem = built(asked, places_of(data.draw, asked))
    assume(problem is not None)
    assert problem is not None
    assert [str(fault) for fault in check_traffic(asked, problem)] == []
    for job in problem.instance.jobs:
        assert problem.instance.best_ms(job) <= sum_of(problem, job)


def sum_of(problem, job):
    return job.period * problem.instance.slot_ms + 10**9
