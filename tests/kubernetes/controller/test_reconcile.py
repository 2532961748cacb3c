"""Gated pods get their places, gang by gang, whatever happens in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from metronome_opt.kubernetes.controller import Controller
from metronome_opt.kubernetes.pods import Pod
from metronome_opt.scheduling import Store, place_job
from metronome_opt.scheduling.cycle import Decision
from metronome_opt.scheduling.gang import Gang
from metronome_opt.scheduling.state import ClusterState
from tests.kubernetes.controller.fake import GPU, TRAFFIC, FakeCluster, Killed, spec_of

TOLD = ("offset-ms", "period-ms", "starts-ms", "cushion-ms", "gated")
"""Annotations of a pod that has its slots."""


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "state", spec_of(4)) as store:
        yield store


def look(controller: Controller, cluster: FakeCluster) -> int:
    return controller.reconcile(cluster.pods, cluster.nodes)


def check(cluster: FakeCluster, store: Store) -> None:
    """Check that no gang is half placed, no GPU counted twice, no claim without a pod."""
    assert max(cluster.used().values(), default=0) <= 8
    placed = Counter(pod.job for pod in cluster.pods if pod.place)
    assert set(placed) == set(store.state.claims)
    for job, claim in store.state.claims.items():
        mine = [pod for pod in cluster.pods if pod.job == job]
        assert Counter(pod.place for pod in mine) == Counter(claim.nodes)
        claimed = {
            name: item["spec"]["allocation"]["node"]
            for name, item in cluster.claims_by_name.items()
            if item["spec"]["job"] == job
        }
        assert claimed == {pod.name: pod.place for pod in mine}
        assert {pod.annotations["metronome.x-k8s.io/offset-ms"] for pod in mine} == {
            f"{5 * claim.offset:g}"
        }
    jobs = {item["spec"]["job"] for item in cluster.claims_by_name.values()}
    assert jobs == set(store.state.claims)


def test_gangs_are_placed_whole_and_the_others_are_told_why(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    cluster.submit("b", 2)
    cluster.submit("c", 4)
    assert look(controller, cluster) == 1
    check(cluster, store)
    assert set(store.state.claims) == {"default/a", "default/b"}
    (line,) = [line for job, _, line in cluster.events if job == "default/c"]
    assert "GPUs" in line
    cluster.remove("b")
    cluster.remove("a")
    assert look(controller, cluster) == 0
    check(cluster, store)
    assert set(store.state.claims) == {"default/c"}


def test_what_found_no_place_is_searched_for_again_when_something_has_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def place(state: ClusterState, gang: Gang) -> Decision | None:
        searched.append(gang.name)
        return place_job(state, gang)

    monkeypatch.setattr("metronome_opt.kubernetes.controller.reconcile.place_job", place)
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 9)
    for _ in range(3):
        look(controller, cluster)
    assert searched == ["default/a"]
    cluster.cordoned.add("n0")
    look(controller, cluster)
    assert searched == ["default/a"] * 2


def test_two_jobs_on_one_link_get_slots_apart(store: Store) -> None:
    cluster = FakeCluster(4)
    for node in ("n2", "n3"):
        cluster.ready[node] = False
    heavy = TRAFFIC.replace("6G", "30G")
    cluster.submit("a", 2, traffic=heavy)
    cluster.submit("b", 2, traffic=heavy)
    assert look(Controller(store.state, cluster), cluster) == 0
    check(cluster, store)
    one, other = store.state.claims.values()
    assert set(one.nodes) & set(other.nodes) <= {"n0", "n1"}
    assert store.state.contention() == 0


def test_nobody_is_placed_before_all_pods_are_there(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    last = cluster.pods_by_name.pop("a-3")
    assert look(controller, cluster) == 1
    assert ("default/a", "Waiting", "3 of 4 pods are there") in cluster.events
    cluster.pods_by_name["a-3"] = last
    assert look(controller, cluster) == 0
    check(cluster, store)


def test_the_more_important_gang_goes_first_and_nobody_is_driven_out(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 6, priority="1")
    cluster.submit("b", 6, priority="3")
    assert look(controller, cluster) == 1
    assert set(store.state.claims) == {"default/b"}
    cluster.submit("c", 8, priority="9")
    assert look(controller, cluster) == 2
    assert set(store.state.claims) == {"default/b"}


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"traffic": "{periodMicroseconds: 100}"}, "phases"),
        ({"tasks": "four"}, "must be an integer, got 'four'"),
        ({"traffic": "nothing"}, "traffic"),
        ({"priority": "-1"}, "priority"),
        ({"tasks": "99"}, "4 of 99 pods are there"),
    ],
)
def test_what_cannot_be_read_is_one_event(
    store: Store, annotations: dict[str, str], told: str
) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4, **annotations)
    cluster.submit("b", 2)
    for _ in range(3):
        assert look(controller, cluster) == 1
    (line,) = [line for job, _, line in cluster.events if job == "default/a"]
    assert told in line
    assert "\n" not in line
    assert set(store.state.claims) == {"default/b"}


def test_a_gang_larger_than_the_cluster_waits_with_a_reason(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 9)
    assert look(Controller(store.state, cluster), cluster) == 1
    (line,) = [line for _, _, line in cluster.events]
    assert line.endswith("8 of 9 tasks find room; needs 1 more node with 4 GPUs free")


def test_a_pod_that_is_not_bound_restarts_its_gang(store: Store) -> None:
    cluster, clock = FakeCluster(4), Clock()
    cluster.bind = False
    controller = Controller(store.state, cluster, patience_s=60, clock=clock)
    cluster.submit("a", 4)
    look(controller, cluster)
    before = {pod.uid for pod in cluster.pods}
    clock.now = 59
    look(controller, cluster)
    assert {pod.uid for pod in cluster.pods} == before
    clock.now = 121
    look(controller, cluster)
    assert not {pod.uid for pod in cluster.pods} & before
    cluster.bind = True
    clock.now = 180
    assert look(controller, cluster) == 1  # not at once: whatever was in the way may still be
    clock.now = 182
    assert look(controller, cluster) == 0
    check(cluster, store)


def test_the_gang_of_a_node_that_fails_is_restarted_elsewhere(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    look(controller, cluster)
    (failed, *_) = store.state.claims["default/a"].nodes
    del cluster.ready[failed]
    for _ in range(3):
        look(controller, cluster)
    check(cluster, store)
    assert failed not in store.state.claims["default/a"].nodes


def test_a_node_that_is_cordoned_or_not_ready_for_a_while_keeps_its_pods(store: Store) -> None:
    cluster, clock = FakeCluster(4), Clock()
    controller = Controller(store.state, cluster, node_patience_s=300, clock=clock)
    cluster.submit("a", 4)
    look(controller, cluster)
    (node, *_) = store.state.claims["default/a"].nodes
    before = {pod.uid for pod in cluster.pods}
    cluster.cordoned.add(node)
    for clock.now in (0.0, 1000.0):
        look(controller, cluster)
    assert not store.state.up[store.state.node_index(node)]
    cluster.cordoned.clear()
    cluster.ready[node] = False
    for clock.now in (1001.0, 1300.0):
        look(controller, cluster)
    assert {pod.uid for pod in cluster.pods} == before
    clock.now = 1302.0
    look(controller, cluster)
    assert not {pod.uid for pod in cluster.pods} & before


def test_running_pods_are_told_other_slots_and_a_lost_state_knows_them_again(
    store: Store, tmp_path: Path
) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    look(Controller(store.state, cluster), cluster)
    before = store.state.claims["default/a"]
    after = before.model_copy(update={"offset": 7, "stretch": 8, "gated": False})
    store.state.revise([after])
    look(Controller(store.state, cluster), cluster)
    for pod in cluster.pods:
        told = {name: pod.annotations[f"metronome.x-k8s.io/{name}"] for name in TOLD}
        assert told == {
            "offset-ms": "35",
            "period-ms": "240",
            "starts-ms": "100",
            "cushion-ms": "2.4",
            "gated": "false",
        }
    assert cluster.events[-1] == (
        "default/a",
        "Rephased",
        "no slots: bursts begin when they are ready",
    )
    with Store.create(tmp_path / "other", spec_of(4)) as other:
        look(Controller(other.state, cluster), cluster)
        assert other.state.claims == {"default/a": after}


def test_room_that_pods_of_others_hold_is_not_given_away(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.run_other("big", "n0", 8)
    cluster.run_other("small", "n1", 5)
    cluster.run_other("elsewhere", "n9", 8)
    cluster.submit("a", 4)
    cluster.submit("b", 2)
    assert look(controller, cluster) == 1
    assert Counter(store.state.claims["default/a"].nodes) == {"n2": 2, "n3": 2}
    (line,) = [line for job, _, line in cluster.events if job == "default/b"]
    assert line.endswith("needs 1 more node with 8 GPUs free")
    look(controller, cluster)
    assert set(store.state.claims) == {"default/a"}
    cluster.pods_by_name["big"]["status"]["phase"] = "Succeeded"
    assert look(controller, cluster) == 0
    assert set(store.state.claims["default/b"].nodes) == {"n0"}
    check(cluster, store)


def test_a_node_with_fewer_gpus_than_the_state_has_takes_fewer_tasks(store: Store) -> None:
    cluster = FakeCluster(5)
    cluster.allocatable = {"n0": {GPU: "0"}, "n1": {GPU: "12"}}
    cluster.allocatable["n4"] = {GPU: "8"}
    cluster.run_other("other", "n1", 4)
    cluster.submit("a", 7)
    cluster.submit("b", 6)
    controller = Controller(store.state, cluster)
    for _ in range(2):
        assert look(controller, cluster) == 1
    assert "n0" not in store.state.claims["default/b"].nodes
    told = [(name, line) for name, reason, line in cluster.events if reason == "NotInState"]
    assert {name: line.partition(";")[0] for name, line in told} == {
        "n0": "has 0 GPUs, and 8 in the state of the controller",
        "n1": "has 12 GPUs, and 8 in the state of the controller",
        "n4": "has 8 GPUs, and 0 in the state of the controller",
    }
    assert len(told) == 3  # each once


def test_claims_that_somebody_deletes_or_changes_are_written_again(store: Store) -> None:
    cluster, clock = FakeCluster(4), Clock()
    controller = Controller(store.state, cluster, clock=clock)
    cluster.submit("a", 4)
    look(controller, cluster)
    before = deepcopy(cluster.claims_by_name)
    del cluster.claims_by_name["a-0"]
    cluster.claims_by_name["a-1"]["spec"]["allocation"]["offsetMicroseconds"] += 5000
    cluster.claims_by_name["a-2"]["metadata"]["ownerReferences"] = []
    for clock.now in (1.0, 2.0, 31.0, 32.0, 33.0):
        cluster.left = 3  # writes
        look(controller, cluster)
    assert cluster.claims_by_name == before
    assert cluster.looks == 2  # not in every round: there may be many
    cluster.left = 0
    clock.now = 100.0
    look(controller, cluster)


@pytest.mark.parametrize(
    "labels",
    [
        {"jobset.sigs.k8s.io/jobset-name": "j", "job-name": "j-workers-0"},
        {"training.kubeflow.org/job-name": "j"},
        {"volcano.sh/job-name": "j"},
        {"leaderworkerset.sigs.k8s.io/group-key": "j", "leaderworkerset.sigs.k8s.io/name": "x"},
        {"ray.io/cluster": "j"},
        {"scheduling.x-k8s.io/pod-group": "j"},
        {"batch.kubernetes.io/job-name": "j"},
    ],
)
def test_labels_of_operators_say_of_which_job_a_pod_is(labels: dict[str, str]) -> None:
    metadata = {"name": "p", "namespace": "n", "labels": labels}
    assert Pod.of({"metadata": metadata, "spec": {}}).job == "n/j"


def test_more_pods_than_tasks_are_told_and_wait(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4, tasks="2")
    controller = Controller(store.state, cluster)
    for _ in range(3):
        look(controller, cluster)
    assert sum(pod.place is not None for pod in cluster.pods) == 2
    assert any("2 pods more, which wait" in line for _, _, line in cluster.events)


@pytest.mark.parametrize(
    "slots",
    [
        '{"offset_ms": -5, "period_ms": 200, "starts_ms": [100]}',
        '{"offset_ms": 0, "period_ms": 10, "starts_ms": [100]}',
        '{"offset_ms": Infinity, "period_ms": 200, "starts_ms": [100]}',
        '{"offset_ms": 1000000, "period_ms": 200, "starts_ms": [100]}',
        "[]",
        "x",
    ],
)
def test_annotations_that_others_wrote_harm_nobody(store: Store, slots: str) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2, node="n0", slots=slots)
    cluster.submit("b", 2)
    controller = Controller(store.state, cluster)
    for _ in range(2):
        look(controller, cluster)
    assert "default/b" in store.state.claims


def test_pods_of_unlike_needs_are_refused(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2)
    cluster.pods_by_name["a-1"]["spec"]["containers"][0]["resources"] = {}
    assert look(Controller(store.state, cluster), cluster) == 1
    ((_, _, line),) = cluster.events
    assert "0 and 4 GPUs" in line


def test_a_task_that_is_done_keeps_the_others_where_they_are(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    controller = Controller(store.state, cluster)
    look(controller, cluster)
    claim = store.state.claims["default/a"]
    cluster.pods_by_name["a-0"]["status"]["phase"] = "Succeeded"
    for pod in cluster.pods[1:]:
        cluster.delete(pod)
    assert look(controller, cluster) == 0
    assert store.state.claims["default/a"] == claim
    assert Counter(pod.place for pod in cluster.pods) == Counter(claim.nodes)


def test_pods_behind_other_gates_are_waited_for(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2)
    gates = cluster.pods_by_name["a-1"]["spec"]["schedulingGates"]
    gates.append({"name": "example.org/queue"})
    controller = Controller(store.state, cluster)
    assert look(controller, cluster) == 1
    assert cluster.events[-1][2] == "1 of 2 pods are there; 1 have other scheduling gates"
    gates.pop()
    assert look(controller, cluster) == 0


def test_an_older_state_believes_the_pods(store: Store, tmp_path: Path) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2)
    look(Controller(store.state, cluster), cluster)
    claim = store.state.claims["default/a"]
    before = {pod.uid for pod in cluster.pods}
    others = [name for name in ("n0", "n1", "n2", "n3") if name not in claim.nodes][:1] * 2
    with Store.create(tmp_path / "old", spec_of(4)) as old:
        old.state.reserve(claim.model_copy(update={"nodes": tuple(others)}))
        look(Controller(old.state, cluster), cluster)
        assert old.state.claims["default/a"] == claim
    assert {pod.uid for pod in cluster.pods} == before


def test_one_pod_that_is_recreated_gets_the_place_of_the_old_one(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    look(controller, cluster)
    claim = store.state.claims["default/a"]
    cluster.delete(cluster.pods[1])
    look(controller, cluster)
    check(cluster, store)
    assert store.state.claims["default/a"] == claim


def test_other_slots_reach_claims_and_pods(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    look(controller, cluster)
    claim = store.state.claims["default/a"]
    store.state.revise([claim.model_copy(update={"offset": claim.offset + 1})])
    look(controller, cluster)
    check(cluster, store)


def test_jobs_of_others_are_left_alone(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    look(Controller(store.state, cluster), cluster)
    other = store.state.claims["default/a"].gang.model_copy(update={"name": "by-hand", "tasks": 2})
    decision = place_job(store.state, other)
    assert decision is not None
    store.state.reserve(decision.claim)
    cluster.remove("a")
    look(Controller(store.state, cluster, namespace="elsewhere"), cluster)
    assert set(store.state.claims) == {"default/a", "by-hand"}
    look(Controller(store.state, cluster, namespace="default"), cluster)
    assert set(store.state.claims) == {"by-hand"}


def test_a_lost_state_is_recovered_from_the_pods(store: Store, tmp_path: Path) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    cluster.submit("b", 2)
    look(Controller(store.state, cluster), cluster)
    uids = {pod.uid for pod in cluster.pods}
    with Store.create(tmp_path / "new", spec_of(4)) as new:
        look(Controller(new.state, cluster), cluster)
        check(cluster, new)
        assert new.state.claims == store.state.claims
    assert {pod.uid for pod in cluster.pods} == uids


def _look_again(cluster: FakeCluster, folder: Path) -> None:
    with Store(folder) as store:
        look(Controller(store.state, cluster), cluster)


@pytest.mark.parametrize("moment", range(34))
def test_a_controller_killed_at_any_moment_goes_on_where_it_was(
    tmp_path: Path, moment: int
) -> None:
    folder = tmp_path / "state"
    with Store.create(folder, spec_of(4)):
        pass
    cluster = FakeCluster(4)
    for job, tasks in (("a", 4), ("b", 2), ("c", 4)):
        cluster.submit(job, tasks)
    cluster.left = moment
    story: list[Callable[[], object]] = [
        lambda: cluster.remove("b"),
        lambda: cluster.ready.pop("n0"),
        lambda: cluster.submit("d", 2),
        lambda: cluster.remove("a"),
    ]
    for happens in story:
        try:
            _look_again(cluster, folder)
        except Killed:
            cluster.left = None
        happens()
    assert cluster.left is None  # it was killed
    for _ in range(4):
        _look_again(cluster, folder)
    with Store(folder) as store:
        check(cluster, store)
        assert set(store.state.claims) == {"default/c", "default/d"}
        assert all("n0" not in claim.nodes for claim in store.state.claims.values())
