"""Checking objects before they are written, as an API server would before it stores them.

Every object is held against the schema of its kind with unknown fields forbidden, which imitates
strict decoding. A kind without a schema cannot be checked and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from metronome_opt.errors import InputError, place, show
from metronome_opt.kubernetes.diktyo import (
    APPGROUP,
    NETWORK_TOPOLOGY,
    app_group_schema,
    network_topology_schema,
)
from metronome_opt.kubernetes.names import (
    LABEL_LENGTH,
    LABEL_PATTERN,
    SUBDOMAIN_LENGTH,
    SUBDOMAIN_PATTERN,
)
from metronome_opt.kubernetes.schema import Schema
from metronome_opt.kubernetes.structural import definition_schema

DEFINITION = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
KUSTOMIZATION = ("kustomize.config.k8s.io/v1beta1", "Kustomization")

Manifest = dict[str, Any]
Manifests = Mapping[str, Sequence[Manifest]]

_WIDTHS = {"int32": 2**31, "int64": 2**63}
_KEY_PATTERN = r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_VALUE_PATTERN = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"


def check_manifests(manifests: Manifests) -> None:
    """Check every object of an export.

    The definitions among the objects are checked first and give the schemas of their kinds.

    Parameters
    ----------
    manifests
        The objects of each file.

    Raises
    ------
    InputError
        One line that names file, object, place and value: a field that is unknown, missing, of
        the wrong type or out of range, a name that is not valid, an object that is there twice or
        whose kind has no schema.
    """
    kinds = {
        DEFINITION: _Kind(DEFINITION, definition_schema(), namespaced=False, name="subdomain"),
        APPGROUP: _Kind(APPGROUP, app_group_schema(), namespaced=True),
        NETWORK_TOPOLOGY: _Kind(NETWORK_TOPOLOGY, network_topology_schema(), namespaced=True),
        KUSTOMIZATION: _Kind(KUSTOMIZATION, _kustomization_schema(), namespaced=False, name=None),
    }
    for where, definition in _walk(manifests):
        if _kind_of(definition) == DEFINITION:
            kinds[DEFINITION].check(where, definition)
            kind = _defined(definition, where)
            kinds[kind.key] = kind
    seen: set[tuple[object, ...]] = set()
    for where, manifest in _walk(manifests):
        key = _kind_of(manifest)
        if key not in kinds:
            raise InputError(
                f"{where}: there is no schema for kind {show(key[1])} of {show(key[0])}, so it "
                "cannot be checked and is not written"
            )
        kinds[key].check(where, manifest)
        metadata = manifest.get("metadata", {})
        identity = (*key, metadata.get("namespace"), metadata.get("name"))
        if identity in seen:
            raise InputError(f"{where}: is there twice; give each object a name of its own")
        seen.add(identity)


def _walk(manifests: Manifests) -> Iterator[tuple[str, Manifest]]:
    for file, objects in manifests.items():
        for index, manifest in enumerate(objects):
            metadata = manifest.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            title = str(name) if isinstance(name, str) and name else f"object {index}"
            yield f"{file}: {manifest.get('kind', 'unknown kind')} {title}", manifest


def _kind_of(manifest: Manifest) -> tuple[Any, Any]:
    return str(manifest.get("apiVersion")), str(manifest.get("kind"))


def _defined(definition: Manifest, where: str) -> _Kind:
    """Return the kind that a checked definition defines."""
    spec = definition["spec"]
    version = spec["versions"][0]
    expected = f"{spec['names']['plural']}.{spec['group']}"
    if definition["metadata"]["name"] != expected:
        raise InputError(f"{where}: metadata.name: must be {expected}, the plural and the group")
    return _Kind(
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]),
        version["schema"]["openAPIV3Schema"],
        namespaced=spec["scope"] == "Namespaced",
        # What belongs to a node is called like it, and Nodes may have dots in their names.
        name="label" if spec["scope"] == "Namespaced" else "subdomain",
    )


# ------------------------------------------------------------------ one kind


class _Kind:
    """A kind of object and how to check one."""

    def __init__(
        self,
        key: tuple[str, str],
        schema: Schema,
        *,
        namespaced: bool,
        name: str | None = "label",
    ) -> None:
        self.key = key
        whole = strict(schema)
        whole["required"] = [*whole.get("required", []), "apiVersion", "kind"]
        if name is not None:
            whole["required"].append("metadata")
            whole["properties"]["metadata"] = _metadata_schema(namespaced, name)
        self.validator = Draft202012Validator(whole, format_checker=_FORMATS)

    def check(self, where: str, manifest: Manifest) -> None:
        """Raise the first fault of `manifest` as one line."""
        faults = sorted(
            self.validator.iter_errors(manifest),
            key=lambda fault: (list(map(str, fault.absolute_path)), fault.validator == "format"),
        )
        if faults:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            raise InputError(f"{where}: {_explain(faults[0])}{more}")


def strict(schema: Schema) -> Schema:
    """Return a copy of `schema` in which an object has no fields but those it names."""

    def close(node: Any) -> Any:
        if isinstance(node, list):
            return [close(item) for item in node]
        if not isinstance(node, dict):
            return node
        closed = {key: close(value) for key, value in node.items()}
        if node.get("type") == "object" and isinstance(node.get("properties"), dict):
            closed.setdefault("additionalProperties", False)
        return closed

    result: Schema = close(schema)
    return result


def _explain(fault: ValidationError) -> str:
    """Return a fault as the place, what must be and what is."""
    where = place(list(fault.absolute_path)) or "the object"
    limit: Any = fault.validator_value
    value = fault.instance
    if fault.validator == "additionalProperties" and isinstance(value, dict):
        known = fault.schema.get("properties", {}) if isinstance(fault.schema, dict) else {}
        unknown = next((name for name in value if name not in known), None)
        if limit is False and unknown is not None:
            return f"{where}: field {show(unknown)} is not in the schema"
    if fault.validator == "required" and isinstance(value, dict):
        missing = next(name for name in limit if name not in value)
        return f"{where}: field {show(missing)} is missing"
    words = _WORDS.get(str(fault.validator), f"must satisfy {fault.validator} {{limit}}")
    return f"{where}: {words.format(limit=_brief(limit))}, got {show(value)}"


def _brief(limit: object) -> str:
    if isinstance(limit, list) and all(isinstance(item, str) for item in limit):
        return ", ".join(limit)
    return str(limit) if isinstance(limit, int) else show(limit)


_WORDS = {
    "type": "must be of type {limit}",
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "minLength": "must have at least {limit} characters",
    "maxLength": "must have at most {limit} characters",
    "minItems": "must have at least {limit} elements",
    "maxItems": "must have at most {limit} elements",
    "enum": "must be one of {limit}",
    "pattern": "must match {limit}",
    "format": "must be a number or text of format {limit}",
}


# ------------------------------------------------------------------ what all kinds share


_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("int32")
def _is_int32(value: object) -> bool:
    return _fits(value, "int32")


@_FORMATS.checks("int64")
def _is_int64(value: object) -> bool:
    return _fits(value, "int64")


def _fits(value: object, width: str) -> bool:
    bound = _WIDTHS[width]
    return not isinstance(value, int) or -bound <= value < bound


def _metadata_schema(namespaced: bool, name: str) -> Schema:
    label = {"type": "string", "pattern": LABEL_PATTERN, "maxLength": LABEL_LENGTH}
    subdomain = {"type": "string", "pattern": SUBDOMAIN_PATTERN, "maxLength": SUBDOMAIN_LENGTH}
    return {
        "type": "object",
        "required": ["name", "namespace"] if namespaced else ["name"],
        "properties": {
            "name": label if name == "label" else subdomain,
            **({"namespace": label} if namespaced else {}),
            "labels": {
                "type": "object",
                "propertyNames": {"pattern": _KEY_PATTERN},
                "additionalProperties": {
                    "type": "string",
                    "pattern": _VALUE_PATTERN,
                    "maxLength": LABEL_LENGTH,
                },
            },
            "annotations": {
                "type": "object",
                "propertyNames": {"pattern": _KEY_PATTERN},
                "additionalProperties": {"type": "string"},
            },
        },
        "additionalProperties": False,
    }


def _kustomization_schema() -> Schema:
    return {
        "type": "object",
        "required": ["resources"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "resources": {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
        },
    }
