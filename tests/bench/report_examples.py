"""Records written by hand, and a small campaign whose every figure can be worked out."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree

from metronome_opt.bench.cases import Section, make_section, measure
from metronome_opt.bench.solver_runs import SolverRecord

ORIGIN: dict[str, Any] = {
    "started": "2026-11-20T21:00:00Z",
    "machine": {"processor": "a chip", "cores": 2, "memory_mb": 8000, "system": "Linux"},
    "versions": {"python": "3.11.2"},
    "commit": "abc1234",
}


def record(instance: str, solver: str, objective: object = None, **changes: Any) -> SolverRecord:
    """Return a record: without an objective of a run that found nothing, else of its schedule.

    A `lower_bound` that meets the objective makes it optimal. The incumbent is found at the end
    unless there is a `trajectory`.
    """
    value = None if objective is None else Fraction(str(objective))
    bound = changes.pop("lower_bound", None)
    bound = None if bound is None else Fraction(str(bound))
    runtime = changes.get("runtime_s", 10.0)
    fields: dict[str, Any] = {
        "kind": "no_schedule" if value is None else "schedule",
        "suite": "paper",
        "split": "test",
        "instance": instance,
        "instance_sha256": sha256(instance.encode()).hexdigest(),
        "solver": solver,
        "seed": 0,
        "time_limit_s": 10.0,
        "memory_limit_mb": 4096,
        "workers": 2,
        "status": None if value is None else ("optimal" if value == bound else "feasible"),
        "objective": value,
        "lower_bound": bound,
        "stop": None,
        "runtime_s": runtime,
        "build_s": None,
        "wall_s": 10.5 if runtime is None else runtime + 0.5,
        "peak_memory_mb": None,
        "trajectory": (),
        "offsets": None if value is None else {"a": 0, "b": 3},
        "notes": (),
        "error": None,
        "faults": (),
        **ORIGIN,
    }
    return SolverRecord(**{**fields, **changes})


def moments(*steps: tuple[float, object]) -> tuple[tuple[float, Fraction, None, str], ...]:
    """Return a trajectory of incumbents."""
    return tuple((elapsed, Fraction(str(value)), None, "") for elapsed, value in steps)


def section_of(*records: SolverRecord) -> Section:
    """Return one section of all records."""
    return make_section(measure(records))


def rows(page: str, caption: str) -> dict[str, list[str]]:
    """Return the cells of the table below a caption by the first of each row, its head too."""
    text = page.split(f"<p>{caption}:</p>\n")[1].split("</table>")[0] + "</table>"
    table = ElementTree.fromstring(text)
    cells = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
    return {"": cells[0], **{row[0]: row[1:] for row in cells[1:]}}
