"""The claims in force in the words of instances, schedules and deployments."""

from __future__ import annotations

import pytest

from metronome_opt.errors import InputError
from metronome_opt.scheduling.gang import Claim
from metronome_opt.scheduling.state import ClusterState
from metronome_opt.scheduling.views import deployment_of, instance_of, schedule_of
from metronome_opt.verify import check
from tests.scheduling.clusters import cluster, gang, running, state_of
from tests.scheduling.states import A, B

ALONE = running("alone", "n3 n3", (0, 2, 30))


def test_an_instance_has_all_links_as_they_are_and_what_runs_where() -> None:
    state = state_of(cluster([2, 2]), A, B, ALONE)
    state.set_capacity("n1", 70)
    state.set_capacity("n2", 0)
    instance = instance_of(state)
    assert (instance.name, instance.slot_ms) == (state.cluster.name, 5)
    carries = {link.name: link.capacity for link in instance.links}
    # A link that has failed is the slowest that an instance knows.
    assert carries == {"n0": 100, "n1": 70, "n2": 1, "n3": 100, "up-0": 150, "up-1": 150}
    assert [job.name for job in instance.jobs] == ["a", "b", "alone"]
    assert dict(instance.job("b").links) == {"n0": 1, "n2": 1, "up-0": 1, "up-1": 1}
    assert dict(instance.job("alone").links) == {}
    assert [job.current_offset for job in instance.jobs] == [2, 7, 0]
    assert [job.weight for job in instance.jobs] == [2, 1, 1]


def test_without_claims_there_is_no_instance() -> None:
    with pytest.raises(InputError, match="no claims are in force"):
        instance_of(ClusterState(cluster([2])))
    with pytest.raises(InputError, match="there is no job 'c' with claims in force"):
        instance_of(state_of(cluster([2, 2]), A), ["c"])


def test_the_judge_finds_nothing_false_in_the_schedule() -> None:
    asked = gang(2, (0, 5, 90), name="stretched", period=7)
    stretched = Claim(gang=asked, nodes=("n0", "n2"), offset=7, stretch=1)
    state = state_of(cluster([2, 2], gpus=3), A, B, stretched)
    schedule = schedule_of(state)
    assert dict(schedule.offsets) == {"a": 2, "b": 7, "stretched": 7}
    assert dict(schedule.stretch) == {"a": 0, "b": 0, "stretched": 1}
    assert check(instance_of(state), schedule) == ()
    assert schedule.objectives["contention"] == state.contention() > 0
    assert schedule.objectives["moves"] == 0


def test_a_deployment_says_where_each_task_runs() -> None:
    deployment = deployment_of(state_of(cluster([2, 2]), A, B, ALONE))
    assert [node.links for node in deployment.nodes][::3] == [("n0", "up-0"), ("n3", "up-1")]
    assert [(task.job, task.index, task.node, task.links) for task in deployment.tasks] == [
        ("a", 0, "n0", ("n0",)),
        ("a", 1, "n1", ("n1",)),
        ("b", 0, "n0", ("n0", "up-0")),
        ("b", 1, "n2", ("n2", "up-1")),
        ("alone", 0, "n3", ()),
        ("alone", 1, "n3", ()),
    ]
