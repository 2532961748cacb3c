"""No job crosses a link that carries nothing, and no iteration across it is stated."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.api import allocate, simulate, solve
from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.scenario.verification import verify_placed
from metronome_opt.simulation.policies import POLICIES
from tests.fabrics import tree

SENDS = {"period_ms": 120, "phases": [{"start_ms": 20, "length_ms": 30, "rate_mbps": 80}]}


def scenario(failed: str, *jobs: tuple[Any, ...], taken: str = "100%") -> Scenario:
    """Return n0 and n1 in rack r, n2 and n3 in rack s, and jobs (name, tasks, nodes)."""
    racks = {"n0": "r", "n1": "r", "n2": "s", "n3": "s"}
    background = {failed: taken} if failed else {}
    return Scenario.from_dict(
        {
            "format": "metronome-scenario/1",
            "name": "x",
            "slot_ms": 1,
            "hyperperiod_ms": 480,
            "cluster": tree(racks, {"r": None, "s": None}, gpus=1, background=background),
            "jobs": [
                {"name": name, "workers": tasks, "iterations": 3, "traffic": SENDS, "nodes": nodes}
                for name, tasks, nodes in jobs
            ],
        }
    )


@pytest.mark.parametrize("solver", ["greedy", "cpsat", "auto"])
@pytest.mark.parametrize(
    ("failed", "tasks", "places"),
    [
        ("n0", [2], {"a": ("n2", "n3")}),
        ("n0", [3, 1], {"a": ("n1", "n2", "n3"), "b": ("n0",)}),
        ("r-up", [2, 2], {"a": ("n0", "n1"), "b": ("n2", "n3")}),
    ],
)
def test_jobs_are_placed_beside_a_failed_link(
    solver: str, failed: str, tasks: list[int], places: dict[str, Any]
) -> None:
    made = scenario(
        failed, *((name, count, None) for name, count in zip("ab", tasks, strict=False))
    )
    found = allocate(made, solver, time_limit=3, threads=1)
    assert found.schedule.places == places
    assert failed not in [link.name for link in found.instance.links]
    assert verify_placed(made, found.schedule)[1] == ()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_simulated_jobs_run_beside_a_failed_link(policy: str) -> None:
    """All policies put two jobs of two tasks into their racks, or let one wait for the other."""
    found = simulate(scenario("r-up", ("a", 2, None), ("b", 2, None)), policy)
    assert found.jobs["racks"].tolist() == [1, 1]


def test_jobs_that_name_nodes_across_a_failed_link_are_refused() -> None:
    across = scenario("n0", ("a", 2, ["n0", "n1"]))
    fault = r"jobs\[0\]\.nodes: n0 carries nothing, so that a has no network; name others"
    for call in (solve, allocate):
        with pytest.raises(InputError, match=fault):
            call(across)
    with pytest.raises(InputError, match="n0: carries nothing; place a on other nodes"):
        simulate(across)
    with pytest.raises(InputError, match="3 tasks together: links that carry nothing: r-up; allow"):
        allocate(scenario("r-up", ("a", 3, None)))


def test_schedule_across_a_failed_link_is_refused() -> None:
    found = allocate(scenario("", ("a", 2, None)), "greedy").schedule
    found = found.model_copy(update={"places": {"a": ("n0", "n1")}})
    with pytest.raises(InputError, match="n0 carries nothing, so that a has no network"):
        verify_placed(scenario("n0", ("a", 2, None)), found)


def test_background_leaves_nothing_or_one_mbps_at_least() -> None:
    job = ("a", 2, ["n1", "n2"])
    with pytest.raises(InputError, match="leaves less than 1 of its 100 Mbit/s; state"):
        scenario("n0", job, taken="99.5%")
    assert len(build_scenario(scenario("n0", job, taken="100 Mbit/s")).instance.links) == 5
