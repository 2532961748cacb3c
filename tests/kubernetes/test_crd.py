"""The shipped definitions obey the rules by which Kubernetes accepts a structural schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from metronome_opt.kubernetes.schemas import custom_resource_definitions
from tests.kubernetes.schemas import check_manifests

CAPACITY, CLAIM = custom_resource_definitions("a.io")
TYPES = {"object", "array", "string", "integer", "boolean"}
# All that apiextensions.k8s.io/v1 has known since Kubernetes 1.20, as far as it is used here: no
# $ref, no closed objects, no defaults, no validation rules.
KEYWORDS = {
    *("description", "type", "format", "enum", "pattern", "required", "properties", "items"),
    *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "anyOf"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
}


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    assert version["served"]
    assert version["storage"]
    assert version["subresources"] == {"status": {}}
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


@pytest.mark.parametrize("definition", [CAPACITY, CLAIM])
def test_every_value_is_structural_described_and_limited(definition: dict[str, Any]) -> None:
    schema = schema_of(definition)
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    # Kubernetes describes metadata itself and refuses any further description of it.
    assert schema["properties"]["metadata"] == {"type": "object"}
    for path, node in nodes(schema):
        assert set(node) <= KEYWORDS, path
        assert bool(node.get("description")) == (path != ".metadata"), path
        assert set(node.get("required", ())) <= set(node.get("properties", ())), path
        match node.get("type"):
            case "integer":
                assert node["minimum"] <= node["maximum"] < 2**63, path
                assert node["format"] in {"int32", "int64"}, path
            case "array":
                assert node["maxItems"] > 0, path
                keys = node.get("x-kubernetes-list-map-keys", [])
                assert node["x-kubernetes-list-type"] == ("map" if keys else "atomic"), path
                assert set(keys) <= set(node["items"]["required"]), path
            case "string":
                limited = {"maxLength", "enum", "format"} & set(node)
                assert limited or path in (".apiVersion", ".kind"), path
            case None:
                assert node["x-kubernetes-int-or-string"], path
                assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
                assert node["pattern"], path
            case other:
                assert other in TYPES, path


@pytest.mark.parametrize("definition", [CAPACITY, CLAIM])
def test_printer_columns_show_values_that_exist(definition: dict[str, Any]) -> None:
    # An element of a list is written [] by `nodes`, [0] by a column.
    paths = {path for path, _ in nodes(schema_of(definition))} | {".metadata.creationTimestamp"}
    for column in definition["spec"]["versions"][0]["additionalPrinterColumns"]:
        assert column["jsonPath"].replace("[0]", "[]") in paths


def test_definitions_are_of_the_group_that_is_asked_for() -> None:
    assert CLAIM["metadata"]["name"] == "stbandwidthclaims.a.io"
    assert CAPACITY["metadata"]["name"] == "stbandwidthcapacities.a.io"
    assert CLAIM["spec"]["group"] == CAPACITY["spec"]["group"] == "a.io"
    assert (CLAIM["spec"]["scope"], CAPACITY["spec"]["scope"]) == ("Namespaced", "Cluster")
    check_manifests({"crds.yaml": [CAPACITY, CLAIM]})
