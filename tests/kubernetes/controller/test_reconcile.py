"""Gated pods get their places, gang by gang, despite kills and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from metronome_opt.cluster import Store
from metronome_opt.cluster.gang import Gang
from metronome_opt.cluster.state import ClusterState
from metronome_opt.kubernetes.controller import Controller
from metronome_opt.kubernetes.pods import Pod
from metronome_opt.scheduling import place_job
from metronome_opt.scheduling.cycle import PlaceDecision
from tests.kubernetes.controller.fake import GPU, TRAFFIC, FakeCluster, Killed, spec_of

SLOTS = ("offset-ms", "period-ms", "starts-ms", "cushion-ms", "gated")
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


def reconcile(controller: Controller, cluster: FakeCluster) -> int:
    return controller.reconcile(cluster.pods(), cluster.nodes())


def check(cluster: FakeCluster, store: Store) -> None:
    """Check that no gang is half placed, no GPU counted twice, no claim without a pod."""
    assert max(cluster.used().values(), default=0) <= 8
    placed = Counter(pod.job for pod in cluster.pods() if pod.place)
    assert set(placed) == set(store.state.claims)
    for job, claim in store.state.claims.items():
        mine = [pod for pod in cluster.pods() if pod.job == job]
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


def test_gangs_are_placed_whole_and_others_get_a_reason(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    cluster.submit("b", 2)
    cluster.submit("c", 4)
    assert reconcile(controller, cluster) == 1
    check(cluster, store)
    assert set(store.state.claims) == {"default/a", "default/b"}
    (line,) = [line for job, _, line in cluster.events if job == "default/c"]
    assert "GPUs" in line
    cluster.remove("b")
    cluster.remove("a")
    assert reconcile(controller, cluster) == 0
    check(cluster, store)
    assert set(store.state.claims) == {"default/c"}


def test_search_without_result_is_repeated_only_after_a_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []

    def place(state: ClusterState, gang: Gang) -> PlaceDecision | None:
        searched.append(gang.name)
        return place_job(state, gang)

    monkeypatch.setattr("metronome_opt.kubernetes.controller.reconcile.place_job", place)
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 9)
    for _ in range(3):
        reconcile(controller, cluster)
    assert searched == ["default/a"]
    cluster.cordoned.add("n0")
    reconcile(controller, cluster)
    assert searched == ["default/a"] * 2


def test_two_jobs_on_one_link_get_separate_slots(store: Store) -> None:
    cluster = FakeCluster(4)
    for node in ("n2", "n3"):
        cluster.ready[node] = False
    heavy = TRAFFIC.replace("6G", "30G")
    cluster.submit("a", 2, traffic=heavy)
    cluster.submit("b", 2, traffic=heavy)
    assert reconcile(Controller(store.state, cluster), cluster) == 0
    check(cluster, store)
    one, other = store.state.claims.values()
    assert set(one.nodes) & set(other.nodes) <= {"n0", "n1"}
    assert store.state.contention() == 0


def test_gang_waits_for_all_its_pods(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    last = cluster.pods_by_name.pop("a-3")
    assert reconcile(controller, cluster) == 1
    assert ("default/a", "Waiting", "3 of 4 pods are there") in cluster.events
    cluster.pods_by_name["a-3"] = last
    assert reconcile(controller, cluster) == 0
    check(cluster, store)


def test_priority_without_preemption(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 6, priority="1")
    cluster.submit("b", 6, priority="3")
    assert reconcile(controller, cluster) == 1
    assert set(store.state.claims) == {"default/b"}
    cluster.submit("c", 8, priority="9")
    assert reconcile(controller, cluster) == 2
    assert set(store.state.claims) == {"default/b"}


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"traffic": "{periodMicroseconds: 100}"}, "phases"),
        ({"tasks": "four"}, "must be an integer, got 'four'"),
        ({"traffic": "nothing"}, "traffic"),
        ({"priority": "-1"}, "priority"),
        ({"tasks": "99"}, "4 of 99 pods are there"),
    ],
)
def test_unreadable_annotations_are_one_event(
    store: Store, annotations: dict[str, str], words: str
) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4, **annotations)
    cluster.submit("b", 2)
    for _ in range(3):
        assert reconcile(controller, cluster) == 1
    (line,) = [line for job, _, line in cluster.events if job == "default/a"]
    assert words in line
    assert "\n" not in line
    assert set(store.state.claims) == {"default/b"}


def test_pod_that_is_not_bound_restarts_its_gang(store: Store) -> None:
    cluster, clock = FakeCluster(4), Clock()
    cluster.bind = False
    controller = Controller(store.state, cluster, patience_s=60, clock=clock)
    cluster.submit("a", 4)
    reconcile(controller, cluster)
    before = {pod.uid for pod in cluster.pods()}
    clock.now = 59
    reconcile(controller, cluster)
    assert {pod.uid for pod in cluster.pods()} == before
    clock.now = 121
    reconcile(controller, cluster)
    assert not {pod.uid for pod in cluster.pods()} & before
    cluster.bind = True
    clock.now = 180
    assert reconcile(controller, cluster) == 1  # not at once: whatever was in the way may still be
    clock.now = 182
    assert reconcile(controller, cluster) == 0
    check(cluster, store)


def test_gang_of_failed_node_is_restarted_elsewhere(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    reconcile(controller, cluster)
    (failed, *_) = store.state.claims["default/a"].nodes
    del cluster.ready[failed]
    for _ in range(3):
        reconcile(controller, cluster)
    check(cluster, store)
    assert failed not in store.state.claims["default/a"].nodes


def test_cordoned_or_briefly_unready_node_keeps_its_pods(store: Store) -> None:
    cluster, clock = FakeCluster(4), Clock()
    controller = Controller(store.state, cluster, node_patience_s=300, clock=clock)
    cluster.submit("a", 4)
    reconcile(controller, cluster)
    (node, *_) = store.state.claims["default/a"].nodes
    before = {pod.uid for pod in cluster.pods()}
    cluster.cordoned.add(node)
    for clock.now in (0.0, 1000.0):
        reconcile(controller, cluster)
    assert not store.state.up[store.state.node_index(node)]
    cluster.cordoned.clear()
    cluster.ready[node] = False
    for clock.now in (1001.0, 1300.0):
        reconcile(controller, cluster)
    assert {pod.uid for pod in cluster.pods()} == before
    clock.now = 1302.0
    reconcile(controller, cluster)
    assert not {pod.uid for pod in cluster.pods()} & before


def test_new_slots_reach_running_pods_and_survive_a_lost_state(
    store: Store, tmp_path: Path
) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    reconcile(Controller(store.state, cluster), cluster)
    before = store.state.claims["default/a"]
    after = before.model_copy(update={"offset": 7, "stretch": 8, "gated": False})
    store.state.revise([after])
    reconcile(Controller(store.state, cluster), cluster)
    check(cluster, store)
    uids = {pod.uid for pod in cluster.pods()}
    for pod in cluster.pods():
        slots = {name: pod.annotations[f"metronome.x-k8s.io/{name}"] for name in SLOTS}
        assert slots == {
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
        reconcile(Controller(other.state, cluster), cluster)
        check(cluster, other)
        assert other.state.claims == {"default/a": after}
    assert {pod.uid for pod in cluster.pods()} == uids


def test_resources_of_other_pods_are_not_reserved(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.run_other("big", "n0", 8)
    cluster.run_other("small", "n1", 5)
    cluster.run_other("elsewhere", "n9", 8)
    cluster.submit("a", 4)
    cluster.submit("b", 2)
    assert reconcile(controller, cluster) == 1
    assert Counter(store.state.claims["default/a"].nodes) == {"n2": 2, "n3": 2}
    (line,) = [line for job, _, line in cluster.events if job == "default/b"]
    assert line.endswith("needs 1 more node with 8 GPUs free")
    reconcile(controller, cluster)
    assert set(store.state.claims) == {"default/a"}
    cluster.pods_by_name["big"]["status"]["phase"] = "Succeeded"
    assert reconcile(controller, cluster) == 0
    assert set(store.state.claims["default/b"].nodes) == {"n0"}
    check(cluster, store)


def test_node_with_fewer_gpus_than_in_state_takes_fewer_tasks(store: Store) -> None:
    cluster = FakeCluster(5)
    cluster.allocatable = {"n0": {GPU: "0"}, "n1": {GPU: "12"}}
    cluster.allocatable["n4"] = {GPU: "8"}
    cluster.run_other("other", "n1", 4)
    cluster.submit("a", 7)
    cluster.submit("b", 6)
    controller = Controller(store.state, cluster)
    for _ in range(2):
        assert reconcile(controller, cluster) == 1
    assert "n0" not in store.state.claims["default/b"].nodes
    events = [(name, line) for name, reason, line in cluster.events if reason == "NotInState"]
    assert {name: line.partition(";")[0] for name, line in events} == {
        "n0": "has 0 GPUs, and 8 in the state of the controller",
        "n1": "has 12 GPUs, and 8 in the state of the controller",
        "n4": "has 8 GPUs, and 0 in the state of the controller",
    }
    assert len(events) == 3  # each once


def test_deleted_or_changed_claims_are_written_again(store: Store) -> None:
    cluster, clock = FakeCluster(4), Clock()
    controller = Controller(store.state, cluster, clock=clock)
    cluster.submit("a", 4)
    reconcile(controller, cluster)
    before = deepcopy(cluster.claims_by_name)
    del cluster.claims_by_name["a-0"]
    cluster.claims_by_name["a-1"]["spec"]["allocation"]["offsetMicroseconds"] += 5000
    cluster.claims_by_name["a-2"]["metadata"]["ownerReferences"] = []
    for clock.now in (1.0, 2.0, 31.0, 32.0, 33.0):
        cluster.left = 3  # writes
        reconcile(controller, cluster)
    assert cluster.claims_by_name == before
    assert cluster.claim_lists == 2  # not in every round: there may be many
    cluster.left = 0
    clock.now = 100.0
    reconcile(controller, cluster)


@pytest.mark.parametrize(
    "labels",
    [
        {"jobset.sigs.k8s.io/jobset-name": "j", "job-name": "j-workers-0"},
        {"training.kubeflow.org/job-name": "j"},
        {"volcano.sh/job-name": "j"},
        {"scheduling.x-k8s.io/pod-group": "j"},
        {"batch.kubernetes.io/job-name": "j"},
    ],
)
def test_labels_of_operators_name_the_job(labels: dict[str, str]) -> None:
    metadata = {"name": "p", "namespace": "n", "labels": labels}
    assert Pod.of({"metadata": metadata, "spec": {}}).job == "n/j"


def test_surplus_pods_wait_with_an_event(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4, tasks="2")
    controller = Controller(store.state, cluster)
    for _ in range(3):
        reconcile(controller, cluster)
    assert sum(pod.place is not None for pod in cluster.pods()) == 2
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
def test_foreign_annotations_do_not_stop_other_gangs(store: Store, slots: str) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2, node="n0", slots=slots)
    cluster.submit("b", 2)
    controller = Controller(store.state, cluster)
    for _ in range(2):
        reconcile(controller, cluster)
    assert "default/b" in store.state.claims


def test_pods_of_different_needs_are_refused(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2)
    cluster.pods_by_name["a-1"]["spec"]["containers"][0]["resources"] = {}
    assert reconcile(Controller(store.state, cluster), cluster) == 1
    ((_, _, line),) = cluster.events
    assert "0 and 4 GPUs" in line


def test_finished_task_keeps_places_of_others(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    controller = Controller(store.state, cluster)
    reconcile(controller, cluster)
    claim = store.state.claims["default/a"]
    cluster.pods_by_name["a-0"]["status"]["phase"] = "Succeeded"
    for pod in cluster.pods()[1:]:
        cluster.delete(pod)
    assert reconcile(controller, cluster) == 0
    assert store.state.claims["default/a"] == claim
    assert Counter(pod.place for pod in cluster.pods()) == Counter(claim.nodes)


def test_gang_waits_for_pods_behind_other_gates(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2)
    gates = cluster.pods_by_name["a-1"]["spec"]["schedulingGates"]
    gates.append({"name": "example.org/queue"})
    controller = Controller(store.state, cluster)
    assert reconcile(controller, cluster) == 1
    assert cluster.events[-1][2] == "1 of 2 pods are there; 1 have other scheduling gates"
    gates.pop()
    assert reconcile(controller, cluster) == 0


def test_pods_overrule_an_older_state(store: Store, tmp_path: Path) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 2)
    reconcile(Controller(store.state, cluster), cluster)
    claim = store.state.claims["default/a"]
    before = {pod.uid for pod in cluster.pods()}
    others = [name for name in ("n0", "n1", "n2", "n3") if name not in claim.nodes][:1] * 2
    with Store.create(tmp_path / "old", spec_of(4)) as old:
        old.state.reserve(claim.model_copy(update={"nodes": tuple(others)}))
        reconcile(Controller(old.state, cluster), cluster)
        assert old.state.claims["default/a"] == claim
    assert {pod.uid for pod in cluster.pods()} == before


def test_recreated_pod_gets_place_of_old_one(store: Store) -> None:
    cluster = FakeCluster(4)
    controller = Controller(store.state, cluster)
    cluster.submit("a", 4)
    reconcile(controller, cluster)
    claim = store.state.claims["default/a"]
    cluster.delete(cluster.pods()[1])
    reconcile(controller, cluster)
    check(cluster, store)
    assert store.state.claims["default/a"] == claim


def test_jobs_of_other_namespaces_and_tools_are_left_alone(store: Store) -> None:
    cluster = FakeCluster(4)
    cluster.submit("a", 4)
    reconcile(Controller(store.state, cluster), cluster)
    other = store.state.claims["default/a"].gang.model_copy(update={"name": "by-hand", "tasks": 2})
    decision = place_job(store.state, other)
    assert decision is not None
    store.state.reserve(decision.claim)
    cluster.remove("a")
    reconcile(Controller(store.state, cluster, namespace="elsewhere"), cluster)
    assert set(store.state.claims) == {"default/a", "by-hand"}
    reconcile(Controller(store.state, cluster, namespace="default"), cluster)
    assert set(store.state.claims) == {"by-hand"}


def _restart(cluster: FakeCluster, folder: Path) -> None:
    with Store(folder) as store:
        reconcile(Controller(store.state, cluster), cluster)


@pytest.mark.parametrize("moment", range(34))
def test_controller_killed_at_any_action_completes_its_work(tmp_path: Path, moment: int) -> None:
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
    for event in story:
        try:
            _restart(cluster, folder)
        except Killed:
            cluster.left = None
        event()
    assert cluster.left is None  # it was killed
    for _ in range(4):
        _restart(cluster, folder)
    with Store(folder) as store:
        check(cluster, store)
        assert set(store.state.claims) == {"default/c", "default/d"}
        assert all("n0" not in claim.nodes for claim in store.state.claims.values())
