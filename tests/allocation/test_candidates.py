"""Candidate placements fit free resources, links, racks and network costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metronome_opt.allocation.candidates import CandidatePlacements
from metronome_opt.allocation.request import JobRequest
from metronome_opt.scenario.iteration import Iteration
from metronome_opt.scenario.nodes import ONE_GPU
from metronome_opt.scenario.placement_limits import PlacementLimits
from tests.scenario.test_overhead import zones
from tests.simulation.scenes import racks, scene, switch, work

ALONE = Iteration((), Fraction(1))


def room(cluster: dict[str, object], **taken: int) -> CandidatePlacements:
    """Return a cluster in which so many GPUs of some nodes are taken."""
    made = CandidatePlacements(scene(cluster, work("a", workers=2)).cluster)
    for node, count in taken.items():
        made.take([node.replace("_", "-")] * count, ONE_GPU)
    return made


def job(tasks: int) -> JobRequest:
    return JobRequest("a", tasks, ONE_GPU, traffic=lambda _: ALONE, best_ms=1.0)


@st.composite
def used(draw: st.DrawFn) -> CandidatePlacements:
    """Draw a cluster of up to nine nodes, GPUs of which are taken."""
    shape = draw(st.sampled_from((switch(5, 3), racks(2, 2, 2), racks(3, 3, 4), racks(9, 1, 2))))
    made = room(shape)
    for index, count in enumerate(made.free[:, 0].tolist()):
        made.free[index, 0] = draw(st.integers(0, count))
    return made


def test_tasks_of_rack_share_uplink() -> None:
    """Three nodes of 100 a rack, 3:1, make an uplink of 100: two tasks get 50 each."""
    cluster = racks(2, 3, 2, "3:1")
    across = room(cluster).placement(["node-00", "node-01", "node-03"], job(3))
    assert across.links == {
        **dict.fromkeys(("node-00", "node-01", "node-03", "rack-1-uplink"), 1),
        "rack-0-uplink": 2,
    }
    assert (across.rate, across.racks) == (50, 2)
    within = room(cluster).placement(["node-03", "node-04"], job(2))
    assert within.links == {"node-03": 1, "node-04": 1}
    assert within.rate == 100


def test_candidates_are_where_costs_are_tolerated() -> None:
    """In each zone 8 GPUs: up to 8 tasks fit one, up to 16 a region, or two near zones."""

    def racks_of(tasks: int, most: int) -> set[str]:
        asked = replace(job(tasks), limits=PlacementLimits(max_network_cost=most))
        found = CandidatePlacements(zones()).candidates(asked)
        homes = zones().nodes_by_name
        return {" ".join(sorted({homes[n].rack or "" for n in each.nodes})) for each in found}

    assert racks_of(4, 10_000) > {"z1", "z1 z2", "z2 z3", "z1 z2 z3 z4"}
    assert racks_of(4, 10) == {"z1", "z2", "z3", "z4", "z1 z2", "z3 z4"}
    assert racks_of(4, 5) == {"z1", "z2", "z3", "z4", "z1 z2"}
    assert racks_of(9, 9) == {"z1 z2"}
    assert racks_of(4, 0) == {"z1", "z2", "z3", "z4"}
    assert racks_of(9, 0) == set()
    assert (
        CandidatePlacements(zones()).nearest(
            replace(job(17), limits=PlacementLimits(max_network_cost=19))
        )
        is None
    )


@pytest.mark.parametrize(
    ("workers", "nodes"),
    [(2, "11"), (3, "112"), (4, "0112"), (5, "01112"), (6, "011122"), (7, "0111223")],
)
def test_task_goes_to_node_with_most_free_gpus(workers: int, nodes: str) -> None:
    """Free are 1, 3, 2 and 1: 3 on node 1; 2 on 1 and 2, in the order of names; 1 on all four."""
    placed = room(switch(4, 3), node_00=2, node_02=1, node_03=2).spread(job(workers))
    assert placed is not None
    assert placed.nodes == tuple(f"node-0{node}" for node in nodes)


@given(used(), st.integers(2, 12))
def test_candidates_fit_and_are_distinct(made: CandidatePlacements, workers: int) -> None:
    candidates = list(made.candidates(job(workers), 100))
    assert bool(candidates) == (workers <= made.free_gpus)
    assert len({placement.nodes for placement in candidates}) == len(candidates)
    for placement in candidates:
        assert len(placement.nodes) == workers
        assert made.holds(placement.nodes, ONE_GPU)
        assert placement == made.placement(placement.nodes, job(workers))


def test_placements_over_several_racks_are_among_the_first() -> None:
    """Of eight empty racks alike, which all have room for the job by themselves."""
    many = room(racks(8, 4, 8)).candidates(job(16), 12)
    assert {placement.racks for placement in many} >= {1, 2}
    assert max(len(set(placement.nodes)) for placement in many) >= 8
