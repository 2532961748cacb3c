"""Laws hold under any policy: queueing, ideal times, capacities, refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.simulation import POLICIES, Conditions, SimulationResult, simulate
from metronome_opt.simulation.result import Groups
from tests.simulation.runs import column, job_table
from tests.simulation.scenes import racks, scene, switch, work

ALL_POLICIES = pytest.mark.parametrize("policy", list(POLICIES))


def four(*jobs: dict[str, Any]) -> Scenario:
    """Return jobs on four nodes of two GPUs."""
    return scene(switch(4, 2), *jobs)


def shared() -> Scenario:
    """Return jobs of two tasks on the same two nodes, and others that come when they are there."""
    return four(
        work("a", 0, 1, batch=20),
        work("b", 0, 1, batch=30, model="Short", priority=4),
        work("c", workers=4, batch=40, arrival_s=1),
        work("d", arrival_s=2),
        work("e", workers=3, arrival_s=3, priority=2),
    )


def alone_s(given: Scenario) -> float:
    """Return how long an iteration of the only job takes by the traffic model, in seconds."""
    return float(build_scenario(given).iterations[0].duration) / 1000


def alike(run: SimulationResult) -> float:
    """Return the mean iteration of the first job."""
    return float(run.jobs["iteration_mean_ms"][0])


def text(run: SimulationResult) -> str:
    frames = (run.jobs, run.links, run.trace)
    return "\n".join([*(frame.to_csv() for frame in frames), repr((run.makespan_s, run.events))])


@ALL_POLICIES
def test_single_job_takes_ideal_time(policy: str) -> None:
    given = four(work("a", 0, 1, arrival_s=5))
    row = job_table(simulate(given, policy))["a"]
    assert row["start_s"] == 5
    assert row["queueing_s"] == 0
    assert row["iterations"] == 50
    assert row["finished"]
    assert row["completion_s"] == pytest.approx(50 * alone_s(given), rel=1e-12)
    for measure in ("iteration_p99_ms", "iteration_max_ms"):
        assert row[measure] == pytest.approx(1000 * alone_s(given), rel=1e-12)
    assert row["nodes"] == 2


@ALL_POLICIES
def test_job_waits_for_free_gpus(policy: str) -> None:
    given = four(work("a", workers=8), work("b", workers=8, arrival_s=1))
    run = simulate(given, policy)
    rows = job_table(run)
    assert rows["b"]["start_s"] == pytest.approx(rows["a"]["end_s"])
    assert rows["b"]["queueing_s"] == pytest.approx(rows["a"]["end_s"] - 1)
    assert rows["b"]["completion_s"] == pytest.approx(rows["b"]["end_s"] - 1)
    assert run.jobs["iteration_mean_ms"].tolist() == pytest.approx([alike(run)] * 2)


@ALL_POLICIES
def test_waiting_jobs_start_by_priority(policy: str) -> None:
    given = four(
        work("a", workers=8),
        work("late", workers=8, arrival_s=0.2, priority=1),
        work("heavy", workers=8, arrival_s=0.3, priority=9),
        work("early", workers=8, arrival_s=0.1, priority=1),
    )
    starts = column(simulate(given, policy), "start_s")
    assert sorted(starts, key=lambda name: starts[name]) == ["a", "heavy", "early", "late"]


def test_jobs_have_their_own_jitter_or_that_of_conditions() -> None:
    """Alone on their nodes, with 40 ms of computing and 20 of a burst."""
    given = four(work("a", 0, 1, jitter=0.1), work("b", 2, 3))
    times = [
        column(simulate(given, "default", conditions=conditions), "iteration_mean_ms")
        for conditions in (Conditions(), Conditions(jitter=0.05))
    ]
    assert times[0]["a"] == times[1]["a"] != pytest.approx(60)
    assert times[0]["b"] == pytest.approx(60) != times[1]["b"]


@ALL_POLICIES
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_no_job_is_faster_than_alone(policy: str, jitter: float) -> None:
    """Placements and jitter are equal: contention can only add to each job's iterations."""
    given = scene(
        switch(4, 4),
        work("a", 0, 1, batch=1),
        work("b", 0, 1, model="Short", batch=4, iterations=50, priority=4),
        work("c", 0, 1, 2, 3, arrival_s=1),
    )
    conditions = Conditions(jitter=jitter)
    ideal = simulate(given, "ideal", seed=3, conditions=conditions).jobs
    other = simulate(given, policy, seed=3, conditions=conditions).jobs
    for measure in ("iteration_mean_ms", "completion_s"):
        assert (other[measure] >= ideal[measure] * (1 - 1e-9)).all()
    if not jitter:
        assert ideal["iteration_max_ms"].tolist() == pytest.approx(ideal["ideal_ms"].tolist())


@ALL_POLICIES
def test_equal_arguments_give_equal_bytes(policy: str) -> None:
    conditions = Conditions(jitter=0.05, drift_ppm=100)

    def output(seed: int) -> str:
        watch = ["node-00"]
        run = simulate(shared(), policy, seed=seed, conditions=conditions, watch=watch)
        return text(run)

    assert output(1) == output(1)
    assert output(1) != output(2)


@ALL_POLICIES
def test_job_cut_off_by_horizon_has_no_end(policy: str) -> None:
    run = simulate(shared(), policy, conditions=Conditions(horizon_s=2.5))
    cut = run.jobs[~run.jobs["finished"]]
    assert len(cut)
    assert cut["end_s"].isna().all()
    assert cut["completion_s"].isna().all()
    rows = job_table(run)
    assert math.isnan(rows["e"]["start_s"])  # it comes later
    assert rows["e"]["iterations"] == 0


def check_refusal(given: Scenario, part: str, **arguments: Any) -> None:
    with pytest.raises(InputError, match=part) as caught:
        simulate(given, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "ideal"])
@pytest.mark.parametrize("big", [work("big", workers=9), work("big", 0, 0, 0)])
def test_job_larger_than_cluster_is_refused(policy: str, big: dict[str, Any]) -> None:
    check_refusal(four(work("a", iterations=3), big), "big", policy=policy)


@pytest.mark.parametrize(
    ("changes", "part"),
    [({"policy": "best"}, f"best.*{'.*'.join(POLICIES)}"), ({"watch": ["node-99"]}, "node-99")],
)
def test_invalid_argument_is_refused(changes: dict[str, Any], part: str) -> None:
    check_refusal(four(work("a")), part, **{"policy": "default", **changes})


@ALL_POLICIES
@pytest.mark.parametrize(
    ("nodes", "said"),
    [(2, "and its links 1 Mbit/s for each flow"), (4, "node-00: its 1 Mbit/s are less")],
)
def test_interface_too_slow_to_be_shared_is_refused(policy: str, nodes: int, said: str) -> None:
    """Two tasks would get half of 1 Mbit/s each; rates are whole. A task on each node has all."""
    given = scene(switch(nodes, 2, nic_mbps=1), work("a", 0, 0, 1, 1, allreduce="tasks"))
    check_refusal(given, said, policy=policy)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "ideal"])
@pytest.mark.parametrize(("allreduce", "crossing"), [("ring", 1), ("tasks", 2)])
def test_tasks_send_through_interfaces_and_uplinks(
    policy: str, allreduce: str, crossing: int
) -> None:
    """Three tasks, two of them in the first rack: a ring leaves it once, flows of tasks twice.

    The other job is on one node, where its traffic stays.
    """
    job = work("a", 0, 1, 3, iterations=20, allreduce=allreduce)
    given = scene(racks(2, 3, 2, "3:1"), job, work("b", 4, 4, iterations=20))
    volume = 20 * 2 * (2 / 3) * 2 / 1000  # iterations, an all-reduce of three, Gbit
    links = simulate(given, policy).links.set_index("link")
    flows = {name: gbit / volume for name, gbit in links["carried_gbit"].items() if gbit}
    nodes = dict.fromkeys(("node-00", "node-01", "node-03"), 1)
    assert flows == pytest.approx({**nodes, "rack-0-uplink": crossing, "rack-1-uplink": 1})
    assert {*links.index[links["used_s"] > 0]} == {*flows}


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_links_carry_no_more_than_their_capacity(jitter: float) -> None:
    """What links of the policy without contention carry is not known: it has no network."""
    for policy in POLICIES:
        links = simulate(shared(), policy, conditions=Conditions(jitter=jitter)).links
        share = 1000 * links["carried_gbit"] / (links["capacity_mbps"] * links["used_s"])
        used = share[links["used_s"] > 0]
        assert len(used)
        assert used.isna().all() if policy == "ideal" else (used <= 1 + 1e-9).all()


@pytest.mark.parametrize(("nodes", "arrival_s"), [((0, 1), 0.63), ((0, 0), 0.63)])
def test_early_traffic_counts_wherever_it_goes(nodes: tuple[int, ...], arrival_s: float) -> None:
    """Iterations of 60 ms, in which both tasks send 2 Mbit: ten until the last job arrives."""
    given = four(work("a", *nodes), work("b", 2, 3, arrival_s=arrival_s))
    sent = column(simulate(given, "nearest"), "early_gbit")
    assert sent == pytest.approx({"a": 10 * 2 * 0.002, "b": 0.0})


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (4, Groups(met=1, fitting=1, gated=0)),  # bursts of 40 ms in iterations of 80 ms
        (2, Groups(met=1, fitting=0, gated=0)),  # of 60 ms
    ],
)
def test_groups_that_meet_fit_if_their_bursts_do(batch: int, expected: Groups) -> None:
    jobs = (work(name, 0, 1, model="Long", batch=batch) for name in "ab")
    assert simulate(four(*jobs), "nearest").groups == expected
    apart = four(work("a", 0, 1), work("b", 2, 3))
    assert simulate(apart, "nearest").groups == Groups(0, 0, 0)
