"""Jobs are placed within their limits on racks, switches and nodes, wherever that is possible."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.request import JobRequest
from metronome_opt.errors import InputError
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.cluster import ANY_COST, Cluster
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import ONE_GPU
from metronome_opt.scenario.placement_limits import PlacementLimits
from metronome_opt.scenario.spreading import spread
from metronome_opt.verify.places import check_places
from tests.builders import fault_of, schedule
from tests.fabrics import scene, tree

# Racks r0 and r1 in s0, r2 in s1; node e right below s1, and f below nothing.
HOMES = {"a": "r0", "b": "r0", "c": "r1", "d": "r2", "e": "s1", "f": None}
ABOVE = {"r0": "s0", "r1": "s0", "r2": "s1", "s0": None, "s1": None}
TRAFFIC = {"period_ms": 100, "phases": [{"start_ms": 0, "length_ms": 20, "rate_mbps": 50}]}


def cluster(**fields: Any) -> Cluster:
    return Cluster.model_validate(tree(HOMES, ABOVE, **fields))


def described(workers: int, **fields: Any) -> dict[str, Any]:
    return {"name": "j", "traffic": TRAFFIC, "workers": workers, **fields}


def scenario(workers: int, has_core: bool = True, **fields: Any) -> Scenario:
    return scene(tree(HOMES, ABOVE, has_core=has_core), described(workers, **fields))


@pytest.mark.parametrize(
    ("within", "has_core", "domains"),
    [
        (0, True, "a b c d e f"),
        (1, True, "ab c d e f"),
        (2, True, "abc de f"),
        (9, True, "abc de f"),
        (None, False, "abc de f"),
        (None, True, "abcdef"),
    ],
)
def test_a_tier_divides_nodes_by_their_switches(
    within: int | None, has_core: bool, domains: str
) -> None:
    parts = PlacementLimits(within=within).domains(cluster(has_core=has_core))
    found: dict[str, str] = {}
    for node in HOMES:
        part = parts[node] if parts else ""
        found[part] = found.get(part, "") + node
    assert " ".join(found.values()) == domains


@pytest.mark.parametrize(
    ("limits", "nodes", "violation"),
    [
        ({"most_racks": 1}, "ac", "they stand in 2 racks, and it may span 1"),
        ({"most_racks": 2}, "aabc", None),
        ({"within": 1}, "abc", "a and c are below no common switch up to tier 1"),
        ({"within": 2}, "abc", None),
        ({"within": 0}, "aa", None),
        ({"allowed_nodes": ("s0", "e")}, "ace", None),
        ({"allowed_nodes": ("s0", "e")}, "ad", "d is none of its allowed_nodes"),
    ],
)
def test_violations_are_told(limits: dict[str, Any], nodes: str, violation: str | None) -> None:
    assert PlacementLimits(**limits).violation(cluster(), nodes) == violation


def test_jobs_do_not_cross_fabrics_without_a_core() -> None:
    line = fault_of(lambda: scenario(2, has_core=False, nodes=["a", "d"]))
    assert line == (
        "jobs[0].nodes: a and d are below no common switch, and has_core is false; choose others"
    )
    assert {*(spread(scenario(5, has_core=False)).jobs[0].nodes or ())} == {"a", "b", "c"}
    with pytest.raises(InputError, match="7: no room; free: 12 GPUs; roots are not connected"):
        spread(scenario(7, has_core=False))


def test_unknown_nodes_are_refused() -> None:
    line = fault_of(lambda: scenario(2, allowed_nodes=["a", "x"]))
    assert line == "jobs[0].allowed_nodes: there is no node or rack 'x'; name others"


def drawn() -> st.SearchStrategy[PlacementLimits]:
    some = st.lists(st.sampled_from([*HOMES, *ABOVE]), min_size=1, max_size=4).map(tuple)
    return st.builds(
        PlacementLimits,
        most_racks=st.none() | st.integers(1, 3),
        within=st.none() | st.integers(0, 2),
        allowed_nodes=st.none() | some,
        max_network_cost=st.just(ANY_COST),
    )


@given(drawn(), st.integers(2, 5), st.booleans())
def test_candidates_are_within_limits_and_there_are_some_if_any_places_are(
    limits: PlacementLimits, tasks: int, has_core: bool
) -> None:
    """Every node has two GPUs. `verify` knows the limits by code of its own."""
    request = JobRequest(
        "j", tasks, ONE_GPU, traffic=lambda _: Iteration((), Fraction(1)), best_ms=1.0
    )
    there = CandidatePlacements(cluster(has_core=has_core))
    found = {placement.nodes for placement in there.candidates(replace(request, limits=limits))}
    source = scenario(tasks, has_core, **limits.stated())
    document = source.model_dump(mode="json")

    def is_true(nodes: tuple[str, ...]) -> bool:
        return not [*check_places(document, stated(nodes))]

    assert all(map(is_true, found))
    possible = [
        nodes
        for nodes in combinations_with_replacement(HOMES, tasks)
        if max(map(nodes.count, nodes)) <= 2 and is_true(nodes)
    ]
    assert bool(found) == bool(possible)
    try:
        (job,) = spread(source).jobs
    except InputError:
        assert not possible
    else:
        assert is_true(job.nodes or ())
        build_scenario(spread(source))


def stated(nodes: tuple[str, ...]) -> Schedule:
    return schedule("fabric", {"j": 0}, places={"j": [*nodes]})


def test_a_tier_that_the_cluster_lacks_is_refused() -> None:
    above = {"r": "p", "s": "p", "p": None}
    traffic = {"period_ms": 120, "phases": [{"start_ms": 20, "length_ms": 30, "rate_mbps": 80}]}
    job = {"name": "a", "workers": 2, "traffic": traffic}
    document = {"format": "metronome-scenario/1", "name": "x", "slot_ms": 1}
    document["cluster"] = tree({"a": "r", "b": "r", "c": "s"}, above)
    Scenario.from_dict({**document, "jobs": [{**job, "within": 2}]})
    with pytest.raises(InputError) as caught:
        Scenario.from_dict({**document, "jobs": [{**job, "within": 3}]})
    fault = "jobs[0].within: 3: is no tier of the cluster; state one of"
    assert str(caught.value).startswith(f"{fault} 0 (a node), 1 (such as")
