"""Gangs whose iteration depends on their placement: where they start, on the disk, and solved.

An iteration of BERT with 8 samples is 3 x 8 x 336.7 GFLOP at 23.01 TFLOP/s, 351.2 ms, and an
all-reduce of 340 million gradients of 4 bytes, 10.88 Gbit. On one node of 8 GPUs each of them sends
14 / 8 of it at 1,852.8 Gbit/s, in 10.3 ms; on two a ring of 16 sends 30 / 16 of it, 20.4 Gbit, out
of each node at 100 Gbit/s, in 204 ms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.api import allocate
from metronome_opt.kubernetes.state.migrations import apply_migrations, decide_migrations
from metronome_opt.kubernetes.state.placement import (
    PlacementDecision,
    iterations_ms,
    occupancy_of,
    place_job,
)
from metronome_opt.kubernetes.state.records import Gang, read_request
from metronome_opt.kubernetes.state.scenario import apply_schedule, read_state, scenario_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.store import Store, read_cluster_state
from metronome_opt.kubernetes.state.views import instance_of
from metronome_opt.problem.schedule import read_schedule
from metronome_opt.scenario import build_scenario
from metronome_opt.scenario.cluster_input import ClusterSpec
from metronome_opt.scenario.collectives import TrainingStep
from metronome_opt.scenario.flows import compute_placement
from metronome_opt.scenario.nodes import Gpu
from tests.cli.typed import metronome
from tests.kubernetes.state.small import cluster, gang, running, state_of

GPU = {"name": "A100", "sustained_tflops": {"value": 23.012892, "assumed": "as in paper-24"}}
A100 = Gpu.model_validate(GPU)
COMPUTING_MS = 3 * 8 * 336_718_786_560 / 23.012892e9
INSIDE_MS = COMPUTING_MS + 10_880 * 14 / 8 / 1852.8
TWO_MS = COMPUTING_MS + 10_880 * 30 / 16 / 100


def spec(**changes: Any) -> ClusterSpec:
    fields = {"gpus": 8, "interface": 100_000, "uplink": 200_000, "hyperperiod": 600}
    return cluster([2, 2], **{**fields, **changes}).model_copy(update={"gpu": A100})


def bert(folder: Path, workers: int, where: ClusterSpec, **fields: Any) -> Gang:
    document = {"format": "metronome-job/1", "name": f"bert-{workers}", "model": "BERT"}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**document, "batch": 8, "workers": workers, **fields}))
    return read_request(path, where)


def start(state: ClusterState, asked: Gang) -> PlacementDecision:
    decision = place_job(state, asked)
    assert isinstance(decision, PlacementDecision)
    assert state.reserve(decision.reservation)
    return decision


@pytest.fixture
def both(tmp_path: Path) -> ClusterState:
    """Return a state with BERT on one node, and on the two others of one rack."""
    state = ClusterState(spec())
    start(state, bert(tmp_path, 16, state.cluster))
    start(state, bert(tmp_path, 8, state.cluster))
    return state


@pytest.mark.parametrize(("workers", "nodes", "ms"), [(8, 1, INSIDE_MS), (16, 2, TWO_MS)])
def test_bert_is_placed_where_its_iteration_is_shortest(
    workers: int, nodes: int, ms: float, tmp_path: Path
) -> None:
    assert pytest.approx({1: 361.4, 2: 555.2}[nodes], abs=0.1) == ms
    state = ClusterState(spec())
    decision = start(state, bert(tmp_path, workers, state.cluster))
    assert len(set(decision.reservation.nodes)) == nodes
    assert decision.placement.racks == 1
    told = decision.best_ms, decision.alone_ms, decision.expected_ms
    assert told == pytest.approx((ms, ms, ms), rel=1e-5)
    assert decision.why_slower == ""


def test_other_places_are_slower_and_it_says_why(tmp_path: Path) -> None:
    """Four GPUs are left on each of two nodes: a ring of 8 sends 14 / 8 of 10.88 Gbit over them."""
    taken = [running(f"t{node}", f"n{node}", gpus=4) for node in range(2)]
    taken += [running(f"t{node}", f"n{node}", gpus=8) for node in (2, 3)]
    state = state_of(spec(), *taken)
    decision = start(state, bert(tmp_path, 8, state.cluster))
    across_ms = COMPUTING_MS + 10_880 * 14 / 8 / 100
    told = decision.best_ms, decision.alone_ms, decision.expected_ms
    assert told == pytest.approx((INSIDE_MS, across_ms, across_ms), rel=1e-5)
    assert decision.why_slower == "it sends over n0"


def test_a_node_with_slow_links_inside_is_named(tmp_path: Path) -> None:
    link_gbps = {"value": 10, "assumed": "slower than interfaces"}
    slow = Gpu.model_validate({**GPU, "link_gbps": link_gbps})
    state = ClusterState(spec().model_copy(update={"gpu": slow}))
    for node in ("n1", "n2", "n3"):
        state.set_node(node, up=False)
    decision = start(state, bert(tmp_path, 2, state.cluster))
    # On two nodes 10.88 Gbit go at 100 Gbit/s, on one at 10.
    assert decision.best_ms == pytest.approx(COMPUTING_MS + 108.8, rel=1e-5)
    assert decision.expected_ms == pytest.approx(COMPUTING_MS + 1088, rel=1e-5)
    assert decision.why_slower == "it sends inside a node"


@pytest.mark.parametrize("gated", [False, True])
def test_a_job_moves_to_where_its_iteration_is_shorter(gated: bool, tmp_path: Path) -> None:
    """No other job delays it, and yet it takes 542 ms instead of 361 in each of 1000 iterations."""
    taken = [running(f"t{node}", f"n{node}", gpus=4) for node in range(2)]
    taken += [running(f"t{node}", f"n{node}", gpus=8) for node in (2, 3)]
    state = state_of(spec(), *taken)
    decision = place_job(state, bert(tmp_path, 8, state.cluster, iterations=1000), now_s=100)
    assert isinstance(decision, PlacementDecision)
    state.reserve(decision.reservation.model_copy(update={"gated": gated, "started": 100}))
    assert decide_migrations(state, 10, 100) == []
    state.unreserve("t2")
    (move,) = decide_migrations(state, 10, 100)
    assert move.after.nodes == ("n2",) * 8
    there = apply_migrations(state, {move.job: move.after.nodes}).reservations[move.job]
    assert there.gang.period == 72
    assert decide_migrations(state, 1000, 100) == []


# ------------------------------------------------------------------ on the disk


def test_a_step_outlives_its_process(both: ClusterState, tmp_path: Path) -> None:
    assert [reservation.gang.step is not None for reservation in both.reservations.values()] == [
        True,
        True,
    ]
    assert ClusterState.of_snapshot(both.snapshot).reservations == both.reservations
    with Store.create(tmp_path / "state", spec()) as store:
        for reservation in both.reservations.values():
            store.state.reserve(reservation)
    assert read_cluster_state(tmp_path / "state").reservations == both.reservations


# ------------------------------------------------------------------ as a scenario


def test_a_state_and_its_scenario_have_one_instance(both: ClusterState) -> None:
    """In slots of 5 ms: 361.4 ms as a whole are 72, and 351.2 and 204 are 70 and 41."""
    problem = build_scenario(scenario_of(both))
    assert problem.instance == instance_of(both)
    assert {job.name: job.period for job in problem.instance.jobs} == {"bert-16": 111, "bert-8": 72}
    exact = {
        traffic.job.name: float(iteration.duration)
        for traffic, iteration in zip(problem.traffic, problem.iterations, strict=True)
    }
    assert exact == pytest.approx({"bert-16": TWO_MS, "bert-8": INSIDE_MS}, rel=1e-5)


@pytest.mark.parametrize("mbps", [50_000, 200_000])
def test_slots_are_taken_over_on_links_that_changed(mbps: int, both: ClusterState) -> None:
    """It sends for 408 ms or for 102 instead of 204, 82 or 21 slots, after 70 of computing."""
    for node in set(both.reservations["bert-16"].nodes):
        both.set_capacity(node, mbps)
    problem = build_scenario(scenario_of(both))
    slots = 70 + {50_000: 82, 200_000: 21}[mbps]
    assert problem.instance.job("bert-16").period == slots
    assert apply_schedule(both, allocate(scenario_of(both), time_limit=2, threads=1).schedule)
    reservation = both.reservations["bert-16"]
    assert reservation.gang.period == slots
    assert both.cluster.hyperperiod % reservation.period == 0


def test_solve_of_a_state_has_the_same_iterations(
    both: ClusterState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.create("state", spec()) as store:
        for reservation in both.reservations.values():
            store.state.reserve(reservation)
    assert read_state("state").jobs == scenario_of(both).jobs
    assert metronome("allocate state --time-limit 4 --output s.json") == 0
    times = read_schedule("s.json").expected_ms
    assert times is not None
    told = {job: float(ms) for job, ms in times.items()}
    assert told == pytest.approx({"bert-16": 555, "bert-8": 360}, rel=2e-3)
    assert told == pytest.approx(iterations_ms(both), rel=5e-3)


# ------------------------------------------------------------------ bursts that are stated


def test_bursts_that_a_place_slowed_down_are_as_stated_elsewhere() -> None:
    """Two tasks on an interface of 100 Mbit/s get 50 each: 4 slots at 60 take 5."""
    state = state_of(cluster([2, 2]), running("x", "n2 n3", gpus=2))
    asked = gang(4, (2, 4, 60), (8, 1, 20))
    reservation = start(state, asked).reservation
    assert [(phase.start, phase.length) for phase in reservation.gang.phases] == [(2, 5), (9, 1)]
    wide, narrow = (
        compute_placement(state.cluster, nodes.split()) for nodes in ("n0 n1 n2 n3", "n0 n0 n1 n1")
    )
    again = reservation.gang.at(wide.transport, 5, 24)
    assert (again.phases, again.period, again.step) == (asked.phases, asked.period, None)
    assert reservation.gang.at(narrow.transport, 5, 24) == reservation.gang
    inside = compute_placement(state.cluster, ["n0"] * 4)
    assert reservation.gang.at(inside.transport, 5, 24).phases == asked.phases


def test_stated_bursts_beside_collectives_are_as_fast_as_links() -> None:
    """Of 200 Mbit/s that are stated an interface carries 100: 10 Mbit in 100 ms, not in 50."""
    stated = {"kind": "stated", "mbit": "10", "max_mbps": 200}
    transfers = (stated, {"kind": "all-reduce", "mbit": "5"})
    at = {"ready_ms": "50", "needed_ms": "50"}
    step = TrainingStep.model_validate(
        {"compute_ms": "50", "transfers": [{**transfer, **at} for transfer in transfers]}
    )
    asked = gang(2, (10, 1, 90), period=20, step=step)
    where = cluster([2], gpus=1, hyperperiod=60)
    reservation = start(ClusterState(where), asked).reservation
    # 50 ms of computing, 100 of the burst, and 2 x 1 / 2 x 5 Mbit at 100 Mbit/s, 50 ms.
    assert [(phase.start, phase.length) for phase in reservation.gang.phases] == [
        (10, 20),
        (30, 10),
    ]
    assert max(phase.rate for phase in reservation.gang.phases) <= 100


def test_delays_of_others_are_shares_of_their_best_iteration() -> None:
    """Tasks of a share interfaces of 100 Mbit/s: 60 become 50, 60 ms at best are 66 where it is.

    On n0 it then meets b, without windows both of them. Shares that pairs cost each other are of
    iterations alone, and so 66 / 60 times as large of the best one.
    """
    full = {"gpus": 2}
    state = state_of(cluster([4]), running("x", "n2 n3", **full))
    a = start(state, gang(4, (0, 6, 60), name="a"))
    assert [a.best_ms, a.alone_ms] == pytest.approx([60, 66])
    before = iterations_ms(state)
    state.unreserve("x")
    b = running("b", "n0 n2", (0, 6, 60), gpus=0)
    state.reserve(b.model_copy(update={"gated": False}))
    after = iterations_ms(state)
    occupancy = occupancy_of(state)
    one, two = (occupancy.placed[name] for name in "ab")
    (mine, theirs) = occupancy.pair_losses.on_link(
        (one.job.traffic(one.placement.transport), 2, 1),
        (two.job.traffic(two.placement.transport), 1, 1),
        100,
    )
    assert mine > 0 < theirs
    assert before["a"] == pytest.approx(66)
    assert after["a"] == pytest.approx(66 * (1 + mine))
    occupancy.remove("b")
    delays = occupancy.start(two.job, two.placement).losses
    assert delays == pytest.approx({"a": mine * 66 / 60, "b": theirs})
    place = PlacementDecision(b, 60, 60, 60, two.placement, {"a": delays["a"]})
    ((name, *times),) = place.affected(state)
    assert name == "a"
    assert times == pytest.approx([after["a"], after["a"] + 66 * mine])
