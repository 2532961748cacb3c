"""The cases of a campaign as one data frame, measured against the best that is known."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import ConfigDict

from metronome_opt.bench.records import Record
from metronome_opt.bench.statistics import (
    Steps,
    certified_gap,
    penalised_time,
    primal_gap,
    primal_integral,
)
from metronome_opt.errors import InputError
from metronome_opt.records import FrozenMap, build, read_as
from metronome_opt.records import Record as Document
from metronome_opt.schedule import Exact

BEST_KNOWN_FORMAT = "metronome-best-known/1"


@dataclass(frozen=True)
class Setting:
    """The conditions of a case; only runs under the same ones are compared."""

    suite: str
    split: str
    time_limit_s: float
    memory_limit_mb: int | None
    workers: int


@dataclass(frozen=True)
class Problem:
    """An instance at a setting; problems are sorted by name, numbers in it by value."""

    instance: str
    sha256: str
    setting: Setting

    @cached_property
    def _order(self) -> tuple[Any, ...]:
        parts = re.findall(r"(\d+)|(\D+)", self.instance)
        name = [(int(digits or 0), text) for digits, text in parts]
        setting = self.setting
        which = (setting.suite, setting.split, setting.memory_limit_mb or 0, setting.workers)
        return name, setting.time_limit_s, self.sha256, *which

    def __lt__(self, other: Problem) -> bool:
        """Return whether this problem is shown before another."""
        return self._order < other._order


# ------------------------------------------------------------------ what is known


class KnownInstance(Document):
    """An instance of a file of best known values, as far as reports need it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    sha256: str
    value: Exact | None
    lower_bound: Exact | None


class BestKnown(Document):
    """A file of best known values, by the names of the instances."""

    format: Literal["metronome-best-known/1"]
    instances: FrozenMap[str, KnownInstance]


def read_best_known(path: str | Path) -> BestKnown:
    """Read a file of format ``metronome-best-known/1``.

    Raises
    ------
    InputError
        One line that names the file, the place in it and the value.
    """
    return read_as(path, lambda document: build(BestKnown, document, BEST_KNOWN_FORMAT))


@dataclass(frozen=True)
class References:
    """The best value and the best lower bound of each instance, by its checksum.

    Attributes
    ----------
    values, bounds
        The best of the records and, if there is one, of the file of best known values.
    known_values, known_bounds
        Those of the file alone.
    jobs
        The number of jobs of each instance of which a schedule was found.
    outdated
        Names that the file gives another checksum than the records do; they are not used.
    """

    values: Mapping[str, Fraction]
    bounds: Mapping[str, Fraction]
    known_values: Mapping[str, Fraction]
    known_bounds: Mapping[str, Fraction]
    jobs: Mapping[str, int]
    outdated: tuple[str, ...]


def gather(records: Iterable[Record], known: BestKnown | None = None) -> References:
    """Return the best that is known of the instances of `records`.

    Schedules and bounds of runs that the judge refused are not believed.
    """
    records = list(records)
    names = {record.instance_sha256: record.instance for record in records}
    entries = {} if known is None else known.instances
    used = [entry for entry in entries.values() if entry.sha256 in names]
    checksums = {entry.sha256 for entry in used}
    believed = [record for record in records if record.kind != "invalid"]
    known_values = _best(min, [(entry.sha256, entry.value) for entry in used])
    known_bounds = _best(max, [(entry.sha256, entry.lower_bound) for entry in used])
    values = [(record.instance_sha256, record.value) for record in believed]
    bounds = [(record.instance_sha256, record.lower_bound) for record in believed]
    return References(
        values=_best(min, [*values, *known_values.items()]),
        bounds=_best(max, [*bounds, *known_bounds.items()]),
        known_values=known_values,
        known_bounds=known_bounds,
        jobs={
            record.instance_sha256: len(record.offsets)
            for record in believed
            if record.offsets is not None
        },
        outdated=tuple(
            sorted(
                name
                for checksum, name in names.items()
                if name in entries and checksum not in checksums
            )
        ),
    )


def _best(
    better: Callable[[Fraction, Fraction], Fraction],
    found: Iterable[tuple[str, Fraction | None]],
) -> dict[str, Fraction]:
    best: dict[str, Fraction] = {}
    for checksum, value in found:
        if value is not None:
            best[checksum] = better(best.get(checksum, value), value)
    return best


# ------------------------------------------------------------------ the cases

_STATED = [
    *("suite", "split", "instance", "instance_sha256", "solver", "seed"),
    *("time_limit_s", "memory_limit_mb", "workers", "kind", "status", "runtime_s", "build_s"),
    *("wall_s", "peak_memory_mb", "stop", "error", "started", "commit"),
]
_FOR_REPORTS = ["record", "problem", "steps", "ended", "optimal", "proof_s", "states_bound"]


def measure(records: Sequence[Record], references: References) -> pd.DataFrame:
    """Return one row per case, every number of it measured.

    `value`, `lower_bound` and `best_value` are exact, None where there is none; the columns that
    end in ``_float`` are for plotting. Gaps and the primal integral are shares, times are seconds,
    `proof_s` is infinite where nothing was proved within the time limit.

    Raises
    ------
    InputError
        If a case is there twice: means would count it twice.
    """
    seen = set()
    for record in records:
        if record.key in seen:
            raise InputError(
                f"{record.instance}: {record.solver}, seed {record.seed}, "
                f"{record.time_limit_s:g} s is there twice; report one campaign at a time"
            )
        seen.add(record.key)
    frame = pd.DataFrame([_row(record, references) for record in records])
    exact = ["value", "lower_bound", "best_value"]
    frame[exact] = frame[exact].astype(object).where(frame[exact].notna(), None)
    return frame.astype({"jobs": "Int64", "memory_limit_mb": "Int64"})


def cases_csv(frame: pd.DataFrame) -> str:
    """Return the rows of `measure` as text, one line per case; what is not known is empty."""
    known = frame["value"].notna() & frame["lower_bound"].notna()
    frame = frame.assign(certified_gap=frame["certified_gap"].where(known))
    return str(frame.drop(columns=_FOR_REPORTS).to_csv(index=False, lineterminator="\n"))


def _row(record: Record, references: References) -> dict[str, Any]:
    setting = Setting(
        record.suite, record.split, record.time_limit_s, record.memory_limit_mb, record.workers
    )
    value, best = record.value, references.values.get(record.instance_sha256)
    bound = None if record.kind == "invalid" else record.lower_bound
    optimal = value is not None and record.status == "optimal"
    in_time = record.runtime_s is not None and record.runtime_s <= record.time_limit_s
    solved_s = record.runtime_s if optimal and in_time else None
    steps = _steps(record)
    return {
        **{name: getattr(record, name) for name in _STATED},
        "faults": "; ".join(record.faults) or None,
        "jobs": references.jobs.get(record.instance_sha256),
        "value": value,
        "value_float": None if value is None else float(value),
        "lower_bound": bound,
        "lower_bound_float": None if bound is None else float(bound),
        "best_value": best,
        "solved": solved_s is not None,
        "penalised_s": penalised_time(solved_s, record.time_limit_s),
        "primal_gap": float(primal_gap(value, best)),
        "certified_gap": float(certified_gap(value, bound)),
        "primal_integral": primal_integral(steps, best, record.time_limit_s),
        "record": record,
        "problem": Problem(record.instance, record.instance_sha256, setting),
        "steps": steps,
        "ended": _ending(record, optimal),
        "optimal": optimal,
        "proof_s": math.inf if solved_s is None else solved_s,
        # That nothing is below a value of 0 is known without a solver.
        "states_bound": bound is not None and not bound == value == 0,
    }


def _ending(record: Record, optimal: bool) -> str:
    if record.kind == "schedule":
        return "optimal" if optimal else "feasible"
    return record.kind.replace("_", " ")


def _steps(record: Record) -> Steps:
    """Return incumbents with their times; those below the accepted value are not believed."""
    value = record.value
    if value is None:
        return ()
    found = [
        (elapsed, incumbent)
        for elapsed, incumbent, _, _ in record.trajectory
        if incumbent is not None and incumbent >= value
    ]
    if not found or found[-1][1] != value:
        found.append((record.wall_s if record.runtime_s is None else record.runtime_s, value))
    return tuple(found)
