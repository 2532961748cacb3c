"""Every false placement of a schedule is found and named, and no true one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.scenario_search import allocate
from metronome_opt.problem.instance import Link
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.verification import check_traffic, verify_placed
from metronome_opt.solvers.budget import Budget
from metronome_opt.verify import check_places
from tests import builders
from tests.fabrics import scene, tree
from tests.tiers import examples

TRAFFIC = {"period_ms": 40, "phases": [{"start_ms": 0, "length_ms": 10, "rate_mbps": 2000}]}


def described(name: str, workers: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "traffic": TRAFFIC, "workers": workers, **fields}


def scenario(*jobs: dict[str, Any]) -> Scenario:
    """Return jobs in two racks of two nodes with two GPUs and 32,000 millicores each."""
    tree = {"topology": "leaf-spine", "nodes": 4, "gpus": 2, "nic_gbps": 10, "racks": 2}
    return scene(tree, *jobs, name="four")


# Two tasks of c need all CPU of a node; beside a, b and c there is room for two tasks of d.
JOBS = (
    described("a", 2),
    described("b", 2, nodes=["node-00", "node-02"]),
    described("c", 2, each={"gpus": 1, "cpu_millicores": 16_000}),
    described("d", 4),
)
PLACES = {
    "a": ["node-00", "node-01"],
    "b": ["node-00", "node-02"],
    "c": ["node-03", "node-03"],
}


def schedule(places: Any, waiting: Any = (), **fields: Any) -> Schedule:
    names = dict.fromkeys(places or {}, 0)
    given = {"instance": "four", "offsets": names, "places": places, "waiting": waiting}
    return builders.schedule(**{**given, **fields})


def faults(waiting: Any = ("d",), **changes: list[str] | None) -> list[str]:
    """Return what is false of the true placements with `changes`; a job with None has none."""
    places = {name: its for name, its in {**PLACES, **changes}.items() if its is not None}
    document = scenario(*JOBS).model_dump(mode="json")
    return [str(fault) for fault in check_places(document, schedule(places, waiting))]


def test_true_places_have_no_violation() -> None:
    assert faults() == []
    assert verify_placed(scenario(*JOBS), schedule(PLACES, ["d"]))[1] == ()
    spread = schedule(None, offsets=dict.fromkeys("abc", 0))
    assert verify_placed(scenario(*JOBS[:3]), spread)[1] == ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"a": ["node-02", "node-02"]},
            "places: stated tasks on node-02 that need 3 GPUs, but it has 2",
        ),
        ({"a": ["node-00", "node-09"]}, "places.a[1]: stated 'node-09', but no such node"),
        ({"a": ["node-00"]}, "places.a: stated 1 node, but it has 2 tasks"),
        ({"a": ["node-01"] * 3}, "places.a: stated 3 nodes, but it has 2 tasks"),
        ({"a": None}, "places.a: stated no placement, but it must be placed or waiting"),
        ({"waiting": ("d", "a")}, "waiting: stated 'a', but it is also placed"),
        ({"waiting": ("d", "d")}, "waiting: stated 'd', but it is named 2 times"),
        ({"waiting": ("d", "e")}, "waiting: stated 'e', but no such job"),
        ({"e": ["node-01", "node-01"]}, "places.'e': stated 2 nodes, but no such job"),
        (
            {"b": ["node-02", "node-00"]},
            "places.b[0]: stated 'node-02', but the scenario states 'node-00'",
        ),
        (
            {"b": None, "waiting": ("d", "b")},
            "waiting: stated 'b', but the scenario states its nodes",
        ),
    ],
)
def test_false_places_are_named(changes: dict[str, Any], said: str) -> None:
    assert faults(**changes)[0] == said


def test_cpu_and_memory_of_nodes_are_checked() -> None:
    large = {"gpus": 1, "cpu_millicores": 16_001, "memory_mib": 131_073}
    document = scenario(described("a", 2, each=large)).model_dump(mode="json")
    found = check_places(document, schedule({"a": ["node-01", "node-01"]}))
    assert [str(fault) for fault in found] == [
        "places: stated tasks on node-01 that need 32,002 millicores, but it has 32,000",
        "places: stated tasks on node-01 that need 262,146 MiB of memory, but it has 262,144",
    ]


@pytest.mark.parametrize(
    ("places", "most", "said"),
    [
        ("a1 a2 a1", 0, ""),
        ("a1 b1", 5, ""),
        ("a1 b1", 4, "a1 and b1, at a network cost of 5, but it tolerates 4"),
        ("b1 a1", 4, "a1 and b1, at a network cost of 5, but it tolerates 4"),
        ("b1 c1", 19, "b1 and c1, at a network cost of 20, but it tolerates 19"),
        ("a1 c1", 20, ""),
        ("c1 d1", 0, ""),  # from d to c nothing is known
    ],
)
def test_network_costs_that_jobs_do_not_tolerate_are_named(
    places: str, most: int, said: str
) -> None:
    """From a to b 5, back 1; from b to c, in another region, 20, and so from a."""
    homes = {"a1": "west", "a2": "west", "b1": "west", "c1": "east", "d1": "east"}
    names = places.split()
    document = scenario(described("x", len(names), max_network_cost=most)).model_dump(mode="json")
    (node, *_) = document["cluster"]["nodes"]
    document["cluster"] |= {
        "nodes": [{**node, "name": n, "rack": n[0], "region": homes[n]} for n in homes],
        "zone_costs": [
            {"origin": a, "destination": b, "cost": cost}
            for a, b, cost in (("a", "b", 5), ("b", "a", 1), ("b", "c", 20))
        ],
    }
    found = [str(fault) for fault in check_places(document, schedule({"x": names}))]
    assert found == ([f"places.x: stated {said}"] if said else [])


def test_places_need_a_scenario_and_waiting_jobs_need_places() -> None:
    (fault,) = check_places(scenario(*JOBS).model_dump(mode="json"), schedule(None, ["d"]))
    assert str(fault) == "waiting: stated 'd', but jobs wait only if `places` states the others"
    instance = build_problem(scenario(*JOBS), PLACES).instance
    stated = schedule(PLACES, ["d"], paths={"a": ((0,), (0,))})
    assert [str(fault) for fault in verify_placed(instance, stated)[1]] == [
        f"{field}: stated nodes, but an instance has none; name its scenario"
        for field in ("places", "paths")
    ]


@pytest.mark.parametrize(
    ("limits", "places", "said"),
    [
        ({"most_racks": 1}, "a b", ""),
        ({"most_racks": 1}, "a c", "2 racks, but it may span 1"),
        ({"within": 1}, "a c", "its nodes, but they are below no common switch up to tier 1"),
        ({"within": 2}, "a c", ""),
        ({"within": 0}, "a b", "its nodes, but they are below no common switch up to tier 0"),
        ({"allowed_nodes": ["r0", "d"]}, "a d", ""),
        ({"allowed_nodes": ["r0", "d"]}, "a c", "c, but it is none of its allowed_nodes"),
        ({}, "a d", "its nodes, but they are below no common switch"),
    ],
)
def test_places_beyond_the_limits_of_a_job_are_named(
    limits: dict[str, Any], places: str, said: str
) -> None:
    """Racks r0 of a and b, and r1 of c, are in s; nothing connects s with r2 of d."""
    homes, above = dict(zip("abcd", ("r0", "r0", "r1", "r2"), strict=True)), {"r0": "s", "r1": "s"}
    cluster = tree(homes, {**above, "r2": None, "s": None}, has_core=False)
    if "allowed_nodes" in limits:
        del cluster["has_core"]
    document = scene(cluster, described("x", 2, **limits)).model_dump(mode="json")
    found = [str(fault) for fault in check_places(document, schedule({"x": places.split()}))]
    assert found == ([f"places.x: stated {said}"] if said else [])


# ------------------------------------------------------------------ flows


def test_links_are_those_of_the_cluster() -> None:
    asked = scenario(*JOBS[:1])
    problem = build_problem(asked, {"a": PLACES["a"]})
    links = (*problem.instance.links[1:], Link(name="node-00", capacity=9))
    wrong = replace(problem, instance=problem.instance.replace(links=links))
    found = check_traffic(asked, wrong)
    assert [str(fault) for fault in found] == ["links.node-00: stated 9 Mbit/s, but 10,000 Mbit/s"]


@given(st.data())
@examples(40, deadline=None)
def test_allocation_states_true_places(data: st.DataObject) -> None:
    cpu = st.sampled_from([0, 9_000, 16_000])
    jobs = [
        described(
            name,
            data.draw(st.integers(2, 4)),
            each={"gpus": 1, "cpu_millicores": data.draw(cpu)},
            allreduce=data.draw(st.sampled_from(["tasks", "ring"])),
        )
        for name in "abc"
    ]
    jobs[1] = described("b", 2, nodes=data.draw(st.sampled_from([["node-03"] * 2, None])))
    asked = scenario(*jobs)
    problem, _ = allocate(asked, Budget(0.1))
    names = dict.fromkeys(problem.instance.unshifted, 0)
    assert verify_placed(asked, schedule(problem.places, problem.waiting, offsets=names))[1] == ()
