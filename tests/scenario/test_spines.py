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
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.cluster import Cluster
from metronome_opt.scenario.verification import check_traffic, verify_placed
from tests.builders import fault_of
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


def test_queue_pairs_have_hashes_of_their_own() -> None:
    """Parts of an eighth each; a link to a spine carries those whose hash names it."""
    cluster = fabric(spines=4, each=4, routing="ecmp", queue_pairs=8)
    made = scene(cluster, ring("a", (0, 4)))
    problem = build_scenario(made)
    spines = [
        int.from_bytes(sha256(f"0/a/0/1/{n}".encode()).digest()[:8], "big") % 4 for n in range(8)
    ]
    assert problem.paths == {"a": (tuple(spines), tuple(spines))}
    links = problem.instance.jobs[0].links
    assert [links[node] for node in ("node-00", "node-04")] == [8, 8]
    up = {f"rack-0-uplink-{spine}": count for spine, count in Counter(spines).items()}
    assert {link: links[link] for link in links if link.startswith("rack-0-uplink")} == up
    assert check_traffic(made, problem) == ()


@pytest.mark.parametrize("routing", ["spray", "chosen"])
def test_queue_pairs_without_hashes_are_refused(routing: str) -> None:
    text = fault_of(lambda: scene(fabric(routing=routing, queue_pairs=8), ring("a", (0, 2))))
    assert "queue_pairs: is 8; only routing ecmp hashes flows" in text


def test_a_seed_without_hashes_is_refused() -> None:
    text = fault_of(lambda: scene(fabric(routing="spray", hash_seed=3), ring("a", (0, 2))))
    assert "hash_seed: is 3; routing spray hashes no flows" in text


def test_two_jobs_over_two_spines_collide_with_probability_one_half() -> None:
    collisions = 0
    for seed in range(1000):
        made = scene(fabric(routing="ecmp", hash_seed=seed), ring("a", (0, 2)), ring("b", (1, 3)))
        paths = build_scenario(made).paths
        collisions += paths["a"] == paths["b"]
    assert 450 < collisions < 550  # 500 with a standard deviation of 16


def test_one_spine_is_a_cluster_without_any() -> None:
    bare, one = (
        scene({**fabric(routing="ecmp"), "spines": spines}, ring("a", (0, 2))).model_dump(
            mode="json"
        )
        for spines in (None, 1)
    )
    assert bare == one
    assert not {"routing", "hash_seed"} & bare["cluster"].keys()


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
    assert fault_of(lambda: scene(cluster, ring("a", (0, 2)))).startswith(said)


BOTH = {"name": "r0", "uplinks": ["r0-a", "r0-b"]}


@pytest.mark.parametrize(
    ("racks", "said"),
    [
        ([BOTH, {"name": "r1", "uplinks": ["r1-a"]}], "racks[1].uplinks: 1 of them, and other rac"),
        ([BOTH, {"name": "r1", "uplink": "r1-a"}], "racks[1].uplinks: 1 of them"),
        (
            [{"name": "r0", "uplinks": ["r0-a"], "uplink": "r0-b"}],
            "racks[0].uplinks: give either uplink or uplinks",
        ),
        ([{**BOTH, "downlinks": ["r1-a"]}], "racks[0].downlinks: 1 of them for 2 uplinks"),
        ([{**BOTH, "within": "r1"}], "racks[0].within: 'r1': several uplinks are for two tiers"),
        ([{"name": "r0", "uplinks": ["r0-a", "x"]}], "racks[0].uplinks[1]: there is no link 'x'"),
    ],
)
def test_bad_uplinks(racks: list[dict[str, Any]], said: str) -> None:
    fault = fault_of(lambda: scene(listed(racks=racks), ring("a", (0, 1))))
    assert fault.startswith(f"cluster.{said}")


@pytest.mark.parametrize(
    ("changes", "job", "said"),
    [
        ({}, {"paths": [[2], [0]]}, "[0]: there is no spine 2 of 0 to 1"),
        ({}, {"paths": [[0], []]}, "[1]: 0 spines, and it sends 1 flow over spines; name one "),
        ({}, {"paths": [[0]]}, ": names 1 task, but workers is 2"),
        ({"routing": "ecmp"}, {"paths": [[0], [0]]}, ": are for clusters of several spines"),
        ({}, {"paths": [[0], [0]], "nodes": None}, ": name the nodes as well"),
        # A job in one rack, or on one node, has none.
        (
            {},
            {"paths": [[0], [1]], "nodes": ["node-00", "node-01"]},
            "[0]: 1 spine, and it sends 0",
        ),
        ({"gpus": 2}, {"paths": [[0], [1]], "nodes": {"node-00": 2}}, ": no flow of it has one"),
    ],
)
def test_bad_paths(changes: dict[str, Any], job: dict[str, Any], said: str) -> None:
    fault = fault_of(lambda: build_scenario(scene(fabric(**changes), ring("a", (0, 2)) | job)))
    assert fault.startswith(f"jobs[0].paths{said}")


# ------------------------------------------------------------------ the judge


def solved(scenario: Scenario) -> Schedule:
    return solve(scenario, objective="contention", solver="greedy").schedule


@pytest.mark.parametrize(
    ("routing", "job", "forged", "said"),
    [
        ("chosen", {}, {"a": [[2], [0]]}, "paths.a[0]: stated spine 2"),
        ("chosen", {}, {"a": [[0], []]}, "paths.a: stated 1 spine of 2 tasks"),
        ("chosen", {}, {"a": [[0]]}, "paths.a: stated 1 spine of 1 task"),
        ("chosen", {}, {"x": [[0], [0]]}, "paths.'x': stated its spines"),
        ("chosen", {"paths": [[0], [1]]}, {"a": [[1], [1]]}, "paths.a: stated its spines, but the"),
        ("spray", {}, {"a": [[0], [0]]}, "paths.a: stated its spines"),
        # Both directions of a flow have the spine of its hash, the second one.
        ("ecmp", {}, {"a": [[0], [1]]}, "paths.a[0]: stated spine 0, but it is 1"),
    ],
)
def test_forged_paths_are_refused(
    routing: str, job: dict[str, Any], forged: dict[str, Any], said: str
) -> None:
    made = scene(fabric(routing=routing), ring("a", (0, 2), **job), ring("b", (1, 3)))
    true = solved(made)
    assert verify_placed(made, true)[1] == ()
    false = Schedule.from_dict({**true.to_dict(), "paths": {**(true.paths or {}), **forged}})
    assert str(verify_placed(made, false)[1][0]).startswith(said)


def test_other_paths_make_stated_values_false() -> None:
    """Apart, two bursts of two thirds of a period do not meet; by one spine they do."""
    jobs = ring("a", (0, 2), burst_ms=200), ring("b", (1, 3), burst_ms=200)
    made = scene(fabric(), *jobs)
    true = solved(made)
    assert true.objectives["contention"] == 0
    together = {"a": [[0], [0]], "b": [[0], [0]]}
    false = Schedule.from_dict({**true.to_dict(), "paths": together})
    assert "contention" in str(verify_placed(made, false)[1][0])


@given(st.data())
@examples(60)
def test_judge_finds_the_same_flows(data: st.DataObject) -> None:
    """Nodes in any racks, tasks and rings and all-to-alls, all ways to find a spine."""
    racks, each, spines = (data.draw(st.integers(2, 3)) for _ in range(3))
    routing = data.draw(st.sampled_from(["ecmp", "spray", "chosen"]))
    nodes = st.lists(st.integers(0, racks * each - 1), min_size=2, max_size=5)
    kinds = st.sampled_from(["ring", "tasks", "tree"])
    jobs = [
        ring(f"j{number}", data.draw(nodes), 20, 1000, allreduce=data.draw(kinds))
        for number in range(data.draw(st.integers(1, 3)))
    ]
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
        assert check_traffic(made, problem, paths) == ()


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
