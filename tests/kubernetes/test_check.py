from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes import build_manifests, check_manifests, write_manifests
from tests.kubernetes.example import two_jobs

Objects = dict[str, list[dict[str, Any]]]
GONE = object()


@pytest.fixture
def objects() -> Objects:
    manifests = build_manifests(*two_jobs())
    return {name: copy.deepcopy(list(items)) for name, items in manifests.items()}


def change(manifest: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    here: Any = manifest
    for step in way:
        here = here[int(step)] if step.isdigit() else here[step]
    if value is GONE:
        del here[last]
    else:
        here[last] = value


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("spec.colour", 1, "spec: "),
        ("colour", 1, "the object: "),
        ("spec.job", GONE, "spec: "),
        ("spec.job", ["long"] * 1000, "spec.job: a list of 1000 does not satisfy type"),
        ("metadata.namespace", GONE, "metadata: "),
        ("metadata", GONE, "the object: "),
        ("spec.task", -1, "spec.task: "),
        ("spec.traffic.priority", 1.5, "spec.traffic.priority: "),
        ("spec.traffic.phases", [], "spec.traffic.phases: "),
        ("spec.traffic.phases.0.rate", "-40G", "spec.traffic.phases[0].rate: "),
        ("spec.allocation.node", "Node_0", "spec.allocation.node: "),
        ("spec.allocation.gated", "no", "spec.allocation.gated: "),
        ("metadata.name", "Upper", "metadata.name: "),
        ("metadata.labels", {"job": "a b"}, "metadata.labels.job: "),
        ("metadata.annotations", {"a b": ""}, "metadata.annotations: "),
        ("kind", "STBandwidthWish", "there is no schema for kind 'STBandwidthWish'"),
        ("apiVersion", "metronome.x-k8s.io/v2", "there is no schema for kind"),
        ("kind", GONE, "there is no schema for kind 'None'"),
    ],
)
def test_a_defect_is_refused_in_one_line_and_nothing_is_written(
    objects: Objects, path: str, value: Any, place: str, tmp_path: Path
) -> None:
    change(objects["claims.yaml"][0], path, value)
    with pytest.raises(InputError) as caught:
        write_manifests(objects, tmp_path / "claims")
    file, title, told = str(caught.value).split(": ", 2)
    assert file == "claims.yaml"
    assert title.split()[0] in ("STBandwidthClaim", "STBandwidthWish", "unknown")
    assert told.startswith(place)
    assert len(told) < 300
    assert "\n" not in told
    assert list(tmp_path.iterdir()) == []


def test_an_object_may_be_there_once_only(objects: Objects) -> None:
    objects["claims.yaml"].append(copy.deepcopy(objects["claims.yaml"][0]))
    with pytest.raises(InputError, match="is there twice"):
        check_manifests(objects)


def test_a_file_that_is_not_of_an_export_is_refused(objects: Objects, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'notes.yaml': is not a file of an export"):
        write_manifests({**objects, "notes.yaml": []}, tmp_path / "claims")
