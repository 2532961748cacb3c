"""Manifests in files: streams, lists, JSON, other kinds, and what cannot be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.reading import Choices, Objects, make_scenario, read_manifests
from tests.kubernetes.reading.manifests import (
    GROUP,
    imported,
    job,
    jobs_of,
    machines,
    metadata,
    node,
    thing,
)


def objects_of(*paths: Path) -> Objects:
    found = Objects()
    found.add(read_manifests(paths))
    return found


def test_streams_lists_and_json_are_all_the_same(tmp_path: Path) -> None:
    every = [*machines(), job()]
    stream, listed, nested = (tmp_path / name for name in ("a.yaml", "b.json", "c.yaml"))
    stream.write_text("---\n---\n" + yaml.safe_dump_all(every))
    listed.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": every}))
    bare = [{key: each[key] for key in each if key != "kind"} for each in every[::2][:2]]
    del bare[0]["apiVersion"]
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": bare}
    rest = [each for each in every if each["kind"] != "Node"]
    nested.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [nodes, *rest]}))
    documents = [
        make_scenario(objects_of(path), Choices()).document for path in (stream, listed, nested)
    ]
    assert documents[0] == documents[1] == documents[2]


def test_other_kinds_are_counted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        path = tmp_path / f"{name}.yaml"
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        path.write_text(yaml.safe_dump(config))
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all([*machines(), job()]))
    (tmp_path / "notes.txt").write_text("not read")
    made = make_scenario(objects_of(tmp_path), Choices())
    told = "passed over, of kinds that say nothing here: 2 ConfigMap, 1 no Kubernetes object"
    assert told in made.notes


def test_the_same_object_twice_is_one_and_two_that_differ_are_refused() -> None:
    every = [*machines(), job()]
    assert list(jobs_of(imported(*every, job()))) == ["train"]
    changed = job(pods=3)
    with pytest.raises(
        InputError,
        match=r"^file: document 5: Job team/train: says another thing than file: document 4",
    ):
        imported(*every, changed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {}}, "metadata.name: missing"),
        ({"metadata": []}, "metadata: must be a mapping, got a list of 0"),
        ({"apiVersion": "batch/v9"}, "apiVersion: version must be v1, got 'batch/v9'"),
        ({"spec": {"parallelism": "2"}}, "spec.parallelism: must be an integer, got '2'"),
        ({"spec": {"parallelism": -1}}, "spec.parallelism: must be between 0 and 100000, got -1"),
        ({"spec": []}, "spec: must be a mapping, got a list of 0"),
        (
            {"spec": {"template": {"spec": {"containers": {}}}}},
            "spec.template.spec.containers: must be a list, got a mapping of 0",
        ),
        (
            {"metadata": metadata("train", annotations={"a": 1})},
            "metadata.annotations.a: must be text; put it in quotes, got 1",
        ),
    ],
)
def test_bad_workloads(change: dict[str, Any], message: str) -> None:
    bad = {**job(), **change}
    with pytest.raises(InputError) as caught:
        imported(*machines(), bad)
    told = str(caught.value)
    assert re.sub("^file: document 4: (Job team/train: )?", "", told).startswith(message)
    assert "\n" not in told


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("half", r"must be a quantity .*, got 'half'"),
        ("500m", r"its containers ask for 0\.5 GPUs; GPUs are whole"),
        ("9E", "must be at most 1099511627776 each"),
    ],
)
def test_bad_amounts_of_gpus(amount: str, message: str) -> None:
    made = job()
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["nvidia.com/gpu"] = amount
    with pytest.raises(InputError, match=message):
        imported(*machines(), made)


def test_a_jobset_of_too_many_pods_is_refused_before_they_are_named() -> None:
    jobs = {"name": "w", "replicas": 100_000, "template": {"spec": {"parallelism": 100_000}}}
    head = metadata("set")
    jobset = thing("jobset.x-k8s.io/v1alpha2", "JobSet", head, {"replicatedJobs": [jobs]})
    with pytest.raises(InputError, match=r"replicatedJobs\[0\]\.replicas: makes more than 100000"):
        imported(*machines(), jobset)


def test_anchors_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "loop.yaml"
    path.write_text("kind: &a [*a]\n")
    with pytest.raises(InputError, match=r"loop\.yaml: line 1: alias \*a"):
        objects_of(path)


def test_files_and_folders_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.yaml, \.yml or \.json; name a folder"):
        objects_of(tmp_path)
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
        objects_of(tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"^no nodes: nothing that was read says which nodes"):
        imported(job())
    with pytest.raises(InputError, match=r"no-nic\) left out, without .*; --nic-gbps"):
        imported(node("no-nic"), job())
    model = {"metronome.x-k8s.io/model": "VGG16", "metronome.x-k8s.io/batch": "8"}
    with pytest.raises(InputError, match=r"Job team/train: model: nobody .*--gpu-tflops$"):
        imported(*machines(), job(annotations=model))
    with pytest.raises(InputError, match=r"^no jobs: nothing is left to schedule"):
        imported(*machines(), node("n5", gpus=0))
