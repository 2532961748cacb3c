"""Kinds and namespaces that are asked of an API server."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.__main__ import main
from metronome_opt.kubernetes.client import ALL_NAMESPACES, ClusterError, Resource
from metronome_opt.kubernetes.objects import Objects
from metronome_opt.kubernetes.reading import live
from tests.kubernetes.reading.manifests import Object, job, kube, machines, metadata, node, pod

FOUND: list[Object] = [
    node("n0"),
    job("train"),
    job("other"),
    pod("train-0-aaaaa", "n0"),
    kube("kubeflow.org/v1", "MPIJob", metadata("old"), {}),
]
KNOWN = {"Node", "Pod", "Job", "MPIJob", "TrainJob"}


def fake_list(_: object, kind: Resource, namespace: str | None) -> list[Object]:
    """Return objects of a cluster in which pods are read in the namespace `team` alone."""
    name, version = kind.__name__, str(kind._api_info.resource.api_version)
    if name not in KNOWN or version in ("kubeflow.org/v2beta1", "batch.volcano.sh/v1alpha1"):
        raise ClusterError("knows no such path", 404)
    if name == "TrainJob" or (name == "Pod" and namespace == ALL_NAMESPACES):
        raise ClusterError("you cannot list", 403)
    return [item for item in FOUND if (item["kind"], item["apiVersion"]) == (name, version)]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(live, "listed", fake_list)
    monkeypatch.setattr(live, "server_of", lambda _: "https://server")

    def call(*arguments: Any) -> tuple[Objects, list[str]]:
        objects = Objects()
        return objects, live.read_live(objects, *arguments)

    return call


def test_what_cannot_be_read_is_a_note(read: Any) -> None:
    objects, notes = read(None, ["team"])
    titles = [item.title for kind in KNOWN for item in objects.of(kind)]
    assert sorted(titles) == [
        "Job team/other",
        "Job team/train",
        "MPIJob team/old",
        "Node n0",
        "Pod team/train-0-aaaaa",
    ]
    assert "trainjobs.trainer.kubeflow.org: left unread: you cannot list" in notes
    assert "jobs.batch.volcano.sh: the cluster does not know this kind" in notes
    assert not any(note.startswith(("pods", "mpijobs", "jobs.batch:")) for note in notes)


def test_files_go_before_the_cluster_and_notes_before_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "listed", fake_list)
    monkeypatch.setattr(live, "server_of", lambda _: "https://server")
    monkeypatch.setattr("metronome_opt.kubernetes.client.connect", lambda *_: nullcontext())
    path, options = tmp_path / "more.json", ["--from-cluster", "--namespace", "team", "--json"]
    path.write_text(json.dumps({"kind": "List", "items": [job("train", pods=3), *machines(1)]}))
    assert main(["import", str(path), *options]) == 0
    jobs = json.loads(capsys.readouterr().out)["scenario"]["jobs"]
    assert {each["name"]: each["workers"] for each in jobs} == {"train": 3, "other": 2}
    assert main(["import", *options]) == 2
    *notes, error = capsys.readouterr().err.splitlines()
    assert "note: trainjobs.trainer.kubeflow.org: left unread: you cannot list" in notes
    assert error.startswith("metronome: error: no nodes: ")
