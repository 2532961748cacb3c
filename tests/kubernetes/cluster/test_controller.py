"""The controller against a real API server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.core.client import Client

from metronome_opt.kubernetes.claims.names import Manifest
from metronome_opt.kubernetes.controller.client import (
    CLAIMS,
    EVENTS,
    NODES,
    PODS,
    ClusterError,
    Resource,
    apply,
    connect,
    delete,
    listed,
    merge,
    resource,
)
from metronome_opt.kubernetes.controller.inject import MOUNT, VARIABLE, VOLUME
from metronome_opt.kubernetes.controller.live import LiveCluster
from metronome_opt.kubernetes.controller.reconcile import Controller
from metronome_opt.kubernetes.reading.pods import SCHEDULING_GATE
from metronome_opt.kubernetes.state import ClusterState
from tests.kubernetes.cluster.conftest import Grant
from tests.kubernetes.cluster.server import ORDINARY, ApiServer, wait_for, wait_served
from tests.kubernetes.controller.fake import GPU, GPUS, GROUP, TRAFFIC, spec_of
from tests.transcripts import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("definitions")]

Reconcile = Callable[[Path], int]
Slots = dict[str, dict[str, str]]  # annotations by pod

ADMISSION = ROOT / "docs" / "deploy" / "admission.yaml"
POLICIES = [
    resource("admissionregistration.k8s.io/v1", kind, plural, namespaced=False)
    for kind, plural in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    )
]


@pytest.fixture
def nodes(cluster: Client, namespace: str) -> Iterator[None]:
    """Nodes of eight GPUs that are ready, of which nothing but the objects is there."""
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    has = {GPU: "8", "cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"conditions": [ready], "capacity": has, "allocatable": has}
    names = [f"n{index}" for index in range(4)]
    for name in names:
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        apply(cluster, NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        merge(cluster, NODES, f"{name}/status", None, {"status": status})
        merge(cluster, NODES, name, None, {"spec": {"taints": None}})
    yield
    for name in objects(cluster, PODS, namespace):  # or they would hold room on nodes to come
        remove(cluster, name, namespace)
    for name in names:
        delete(cluster, NODES, name, None)


def objects(cluster: Client, kind: Resource, namespace: str) -> dict[str, Manifest]:
    """Return the objects of a kind in a namespace by name."""
    return {item["metadata"]["name"]: item for item in listed(cluster, kind, namespace)}


def remove(cluster: Client, name: str, namespace: str) -> None:
    """Delete a pod; it gets no time to end."""
    cluster.delete(PODS, name, namespace=namespace, grace_period=0)


def pod(name: str, namespace: str, **spec: Any) -> Manifest:
    """Return a pod that needs GPUs."""
    container = {"name": "a", "image": "a", "resources": {"limits": {GPU: str(GPUS)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], **spec},
    }


def submit(cluster: Client, namespace: str, job: str, tasks: int) -> None:
    """Make the pods of a job, behind the scheduling gate."""
    for index in range(tasks):
        manifest = pod(f"{job}-{index}", namespace, schedulingGates=[{"name": SCHEDULING_GATE}])
        manifest["metadata"] |= {
            "labels": {"job-name": job},
            "annotations": {f"{GROUP}/tasks": str(tasks), f"{GROUP}/traffic": TRAFFIC},
        }
        cluster.create(PODS(manifest))


@pytest.fixture
def gates(cluster: Client) -> None:
    """A server that keeps the scheduling gates of pods."""
    version = cluster._client._client.get("/version").json()
    minor = int(version["minor"].rstrip("+"))
    if minor < 27:
        pytest.skip(f"pods of Kubernetes 1.{minor} have no scheduling gates")


@pytest.fixture
def reconcile(namespace: str) -> Reconcile:
    """Reconcile the fresh namespace once, by a kubeconfig; return how many gangs wait."""
    state = ClusterState(spec_of(4))

    def once(kubeconfig: Path) -> int:
        with connect(kubeconfig) as client:
            live = LiveCluster(client)
            controller = Controller(state, live, namespace=namespace)
            return controller.reconcile(live.pods(), live.nodes())

    return once


@pytest.mark.usefixtures("gates", "nodes")
def test_rights_of_deployment_are_sufficient_and_necessary(
    cluster: Client,
    namespace: str,
    api_server: ApiServer,
    grant: Grant,
    reconcile: Reconcile,
) -> None:
    submit(cluster, namespace, "a", 4)
    submit(cluster, namespace, "b", 8)
    as_user = api_server.kubeconfig(ORDINARY)
    with pytest.raises(ClusterError, match="cannot list"):
        reconcile(as_user)
    text = (ROOT / "docs" / "deploy" / "controller.yaml").read_text(encoding="utf-8")
    wanted = [item for item in yaml.safe_load_all(text) if item["kind"].startswith("ClusterRole")]
    for item in wanted:
        if "subjects" in item:
            group = "rbac.authorization.k8s.io"
            item["subjects"] = [{"kind": "User", "name": ORDINARY, "apiGroup": group}]
    grant(wanted)
    time.sleep(1)  # until the server knows
    assert reconcile(as_user) == 1
    seen = objects(cluster, PODS, namespace)
    placed = {name for name, pod in seen.items() if not pod["spec"].get("schedulingGates")}
    assert placed == {f"a-{index}" for index in range(4)}
    for name in placed:
        annotations = seen[name]["metadata"]["annotations"]
        node = annotations[f"{GROUP}/node"]
        assert seen[name]["spec"]["nodeSelector"] == {"kubernetes.io/hostname": node}
        assert json.loads(annotations[f"{GROUP}/slots"])["period_ms"] == 200
    assert set(objects(cluster, CLAIMS, namespace)) == placed
    events = {item["reason"]: item["message"] for item in listed(cluster, EVENTS, namespace)}
    assert set(events) == {"Placed", "Waiting"}
    assert "4 of 8 tasks find room" in events["Waiting"]
    for name in placed:
        remove(cluster, name, namespace)
    reconcile(as_user)
    assert {name.partition("-")[0] for name in objects(cluster, PODS, namespace)} == {"b"}
    claims = objects(cluster, CLAIMS, namespace).values()
    assert {item["spec"]["job"] for item in claims} == {f"{namespace}/b"}


@pytest.mark.usefixtures("gates", "nodes")
def test_jobs_keep_slots_when_server_and_state_are_lost(
    cluster: Client, namespace: str, api_server: ApiServer, kubeconfig: Path
) -> None:
    def reconcile(state: ClusterState) -> Slots:
        with connect(kubeconfig) as client:
            live = LiveCluster(client)
            Controller(state, live, namespace=namespace).reconcile(live.pods(), live.nodes())
        seen = objects(cluster, PODS, namespace)
        return {name: item["metadata"]["annotations"] for name, item in seen.items()}

    submit(cluster, namespace, "a", 4)
    state = ClusterState(spec_of(4))
    first = reconcile(state)
    api_server.kill()
    with pytest.raises(ClusterError, match="no answer of an API server"):
        reconcile(state)
    api_server.start()
    wait_served(cluster, CLAIMS)
    (name, *_), claims = first, objects(cluster, CLAIMS, namespace)
    delete(cluster, CLAIMS, name, namespace)
    assert reconcile(ClusterState(spec_of(4))) == first
    assert set(objects(cluster, CLAIMS, namespace)) == set(claims) == set(first)
    assert all(f"{GROUP}/slots" in annotations for annotations in first.values())


def messages(cluster: Client, namespace: str) -> dict[str, str]:
    """Return the events of a namespace by the object that they are about."""
    events = listed(cluster, EVENTS, namespace)
    return {item["involvedObject"]["name"]: item["message"] for item in events}


@pytest.fixture
def admission(cluster: Client, api_server: ApiServer, namespace: str) -> Iterator[None]:
    """The policy of docs/deploy, in force on a server of our own."""
    del api_server
    probe = pod("probe", namespace)
    probe["metadata"]["annotations"] = {f"{GROUP}/traffic": TRAFFIC}

    def gates() -> bool:
        made = cluster.create(PODS(probe))
        remove(cluster, "probe", namespace)
        return bool(made["spec"].get("schedulingGates"))

    items = list(yaml.safe_load_all(ADMISSION.read_text(encoding="utf-8")))
    try:
        listed(cluster, POLICIES[0])
    except ClusterError:
        pytest.skip("this release knows no MutatingAdmissionPolicy")
    for kind, item in zip(POLICIES, items, strict=True):
        apply(cluster, kind, item)
    wait_for(gates)
    yield
    for kind, item in zip(POLICIES, items, strict=True):
        delete(cluster, kind, item["metadata"]["name"], None)
    wait_for(lambda: not gates())


@pytest.mark.usefixtures("nodes", "admission")
def test_pods_with_traffic_are_injected_at_admission(
    cluster: Client, kubeconfig: Path, namespace: str, reconcile: Reconcile
) -> None:
    sends = pod("sends", namespace)
    sends["metadata"]["annotations"] = {f"{GROUP}/traffic": TRAFFIC, f"{GROUP}/tasks": "2"}
    own = {"name": "b", "image": "b", "env": [{"name": "A", "value": "1"}]}
    sends["spec"]["containers"].append(own)
    silent, asks = pod("silent", namespace), pod("asks", namespace)
    asks["spec"]["schedulingGates"] = [{"name": SCHEDULING_GATE}]
    for item in (sends, silent, asks):
        cluster.create(PODS(item))
    seen = objects(cluster, PODS, namespace)
    spec = seen["sends"]["spec"]
    assert spec["schedulingGates"] == [{"name": SCHEDULING_GATE}]
    (volume,) = [each for each in spec["volumes"] if each["name"] == VOLUME["name"]]
    (item,), (wanted,) = (each["downwardAPI"]["items"] for each in (volume, VOLUME))
    assert item["path"] == wanted["path"]
    assert item["fieldRef"]["fieldPath"] == wanted["fieldRef"]["fieldPath"]
    for container, before in zip(spec["containers"], ([], own["env"]), strict=True):
        assert MOUNT in container["volumeMounts"]
        assert container["env"] == [*before, VARIABLE]
    for name in ("silent", "asks"):
        assert "volumes" not in seen[name]["spec"]
        assert "env" not in seen[name]["spec"]["containers"][0]
    assert "schedulingGates" not in seen["silent"]["spec"]
    reconcile(kubeconfig)
    assert messages(cluster, namespace) == {
        "asks": f"Pod {namespace}/asks: annotation {GROUP}/tasks: missing; "
        "metronome inject writes it",
        "sends": "1 of 2 pods are there",
    }
