"""The definitions obey the rules by which Kubernetes accepts a structural schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from metronome_opt.errors import InputError
from metronome_opt.kubernetes.check import check_manifests
from metronome_opt.kubernetes.crd import custom_resource_definitions

DEFINITIONS = {item["spec"]["names"]["kind"]: item for item in custom_resource_definitions("a.io")}
KINDS = sorted(DEFINITIONS)


def schema_of(kind: str) -> dict[str, Any]:
    schema: dict[str, Any] = DEFINITIONS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_has_a_type_and_a_description(kind: str) -> None:
    for path, node in nodes(schema_of(kind)):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        # Kubernetes refuses a description of metadata, which is its own.
        assert bool(node.get("description")) == (path != ".metadata"), path


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_of_a_user_is_limited(kind: str) -> None:
    for path, node in nodes(schema_of(kind)["properties"]["spec"]):
        match node.get("type"):
            case "integer":
                assert node["minimum"] <= node["maximum"] < 2**63, path
                assert node["format"] in {"int32", "int64"}, path
            case "array":
                assert node["maxItems"] > 0, path
            case "string":
                assert "maxLength" in node or "enum" in node, path
            case "object":
                assert set(node.get("required", ())) <= set(node["properties"]), path
            case "boolean":
                pass
            case other:
                assert other is None, path
                assert "pattern" in node, path


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_merged_lists_are_required(kind: str) -> None:
    merged = [node for _, node in nodes(schema_of(kind)) if "x-kubernetes-list-map-keys" in node]
    assert merged
    for node in merged:
        assert node["x-kubernetes-list-type"] == "map"
        assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"])


@pytest.mark.parametrize("kind", KINDS)
def test_printer_columns_show_values_that_exist(kind: str) -> None:
    # An element of a list is written [] by `nodes`, [0] by a column.
    paths = {path for path, _ in nodes(schema_of(kind))} | {".metadata.creationTimestamp"}
    for column in DEFINITIONS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]:
        assert column["jsonPath"].replace("[0]", "[]") in paths


def test_scopes_names_and_status() -> None:
    claim, capacity = DEFINITIONS["STBandwidthClaim"], DEFINITIONS["STBandwidthCapacity"]
    assert claim["metadata"]["name"] == "stbandwidthclaims.a.io"
    assert capacity["metadata"]["name"] == "stbandwidthcapacities.a.io"
    assert (claim["spec"]["scope"], capacity["spec"]["scope"]) == ("Namespaced", "Cluster")
    for definition in (claim, capacity):
        assert definition["spec"]["group"] == "a.io"
        assert definition["spec"]["versions"][0]["subresources"] == {"status": {}}
        assert definition["spec"]["names"]["categories"] == ["metronome"]


DEFECTS: list[dict[str, Any]] = [
    {"description": "no type"},
    {"type": "object", "x-kubernetes-int-or-string": True, "anyOf": []},
    {"type": "text"},
    {"type": "array"},
    {"type": "object", "additionalProperties": False},
    {"type": "integer", "minimum": "0"},
    {"type": "object", "properties": {"inner": {"description": "no type"}}},
    {"type": "string", "x-kubernetes-validations": []},
]


@pytest.mark.parametrize("node", DEFECTS)
def test_a_definition_that_is_not_structural_is_refused(node: dict[str, Any]) -> None:
    definitions = custom_resource_definitions("a.io")
    root = definitions[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    check_manifests({"crds.yaml": definitions})
    root["properties"]["spec"]["properties"]["extra"] = node
    with pytest.raises(InputError, match=r"crds.yaml: CustomResourceDefinition stbandwidth"):
        check_manifests({"crds.yaml": definitions})


def test_a_definition_must_be_called_by_plural_and_group() -> None:
    definitions = custom_resource_definitions("a.io")
    definitions[0]["metadata"]["name"] = "capacities.a.io"
    with pytest.raises(InputError, match=r"must be stbandwidthcapacities.a.io"):
        check_manifests({"crds.yaml": definitions})
