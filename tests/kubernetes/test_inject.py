"""Workloads wait for their places and find their slots."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.files import read_manifests
from metronome_opt.kubernetes.inject import inject
from tests.transcripts import ROOT

GROUP = "metronome.x-k8s.io"
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: j
  annotations:
    metronome.x-k8s.io/model: vgg19
    metronome.x-k8s.io/batch: "64"
    other: kept
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  template:
    spec:
      containers:
      - {name: a, image: i, resources: {limits: {nvidia.com/gpu: 1}}, env: [{name: X, value: y}]}
      - {name: b, image: i}
"""


def injected(text: str) -> Any:
    (manifest,), _ = inject([("f", yaml.safe_load(text))])
    return manifest


def test_pods_of_a_job_wait_and_say_how_many_they_are() -> None:
    template = injected(JOB)["spec"]["template"]
    assert template["spec"]["schedulingGates"] == [{"name": f"{GROUP}/place"}]
    assert template["metadata"]["annotations"] == {
        f"{GROUP}/model": "vgg19",
        f"{GROUP}/batch": "64",
        f"{GROUP}/job": "j",
        f"{GROUP}/tasks": "3",
    }
    for container in template["spec"]["containers"]:
        names = [variable["name"] for variable in container["env"]]
        assert names[-6:] == [
            "METRONOME_CLAIM",
            "METRONOME_OFFSET_MS",
            "METRONOME_PERIOD_MS",
            "METRONOME_STARTS_MS",
            "METRONOME_CUSHION_MS",
            "METRONOME_GATED",
        ]
        (mount,) = container["volumeMounts"]
        assert container["env"][-6]["value"] == f"{mount['mountPath']}/claim"
    assert template["spec"]["containers"][0]["env"][0] == {"name": "X", "value": "y"}


def test_a_second_time_changes_nothing() -> None:
    once = injected(JOB)
    (twice,), _ = inject([("f", copy.deepcopy(once))])
    assert twice == once


def test_every_kind_of_the_example_waits_and_what_is_no_workload_stays() -> None:
    documents = list(read_manifests([ROOT / "docs" / "example-cluster"]))
    manifests, changed = inject(documents)
    assert sorted(changed) == [
        "Job language/gpt",
        "Job research/ablation",
        "JobSet vision/resnet50",
        "LeaderWorkerSet research/tuning",
        "MPIJob language/bert",
        "PyTorchJob vision/vgg19",
        "RayJob research/ranking",
        "TrainJob language/llama",
    ]
    text = yaml.safe_dump_all(manifests)
    # Master and workers of a PyTorchJob are two templates, the head of a RayJob holds no GPUs.
    assert text.count(f"{GROUP}/place") == 9
    for (_, before), after in zip(documents, manifests, strict=True):
        if before["kind"] in ("Node", "PriorityClass", "Pod"):
            assert after == before


def test_a_trainjob_patches_its_runtime() -> None:
    manifest = injected(
        """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: t
  annotations: {metronome.x-k8s.io/traffic: "{periodMicroseconds: 9, phases: []}"}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 4}
"""
    )
    (patch,) = manifest["spec"]["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]
    assert pod["metadata"]["annotations"][f"{GROUP}/tasks"] == "4"
    assert pod["spec"]["schedulingGates"] == [{"name": f"{GROUP}/place"}]
    assert len(manifest["spec"]["trainer"]["env"]) == 6


def test_groups_that_share_a_template_cannot_be_told_apart() -> None:
    text = (ROOT / "docs" / "example-cluster" / "tuning-leaderworkerset.yaml").read_text()
    with pytest.raises(
        InputError, match=r"tuning: spec\.replicas: its groups are jobs of their own"
    ):
        injected(text.replace("replicas: 1", "replicas: 2"))


@pytest.mark.parametrize(
    ("wrong", "right", "told"),
    [
        ("metronome.x-k8s.io/model: vgg19", "other2: x", "traffic: missing"),
        ("metronome.x-k8s.io/model: vgg19", "metronome.x-k8s.io/claim-template: t", "no STBandwi"),
        ("parallelism: 3", "parallelism: many", "must be an integer, got 'many'"),
    ],
)
def test_what_cannot_be_injected_is_one_line(wrong: str, right: str, told: str) -> None:
    with pytest.raises(InputError, match="Job default/j") as caught:
        injected(JOB.replace(wrong, right))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
