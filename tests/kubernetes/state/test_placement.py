"""Placements and first windows of gangs in a cluster state, and reasons to wait."""

from __future__ import annotations

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.placement import (
    PlacementDecision,
    decide,
    occupancy_of,
    place_job,
)
from metronome_opt.kubernetes.state.records import Change, Gang, Reservation
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.waiting import WaitDecision
from metronome_opt.problem.instance import Phase
from metronome_opt.scenario.nodes import Resources
from tests.kubernetes.state.small import cluster, gang, running, state_of


def placed(state: ClusterState, asked: Gang, now_s: float | None = None) -> PlacementDecision:
    decision = place_job(state, asked, now_s=now_s)
    assert isinstance(decision, PlacementDecision)
    assert state.reserve(decision.reservation)  # whatever is decided can be reserved
    return decision


def waits(state: ClusterState, asked: Gang, now_s: float | None = None) -> WaitDecision:
    decision = place_job(state, asked, now_s=now_s)
    assert isinstance(decision, WaitDecision)
    return decision


# ------------------------------------------------------------------ placements


def test_job_that_its_own_tasks_slow_down_is_placed_and_says_so() -> None:
    # Two tasks on each interface of 100 Mbit/s get 50 each: 4 slots at 60 take 4.8.
    decision = placed(state_of(cluster([4]), running("x", "n2 n3", gpus=2)), gang(4))
    assert decision.reservation.gang.phases == (Phase(start=0, length=5, rate=48),)
    assert (decision.reservation.gang.period, decision.reservation.period) == (13, 24)
    assert not decision.reservation.gated  # an iteration of 24 slots would take longer
    assert (decision.best_ms, decision.alone_ms) == (60, 64)
    assert decision.expected_ms == pytest.approx(64)
    assert decision.why_slower == "2 flows share n0"
    # Where there are no other nodes that is as good as it gets.
    decision = placed(state_of(cluster([2])), gang(4))
    assert (decision.best_ms, decision.alone_ms, decision.why_slower) == (64, 64, "")


def test_six_jobs_get_a_node_each_and_the_last_one_three() -> None:
    # Eight nodes of four GPUs, 100 Gbit/s, in two racks: slots of 5 ms, a hyperperiod of 14.4 s.
    state = ClusterState(
        cluster([4, 4], gpus=4, interface=100_000, uplink=200_000, hyperperiod=2880)
    )
    jobs = [gang(4, (40, 24, 80_000), name=f"t{index}", period=64) for index in range(3)]
    jobs += [gang(4, (60, 30, 80_000), name=f"o{index}", period=90) for index in range(2)]
    decisions = [placed(state, job) for job in jobs]
    assert {len(set(decision.reservation.nodes)) for decision in decisions} == {1}
    last = placed(state, gang(8, (60, 30, 80_000), name="o2", period=90))
    # Three tasks on an interface: 150 ms of bursts take 360. At best, in the empty cluster, four on
    # an uplink or two on an interface have 50 Gbit/s each: 240.
    assert (last.best_ms, last.alone_ms, round(last.expected_ms)) == (540, 660, 660)
    assert len(set(last.reservation.nodes)) == 3
    slowdowns = [decision.expected_ms / decision.best_ms for decision in [*decisions, last]]
    assert sum(slowdowns) / 6 == pytest.approx((5 + 660 / 540) / 6)


def test_job_too_slow_for_the_hyperperiod_is_placed_elsewhere() -> None:
    state = state_of(cluster([2], interface=20, gpus=1))
    assert placed(state, gang(2)).reservation.gang.period == 20
    # Nearest are two tasks on either node of a rack, at 10; one on each of four nodes is fast.
    state = state_of(cluster([4], interface=20, hyperperiod=24))
    assert set(placed(state, gang(4)).reservation.nodes) == {"n0", "n1", "n2", "n3"}


def test_job_that_runs_is_refused() -> None:
    with pytest.raises(InputError, match="new: runs already; unreserve it first, or rename it"):
        place_job(state_of(cluster([2]), running("new", "n0 n1")), gang(2))


def test_failed_links_are_not_used() -> None:
    state = state_of(cluster([2, 3], gpus=1))
    state.set_capacity("up-0", 0)
    assert set(placed(state, gang(3)).reservation.nodes) == {"n2", "n3", "n4"}
    state = state_of(cluster([4], gpus=1))
    state.set_capacity("n1", 0)
    assert set(placed(state, gang(3)).reservation.nodes) == {"n0", "n2", "n3"}


# ------------------------------------------------------------------ first windows


@pytest.mark.parametrize(
    ("others", "length"),
    [
        # Two bursts of 60 do not fit 100 together: of 12 slots 4 to 11 are free, 8 for 4.
        ([running("a", "n0 n1")], 4),
        # All links have one offset.
        ([running("a", "n0 n1", (0, 5, 60)), running("b", "n1 n0", (8, 4, 60))], 1),
    ],
)
def test_burst_goes_into_middle_of_what_is_free(others: list[Reservation], length: int) -> None:
    decision = placed(state_of(cluster([2], gpus=1), *others), gang(2, (0, length, 60)))
    assert (decision.reservation.gated, decision.reservation.offset) == (True, 6)
    assert (decision.expected_ms, decision.delays) == (60, {})


def test_job_that_uses_no_link_keeps_no_slots() -> None:
    # 11 slots do not divide a hyperperiod of 24; nothing makes the job idle for the twelfth.
    decision = placed(state_of(cluster([2])), gang(2, period=11, max_stretch=1))
    assert not decision.reservation.gated
    assert decision.expected_ms == decision.alone_ms == decision.best_ms == 55


@pytest.mark.parametrize("gated", [True, False])
def test_burst_that_does_not_fit_or_meets_free_jobs_is_free(gated: bool) -> None:
    other = running("a", "n0 n1").model_copy(update={"gated": gated})
    length = 10 if gated else 4  # of 8 slots
    decision = placed(state_of(cluster([2], gpus=1), other), gang(2, (0, length, 60)))
    assert (decision.reservation.gated, decision.reservation.offset) == (False, 0)
    if gated:
        assert decision.expected_ms > 60
        ((name, before, after),) = decision.affected(state_of(cluster([2], gpus=1), other))
        assert (name, before) == ("a", 60)
        assert after > 60
        assert decision.why_slower == "shares links with a"


# ------------------------------------------------------------------ reasons to wait


def test_job_waits_rather_than_slow_down_a_more_important_one() -> None:
    # The nodes of bert have a GPU left each; those of short are free in 40 s.
    bert = running("bert", "n0 n1", (0, 12, 100), gpus=1, weight=10)
    short = running("short", "n2 n3", gpus=2, iterations=1000)  # 60 s
    state = state_of(cluster([4]), bert, short.model_copy(update={"started": 100}))
    asked = gang(2, iterations=20_000)
    decision = waits(state, asked, now_s=120)
    assert decision.deferred
    assert decision.reason.startswith("would slow bert by ")
    assert decision.reason.endswith(" % longer itself; about 40 s until 1 node is free")
    # It does not if it has waited for long, or if it is not known when short ends.
    patient = decide(state, [(asked, 1e9)], 120)[asked.name]
    assert isinstance(place_job(state, asked, patient, now_s=120), PlacementDecision)
    assert isinstance(place_job(state, asked), PlacementDecision)


@pytest.mark.parametrize(
    ("now_s", "left"), [(120, 40), (159, 2.95), (160, 3), (260, 8), (None, None)]
)
def test_a_late_job_has_a_share_of_its_time_left(now_s: float | None, left: float | None) -> None:
    """It has 60 s: as many more as it has not run, at least a twentieth of those that it has."""
    reservation = running("late", "n0 n1", iterations=1000).model_copy(update={"started": 100})
    job = occupancy_of(state_of(cluster([2]), reservation), now_s).placed["late"].job
    assert job.length_ms == (None if left is None else pytest.approx(1000 * left))


ANYWHERE = cluster([2, 2], gpus=1)  # between racks costs are 2


TOGETHER = "no room for 4 tasks together; "


@pytest.mark.parametrize(
    ("asked", "change", "reason"),
    [
        (gang(4, most_racks=1), Change(), "most_racks is 1"),
        (gang(4, max_network_cost=1), Change(), "max_network_cost is 1"),
        (gang(4), Change(capacities={"up-1": 0}), "links that carry nothing: up-1"),
    ],
)
def test_limits_that_leave_no_room_are_reasons(asked: Gang, change: Change, reason: str) -> None:
    state = ClusterState(ANYWHERE)
    state.apply(change)
    assert waits(state, asked) == WaitDecision(f"{TOGETHER}{reason}", deferred=False)


def test_reasons_say_how_many_nodes_lack_what() -> None:
    state = ClusterState(cluster([3, 2], gpus=[1, 1, 1, 2, 2], uplink=None))
    state.apply(Change(up={"n0": False, "n4": False}))
    assert waits(state, gang(2, each=Resources(gpus=2))).reason == (
        "1 of 2 tasks find room; 2 nodes take no tasks; 2 nodes lack GPUs, CPU or memory "
        "(GPUs: 1 free, 2 needed); needs 1 more node with 2 GPUs free"
    )
    # 4 slots at 60 take 16 at 15, and the 8 others: 24 slots, all that there are.
    assert waits(state_of(cluster([2], interface=20)), gang(4)).reason == (
        f"{TOGETHER}links are so narrow that its iterations exceed the hyperperiod of 24 slots"
    )


def test_nodes_that_the_network_cost_plugin_accepts_are_offered() -> None:
    assert placed(state_of(ANYWHERE), gang(4, max_network_cost=2)).placement.racks == 2
    taken = state_of(ANYWHERE, running("a", "n0 n2", gpus=1))
    assert not waits(taken, gang(2, max_network_cost=0)).deferred
    assert placed(taken, gang(2, max_network_cost=2)).reservation.gang.max_network_cost == 2


def test_resources_held_by_others_are_no_room() -> None:
    state, each = ClusterState(cluster([2, 2], gpus=8, uplink=None)), Resources(gpus=4)
    assert waits(state, gang(13, each=each)).reason == (
        "8 of 13 tasks find room; needs 3 more nodes with 8 GPUs free"
    )
    state.others[:, 0] = (8, 8, 5, 0)
    assert waits(state, gang(3, each=each)).reason.endswith(
        "(2 of them: GPUs: 0 free, 4 needed); needs 1 more node with 4 GPUs free"
    )
    assert set(placed(state, gang(2, each=each)).reservation.nodes) == {"n3"}


def test_gang_that_would_be_too_slow_takes_no_room() -> None:
    """Two tasks on an interface of 100 Mbit/s have 13 slots; the hyperperiod has 12."""
    state, slow, other = state_of(cluster([2], hyperperiod=12)), gang(4), gang(2, name="other")
    decisions = decide(state, [(slow, 0.0), (other, 0.0)])
    assert isinstance(place_job(state, slow, decisions["new"]), WaitDecision)
    assert isinstance(place_job(state, other, decisions["other"]), PlacementDecision)
