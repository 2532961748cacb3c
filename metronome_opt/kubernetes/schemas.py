"""The two custom resources, and checks of objects as an API server makes them before storing them.

Every object is held against the schema of its kind with unknown fields forbidden, which imitates
strict decoding. A kind without a schema cannot be checked and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from metronome_opt.errors import InputError, format_path, quote, sanitize
from metronome_opt.kubernetes.names import DEFAULT_GROUP

DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
KUSTOMIZATION = ("kustomize.config.k8s.io/v1beta1", "Kustomization")

Manifest = dict[str, Any]
Manifests = Mapping[str, Sequence[Manifest]]

_LONGEST = 200  # characters of what the validator says
VERSION = "v1alpha1"
CLAIM = "STBandwidthClaim"
CAPACITY = "STBandwidthCapacity"
CLAIMS = "stbandwidthclaims"
CAPACITIES = "stbandwidthcapacities"


def check_manifests(manifests: Manifests) -> None:
    """Check every object of an export, file by file.

    Raises
    ------
    InputError
        One line that names file, object, place and value: a field that is unknown, missing, of
        the wrong type or out of range, a name that is not valid, an object that is there twice or
        whose kind has no schema.
    """
    seen: set[tuple[object, ...]] = set()
    for file, objects in manifests.items():
        for index, manifest in enumerate(objects):
            metadata = manifest.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            name = metadata.get("name")
            title = name if isinstance(name, str) and name else f"object {index}"
            where = f"{file}: {manifest.get('kind', 'unknown kind')} {title}"
            key = str(manifest.get("apiVersion")), str(manifest.get("kind"))
            _check(where, manifest, key)
            identity = (*key, metadata.get("namespace"), name)
            if identity in seen:
                raise InputError(f"{where}: is there twice; give each object a name of its own")
            seen.add(identity)


def _check(where: str, manifest: Manifest, key: tuple[str, str]) -> None:
    version, kind = key
    # Our own kinds are the same in every API group.
    ours = f"{DEFAULT_GROUP}/{version.rpartition('/')[2]}", kind
    validator = _validators().get(key) or _validators().get(ours)
    if validator is None:
        raise InputError(
            f"{where}: there is no schema for kind {quote(kind)} of {quote(version)}, so it "
            "cannot be checked and is not written"
        )
    faults = sorted(
        validator.iter_errors(manifest), key=lambda fault: list(map(str, fault.absolute_path))
    )
    for fault in faults:
        at = format_path(list(fault.absolute_path)) or "the object"
        message = fault.message
        if len(message) > _LONGEST:  # it has the whole value
            message = f"{quote(fault.instance)} does not satisfy {fault.validator}"
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(f"{where}: {at}: {sanitize(message, _LONGEST)}{more}")


@cache
def _validators() -> Mapping[tuple[str, str], Draft202012Validator]:
    """Return what checks the objects of each API version and kind."""
    (shipped,) = read_shipped("kinds.yaml")
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


def custom_resource_definitions(group: str) -> list[dict[str, Any]]:
    """Return the definitions of STBandwidthCapacity and STBandwidthClaim in an API group."""
    definitions = read_shipped("crds.yaml")
    for definition in definitions:
        spec = definition["spec"]
        spec["group"] = group
        definition["metadata"]["name"] = f"{spec['names']['plural']}.{group}"
    return definitions


def read_shipped(name: str) -> list[Any]:
    """Return the documents of a YAML file that is shipped beside this module."""
    text = files("metronome_opt.kubernetes").joinpath(name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))
