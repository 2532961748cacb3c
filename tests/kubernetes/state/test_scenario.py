"""A state as a scenario, and windows solved for it that are taken over."""

from __future__ import annotations

import pytest

from metronome_opt.api import allocate
from metronome_opt.errors import InputError
from metronome_opt.kubernetes.state.records import Change, Reservation
from metronome_opt.kubernetes.state.scenario import apply_schedule, document_of, scenario_of
from metronome_opt.kubernetes.state.state import ClusterState
from metronome_opt.kubernetes.state.views import exported, instance_of
from metronome_opt.problem.schedule import Schedule
from metronome_opt.scenario import Scenario, build_scenario
from metronome_opt.verify import verify_schedule
from tests import builders
from tests.kubernetes.state.small import A, B, cluster, gang, running, state_of, usual


def test_a_state_and_its_scenario_have_one_instance() -> None:
    assert build_scenario(scenario_of(usual())).instance == instance_of(usual())
    stretched = A.model_copy(update={"stretch": 12})
    ring = running("ring", "n1 n3", allreduce="ring", gpus=1, iterations=7, jitter=0.04)
    without_gpus = running("cpu", "n0 n3", (0, 1, 10), period=4)
    state = state_of(cluster([2, 2]), stretched, B, without_gpus, ring)
    state.set_capacity("n1", 70)
    state.set_capacity("up-1", 60)
    assert scenario_of(state).jobs[-1].iterations == 7
    assert [job.jitter for job in scenario_of(state).jobs] == [None, None, None, 0.04]
    assert Scenario.from_dict(document_of(state)).jobs == scenario_of(state).jobs
    problem = build_scenario(scenario_of(state))
    assert problem.instance == instance_of(state)
    assert [task.links for task in problem.deployment.tasks] == [
        task.links for task in exported(state)[2].tasks
    ]


def test_a_state_keeps_the_network_of_its_cluster() -> None:
    over_tcp = cluster([2, 2]).model_copy(update={"network": "tcp"})
    state = state_of(over_tcp, A, B)
    assert scenario_of(state).cluster.network == instance_of(state).network == "tcp"
    assert document_of(state)["cluster"]["network"] == "tcp"
    assert "network" not in document_of(usual())["cluster"]
    assert "network" not in usual().cluster.to_dict()


def test_nodes_have_what_a_scenario_can_use() -> None:
    state = state_of(cluster([2, 2]), A, B, running("s", "n2", gpus=1))  # s sends nothing
    state.apply(Change(up={"n1": False, "n3": False}, capacities={"n2": 0}))
    scenario = scenario_of(state)
    assert [job.name for job in scenario.jobs] == ["a", "b"]
    assert [node.has.gpus for node in scenario.cluster.nodes] == [2, 1, 1, 0]
    assert scenario.cluster.capacities["n2"] == 0
    empty = ClusterState(cluster([2]))
    with pytest.raises(InputError, match="no reservations of several tasks are in force"):
        scenario_of(empty)
    with pytest.raises(InputError, match="no reservations are in force"):
        instance_of(empty)


def test_the_judge_finds_nothing_false_in_the_schedule() -> None:
    asked = gang(2, (0, 5, 90), name="stretched", period=7)
    stretched = Reservation(gang=asked, nodes=("n0", "n2"), offset=7, stretch=1)
    state = state_of(cluster([2, 2], gpus=3), A, B, stretched)
    instance, stated, _ = exported(state)
    assert dict(stated.offsets) == {"a": 2, "b": 7, "stretched": 7}
    assert dict(stated.stretch) == {"a": 0, "b": 0, "stretched": 1}
    assert verify_schedule(instance, stated) == ()
    assert stated.objectives["contention"]
    assert stated.objectives["moves"] == 0


def schedule(**fields: object) -> Schedule:
    """Return windows for `usual`: a at 0 of 12, and b, which may take longer, at 6."""
    return builders.schedule(**{"instance": "small", "offsets": {"a": 0, "b": 6}, **fields})  # type: ignore[arg-type]


def test_slots_that_were_solved_are_taken_over() -> None:
    state = usual()
    assert apply_schedule(state, allocate(scenario_of(state), time_limit=2, threads=1).schedule)
    state = usual()
    stretched = schedule(stretch={"b": 4}, stretch_limit="1/2", gated={"a": False, "b": True})
    assert apply_schedule(state, stretched)
    a, b = state.reservations["a"], state.reservations["b"]
    assert (a.offset, a.stretch, a.gated) == (0, 0, False)
    assert (b.offset, b.stretch, b.gated) == (6, 4, True)
    assert (a.nodes, b.nodes) == (A.nodes, B.nodes)
    assert not apply_schedule(state, stretched)


def test_solved_periods_divide_the_hyperperiod() -> None:
    # Two bursts of 110 slots fit into 220; 275 is the next divisor of 2200.
    jobs = [running(name, "n0 n1", (0, 110, 100), period=200, gpus=1) for name in "ab"]
    state = state_of(cluster([2, 2], hyperperiod=2200), *jobs)
    problem = scenario_of(state)
    result = allocate(problem, time_limit=5, stretch_limit="15%", network="fair", threads=1)
    assert apply_schedule(state, result.schedule)
    periods = {reservation.period for reservation in state.reservations.values()}
    assert all(2200 % period == 0 for period in periods)
    assert any((result.schedule.gated or {}).values())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"instance": "other"}, "instance: stated 'other', but the instance is 'small'; solve"),
        ({"offsets": {"a": 0}}, "offsets.b: stated nothing, but every job needs an offset; solve"),
        (
            {"stretch": {"b": 1}, "stretch_limit": "1/2"},
            "b: period: 9 slots do not divide the hyperperiod of 24",
        ),
    ],
)
def test_what_is_not_of_a_state_is_not_taken_over(fields: dict[str, object], said: str) -> None:
    state = usual()
    with pytest.raises(InputError, match=said):
        apply_schedule(state, schedule(**fields))
    assert state.reservations == usual().reservations
