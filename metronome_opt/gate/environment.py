"""Environment variables that configure a gate, see docs/gate.md.

``{task}`` in a record or port stands for the task: processes share none.
"""

from __future__ import annotations

import os

from metronome_opt.gate.checks import FIELDS, ClaimError, parse_claim, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from metronome_opt.gate.windows import Claim


def settings(environ: Mapping[str, str] | None) -> tuple[dict[str, Any], list[str]]:
    """Return arguments of a gate by the variables, or the process's, and a line for each fault."""
    environ = os.environ if environ is None else environ
    given = {
        name.removeprefix("METRONOME_").lower(): value.strip()
        for name, value in environ.items()
        if name.startswith("METRONOME_") and value.strip()
    }
    faults = []
    asked: dict[str, Any] = {"job": given.get("job", "")}
    task = given.get("task") or environ.get("RANK", "").strip()
    if task.isascii() and task.isdigit() and len(task) <= 10:
        asked["task"] = int(task)
    elif task:
        faults.append(f"METRONOME_TASK: {quote(task)}: must be a number from 0; it is dropped")
    for name in ("record", "metrics"):
        path = given.get(name)
        if path and "{task}" in path and "task" not in asked:
            faults.append(f"{path}: there is no task to put in; set METRONOME_TASK")
        asked[name] = path and path.replace("{task}", str(asked.get("task", "")))
    if "claim" in given:
        asked["file"] = given["claim"]
    else:
        try:
            values = {key: given[key] for key in FIELDS if key in given}
            asked["claim"] = _claim(values, asked["job"])
        except ClaimError as fault:
            asked["claim"] = fault
    return asked, faults


def _claim(values: dict[str, Any], job: str) -> Claim | None:
    """Return the claim that stands in the variables themselves; None if there is none."""
    if not values:
        return None
    names = {key: f"METRONOME_{key.upper()}" for key in FIELDS}
    for key in ("offset_ms", "period_ms"):
        if key not in values:
            stated = names[next(iter(values))]
            raise ClaimError(f"{names[key]}: not set, though {stated} is; set it as well")
    if "starts_ms" in values:
        values["starts_ms"] = values["starts_ms"].split(",")
    gated, traffic_class = values.get("gated", ""), values.get("traffic_class", "")
    if gated.lower() in ("true", "false"):
        values["gated"] = gated.lower() == "true"
    if traffic_class.isascii() and traffic_class.isdigit() and len(traffic_class) < 10:
        values["traffic_class"] = int(traffic_class)
    return parse_claim(values, names.__getitem__, job)
