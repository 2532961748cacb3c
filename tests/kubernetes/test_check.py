from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes import build_manifests, check_manifests, write_manifests
from tests.kubernetes.example import two_jobs

Objects = dict[str, list[dict[str, Any]]]


@pytest.fixture
def objects() -> Objects:
    manifests = build_manifests(*two_jobs())
    return {name: copy.deepcopy(list(items)) for name, items in manifests.items()}


def test_what_is_built_is_valid(objects: Objects) -> None:
    check_manifests(objects)


def claim(objects: Objects) -> dict[str, Any]:
    return objects["claims.yaml"][0]


def put(path: str, value: Any) -> Callable[[Objects], None]:
    """Return a change that sets a value in the first claim."""

    def change(objects: Objects) -> None:
        *way, last = path.split(".")
        here = claim(objects)
        for step in way:
            here = here[int(step)] if step.isdigit() else here[step]  # type: ignore[index]
        here[last] = value

    return change


def drop(path: str) -> Callable[[Objects], None]:
    def change(objects: Objects) -> None:
        *way, last = path.split(".")
        here = claim(objects)
        for step in way:
            here = here[step]
        del here[last]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("spec.colour", 1), "spec: field 'colour' is not in the schema"),
        (put("spec.traffic.phases.0.end", 1), "spec.traffic.phases[0]: field 'end'"),
        (put("colour", 1), "the object: field 'colour' is not in the schema"),
        (put("metadata.nickname", "x"), "metadata: field 'nickname' is not in the schema"),
        (drop("spec.job"), "spec: field 'job' is missing"),
        (drop("spec.allocation.node"), "spec.allocation: field 'node' is missing"),
        (drop("metadata.namespace"), "metadata: field 'namespace' is missing"),
        (drop("metadata"), "the object: field 'metadata' is missing"),
        (put("spec.task", -1), "spec.task: must be at least 0, got -1"),
        (put("spec.task", 2**31), "spec.task: must be at most 2147483647, got 2147483648"),
        (put("spec.traffic.periodMicroseconds", 0), "periodMicroseconds: must be at least 1"),
        (put("spec.traffic.priority", 2**53), "spec.traffic.priority: must be at most"),
        (put("spec.traffic.priority", 1.5), "must be of type 'integer', got 1.5"),
        (put("spec.traffic.priority", True), "must be of type 'integer', got True"),
        (put("spec.traffic.phases", []), "spec.traffic.phases: must have at least 1 elements"),
        (put("spec.traffic.phases.0.rate", "40 Gbit"), "phases[0].rate: must match"),
        (put("spec.traffic.phases.0.rate", "-40G"), "phases[0].rate: must match"),
        (put("spec.traffic.phases.0.rate", -1), "phases[0].rate: must be at least 0"),
        (put("spec.allocation.node", "Node_0"), "spec.allocation.node: must match"),
        (put("spec.allocation.reservedCushionMicroseconds", -1), "must be at least 0, got -1"),
        (put("spec.allocation.gated", "no"), "gated: must be of type 'boolean', got 'no'"),
        (put("metadata.name", "Upper"), "metadata.name: must match"),
        (put("metadata.name", "a" * 64), "metadata.name: must have at most 63 characters"),
        (put("metadata.labels", {"job": "a b"}), "metadata.labels.job: must match"),
        (put("metadata.annotations", {"a b": ""}), "metadata.annotations: must"),
        (put("kind", "STBandwidthWish"), "there is no schema for kind 'STBandwidthWish'"),
        (put("apiVersion", "metronome.x-k8s.io/v2"), "there is no schema for kind"),
        (drop("kind"), "there is no schema for kind 'None'"),
    ],
)
def test_a_defect_is_refused_in_one_line_and_nothing_is_written(
    objects: Objects, change: Callable[[Objects], None], words: str, tmp_path: Path
) -> None:
    change(objects)
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        write_manifests(objects, tmp_path / "claims")
    assert str(caught.value).startswith("claims.yaml: ")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_object_may_be_there_once_only(objects: Objects) -> None:
    objects["claims.yaml"].append(copy.deepcopy(claim(objects)))
    with pytest.raises(InputError, match="is there twice"):
        check_manifests(objects)


def test_without_its_definition_a_claim_cannot_be_checked(objects: Objects) -> None:
    del objects["crds.yaml"]
    with pytest.raises(InputError, match="there is no schema"):
        check_manifests(objects)


def test_an_app_group_needs_a_member(objects: Objects) -> None:
    objects["appgroups.yaml"][0]["spec"]["numMembers"] = 0
    with pytest.raises(InputError, match=r"spec.numMembers: must be at least 1, got 0"):
        check_manifests(objects)


def test_an_integer_must_fit_its_width(objects: Objects) -> None:
    objects["appgroups.yaml"][0]["spec"]["numMembers"] = 2**31
    with pytest.raises(InputError, match=r"spec.numMembers: must be a number .*'int32'"):
        check_manifests(objects)


def test_a_file_that_is_not_of_an_export_is_refused(objects: Objects, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'notes.yaml': is not a file of an export"):
        write_manifests({**objects, "notes.yaml": []}, tmp_path / "claims")
