"""Small cases, and what is recorded of them, made by hand."""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.testbed.cases import Case
from benchmarks.testbed.modes import Mode
from benchmarks.testbed.run import BedRun, JobRun, run_case
from metronome_opt.allocation.slots.plan import Plan
from metronome_opt.files.journal import dump_line


def bed_job(period: int, *bursts: tuple[int, int], **fields: Any) -> dict[str, Any]:
    """Return a job as a file of cases states it."""
    return {"period": period, "bursts": bursts, **fields}


def bed_case(*jobs: dict[str, Any], **fields: Any) -> Case:
    """Return a case of 1 s on two racks."""
    stated = {"name": "case", "split": "test", "seconds": 1, **fields}
    return Case.model_validate({**stated, "jobs": jobs})


def bed_run(case: str, mode: str, begins: Mapping[str, Sequence[float]], **fields: Any) -> BedRun:
    """Return a record of a run in which iterations began then, on a quiet machine."""
    stated = {
        "case": case,
        "mode": mode,
        "repeat": 0,
        "congestion": "cubic",
        "offsets": None,
        "kernel": "6.1",
        "busy": False,
        "late_p95_ms": 0.1,
        "late_max_ms": 0.2,
        "idle": 0.9,
        "steal": 0.0,
        "real_time": True,
        "jobs": {
            name: JobRun(begins_ms=tuple(map(float, times)), bursts_ms=())
            for name, times in begins.items()
        },
    }
    return BedRun.model_validate({**stated, **fields})


def begins(*times: float, start: float = 0.0) -> list[float]:
    """Return beginnings of iterations that take so long, and the end of the last one."""
    found = [start]
    for time in times:
        found.append(found[-1] + time)
    return found


def stored(path: Path, *runs: BedRun) -> Path:
    """Write records, compressed if the name says so."""
    text = "".join(map(dump_line, runs)).encode()
    path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)
    return path


def refused(outcome: tuple[int, str, str]) -> str:
    """Return the one line of a refusal."""
    status, printed, said = outcome
    assert (status, printed) == (2, "")
    assert said.endswith("\n")
    assert said.count("\n") == 1
    return said


def slots(case: Case, offsets: Mapping[str, int]) -> Plan:
    """Return windows of some jobs, without idle time."""
    return Plan(offsets, {name: case.periods(0.0)[name] for name in offsets})


def quiet_run(case: Case, mode: Mode, repeat: int, planned: Plan | None = None) -> BedRun:
    """Run a case on the network until nothing else on the machine disturbs it; skip if it does."""
    for _ in range(4):
        run = run_case(case, mode, repeat, planned)
        if not run.busy:
            return run
    pytest.skip("something else on this machine disturbs every run; times mean nothing")
