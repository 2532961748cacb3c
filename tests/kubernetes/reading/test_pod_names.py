"""Claims are called like the pods that they are for."""

from __future__ import annotations

from metronome_opt.kubernetes.names import Naming
from metronome_opt.scenario.deployment import Deployment, Node, Task


def naming(*tasks: Task) -> Naming:
    return Naming.of(Deployment((Node("n", ("n",)),), tasks), "metronome.x-k8s.io", "default")


def test_a_task_is_called_like_its_pod_where_that_lives() -> None:
    given = Task("a", 0, "n", ("n",), "a-worker-0", "team")
    plain = Task("b", 0, "n", ("n",))
    names = naming(given, plain)
    assert (names.task(given), names.task(plain)) == ("a-worker-0", "b-0")
    assert names.metadata("a-worker-0", job="a")["namespace"] == "team"
    assert names.metadata("b-0", job="b")["namespace"] == "default"


def test_a_name_that_a_pod_has_is_given_to_no_other_task() -> None:
    given, plain = Task("a", 0, "n", ("n",), "b-0"), Task("b", 0, "n", ("n",))
    names = naming(given, plain)
    assert names.task(given) == "b-0"
    assert names.task(plain).startswith("b-0-")


def test_pods_of_two_namespaces_may_have_one_name() -> None:
    tasks = [Task(job, 0, "n", ("n",), "worker-0", job) for job in ("a", "b")]
    names = naming(*tasks)
    assert [names.task(task) for task in tasks] == ["worker-0", "worker-0"]


def test_a_pod_whose_name_is_no_label_gets_another_claim() -> None:
    task = Task("a", 0, "n", ("n",), "a.b")
    assert naming(task).task(task) == "a-0"
