"""Placements of a scenario are no worse than the nearest ones, and come with their plan."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.stored import SUITES
from metronome_opt.allocation.placement_search import PlacementSearch
from metronome_opt.allocation.scenario_search import allocate, nearest
from metronome_opt.allocation.slots.evaluator import MIN_GAIN, is_better
from metronome_opt.allocation.slots.plan_search import SlotSearchOptions, search_plan
from metronome_opt.errors import InputError
from metronome_opt.problem.objectives import simulated_levels
from metronome_opt.scenario import Scenario, read_scenario
from metronome_opt.scenario.placed_instance import PlacedInstance
from metronome_opt.solvers.budget import Budget
from tests.allocation.enumeration import draw_scenario, spots_of
from tests.simulation.scenes import switch

BURST = {"start_ms": 100, "length_ms": 150, "rate_mbps": 100}


def scene(cluster: dict[str, Any], *jobs: dict[str, Any], **fields: Any) -> Scenario:
    sending = {"traffic": {"period_ms": 300, "phases": [BURST]}}
    document = {"format": "metronome-scenario/1", "name": "small", "slot_ms": 10, **fields}
    document |= {"cluster": cluster, "jobs": [{**sending, **job} for job in jobs]}
    return Scenario.from_dict(document)


def allocated(
    cluster: dict[str, Any], *jobs: dict[str, Any], budget: Budget | None = None
) -> PlacedInstance:
    return allocate(scene(cluster, *jobs), budget or Budget())[0]


@pytest.mark.slow
def test_strict_order_is_no_worse_in_that_order_than_priorities_in_one_mean() -> None:
    scenario = read_scenario(SUITES / "allocation" / "allocation-8-tune-1.json")
    for seed in (1, 3):
        draw = random.Random(seed)
        jobs = [
            job.model_copy(update={"priority": draw.choice((1, 2, 4))}) for job in scenario.jobs
        ]
        drawn = scenario.model_copy(update={"jobs": jobs})
        levels = simulated_levels(["lexicographic"], {job.name: job.priority for job in drawn.jobs})
        search = PlacementSearch(drawn, levels)
        by_priority, strict = (
            search._values_with_slots(places, SlotSearchOptions(mean_weights=levels), Budget())
            for places in (
                spots_of(allocate(drawn, Budget(), options=SlotSearchOptions(mean_weights=each))[0])
                for each in (None, levels)
            )
        )
        assert not is_better(by_priority, strict, MIN_GAIN)


@pytest.mark.slow
def test_places_are_compared_with_the_nearest_in_unseen_simulations() -> None:
    """By cost the jobs of some clusters fare worse than at the nearest placements."""
    for seed in range(25):
        scenario = draw_scenario(seed)
        (found, best), search = allocate(scenario, Budget()), PlacementSearch(scenario)
        if not found.waiting:
            assert best is not None
            near = search.find_nearest()
            plan = search_plan(search.instance_at(near), SlotSearchOptions(), Budget())
            ungated = search.plan_values(near, replace(plan, slowdowns=plan.unshifted))[0]
            reached = search.plan_values(spots_of(found), best)[0]
            assert reached <= search.plan_values(near, plan)[0] <= ungated


def test_instances_of_the_search_equal_those_that_are_built_in_full() -> None:
    for seed in range(5):
        search = PlacementSearch(draw_scenario(seed))
        places = search.find_nearest()
        assert search.instance_at(places) == search.problem_at(places).instance


@pytest.mark.parametrize(("workers", "best_ms", "slowdown"), [(2, 300, 1), (6, 960, 1230 / 960)])
def test_slowdowns_at_places_have_the_base_of_the_instance(
    workers: int, best_ms: int, slowdown: float
) -> None:
    """Bursts of 150 ms that are stated as 180 Mbit/s; interfaces carry 100.

    Two workers on a node cross none. Of six, three on each node have 33.3 Mbit/s each, and send for
    810 ms; four at the nearest placement 25, and send for 1080.
    """
    fast = {"period_ms": 304, "phases": [{**BURST, "rate_mbps": 180}]}
    given = scene(switch(2, 4), {"name": "a", "workers": workers, "traffic": fast})
    search = PlacementSearch(given)
    instance = nearest(given).instance
    assert instance.best_ms(instance.jobs[0]) == best_ms
    assert search.values(search.find_nearest())[0] == pytest.approx(slowdown, rel=0.01)


def test_a_job_joins_the_one_of_its_period_if_slots_keep_them_apart() -> None:
    """Two bursts of 120 ms fit an iteration of 260 ms; ungated, one of 70 ms delays less."""
    racks, long = [["node-00", "node-01"], ["node-02", "node-03"]], sending(260, 120)
    placed = [job("a", 2, nodes=racks[0], **long), job("b", 2, nodes=racks[1], **sending(450, 70))]
    cluster = {**switch(4, 2), "topology": "leaf-spine", "racks": 2, "oversubscription": 1}
    scenario = scene(cluster, *placed, job("c", 2, **long))
    assert PlacementSearch(scenario).find_cheapest(Budget(), 0)["c"].nodes == tuple(racks[1])
    assert allocate(scenario, Budget())[0].places == {
        "a": tuple(racks[0]),
        "b": tuple(racks[1]),
        "c": tuple(racks[0]),
    }


def sending(period: int, burst: int) -> dict[str, Any]:
    phase = {"start_ms": 100, "length_ms": burst, "rate_mbps": 100}
    return {"traffic": {"period_ms": period, "phases": [phase]}}


def job(name: str, workers: int, **fields: Any) -> dict[str, Any]:
    return {"name": name, "workers": workers, **fields}


def test_jobs_that_are_all_fixed_leave_one_waiting() -> None:
    """Two jobs that meet fill the cluster, so that there is nothing to rearrange."""
    there = ["node-00", "node-01"]
    found = allocated(switch(2, 2), job("a", 2, nodes=there), job("b", 2, nodes=there), job("c", 2))
    assert found.waiting == ("c",)
    assert found.places == {"a": tuple(there), "b": tuple(there)}


@pytest.mark.parametrize(("priority", "waiting"), [(5, ("b", "c")), (4, ("a", "d", "e"))])
def test_less_weight_times_gpus_waits(priority: int, waiting: tuple[str, ...]) -> None:
    """Of 24 GPUs b and c ask for 96 by weight, the others for 20 times that of a, and 4."""
    jobs = [job("a", 20, priority=priority), job("b", 12, priority=4), job("c", 12, priority=4)]
    found = allocated(switch(1, 24), *jobs, job("d", 2), job("e", 2))
    assert found.waiting == waiting


def test_links_that_are_too_narrow_are_named() -> None:
    with pytest.raises(InputError, match="node-00: its 6 Mbit/s are less than 1 Mbit/s for each"):
        allocated(switch(2, 8, nic_mbps=6), job("a", 16))


def test_iterations_fit_the_hyperperiod_where_jobs_are_placed() -> None:
    """Two tasks on an interface of 100 Mbit/s send for 300 ms, and iterations take 450."""
    four = job("a", 4)
    for hyperperiod, nodes in (None, 2), (300, 4):
        scenario = scene(switch(4, 2, nic_mbps=100), four, hyperperiod_ms=hyperperiod)
        assert len(set(PlacementSearch(scenario).find_nearest()["a"].nodes)) == nodes
    with pytest.raises(
        InputError,
        match=r"jobs\[0\]\.traffic\.period_ms: 300: an iteration takes at least 450 ms, more than",
    ):
        allocate(scene(switch(2, 2, nic_mbps=100), four, hyperperiod_ms=300), Budget())


@pytest.mark.parametrize(("seconds", "step"), [(0.0, "find_cheapest"), (60.0, "values")])
def test_steps_without_time_are_left_out(
    seconds: float, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulations of 100 s are not begun in 60, nor a search without any time."""
    monkeypatch.setattr(PlacementSearch, "seconds", lambda *_: 100.0)
    monkeypatch.delattr(PlacementSearch, step)
    found = allocated(switch(4, 2), job("a", 2), job("b", 4), budget=Budget(seconds))
    assert found.places is not None
    assert set(found.places) == {"a", "b"}


def test_nearest_places_leave_jobs_without_room_waiting() -> None:
    near = nearest(scene(switch(2, 2), job("a", 2), job("b", 3)))
    assert (near.places, near.waiting) == ({"b": ("node-00", "node-00", "node-01")}, ("a",))
    assert [each.name for each in near.instance.jobs] == ["b"]
    assert near.notes == [
        "jobs without nodes are on the nearest nodes, one job after the other",
        "a waits: no room is left for it",
    ]


def railed() -> dict[str, Any]:
    """Return two racks of two nodes each, with eight GPUs and two interfaces of 100 Mbit/s."""
    nodes = {"u": "r", "v": "s", "x": "r", "y": "s"}
    rails = [f"{node}{number}" for node in nodes for number in range(2)]
    links = dict.fromkeys(rails, 100) | {"up-r": 300, "up-s": 300}
    return {
        "topology": "listed",
        "nodes": [
            {"name": node, "has": {"gpus": 8}, "interfaces": [node + "0", node + "1"], "rack": rack}
            for node, rack in nodes.items()
        ],
        "racks": [{"name": rack, "uplink": f"up-{rack}"} for rack in "rs"],
        "links": [{"name": name, "capacity": capacity} for name, capacity in links.items()],
    }


def test_tasks_are_expected_on_interfaces_next_to_free_gpus() -> None:
    """The first job has the GPUs next to x0 and y0, so the second one meets it on no interface."""
    there = [*["x"] * 4, *["y"] * 4]
    search = PlacementSearch(scene(railed(), job("a", 8, nodes=there), job("b", 8)))
    occupancy = search.occupancy()
    at_rest = occupancy.resources.placement(there, search.jobs["b"])
    assert dict(at_rest.links) == {"x1": 4, "y1": 4, "up-r": 4, "up-s": 4}
    assert at_rest.rate == 25
    # A rack away, eight tasks fit one node.
    assert search.find_nearest()["b"].nodes in (("u",) * 8, ("v",) * 8)


@pytest.mark.parametrize(("uplink", "meet"), [(300, False), (250, True)])
def test_what_tasks_send_on_two_interfaces_counts_once(uplink: int, meet: bool) -> None:
    """One task sends 200 Mbit/s in halves, the other one 100; on the uplink that is 300."""
    cluster = railed()
    for link in cluster["links"][-2:]:
        link["capacity"] = uplink
    both = {"period_ms": 300, "phases": [{**BURST, "rate_mbps": 200}]}
    a = job("a", 2, nodes=["x", "y"], each={"gpus": 8}, traffic=both)
    search = PlacementSearch(scene(cluster, a, job("b", 2, each={"gpus": 4})))
    occupancy, b = search.occupancy(), search.jobs["b"]
    start = occupancy.start(b, occupancy.resources.placement(["u", "v"], b))
    assert bool(start.losses) is meet


def test_jobs_on_nodes_with_several_interfaces_are_placed() -> None:
    """Each of four jobs of eight tasks gets a node of its own; spread, all would share links."""
    found = allocated(railed(), *(job(name, 8) for name in "abcd"))
    assert sorted(len(set(nodes)) for nodes in (found.places or {}).values()) == [1] * 4
    assert [dict(each.links) for each in found.instance.jobs] == [{}] * 4
