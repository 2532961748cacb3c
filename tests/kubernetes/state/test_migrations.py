"""Moves of running jobs: those that pay, and none else."""

from __future__ import annotations

from typing import Any

import pytest

from metronome_opt.api import allocate
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.migrations import apply_migrations, decide_migrations
from metronome_opt.kubernetes.state.monitor import Monitor
from metronome_opt.kubernetes.state.records import Reservation
from metronome_opt.kubernetes.state.scenario import apply_schedule, scenario_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.scenario.verification import verify_placed
from tests.kubernetes.state.events import differences, rebuilt
from tests.kubernetes.state.small import cluster, running, state_of

NOW = 1000.0


def sending(name: str, nodes: str = "n0 n1", **fields: Any) -> Reservation:
    """Return a job of 1,000 iterations of 60 ms that sends all the time, and began just now."""
    gated = fields.pop("gated", False)
    reservation = running(name, nodes, (0, 12, 100), gpus=1, **{"iterations": 1000, **fields})
    return reservation.model_copy(update={"gated": gated, "started": int(NOW)})


def crowded(*reservations: Reservation, gpus: tuple[int, ...] = (2, 2, 1, 1)) -> ClusterState:
    """Return a and b, or other jobs, on n0 and n1, where both take twice as long."""
    return state_of(cluster([4], gpus=gpus), *(reservations or (sending("a"), sending("b"))))


@pytest.mark.parametrize(
    ("state", "cost_s", "moves"),
    [
        # Either would take 60 s longer, and so would the other: to move one saves 120 s.
        (crowded(), 100, {"a": ("n2", "n3", 120)}),
        (crowded(), 130, {}),
        # Apart from a there is little left to save for b: jobs that may come, if it had one node.
        (crowded(), 40, {"a": ("n2", "n3", 120)}),
        # What b saves counts twice as much as that of a, and b's own time costs twice as much.
        (crowded(sending("a"), sending("b", weight=2)), 130, {"a": ("n2", "n3", 180)}),
        # It is not known how long a runs: b moves, and saves as long as both run.
        (crowded(sending("a", iterations=None), sending("b")), 100, {"b": ("n2", "n3", 120)}),
        (crowded(sending("a", iterations=None), sending("b", iterations=None)), 0, {}),
        # Where one job is ungated the other one is delayed, too; where both are gated none is.
        (crowded(sending("a", gated=True), sending("b")), 100, {"a": ("n2", "n3", 120)}),
        (crowded(sending("a", gated=True), sending("b", gated=True)), 0, {}),
        # Nowhere else is room.
        (crowded(gpus=(2, 2, 1, 0)), 0, {}),
    ],
)
def test_jobs_move_where_it_pays(state: ClusterState, cost_s: float, moves: dict[str, Any]) -> None:
    found = decide_migrations(state, cost_s, NOW)
    assert {move.job: move.after.nodes for move in found} == {
        job: tuple(nodes) for job, (*nodes, _) in moves.items()
    }
    for move in found:
        assert move.before.nodes == ("n0", "n1")
        assert move.saves_ms / 1000 == pytest.approx(moves[move.job][-1], rel=0.03)


def test_moves_go_on_until_none_pays() -> None:
    """Of three jobs on n0 and n1 a moves away, and b then has room on one of the two alone."""
    spec = cluster([6], gpus=(3, 3, 1, 1, 1, 1))
    state = state_of(spec, *(sending(name) for name in "abc"))
    found = decide_migrations(state, 30, NOW)
    assert [move.job for move in found] == ["a", "b"]
    assert {"n0", "n1"}.isdisjoint(found[0].after.nodes)
    assert len(set(found[1].after.nodes)) == 1


def test_a_solved_move_is_taken_over() -> None:
    state = crowded()
    places = {move.job: move.after.nodes for move in decide_migrations(state, 60, NOW)}
    there = apply_migrations(state, places)
    assert state.reservations["a"].nodes == ("n0", "n1")
    solved = allocate(scenario_of(there), time_limit=2, threads=1).schedule
    assert solved.objectives["slowdown"] == 1
    stated = {job: reservation.nodes for job, reservation in there.reservations.items()}
    solved = solved.model_copy(update={"places": stated})
    assert verify_placed(scenario_of(there), solved)[1] == ()
    assert apply_schedule(state, solved)
    assert {job: reservation.nodes for job, reservation in state.reservations.items()} == stated
    assert state.free[:, 0].tolist() == [1, 1, 0, 0]
    assert state.flows["a"] == {"n2": 1, "n3": 1}
    assert [held.job for held, _ in state.users("n0")] == ["b"]
    assert differences(state, rebuilt(state)) == []
    assert not apply_schedule(state, solved)


def test_jobs_change_places_at_once() -> None:
    """Neither could move before the other one."""
    state = crowded(sending("a"), sending("b", "n2 n3"), gpus=(1, 1, 1, 1))
    a, b = state.reservations.values()
    swapped = [(a, b.nodes), (b, a.nodes)]
    assert state.revise(job.model_copy(update={"nodes": nodes}) for job, nodes in swapped)
    assert (state.jobs_on("n0"), state.jobs_on("n3")) == (["b"], ["a"])
    assert differences(state, rebuilt(state)) == []


def test_a_job_is_as_fast_as_its_new_links_allow() -> None:
    state = crowded()
    state.set_capacity("n2", 60)
    reservation = apply_migrations(state, {"a": ["n2", "n3"]}).reservations["a"]
    # 12 slots at 100 take 20 at 60; the next divisor of 24 is 24.
    assert (reservation.gang.period, reservation.gang.peak, reservation.stretch) == (20, 60, 4)


def test_a_job_does_not_move_to_where_it_is_too_slow() -> None:
    """On links of 90 Mbit/s its 12 slots at 100 take 14, which pays; a hyperperiod may have 12."""
    for hyperperiod, moves in ((24, 1), (12, 0)):
        spec = cluster([4], gpus=(2, 2, 1, 1), hyperperiod=hyperperiod)
        state = state_of(spec, sending("a"), sending("b"))
        for link in ("n2", "n3"):
            state.set_capacity(link, 90)
        assert len(decide_migrations(state, 60, NOW)) == moves


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"a": ("n2", "n9")}, "there is no node 'n9'"),
        ({"a": ("n2", "n2")}, "a: node n2: GPUs: 1 free, 2 needed"),
        ({"a": ("n2", "n3"), "b": ("n3", "n1")}, "b: node n3: GPUs: 0 free, 1 needed"),
        ({"a": ("n2",)}, "a: 1 nodes for 2 tasks"),
    ],
)
def test_a_job_moves_only_where_there_is_room(
    places: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        apply_migrations(crowded(), places)


def test_the_monitor_looks_at_jobs_on_the_old_and_new_links_of_a_moved_one() -> None:
    state, monitor = crowded(), Monitor(None)
    monitor.review(state, measured=False)
    monitor.follow(state)
    state.revise(apply_migrations(state, {"a": ["n2", "n3"]}).reservations.values())
    review = monitor.review(state, measured=False)
    assert review is not None
    assert review.concerned == {"a", "n0", "n1"}
