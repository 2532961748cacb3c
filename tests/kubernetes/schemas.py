"""Checks of manifests against the schemas of their kinds, as an API server makes them.

Every object is held against the schema of its kind with unknown fields forbidden, which imitates
strict decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from metronome_opt.kubernetes.names import DEFAULT_GROUP
from metronome_opt.kubernetes.schemas import Manifests, custom_resource_definitions


def check_manifests(manifests: Manifests) -> None:
    """Check every object; no two of a kind have one name."""
    seen = set()
    for objects in manifests.values():
        for manifest in objects:
            # Our own kinds are the same in every API group.
            version, kind = manifest["apiVersion"], manifest["kind"]
            ours = f"{DEFAULT_GROUP}/{version.rpartition('/')[2]}", kind
            (_validators().get((version, kind)) or _validators()[ours]).validate(manifest)
            metadata = manifest["metadata"]
            identity = version, kind, metadata.get("namespace"), metadata["name"]
            assert identity not in seen
            seen.add(identity)


@cache
def _validators() -> Mapping[tuple[str, str], Draft202012Validator]:
    """Return the validators of each API version and kind."""
    text = Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8")
    shipped = yaml.safe_load(text)
    kinds = shipped["kinds"]
    for definition in custom_resource_definitions(DEFAULT_GROUP):
        spec = definition["spec"]
        version = spec["versions"][0]
        kinds.append(
            {
                "apiVersion": f"{spec['group']}/{version['name']}",
                "kind": spec["names"]["kind"],
                "scope": spec["scope"],
                "schema": version["schema"]["openAPIV3Schema"],
            }
        )
    validators = {}
    for kind in kinds:
        schema = kind["schema"]
        schema["required"] = [*schema["required"], "apiVersion", "kind", "metadata"]
        schema["properties"] |= {
            "apiVersion": {},
            "kind": {},
            "metadata": shipped["metadata"][kind["scope"]],
        }
        schema["$defs"] = shipped["$defs"]
        validators[kind["apiVersion"], kind["kind"]] = Draft202012Validator(_closed(schema))
    return validators


def _closed(node: Any) -> Any:
    """Return a copy of a schema in which an object has no fields but those it names."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    if node.get("type") == "object" and isinstance(node.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed
