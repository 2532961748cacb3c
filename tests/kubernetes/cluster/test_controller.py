"""The controller against a real API server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.cluster import Connection, connect
from metronome_opt.kubernetes.cluster.objects import NODES, PODS
from metronome_opt.kubernetes.controller.lease import Leadership
from metronome_opt.kubernetes.controller.live import CLAIMS, EVENTS
from metronome_opt.kubernetes.controller.pods import SCHEDULER
from metronome_opt.kubernetes.inject import SCHEDULING_GATE
from tests.kubernetes.cluster.conftest import Grant
from tests.kubernetes.cluster.server import ORDINARY, ApiServer
from tests.kubernetes.controller.fake import TRAFFIC, spec_of
from tests.transcripts import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

GROUP = "metronome.x-k8s.io"
NAMES = [f"n{index}" for index in range(4)]


@pytest.fixture
def nodes(cluster: Connection) -> Iterator[None]:
    """Nodes that are ready, of which nothing but the objects is there."""
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    for name in NAMES:
        labels = {"kubernetes.io/hostname": name}
        metadata = {"name": name, "labels": labels}
        cluster.apply(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        cluster.merge(NODES, f"{name}/status", None, {"status": {"conditions": [ready]}})
        cluster.merge(NODES, name, None, {"spec": {"taints": None}})
    yield
    for name in NAMES:
        cluster.delete(NODES, name)


def submit(cluster: Connection, namespace: str, job: str, tasks: int, **spec: Any) -> None:
    for index in range(tasks):
        annotations = {f"{GROUP}/tasks": str(tasks), f"{GROUP}/traffic": TRAFFIC}
        limits = {"nvidia.com/gpu": "4"}
        container = {"name": "a", "image": "a", "resources": {"limits": limits}}
        cluster.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{job}-{index}",
                    "namespace": namespace,
                    "labels": {"job-name": job},
                    "annotations": annotations,
                },
                "spec": {"containers": [container], **spec},
            },
        )


def pods(cluster: Connection, namespace: str) -> dict[str, Any]:
    return {pod["metadata"]["name"]: pod for pod in cluster.list(PODS, namespace)}


@pytest.fixture
def arguments(tmp_path: Path, namespace: str) -> list[str]:
    """The arguments of a controller that looks once at the fresh namespace."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(spec_of(4).to_dict()))
    state = str(tmp_path / "state")
    return ["controller", state, "--cluster", str(file), "--namespace", namespace, "--once"]


@pytest.mark.usefixtures("nodes")
def test_the_rights_of_the_deployment_are_enough_and_needed(
    cluster: Connection,
    namespace: str,
    api_server: ApiServer,
    grant: Grant,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    submit(cluster, namespace, "a", 4, schedulerName=SCHEDULER)
    submit(cluster, namespace, "b", 8, schedulerName=SCHEDULER)
    as_user = [*arguments, "--kubeconfig", str(api_server.kubeconfig(ORDINARY))]
    assert main(as_user) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot list" in line
    text = (ROOT / "docs" / "deploy" / "controller.yaml").read_text(encoding="utf-8")
    wanted = [item for item in yaml.safe_load_all(text) if item["kind"].startswith("ClusterRole")]
    for item in wanted:
        if "subjects" in item:
            group = "rbac.authorization.k8s.io"
            item["subjects"] = [{"kind": "User", "name": ORDINARY, "apiGroup": group}]
    grant(wanted)
    time.sleep(1)  # until the server knows
    assert main(as_user) == 0
    assert "1 gangs have a place, 1 wait" in capsys.readouterr().err
    seen = pods(cluster, namespace)
    bound = {name for name, pod in seen.items() if pod["spec"].get("nodeName")}
    assert bound == {f"a-{index}" for index in range(4)}
    for name in bound:
        annotations = seen[name]["metadata"]["annotations"]
        assert annotations[f"{GROUP}/node"] == seen[name]["spec"]["nodeName"]
        assert json.loads(annotations[f"{GROUP}/slots"])["period_ms"] == 200
    assert {item["metadata"]["name"] for item in cluster.list(CLAIMS, namespace)} == bound
    told = {item["reason"]: item["message"] for item in cluster.list(EVENTS, namespace)}
    assert set(told) == {"Placed", "Waiting"}
    assert "4 of 8 tasks find room" in told["Waiting"]
    for name in bound:
        cluster.delete(PODS, name, namespace, now=True)
    assert main(as_user) == 0
    assert {name.partition("-")[0] for name in pods(cluster, namespace)} == {"b"}
    assert {item["spec"]["job"] for item in cluster.list(CLAIMS, namespace)} == {f"{namespace}/b"}


@pytest.mark.usefixtures("nodes")
def test_a_gate_is_taken_away_with_the_node_and_the_slots(
    cluster: Connection, kubeconfig: Path, namespace: str, arguments: list[str]
) -> None:
    submit(cluster, namespace, "a", 4, schedulingGates=[{"name": SCHEDULING_GATE}])
    if "schedulingGates" not in pods(cluster, namespace)["a-0"]["spec"]:
        pytest.skip("this release knows no scheduling gates")
    assert main([*arguments, "--kubeconfig", str(kubeconfig)]) == 0
    for pod in pods(cluster, namespace).values():
        assert not pod["spec"].get("schedulingGates")
        node = pod["metadata"]["annotations"][f"{GROUP}/node"]
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": node}


def test_of_two_controllers_one_leads_whatever_their_clocks(
    cluster: Connection, kubeconfig: Path, namespace: str
) -> None:
    now = {"a": 0.0, "b": 1000.0}

    def leadership(connection: Connection, holder: str) -> Leadership:
        clock = lambda: now[holder]  # noqa: E731
        return Leadership(connection, namespace, "controller", holder, lasts_s=15, clock=clock)

    def later(seconds: float) -> None:
        for holder in now:
            now[holder] += seconds

    with connect(kubeconfig) as connection:
        one, other = leadership(cluster, "a"), leadership(connection, "b")
        assert one.renew()
        assert not other.renew()
        for _ in range(4):
            later(10)
            assert one.renew()
            assert not other.renew()
            assert one.held
        later(16)  # the first one hangs
        assert not one.held
        assert other.renew()
        assert not one.renew()
        other.release()
        assert one.renew()
