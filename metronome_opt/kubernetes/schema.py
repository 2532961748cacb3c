"""Building blocks of structural OpenAPI v3 schemas, as custom resources may use them.

Only what Kubernetes 1.20 knows already is used, so that old and new clusters take the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]

# What a reader that keeps numbers as doubles still gets exactly; in microseconds, 285 years.
LARGEST_INTEGER = 2**53 - 1

# The grammar of k8s.io/apimachinery's Quantity, but for a minus sign: no bandwidth is negative.
QUANTITY_PATTERN = (
    r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


def text(description: str, **limits: Any) -> Schema:
    """Return the schema of a string; `limits` are maxLength, minLength, pattern, enum, format."""
    return {"description": description, "type": "string", **limits}


def integer(
    description: str,
    minimum: int | None = 0,
    maximum: int | None = LARGEST_INTEGER,
    width: str = "int64",
) -> Schema:
    """Return the schema of an integer within inclusive limits."""
    limits = {"minimum": minimum, "maximum": maximum}
    return {
        "description": description,
        "type": "integer",
        "format": width,
        **{name: value for name, value in limits.items() if value is not None},
    }


def boolean(description: str) -> Schema:
    """Return the schema of true or false."""
    return {"description": description, "type": "boolean"}


def bandwidth(description: str) -> Schema:
    """Return the schema of a Kubernetes quantity that is not negative."""
    return {
        "description": description,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "pattern": QUANTITY_PATTERN,
    }


def record(
    description: str, properties: Mapping[str, Schema], required: Iterable[str] = ()
) -> Schema:
    """Return the schema of an object with these fields."""
    names = list(required)
    return {
        "description": description,
        "type": "object",
        **({"required": names} if names else {}),
        "properties": dict(properties),
    }


def array(
    description: str,
    items: Schema,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    keys: Iterable[str] = (),
) -> Schema:
    """Return the schema of a list, merged element by element if the elements have `keys`."""
    names = list(keys)
    merging = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": names}
    return {
        "description": description,
        "type": "array",
        **({"minItems": minimum} if minimum else {}),
        **({"maxItems": maximum} if maximum is not None else {}),
        **(merging if names else {"x-kubernetes-list-type": "atomic"}),
        "items": items,
    }


def resource(description: str, spec: Schema, status: Schema) -> Schema:
    """Return the schema of a whole object. Its metadata is Kubernetes' own business."""
    return {
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": text("Group and version of this object."),
            "kind": text("Kind of this object."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def conditions() -> Schema:
    """Return the schema of a list of conditions, shaped like those of Kubernetes' own objects."""
    condition = record(
        "One aspect of the observed state.",
        {
            "type": text("What the condition is about, in CamelCase.", minLength=1, maxLength=316),
            "status": text("Whether it holds.", enum=["True", "False", "Unknown"]),
            "observedGeneration": integer("The metadata.generation it was observed at."),
            "lastTransitionTime": text("When the status last changed.", format="date-time"),
            "reason": text("Why, as one word in CamelCase.", minLength=1, maxLength=1024),
            "message": text("Why, for people.", maxLength=32768),
        },
        required=["type", "status", "lastTransitionTime", "reason", "message"],
    )
    return array("What is known of the object's state.", condition, maximum=16, keys=["type"])
