"""What a custom resource definition may look like: a schema of the definitions themselves.

It allows the part of apiextensions.k8s.io/v1 that is used here, which Kubernetes 1.20 and all later
releases take: a structural schema gives every value a type or says that it is an integer or text,
and knows no ``$ref``, no closed objects and no alternatives but that one.
"""

from __future__ import annotations

from metronome_opt.kubernetes.names import (
    LABEL_LENGTH,
    LABEL_PATTERN,
    SUBDOMAIN_LENGTH,
    SUBDOMAIN_PATTERN,
)
from metronome_opt.kubernetes.schema import Schema

_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "minItems": 1, "uniqueItems": True, "items": _TEXT}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_LABEL: Schema = {"type": "string", "pattern": LABEL_PATTERN, "maxLength": LABEL_LENGTH}
_SUBDOMAIN: Schema = {
    "type": "string",
    "pattern": SUBDOMAIN_PATTERN,
    "maxLength": SUBDOMAIN_LENGTH,
}
_CAMEL: Schema = {"type": "string", "pattern": "^[A-Z][A-Za-z0-9]*$", "maxLength": LABEL_LENGTH}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]

_NODE: Schema = {
    "type": "object",
    "properties": {
        "description": _TEXT,
        "type": {"enum": ["object", "array", "string", "integer", "number", "boolean"]},
        "format": {"enum": ["int32", "int64", "date-time"]},
        "enum": {"type": "array", "minItems": 1, "uniqueItems": True},
        "pattern": _TEXT,
        "minLength": _COUNT,
        "maxLength": _COUNT,
        "minimum": {"type": "number"},
        "maximum": {"type": "number"},
        "minItems": _COUNT,
        "maxItems": _COUNT,
        "required": _TEXTS,
        "properties": {"type": "object", "additionalProperties": {"$ref": "#/$defs/node"}},
        "items": {"$ref": "#/$defs/node"},
        "anyOf": {"const": _INT_OR_STRING},
        "x-kubernetes-int-or-string": {"const": True},
        "x-kubernetes-list-type": {"enum": ["atomic", "set", "map"]},
        "x-kubernetes-list-map-keys": _TEXTS,
    },
    "additionalProperties": False,
    "oneOf": [
        {"required": ["type"]},
        {"required": ["x-kubernetes-int-or-string", "anyOf"]},
    ],
    "dependentRequired": {
        "anyOf": ["x-kubernetes-int-or-string"],
        "x-kubernetes-list-map-keys": ["x-kubernetes-list-type"],
    },
    "allOf": [
        {
            "if": {"properties": {"type": {"const": "array"}}, "required": ["type"]},
            "then": {"required": ["items"]},
        }
    ],
}

_ROOT: Schema = {
    "allOf": [{"$ref": "#/$defs/node"}],
    "required": ["description"],
    "properties": {
        "type": {"const": "object"},
        "properties": {
            "type": "object",
            "required": ["apiVersion", "kind", "metadata", "spec", "status"],
            # Kubernetes describes metadata itself and refuses any further description of it.
            "properties": {"metadata": {"const": {"type": "object"}}},
            "additionalProperties": True,  # the reference above has looked at them
        },
    },
}

_COLUMN: Schema = {
    "type": "object",
    "required": ["name", "type", "jsonPath"],
    "properties": {
        "name": _TEXT,
        "type": {"enum": ["integer", "number", "string", "boolean", "date"]},
        "jsonPath": {"type": "string", "pattern": r"^\."},
        "description": _TEXT,
        "priority": _COUNT,
    },
}

_VERSION: Schema = {
    "type": "object",
    "required": ["name", "served", "storage", "schema"],
    "properties": {
        "name": {"type": "string", "pattern": "^v[0-9]+((alpha|beta)[0-9]+)?$"},
        "served": {"type": "boolean"},
        "storage": {"const": True},  # a single version is always the stored one
        "subresources": {"const": {"status": {}}},
        "additionalPrinterColumns": {"type": "array", "items": _COLUMN},
        "schema": {
            "type": "object",
            "required": ["openAPIV3Schema"],
            "properties": {"openAPIV3Schema": _ROOT},
        },
    },
}


def definition_schema() -> Schema:
    """Return the schema of a CustomResourceDefinition with one version."""
    names: Schema = {
        "type": "object",
        "required": ["kind", "listKind", "plural", "singular"],
        "properties": {
            "kind": _CAMEL,
            "listKind": _CAMEL,
            "plural": _LABEL,
            "singular": _LABEL,
            "shortNames": {**_TEXTS, "items": _LABEL},
            "categories": {**_TEXTS, "items": _LABEL},
        },
    }
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["group", "scope", "names", "versions"],
                "properties": {
                    "group": _SUBDOMAIN,
                    "scope": {"enum": ["Namespaced", "Cluster"]},
                    "names": names,
                    "versions": {"type": "array", "minItems": 1, "maxItems": 1, "items": _VERSION},
                },
            },
        },
        "$defs": {"node": _NODE},
    }
