"""The variables that say what a gate is to do.

``METRONOME_CLAIM`` names a file of claims. Without it, ``METRONOME_OFFSET_MS`` and
``METRONOME_PERIOD_MS`` are the claim, with ``METRONOME_STARTS_MS`` (beginnings of bursts in the
iteration, separated by commas, 0 if left out), ``METRONOME_CUSHION_MS`` (0 if left out) and
``METRONOME_GATED`` (``true`` if left out; with ``false`` bursts do not wait).
``METRONOME_JOB`` and ``METRONOME_TASK`` (or ``RANK``, as torchrun sets it) say who this is,
``METRONOME_RECORD`` and ``METRONOME_METRICS`` where it is told what was measured; ``{task}`` in
these two stands for the task, since processes cannot share a file or a port.
"""

from __future__ import annotations

import os

from metronome_opt.gate.checks import ClaimError, Names, checked, show
from metronome_opt.gate.plan import Claim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_NAMES = Names(
    "METRONOME_OFFSET_MS",
    "METRONOME_PERIOD_MS",
    "METRONOME_STARTS_MS",
    "METRONOME_CUSHION_MS",
    "METRONOME_GATED",
    10**6,
)


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
        faults.append(f"METRONOME_TASK: {show(task)}: must be a number from 0; it is left out")
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


def _claim(given: Mapping[str, str], job: str) -> Claim | None:
    """Return the claim that stands in the variables themselves; None if there is none."""
    from metronome_opt.gate.milliseconds import nanoseconds

    names = (_NAMES.offset, _NAMES.period, _NAMES.starts, _NAMES.cushion, _NAMES.gated)
    stated = [name for name in names if name in given]
    if not stated:
        return None
    for name in names[:2]:
        if name not in given:
            raise ClaimError(f"{name}: not set, though {stated[0]} is; set it as well")
    starts = given.get(_NAMES.starts, "0").split(",")
    gated: Any = given.get(_NAMES.gated, "true")
    claim = Claim(
        offset_ns=nanoseconds(given[_NAMES.offset], _NAMES.offset),
        period_ns=nanoseconds(given[_NAMES.period], _NAMES.period),
        starts_ns=tuple(nanoseconds(start, _NAMES.starts) for start in starts),
        cushion_ns=nanoseconds(given.get(_NAMES.cushion, "0"), _NAMES.cushion),
        job=job,
        gated={"true": True, "false": False}.get(gated.lower(), gated),
    )
    return checked(claim, _NAMES)
