"""The example cluster, put into a real API server and read back from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.cluster import Connection, Kind, connect
from metronome_opt.kubernetes.cluster.objects import DEFINITIONS, NODES, PODS, TOPOLOGIES
from metronome_opt.kubernetes.cluster.plan import wait_served
from metronome_opt.kubernetes.reading import (
    Choices,
    Objects,
    make_scenario,
    read_manifests,
)
from metronome_opt.kubernetes.reading.live import read_live
from metronome_opt.kubernetes.schemas import Manifest
from tests.kubernetes.cluster.conftest import NAMESPACES
from tests.kubernetes.cluster.server import ORDINARY, ApiServer
from tests.kubernetes.reading.manifests import capacity, job, jobs_of, node, pod

pytestmark = pytest.mark.cluster

EXAMPLE = Path(__file__).parents[3] / "docs" / "example-cluster"
FOREIGN = {
    "PyTorchJob": ("kubeflow.org", "v1"),
    "MPIJob": ("kubeflow.org", "v2beta1"),
    "Job": ("batch.volcano.sh", "v1alpha1"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2"),
    "TrainJob": ("trainer.kubeflow.org", "v1alpha1"),
    "RayJob": ("ray.io", "v1"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1"),
    "AppGroup": ("appgroup.diktyo.x-k8s.io", "v1alpha1"),
}
MANY = 600  # more than a page


def definition(kind: str, group: str, version: str, plural: str | None = None) -> Manifest:
    """Return a definition that takes anything."""
    plural = plural or f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Groups of the Kubernetes community want to know that somebody agreed.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


def put(connection: Connection, item: Manifest) -> None:
    """Store an object; a Job without the mode of completion, which Kubernetes 1.20 lacks."""
    plurals = {"NetworkTopology": "networktopologies", "PriorityClass": "priorityclasses"}
    plurals["STBandwidthCapacity"] = "stbandwidthcapacities"
    name = item["kind"]
    namespaced = name not in ("Node", "PriorityClass", "STBandwidthCapacity")
    kind = Kind(item["apiVersion"], name, plurals.get(name, f"{name.lower()}s"), namespaced)
    if item["apiVersion"] == "batch/v1":
        spec = {field: value for field, value in item["spec"].items() if field != "completionMode"}
        item = {**item, "spec": spec}
    connection.apply(kind, item)


@pytest.fixture(scope="module")
def example(api_server: ApiServer, definitions: None) -> Iterator[Connection]:
    del definitions
    wanted = [definition(kind, *version) for kind, version in FOREIGN.items()]
    topology = ("networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies")
    wanted.append(definition("NetworkTopology", *topology))
    with connect(api_server.kubeconfig()) as connection:
        for item in wanted:
            connection.apply(DEFINITIONS, item)
        kinds = [
            Kind(f"{group}/{version}", kind, f"{kind.lower()}s", namespaced=True)
            for kind, (group, version) in FOREIGN.items()
        ]
        wait_served(connection, [*kinds, TOPOLOGIES], 60)
        items = [dict(item) for _, item in read_manifests([EXAMPLE])]
        spaces = {item["metadata"].get("namespace") for item in items} - {None, "default"}
        for name in spaces:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            connection.apply(NAMESPACES, space)
        for item in items:
            put(connection, item)
        yield connection
        for item in wanted:  # other tests have definitions of their own, or none
            connection.delete(DEFINITIONS, item["metadata"]["name"])


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_the_example_reads_back_from_the_cluster_as_from_its_files(
    example: Connection, api_server: ApiServer, tmp_path: Path
) -> None:
    files, live = tmp_path / "files.yaml", tmp_path / "live.yaml"
    assert run("import", EXAMPLE, "--output", files) == 0
    options = "--from-cluster", "--all-namespaces", "--kubeconfig", api_server.kubeconfig()
    assert run("import", *options, "--output", live) == 0
    said = files.read_text().replace("name: files", "name: live")
    documents = [text[text.index("format:") :] for text in (said, live.read_text())]
    assert documents[0] == documents[1]
    assert example.server not in live.read_text()


def test_what_files_add_comes_to_what_the_cluster_has(
    example: Connection,
    tmp_path: Path,
    api_server: ApiServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del example
    more = tmp_path / "more.json"
    more.write_text(json.dumps(job("more")))
    options = "--from-cluster", "--namespace", "vision", "--kubeconfig", api_server.kubeconfig()
    assert run("import", more, *options, "--json") == 0
    scenario = json.loads(capsys.readouterr().out)["scenario"]
    names = {entry["name"] for entry in scenario["jobs"]}
    assert names == {"vgg19", "resnet50", "more"}


def test_a_selector_chooses_workloads(example: Connection) -> None:
    chosen = Objects()
    read_live(chosen, example, None, {"team": "nobody"})
    assert not list(chosen.workloads())
    assert chosen.of("Node")


def test_a_user_without_rights_is_told_what_is_missing(
    example: Connection,
    api_server: ApiServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del example
    output = tmp_path / "none.yaml"
    options = "--from-cluster", "--kubeconfig", api_server.kubeconfig(ORDINARY)
    assert run("import", *options, "--output", output) == 2
    assert not output.exists()
    told = capsys.readouterr().err.splitlines()
    assert any(line.startswith("note: nodes: left unread") and "list" in line for line in told)
    assert "no nodes" in told[-1]
    assert not any(api_server.tokens[ORDINARY] in line for line in told)


def test_a_kind_that_the_cluster_does_not_know_is_a_note(
    example: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {("Job", "nowhere.example"): ("v1",)}
    monkeypatch.setattr("metronome_opt.kubernetes.reading.live.WORKLOADS", known)
    notes = read_live(Objects(), example, None)
    assert notes == ["jobs.nowhere.example: the cluster does not know this kind"]


def test_many_nodes_are_read_page_by_page(example: Connection, namespace: str) -> None:
    names = [f"many-{index:03}" for index in range(MANY)]
    try:
        for name in names:
            put(example, node(name))
            put(example, capacity(name))
        wide = job("wide", pods=2)
        wide["metadata"]["namespace"] = namespace
        put(example, wide | {"spec": {**wide["spec"], "template": startable(wide)}})
        for index, name in enumerate((names[0], names[-1])):
            placed = pod(f"wide-{index}abcd", name)
            placed["metadata"]["namespace"] = namespace
            put(example, placed | {"spec": {**startable(wide)["spec"], "nodeName": name}})
        objects = Objects()
        read_live(objects, example, [namespace])
        made = make_scenario(objects, Choices())
        assert len(made.problem.deployment.nodes) == MANY + 6
        assert jobs_of(made)["wide"]["nodes"] == [names[0], names[-1]]
    finally:
        for index in range(2):
            example.delete(PODS, f"wide-{index}abcd", namespace)
        for name in names:
            example.delete(NODES, name)


def startable(item: Manifest) -> Manifest:
    """Return the template of a Job's pods with all that an API server asks for."""
    spec = item["spec"]["template"]["spec"]
    containers = [{**each, "image": "example"} for each in spec["containers"]]
    return {"spec": {"restartPolicy": "Never", "containers": containers}}
