"""Cases of solvers as one data frame, and means over the cases of a section.

Cases are measured against the best known values. Instances have equal weight: where a solver ran
with several seeds, the mean over them is taken first. An instance at two settings (time limit,
memory, threads) is two problems. A *failure* (no schedule, a crash, a schedule that `verify`
refuses, no proof) always counts, with a value that its function states; a mean drops none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import ConfigDict

from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.bench.suites import UNSPLIT
from metronome_opt.errors import InputError
from metronome_opt.files.records import Exact, FrozenMap, Record, read_record

Steps = Sequence[tuple[float, Fraction]]
"""Seconds and values of the incumbents, in order of time."""

PENALTY = 2.0
"""Time limits that a failure counts in PAR2."""
SHIFT_S = 1.0
FLOOR_S = 0.01
ENDINGS = ["optimal", "feasible", "no schedule", "infeasible", "out of memory", "crash", "invalid"]

_GAPS = ["primal_gap", "certified_gap"]
_MEASURES = [*_GAPS, "primal_integral", "solved", "penalised_s", "log_time"]
_PROBLEM = [
    *("instance", "instance_sha256", "suite", "split"),
    *("time_limit_s", "memory_limit_mb", "workers"),
]
_STATED = [
    *("suite", "split", "instance", "instance_sha256", "solver", "seed"),
    *("time_limit_s", "memory_limit_mb", "workers", "kind", "status", "runtime_s", "build_s"),
    *("wall_s", "peak_memory_mb", "stop", "error", "started", "commit"),
]
_EXACT = ["value", "lower_bound", "best_value", "best_bound"]


# ------------------------------------------------------------------ best known values


class _KnownInstance(Record):
    """The fields of an instance in a file of best known values that reports need."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    sha256: str
    value: Exact | None
    lower_bound: Exact | None


class BestKnownValues(Record):
    """A file of best known values, by the names of the instances."""

    format: Literal["metronome-best-known/1"] = "metronome-best-known/1"
    instances: FrozenMap[str, _KnownInstance]


def read_best_known(path: str | Path) -> BestKnownValues:
    """Read ``metronome-best-known/1``; errors name the file, the location and the value."""
    return read_record(BestKnownValues, path)


# ------------------------------------------------------------------ one run


def primal_gap(value: Fraction | None, best: Fraction | None) -> Fraction:
    """Return the distance of a value from the best known one, between 0 and 1.

    ``|v - v*| / max(|v|, |v*|)``; 0 if both are 0; 1 without a value (None) or if the signs
    differ. No shift is needed: where `best` is 0 the gap is 0 for 0 and 1 for anything else.

    References
    ----------
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41(6),
    2013, section 2.
    """
    if value is None or best is None or value * best < 0:
        return Fraction(1)
    if value == best:
        return Fraction(0)
    return abs(value - best) / max(abs(value), abs(best))


def certified_gap(value: Fraction | None, bound: Fraction | None) -> Fraction:
    """Return ``(value - bound) / value``, the unproved share of a non-negative value.

    0 for the value 0, which nothing can be below; 1 without a value or without a bound.
    """
    if value is None:
        return Fraction(1)
    if not value:
        return Fraction(0)
    return Fraction(1) if bound is None else (value - bound) / value


def primal_integral(steps: Steps, best: Fraction | None, limit_s: float) -> float:
    """Return the mean primal gap over the time ``[0, limit_s]``, between 0 and 1.

    Before the first value the gap is 1; after the last it stays as it is. This is the primal
    integral (Berthold 2013) divided by the time limit, so that runs with different limits can be
    combined.
    """
    since, gap, areas = 0.0, Fraction(1), []
    for elapsed, value in steps:
        now = min(max(elapsed, since), limit_s)
        areas.append((now - since) * float(gap))
        since, gap = now, primal_gap(value, best)
    areas.append((limit_s - since) * float(gap))
    # Nothing is 0 seconds long; a limit of 0 leaves the last value alone.
    return math.fsum(areas) / limit_s if limit_s > 0 else float(gap)


# ------------------------------------------------------------------ cases


def measure(records: Sequence[SolverRecord], known: BestKnownValues | None = None) -> pd.DataFrame:
    """Return one row per case, measured against the best known values.

    `value`, `lower_bound` and the best known ones are exact or None. Statements that `verify`
    refuses do not count, nor do statements of a case whose bound is above the best value. Gaps and
    the primal integral are shares, times are seconds, `proof_s` is infinite without a proof within
    the time limit. `problem` is a number, `setting` a title; `bounding` is whether the solver
    stated a bound in any case. Best values are those of the records where none are known before. A
    case that is there twice is an `InputError`: means would count it twice.
    """
    seen = set()
    for record in records:
        if record.key in seen:
            raise InputError(
                f"{record.instance}: {record.solver}, seed {record.seed}, "
                f"{record.time_limit_s:g} s is there twice; report one campaign at a time"
            )
        seen.add(record.key)
    entries = () if known is None else known.instances.values()
    valid = [record for record in records if record.kind != "invalid"]
    values = [(entry.sha256, entry.value) for entry in entries]
    values += [(record.instance_sha256, record.value) for record in valid]
    best = _best(min, values)
    bounds = [(entry.sha256, entry.lower_bound) for entry in entries]
    bounds += [(record.instance_sha256, record.lower_bound) for record in valid]
    sound = [(of, bound) for of, bound in bounds if not _above(bound, best.get(of))]
    references: dict[str, Mapping[str, Any]] = {
        "best_value": best,
        "best_bound": _best(max, sound),
        "jobs": {record.instance_sha256: len(record.offsets) for record in valid if record.offsets},
    }
    frame = pd.DataFrame(
        _row(record, {name: of.get(record.instance_sha256) for name, of in references.items()})
        for record in records
    )
    frame[_EXACT] = frame[_EXACT].astype(object).where(frame[_EXACT].notna(), None)
    frame = frame.astype({"jobs": "Int64", "memory_limit_mb": "Int64"})
    return frame.assign(
        problem=frame.groupby(_PROBLEM, dropna=False).ngroup(),
        setting=_settings(records),
        bounding=frame.groupby("solver")["states_bound"].transform("any"),
    )


def _best(
    better: Callable[[Fraction, Fraction], Fraction],
    values: Iterable[tuple[str, Fraction | None]],
) -> dict[str, Fraction]:
    """Return the best value of each instance, by its checksum."""
    best: dict[str, Fraction] = {}
    for checksum, value in values:
        if value is not None:
            best[checksum] = better(best.get(checksum, value), value)
    return best


def _above(bound: Fraction | None, value: Fraction | None) -> bool:
    return bound is not None and value is not None and bound > value


def _row(record: SolverRecord, references: Mapping[str, Any]) -> dict[str, Any]:
    value, best = record.value, references["best_value"]
    kind = "invalid" if _above(record.lower_bound, best) else record.kind
    bound = None if kind == "invalid" else record.lower_bound
    optimal = kind == "schedule" and record.status == "optimal"
    in_time = record.runtime_s is not None and record.runtime_s <= record.time_limit_s
    solved_s = record.runtime_s if optimal and in_time else None
    ended = "feasible" if kind == "schedule" else kind.replace("_", " ")
    steps = _steps(record)
    return {
        **{name: getattr(record, name) for name in _STATED},
        **references,
        "faults": "; ".join(record.faults) or None,
        "value": value,
        "lower_bound": bound,
        "solved": solved_s is not None,
        "penalised_s": PENALTY * record.time_limit_s if solved_s is None else solved_s,
        "primal_gap": float(primal_gap(value, best)),
        "certified_gap": float(certified_gap(value, bound)),
        "primal_integral": primal_integral(steps, best, record.time_limit_s),
        "steps": steps,
        "ended": "optimal" if optimal else ended,
        "proof_s": math.inf if solved_s is None else solved_s,
        # A bound of 0 for the value 0 needs no solver.
        "states_bound": bound is not None and not bound == value == 0,
    }


def _steps(record: SolverRecord) -> Steps:
    """Return incumbents with their times, without those below the verified value."""
    value = record.value
    if value is None:
        return ()
    steps = [
        (elapsed, incumbent)
        for elapsed, incumbent, _, _ in record.trajectory
        if incumbent is not None and incumbent >= value
    ]
    if not steps or steps[-1][1] != value:
        steps.append((record.wall_s if record.runtime_s is None else record.runtime_s, value))
    return tuple(steps)


def _settings(records: Sequence[SolverRecord]) -> list[str]:
    """Return suite, time limit, and the fields that differ between settings, of each record."""
    several_threads = len({record.workers for record in records}) > 1
    several_memories = len({record.memory_limit_mb for record in records}) > 1
    titles = []
    for record in records:
        title = f"{record.suite}, {record.time_limit_s:g} s"
        if record.split not in ("test", UNSPLIT):
            title += f", split {record.split}"
        if several_threads:
            title += f", {record.workers} threads"
        if several_memories:
            title += f", {record.memory_limit_mb or 'unlimited'} MB"
        titles.append(title)
    return titles


# ------------------------------------------------------------------ sections


@dataclass(frozen=True, eq=False)
class Section:
    """Cases that are reported together: a title, rows of `measure`, and the solvers in order."""

    title: str
    frame: pd.DataFrame
    solvers: tuple[str, ...]

    @cached_property
    def proof_times(self) -> pd.DataFrame:
        """The median of the times to a proof of each problem (row) and solver, in seconds.

        The slower of two middle ones, infinite without a proof, NaN where a solver did not run.
        """
        times = self.frame.groupby(["problem", "solver"])["proof_s"]
        medians = times.agg(lambda some: sorted(some)[len(some) // 2]).unstack("solver")
        return medians.reindex(columns=list(self.solvers))

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The measures of each solver (row).

        ``solved``, ``penalised_s`` (PAR2), gaps and ``primal_integral`` are means over problems,
        ``geometric_s`` is the shifted geometric mean of penalised times; gaps that end in
        ``_worst`` are the largest of all cases. A solver that never states a bound has no certified
        gap: NaN. ``instances`` and ``cases`` are numbers of them, ``complete`` is whether a solver
        ran on all problems, the `ENDINGS` are numbers of cases.
        """
        frame = self.frame.assign(log_time=np.log(self.frame["penalised_s"] + SHIFT_S))
        cases = frame.groupby("solver")
        by_problem = frame.groupby(["solver", "problem"])[_MEASURES].mean().groupby("solver")
        table = by_problem.mean().join(cases[_GAPS].max().add_suffix("_worst"))
        # Rounding may lead just below 0.
        table["geometric_s"] = (np.exp(table.pop("log_time")) - SHIFT_S).clip(lower=0)
        table["instances"] = by_problem.size()
        table["cases"] = cases.size()
        table["complete"] = table["instances"] == frame["problem"].nunique()
        ended = pd.crosstab(frame["solver"], frame["ended"])
        table = table.join(ended.reindex(columns=ENDINGS, fill_value=0))
        table.loc[~cases["bounding"].any(), ["certified_gap", "certified_gap_worst"]] = np.nan
        return table.reindex(list(self.solvers))

    def select(self, title: str, rows: pd.Series[bool]) -> Section:
        """Return the section of some rows and the solvers in them, under another title."""
        frame = self.frame[rows]
        ran = set(frame["solver"])
        return Section(title, frame, tuple(name for name in self.solvers if name in ran))


def make_section(frame: pd.DataFrame) -> Section:
    """Return one section of all cases."""
    return Section("all", frame, tuple(frame["solver"].unique()))


def split_sections(frame: pd.DataFrame) -> list[Section]:
    """Return one section for each setting, then one for all settings of each split.

    The second kind is dropped where a split has one setting only.
    """
    whole = make_section(frame)
    parts = [whole.select(title, frame["setting"] == title) for title in frame["setting"].unique()]
    for split, rows in frame.groupby("split", sort=False):
        if rows["setting"].nunique() > 1:
            title = "all suites" if split == "test" else f"all, split {split}"
            parts.append(whole.select(title, frame["split"] == split))
    return parts
