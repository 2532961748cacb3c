"""Checks of claims and capacities against their definitions, as an API server makes them.

Unknown fields are forbidden, which imitates strict decoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from metronome_opt.kubernetes.claims.names import Manifests, read_shipped


def check_manifests(manifests: Manifests) -> None:
    """Check every claim and capacity; no two objects of a kind have one name."""
    seen = set()
    for manifest in (each for objects in manifests.values() for each in objects):
        kind, metadata = manifest["kind"], manifest["metadata"]
        if kind in _validators():
            _validators()[kind].validate(manifest)
        identity = kind, metadata.get("namespace"), metadata["name"]
        assert identity not in seen
        seen.add(identity)


@cache
def _validators() -> Mapping[str, Draft202012Validator]:
    """Return the validator of each of our kinds."""
    validators = {}
    for definition in read_shipped("crds.yaml"):
        (version,) = definition["spec"]["versions"]
        schema = _closed(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"required": ["name"]}
        validators[definition["spec"]["names"]["kind"]] = Draft202012Validator(schema)
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
