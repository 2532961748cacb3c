"""Nodes with several interfaces: which of them the tasks of a job use, and how much of each."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metronome_opt import solve
from metronome_opt.kubernetes import build_manifests
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.placed_instance import PlacedInstance
from tests.fabrics import scene

RAILS = {"x": ("x0", "x1", "x2", "x3"), "y": ("y0", "y1"), "z": ("z0",)}


def described(*jobs: dict[str, Any]) -> Scenario:
    """Return nodes of eight GPUs: two in a rack, of four rails and of two, and one of one rail."""
    capacities = {"x": 25_000, "y": 50_000, "z": 100_000}
    phase = {"start_ms": 20, "length_ms": 30, "rate_mbps": 10_001}
    traffic = {"period_ms": 100, "phases": [phase]}
    links = {rail: capacities[node] for node, rails in RAILS.items() for rail in rails}
    cluster = {
        "topology": "listed",
        "nodes": [
            {
                "name": node,
                "has": {"gpus": 8},
                "interfaces": rails,
                "rack": "s" if node == "z" else "r",
            }
            for node, rails in RAILS.items()
        ],
        "racks": [{"name": "r", "uplink": "up"}, {"name": "s"}],
        "links": [
            {"name": name, "capacity": mbps} for name, mbps in {**links, "up": 80_000}.items()
        ],
    }
    return scene(cluster, *({"name": "a", "traffic": traffic, **job} for job in jobs))


def built(*jobs: dict[str, Any]) -> PlacedInstance:
    return build_scenario(described(*jobs))


def on(*nodes: str, gpus: int, **fields: Any) -> dict[str, Any]:
    return {"workers": len(nodes), "nodes": list(nodes), "each": {"gpus": gpus}, **fields}


def test_task_on_all_gpus_uses_all_rails() -> None:
    """Four parts: one on each of four rails, two on each of two, four on an uplink or one rail."""
    (job,) = built(on("x", "y", "z", gpus=8)).instance.jobs
    x, y = dict.fromkeys(RAILS["x"], 1), dict.fromkeys(RAILS["y"], 2)
    assert dict(job.links) == {**x, **y, "z0": 4, "up": 8}
    assert job.phases[0].rate == 2501  # a quarter of 10,001, rounded up
    (within,) = built(on("x", "y", gpus=8)).instance.jobs
    assert dict(within.links) == {**x, **y}


def test_tasks_use_rails_next_to_their_gpus() -> None:
    """The first four GPUs are next to x0, x1 and y0, the others to the rest: none is shared."""
    problem = built(on("x", "y", gpus=4), on("x", "y", gpus=4, name="b"))
    one, other = problem.instance.jobs
    assert dict(one.links) == {"x0": 1, "x1": 1, "y0": 2}
    assert dict(other.links) == {"x2": 1, "x3": 1, "y1": 2}
    assert one.phases[0].rate == 5001
    # Four tasks of a GPU each: two are next to x0, two to x1, and all are whole.
    (four,) = built(on("x", "x", "x", "x", "z", gpus=1)).instance.jobs
    assert dict(four.links) == {"x0": 2, "x1": 2, "z0": 1, "up": 4}
    assert four.phases[0].rate == 10_001


def test_ring_leaves_node_by_rails_of_all_its_tasks() -> None:
    problem = built(on("x", "x", "y", "y", "z", gpus=2, allreduce="ring"))
    # Next to x0 and x1, y0 twice, and z0: two parts. y sends to the other rack, and z back.
    assert [task.links for task in problem.deployment.tasks] == [
        (),
        ("x0", "x1"),
        (),
        ("y0", "y0", "up", "up"),
        ("z0", "z0"),
    ]
    assert problem.instance.jobs[0].phases[0].rate == 5001


def test_claims_and_capacities_of_rails() -> None:
    problem = built(on("x", "y", gpus=8))
    schedule = solve(problem.instance, "unshifted").schedule
    manifests = build_manifests(problem.instance, schedule, problem.deployment)
    first, *_ = manifests["capacities.yaml"]
    assert first["metadata"]["name"] == "x"
    assert [(link["name"], link["scope"]) for link in first["spec"]["links"]] == [
        *((rail, "Node") for rail in RAILS["x"]),
        ("up", "Shared"),
    ]
    first, second = (item["spec"] for item in manifests["claims.yaml"])
    assert [first["allocation"]["link"], second["allocation"]["link"]] == ["x0", "y0"]
    # What the task sends on all of them: four times a part.
    assert {each["traffic"]["phases"][0]["rate"] for each in (first, second)} == {"10004M"}


@given(
    nodes=st.lists(st.sampled_from("xyz"), min_size=1, max_size=12),
    gpus=st.integers(1, 8),
    ring=st.booleans(),
)
def test_every_sender_sends_its_whole_traffic(nodes: list[str], gpus: int, ring: bool) -> None:
    """What crosses interfaces is a whole for each task, or for each node of a ring."""
    network = described(on("x", "y", gpus=1)).cluster
    taken: Counter[str] = Counter()
    near = []
    for node in nodes:
        first = taken[node] % 8
        near.append(network.nodes_by_name[node].rails_near(first, min(gpus, 8 - first)))
        taken[node] += gpus
        assert near[-1]
    placement = compute_placement(network, nodes, "ring" if ring else "tasks", rails=near)
    own = {rail for rails in RAILS.values() for rail in rails}
    flows = sum(link in own for route in placement.routes for link in route)
    sent = Fraction(flows, placement.transport.flows)
    senders = len(set(nodes)) if ring else len(nodes)
    assert sent == (senders if len(set(nodes)) > 1 else 0)
