"""Environment variables that configure a gate, see docs/gate.md.

``{task}`` in the places of measurements stands for the task: processes share no file and no port.
"""

from __future__ import annotations

import os

from metronome_opt.gate.checks import FIELDS, ClaimError, from_milliseconds, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from metronome_opt.gate.windows import Claim


def settings(environ: Mapping[str, str] | None) -> tuple[dict[str, Any], list[str]]:
    """Return arguments of a gate, and what is wrong with the variables, a line each.

    Parameters
    ----------
    environ
        The variables; None for those of the process.
    """
    given = {
        name: value.strip()
        for name, value in (os.environ if environ is None else environ).items()
        if (name.startswith("METRONOME_") or name == "RANK") and value.strip()
    }
    faults = []
    asked: dict[str, Any] = {"job": given.get("METRONOME_JOB", "")}
    task = given.get("METRONOME_TASK", given.get("RANK"))
    if task is not None and task.isascii() and task.isdigit() and len(task) <= 10:
        asked["task"] = int(task)
    elif task is not None:
        faults.append(f"METRONOME_TASK: {quote(task)}: must be a number from 0; it is left out")
    for name in ("record", "metrics"):
        path = given.get(f"METRONOME_{name.upper()}")
        if path and "{task}" in path and "task" not in asked:
            faults.append(f"{path}: there is no task to put in; set METRONOME_TASK")
        asked[name] = path and path.replace("{task}", str(asked.get("task", "")))
    if "METRONOME_CLAIM" in given:
        asked["file"] = given["METRONOME_CLAIM"]
    else:
        try:
            asked["claim"] = _claim(given, asked["job"])
        except ClaimError as fault:
            asked["claim"] = fault
    return asked, faults


def _variable(key: str) -> str:
    return f"METRONOME_{key.upper()}"


def _claim(given: Mapping[str, str], job: str) -> Claim | None:
    """Return the claim that stands in the variables themselves; None if there is none."""
    values: dict[str, Any] = {
        key: given[_variable(key)] for key in FIELDS if _variable(key) in given
    }
    if not values:
        return None
    for key in FIELDS[:2]:
        if key not in values:
            stated = _variable(next(iter(values)))
            raise ClaimError(f"{_variable(key)}: not set, though {stated} is; set it as well")
    if "starts_ms" in values:
        values["starts_ms"] = values["starts_ms"].split(",")
    if "gated" in values:
        stated = values["gated"]
        values["gated"] = {"true": True, "false": False}.get(stated.lower(), stated)
    stated = values.get("traffic_class", "")
    if stated.isascii() and stated.isdigit() and len(stated) < 10:
        values["traffic_class"] = int(stated)
    return from_milliseconds(values, _variable, job)
