"""Racks with links to several spines: which of them flows cross, and that the judge agrees."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.api import solve
from metronome_opt.errors import InputError
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.build import build_problem
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.verification import check_traffic, verify_placed
from tests.fabrics import fabric, ring, scene
from tests.tiers import examples


def listed(**changes: Any) -> dict[str, Any]:
    """Return two racks of two nodes with an uplink to each of two spines."""
    nodes = [(f"n{number}", f"r{number // 2}") for number in range(4)]
    document = {
        "topology": "listed",
        "nodes": [
            {"name": node, "has": {"gpus": 1}, "interface": node, "rack": rack}
            for node, rack in nodes
        ],
        "racks": [{"name": rack, "uplinks": [f"{rack}-a", f"{rack}-b"]} for rack in ("r0", "r1")],
        "links": [
            *({"name": node, "capacity": 100} for node, _ in nodes),
            *({"name": f"{rack}-{to}", "capacity": 100} for rack in ("r0", "r1") for to in "ab"),
        ],
    }
    return {**document, **changes}


def test_a_flow_leaves_by_a_spine_and_enters_from_it() -> None:
    """The ring goes from rack 0 to rack 1 by the second spine, and back by the first one."""
    made = scene(fabric(), ring("a", (0, 2), paths=[[1], [0]]))
    links = build_scenario(made).instance.jobs[0].links
    between = {link for link in links if link.startswith("rack")}
    there, back = {"rack-0-uplink-1", "rack-1-downlink-1"}, {"rack-1-uplink-0", "rack-0-downlink-0"}
    assert between == there | back
    assert set(links.values()) == {1}


def test_each_interface_has_a_spine() -> None:
    """Of two interfaces, the flow of each takes its own spine; both are halves of what is sent."""
    nodes = [
        {**node, "interfaces": [f"{node['name']}-0", f"{node['name']}-1"]}
        for node in listed()["nodes"]
    ]
    for node in nodes:
        del node["interface"]
    rails = [{"name": rail, "capacity": 100} for node in nodes for rail in node["interfaces"]]
    cluster = listed(nodes=nodes, links=rails + listed()["links"][4:], routing="chosen")
    job = {**ring("a", (0, 2), paths=[[0, 1], [1, 1]]), "nodes": ["n0", "n2"]}
    made = scene(cluster, job)
    problem = build_scenario(made)
    assert dict(problem.instance.jobs[0].links) == {
        **dict.fromkeys(("n0-0", "n0-1", "n2-0", "n2-1"), 1),
        "r0-a": 1,
        "r0-b": 1,
        "r1-a-down": 1,
        "r1-b-down": 1,
        "r1-b": 2,
        "r0-b-down": 2,
    }
    assert check_traffic(made, problem) == ()


def test_sprayed_flows_are_divided_equally() -> None:
    """Three parts of a third each: interfaces carry three of them, links to spines one."""
    problem = build_scenario(scene(fabric(spines=3, each=3, routing="spray"), ring("a", (0, 3))))
    (job,) = problem.instance.jobs
    assert problem.paths == {}
    assert {flows for link, flows in job.links.items() if link.startswith("rack")} == {1}
    assert [job.links[node] for node in ("node-00", "node-03")] == [3, 3]
    assert job.peak == 400


def test_a_hash_is_that_of_the_flow_alike_in_both_directions() -> None:
    """SHA-256 of seed, job, both tasks and interface, as docs/model.md states it."""
    made = scene(fabric(spines=5, each=5, routing="ecmp", hash_seed=7), ring("a", (0, 5)))
    digest = sha256(b"7/a/0/1/0").digest()
    spine = int.from_bytes(digest[:8], "big") % 5
    assert build_scenario(made).paths == {"a": ((spine,), (spine,))}


def test_two_jobs_over_two_spines_collide_with_probability_one_half() -> None:
    collisions = 0
    for seed in range(1000):
        made = scene(fabric(routing="ecmp", hash_seed=seed), ring("a", (0, 2)), ring("b", (1, 3)))
        paths = build_scenario(made).paths
        collisions += paths["a"] == paths["b"]
    assert 450 < collisions < 550  # 500 with a standard deviation of 16


def test_one_spine_is_a_cluster_without_any() -> None:
    documents = [
        scene({**fabric(routing="ecmp"), "spines": spines}, ring("a", (0, 2))).model_dump(
            mode="json"
        )
        for spines in (None, 1)
    ]
    assert documents[0] == documents[1]
    assert not {"routing", "hash_seed"} & documents[0]["cluster"].keys()


def test_links_from_spines_are_as_wide_as_those_to_them_unless_listed() -> None:
    made = Cluster.model_validate(listed())
    assert [rack.downlinks for rack in made.racks] == [
        ("r0-a-down", "r0-b-down"),
        ("r1-a-down", "r1-b-down"),
    ]
    assert made.capacities["r1-b-down"] == 100
    assert Cluster.model_validate(made.model_dump(mode="json")) == made
    links = [*listed()["links"], {"name": "r0-b-down", "capacity": 40}]
    assert Cluster.model_validate(listed(links=links)).capacities["r0-b-down"] == 40


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"spines": 0}, "cluster.spines: must be at least 1, got 0"),
        ({"topology": "single-switch", "racks": None, "oversubscription": None}, "cluster.spines:"),
        ({"routing": "best"}, "cluster.routing: must be 'ecmp', 'spray' or 'chosen', got 'best'"),
    ],
)
def test_bad_fabrics(changes: dict[str, Any], said: str) -> None:
    cluster = {key: value for key, value in {**fabric(), **changes}.items() if value is not None}
    with pytest.raises(InputError) as caught:
        scene(cluster, ring("a", (0, 2)))
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("racks", "said"),
    [
        (
            [{"name": "r0", "uplinks": ["r0-a", "r0-b"]}, {"name": "r1", "uplinks": ["r1-a"]}],
            "racks[1].uplinks: 1 of them, and other racks have 2; give each rack one to each spine",
        ),
        (
            [{"name": "r0", "uplinks": ["r0-a", "r0-b"]}, {"name": "r1", "uplink": "r1-a"}],
            "racks[1].uplinks: 1 of them",
        ),
        (
            [{"name": "r0", "uplinks": ["r0-a"], "uplink": "r0-b"}],
            "racks[0].uplinks: give either uplink or uplinks",
        ),
        (
            [{"name": "r0", "uplinks": ["r0-a", "r0-b"], "downlinks": ["r1-a"]}],
            "racks[0].downlinks: 1 of them for 2 uplinks",
        ),
        (
            [{"name": r, "uplinks": [f"{r}-a", f"{r}-b"], "within": "r1"} for r in ("r0", "r1")],
            "racks[0].within: 'r1': several uplinks are for two tiers",
        ),
        ([{"name": "r0", "uplinks": ["r0-a", "x"]}], "racks[0].uplinks[1]: there is no link 'x'"),
    ],
)
def test_bad_uplinks(racks: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(InputError) as caught:
        scene(listed(racks=racks), {**ring("a", (0, 1)), "nodes": ["n0", "n2"]})
    assert str(caught.value).startswith(f"cluster.{said}")


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ([[2], [0]], "jobs[0].paths[0]: there is no spine 2 of 0 to 1"),
        ([[0], []], "jobs[0].paths[1]: 0 spines, and it sends 1 flow over spines; name one "),
        ([[0]], "jobs[0].paths: names 1 task, but workers is 2"),
    ],
)
def test_bad_paths(paths: list[list[int]], said: str) -> None:
    with pytest.raises(InputError) as caught:
        build_scenario(scene(fabric(), ring("a", (0, 2), paths=paths)))
    assert str(caught.value).startswith(said)


def test_paths_are_stated_where_they_can_be_chosen() -> None:
    with pytest.raises(InputError, match=r"jobs\[0\].paths: are for clusters of several spines"):
        scene(fabric(routing="ecmp"), ring("a", (0, 2), paths=[[0], [0]]))
    with pytest.raises(InputError, match=r"jobs\[0\].paths: name the nodes as well"):
        scene(fabric(), {**ring("a", (0, 2), paths=[[0], [0]]), "nodes": None})


# ------------------------------------------------------------------ the judge


def solved(scenario: Scenario) -> Schedule:
    return solve(scenario, objective="contention", solver="greedy").schedule


@pytest.mark.parametrize(
    ("routing", "forged", "said"),
    [
        ("chosen", {"a": [[2], [0]]}, "paths.a[0]: stated spine 2"),
        ("chosen", {"a": [[0], []]}, "paths.a: stated 1 spine of 2 tasks"),
        ("chosen", {"a": [[0]]}, "paths.a: stated 1 spine of 1 task"),
        ("chosen", {"x": [[0], [0]]}, "paths.'x': stated its spines"),
        ("spray", {"a": [[0], [0]]}, "paths.a: stated its spines"),
    ],
)
def test_forged_paths_are_refused(routing: str, forged: dict[str, Any], said: str) -> None:
    made = scene(fabric(routing=routing), ring("a", (0, 2)), ring("b", (1, 3)))
    true = solved(made)
    assert verify_placed(made, true)[1] == ()
    false = Schedule.from_dict({**true.to_dict(), "paths": {**(true.paths or {}), **forged}})
    assert str(verify_placed(made, false)[1][0]).startswith(said)


def test_a_spine_that_is_not_that_of_the_hash_is_refused() -> None:
    made = scene(fabric(routing="ecmp"), ring("a", (0, 2)))
    true = solved(made)
    ((spine,), _) = (true.paths or {})["a"]
    paths = {"a": [[1 - spine], [spine]]}
    false = Schedule.from_dict({**true.to_dict(), "paths": paths})
    (fault,) = verify_placed(made, false)[1]
    assert str(fault) == f"paths.a[0]: stated spine {1 - spine}, but it is {spine}"


def test_paths_that_are_not_those_of_the_scenario_are_refused() -> None:
    made = scene(fabric(), ring("a", (0, 2), paths=[[0], [1]]))
    true = solved(made)
    assert verify_placed(made, true)[1] == ()
    false = Schedule.from_dict({**true.to_dict(), "paths": {"a": [[1], [1]]}})
    (fault,) = verify_placed(made, false)[1]
    assert str(fault) == "paths.a: stated its spines, but the scenario states others"


def test_other_paths_make_stated_values_false() -> None:
    """Apart, two bursts of two thirds of a period do not meet; by one spine they do."""
    jobs = ring("a", (0, 2), burst_ms=200), ring("b", (1, 3), burst_ms=200)
    made = scene(fabric(), *jobs)
    true = solved(made)
    assert true.objectives["contention"] == 0
    together = {"a": [[0], [0]], "b": [[0], [0]]}
    false = Schedule.from_dict({**true.to_dict(), "paths": together})
    assert "contention" in str(verify_placed(made, false)[1][0])


def test_an_instance_has_no_paths() -> None:
    made = scene(fabric(), ring("a", (0, 2)), ring("b", (1, 3)))
    true, problem = solved(made), build_problem(made)
    assert "paths" in str(verify_placed(problem.instance, true)[1])


@given(st.data())
@examples(60)
def test_judge_finds_the_same_flows(data: st.DataObject) -> None:
    """Nodes in any racks, tasks and rings and all-to-alls, all ways to find a spine."""
    racks, each, spines = (data.draw(st.integers(2, 3)) for _ in range(3))
    routing = data.draw(st.sampled_from(["ecmp", "spray", "chosen"]))
    count = data.draw(st.integers(1, 3))
    phase = {"start_ms": 0, "length_ms": 20, "rate_mbps": 600}
    jobs = []
    for number in range(count):
        nodes = data.draw(st.lists(st.integers(0, racks * each - 1), min_size=2, max_size=5))
        jobs.append(
            {
                **ring(f"j{number}", nodes),
                "allreduce": data.draw(st.sampled_from(["ring", "tasks", "tree"])),
                "traffic": {
                    "period_ms": 1000,
                    "phases": [phase],
                },
            }
        )
    made = scene(fabric(racks, each, spines, routing, gpus=20), *jobs)
    problem = build_scenario(made)
    assert check_traffic(made, problem) == ()
    if routing == "chosen":
        places = {job.name: job.nodes or () for job in made.jobs}
        paths = {
            name: tuple(tuple(data.draw(st.integers(0, spines - 1)) for _ in one) for one in its)
            for name, its in problem.paths.items()
        }
        problem = build_scenario(made.at(places, paths))
        assert check_traffic(made, problem, places, paths) == ()


def test_a_fabric_of_one_spine_may_list_it() -> None:
    racks = [{"name": rack, "uplinks": [f"{rack}-a"]} for rack in ("r0", "r1")]
    links = [link for link in listed()["links"] if not link["name"].endswith("-b")]
    made = Cluster.model_validate(listed(racks=racks, links=links))
    assert made.spines == 1
    assert [rack.uplink for rack in made.racks] == ["r0-a", "r1-a"]


def test_all_to_alls_cross_all_spines_evenly() -> None:
    """Each of four tasks has two partners in the other rack: half of its traffic by each spine."""
    phase = {"start_ms": 0, "length_ms": 20, "rate_mbps": 600, "collective": "all-to-all"}
    traffic = {"period_ms": 300, "phases": [{**phase, "bytes": 10**6}]}
    job = {**ring("a", (0, 1, 2, 3)), "traffic": traffic}
    del job["allreduce"]
    made = scene(fabric(routing="ecmp"), job)
    problem = build_scenario(made)
    links: Counter[str] = Counter(problem.instance.jobs[0].links)
    assert problem.paths == {}
    between = {links[link] for link in links if link.startswith("rack")}
    assert between == {Fraction(2 * 2 * links["node-00"], 3 * 2)}
    assert check_traffic(made, problem) == ()


@pytest.mark.parametrize("routing", ["ecmp", "spray", "chosen"])
def test_a_rack_without_limit_stands_beside_others(routing: str) -> None:
    racks = [{"name": "r0"}, {"name": "r1", "uplinks": ["r1-a", "r1-b"]}]
    links = [link for link in listed()["links"] if not link["name"].startswith("r0")]
    cluster = listed(racks=racks, links=links, routing=routing)
    made = scene(cluster, {**ring("a", (0, 2)), "nodes": ["n0", "n2"]})
    assert check_traffic(made, build_scenario(made)) == ()


def test_paths_of_a_job_that_has_none_are_refused() -> None:
    for nodes in ((0, 1), (0, 0)):
        with pytest.raises(InputError, match="paths"):
            build_scenario(scene(fabric(gpus=2), ring("a", nodes, paths=[[0], [1]])))
