"""Scenarios and a study for the command `simulate`, one cell of which takes for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli import placing

_JOBS = [{**placing.SCENARIO["jobs"][0], "name": name, "iterations": 10} for name in ("a", "b")]
SCENARIO: dict[str, Any] = {**placing.SCENARIO, "jobs": _JOBS}
ENDLESS = [job | {"iterations": 10**9} for job in SCENARIO["jobs"]]
STUDY: dict[str, Any] = {
    **{key: value for key, value in SCENARIO.items() if key != "jobs"},
    "format": "metronome-study/1",
    "name": "endless",
    "draw": {"given": {"work": ENDLESS}},
    "grid": {"horizon_s": [1, 1_000_000_000]},
    "policies": ["default"],
    "seeds": 1,
}


def write_files(folder: Path) -> None:
    """Write all of them, and a folder that holds something else."""
    work = [job | {"workers": 8, "nodes": None} for job in _JOBS]
    first = {key: job for key, job in _JOBS[0].items() if key != "iterations"}
    documents = {
        "pair": SCENARIO,
        "endless": STUDY,
        "large": SCENARIO | {"jobs": work},
        "short": SCENARIO | {"jobs": [first, *_JOBS[1:]]},
        "unstated": SCENARIO | {"jobs": [first, first | {"name": "other"}]},
    }
    for name, document in documents.items():
        (folder / f"{name}.yaml").write_text(json.dumps(document), encoding="utf-8")
    (folder / "taken").mkdir()
    (folder / "taken" / "thesis.tex").touch()
