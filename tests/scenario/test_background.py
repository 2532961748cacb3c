"""Traffic of others on links: everything takes these for so much narrower."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metronome_opt.api import allocate
from metronome_opt.kubernetes.state.placement import occupancy_of
from metronome_opt.kubernetes.state.scenario import scenario_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario import build_scenario
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.verification import check_traffic, verify_placed
from tests.kubernetes.state.small import cluster, running, state_of


def spec(taken: str) -> ClusterSpec:
    """Return nodes n0 and n1 with 100 Mbit/s each, some of which others take of n1."""
    return ClusterSpec.from_dict(cluster([1, 1]).to_dict() | {"background": {"n1": taken}})


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ("40%", 60),
        ("0%", 100),
        ("12.5 %", 87),
        ("25 Mbit/s", 75),
        ("0.0125 Gbit/s", 87),
        ("0.00006 Tbit/s", 40),
    ],
)
def test_others_leave_a_part_of_a_link(taken: str, left: int) -> None:
    made = spec(taken)
    assert (made.capacities["n0"], made.capacities["n1"]) == (100, left)
    assert compute_placement(made, ["n0", "n1"]).rate == left
    assert ClusterSpec.from_dict(made.to_dict()) == made
    of_state = scenario_of(state_of(made, running("a", "n0 n1", (0, 4, 30))))
    instance = build_scenario(of_state).instance
    assert {link.name: link.capacity for link in instance.links} == made.capacities
    stated = of_state.model_copy(update={"cluster": made})
    problem = build_scenario(stated)
    assert problem.instance == instance
    assert check_traffic(stated, problem) == ()
    as_if_alone = replace(problem, instance=instance.replace(links=made.links))
    faults = check_traffic(stated, as_if_alone)
    said = [f"links.n1: stated 100 Mbit/s, but {left} Mbit/s"] if left < 100 else []
    assert [str(fault) for fault in faults] == said


def test_jobs_are_placed_around_the_traffic_of_others() -> None:
    """A job of two tasks at 100 Mbit/s runs on the two nodes of three where others send nothing."""
    document = cluster([3], gpus=1).to_dict() | {"background": {"n1": "40%"}}
    job = running("a", "n0 n2", (0, 4, 100), gpus=1)
    of_state = scenario_of(state_of(ClusterSpec.from_dict(document), job))
    free = of_state.model_copy(
        update={"jobs": tuple(job.model_copy(update={"nodes": None}) for job in of_state.jobs)}
    )
    result = allocate(free, time_limit=2, threads=1)
    assert result.schedule.places == {"a": ("n0", "n2")}
    assert verify_placed(free, result.schedule)[1] == ()


def test_a_state_knows_what_others_leave() -> None:
    state = ClusterState(spec("40%"))
    assert (state.capacities["n0"], state.capacities["n1"]) == (100, 60)
    assert not state.snapshot.capacities
    state.set_capacity("n1", 50)
    assert state.snapshot.capacities == {"n1": 50}
    again = ClusterState.of_snapshot(state.snapshot)
    assert again.capacities["n1"] == 50
    assert occupancy_of(again).resources.cluster.capacities["n1"] == 50
