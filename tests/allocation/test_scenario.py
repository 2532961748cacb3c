"""Places for the jobs of a scenario."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.stored import SUITES
from metronome_opt.allocation.scenario import _UNSEEN, Search, allocate
from metronome_opt.errors import InputError
from metronome_opt.objectives import simulated_levels
from metronome_opt.scenario import Scenario, read_scenario
from metronome_opt.scenario.build import Problem
from metronome_opt.solvers.budget import Budget
from tests.allocation.enumeration import draw_scenario
from tests.simulate.scenes import switch

BURST = {"start_ms": 100, "length_ms": 150, "rate_mbps": 100}


def scene(cluster: dict[str, Any], *jobs: dict[str, Any], **fields: Any) -> Scenario:
    sending = {"traffic": {"period_ms": 300, "phases": [BURST]}}
    document = {"format": "metronome-scenario/1", "name": "small", "slot_ms": 10, **fields}
    document |= {"cluster": cluster, "jobs": [{**sending, **job} for job in jobs]}
    return Scenario.from_dict(document)


def allocated(
    cluster: dict[str, Any], *jobs: dict[str, Any], budget: Budget | None = None
) -> Problem:
    return allocate(scene(cluster, *jobs), budget or Budget())


def test_strict_order_gives_heavier_jobs_the_better_places() -> None:
    scenario = read_scenario(SUITES / "allocation" / "allocation-8-tune-1.json")
    levels = simulated_levels(["strict"], {job.name: job.priority for job in scenario.jobs})
    search = Search(scenario, levels)
    found = [allocate(scenario, Budget(), levels=each) for each in (None, levels)]
    (heavy, middle, _), strict = (search.values(each.places or {}, 7000) for each in found)
    assert strict[0] < heavy + 0.002
    assert strict[1] < middle - 0.002


def test_places_are_compared_with_the_nearest_in_unseen_plays() -> None:
    """By prices the jobs of some clusters fare worse than at the nearest places."""
    for seed in range(25):
        scenario = draw_scenario(seed)
        found, search = allocate(scenario, Budget()), Search(scenario)
        if not found.waiting:
            reached, near = (
                search.slowdown(places, _UNSEEN)
                for places in (found.places or {}, search.nearest())
            )
            assert reached <= near
            assert found.comparison.endswith(
                f"seen: {reached:.4f} at these places, {near:.4f} at the nearest"
            )


def job(name: str, workers: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "workers": workers, **fields}


def test_jobs_that_are_all_fixed_leave_one_waiting() -> None:
    """Two jobs that meet fill the cluster, so that there is nothing to rearrange."""
    there = ["node-00", "node-01"]
    found = allocated(switch(2, 2), job("a", 2, nodes=there), job("b", 2, nodes=there), job("c", 2))
    assert found.waiting == ("c",)
    assert found.places == {"a": tuple(there), "b": tuple(there)}


def test_less_weight_waits_rather_than_fewer_jobs() -> None:
    """On 24 GPUs the nearest places leave out 8 of weight, with b and c only 7 are left out."""
    jobs = [job("a", 20, priority=5), job("b", 12, priority=4), job("c", 12, priority=4)]
    found = allocated(switch(1, 24), *jobs, job("d", 2), job("e", 2))
    assert found.waiting == ("a", "d", "e")


def test_links_that_are_too_narrow_are_named() -> None:
    with pytest.raises(InputError, match="node-00: its 6 Mbit/s are less than 1 Mbit/s for each"):
        allocated(switch(2, 8, nic_mbps=6), job("a", 16))


def test_iterations_fit_the_hyperperiod_where_jobs_are_placed() -> None:
    """Two tasks on an interface of 100 Mbit/s send for 300 ms, and iterations take 450."""
    four = job("a", 4)
    for hyperperiod, nodes in (None, 2), (300, 4):
        scenario = scene(switch(4, 2, nic_mbps=100), four, hyperperiod_ms=hyperperiod)
        assert len(set(Search(scenario).nearest()["a"])) == nodes
    with pytest.raises(
        InputError, match="a: nowhere do links allow each of its tasks the 100 Mbit"
    ):
        allocate(scene(switch(2, 2, nic_mbps=100), four, hyperperiod_ms=300), Budget())


@pytest.mark.parametrize(("seconds", "step"), [(0.0, "assigned"), (60.0, "_simulate")])
def test_steps_without_time_are_left_out(
    seconds: float, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulations of 100 s are not begun in 60, nor a search without any time."""
    monkeypatch.setattr(Search, "seconds", lambda *_: 100.0)
    monkeypatch.delattr(Search, step)
    found = allocated(switch(4, 2), job("a", 2), job("b", 4), budget=Budget(seconds))
    assert found.places is not None
    assert set(found.places) == {"a", "b"}
