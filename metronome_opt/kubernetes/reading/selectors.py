"""Selectors of labels, as Kubernetes has them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from metronome_opt.kubernetes.reading.fields import Field

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def matches(selector: Field, labels: Mapping[str, str]) -> bool:
    """Return True if labels match a label selector."""
    wanted = (selector / "matchLabels").texts()
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(holds(item, labels) for item in (selector / "matchExpressions").items())


def holds(expression: Field, labels: Mapping[str, str]) -> bool:
    """Return True if labels fulfil an expression of a selector."""
    key, operator = (expression / "key").text(), expression / "operator"
    value, values = labels.get(key), [item.value for item in (expression / "values").items()]
    found = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
        "Gt": _compare(value, values) > 0,
        "Lt": _compare(value, values) < 0,
    }
    if operator.text() not in found:
        operator.fail(f"must be one of {', '.join(found)}")
    return found[operator.value]


def _compare(value: str | None, values: list[object]) -> int:
    """Return the sign of a difference of integers; 0 where one of them is none."""
    both = [str(item) for item in (value, *values[:1])]
    if len(both) < 2 or not all(map(_INTEGER.fullmatch, both)):
        return 0
    return (int(both[0]) > int(both[1])) - (int(both[0]) < int(both[1]))
