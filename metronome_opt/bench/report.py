"""Report of a campaign of solvers: tables, figures and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from metronome_opt.bench.cases import (
    ENDINGS,
    FLOOR_S,
    SHIFT_S,
    Section,
    measure,
    read_best_known,
    sections_of,
)
from metronome_opt.bench.figures import plot_gaps, plot_profile, proving_solvers
from metronome_opt.bench.pages import (
    MISSING,
    Columns,
    ReportSection,
    circumstances,
    count,
    distinct,
    exact,
    facts,
    formatted,
    percent,
    seed_range,
    three_digits,
    write_page,
)
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.bench.statistics import certified_gap
from metronome_opt.documents import write_text
from metronome_opt.errors import InputError

_OBJECTS = [
    *("record", "problem", "steps", "ended", "optimal", "proof_s", "states_bound"),
    *("best_bound", "known_bound"),
]
_OUTCOMES: Columns = {name: (name, count) for name in ("instances", "cases", *ENDINGS)}
_MEASURES: Columns = {
    "solved": ("solved", percent),
    "geometric_s": (f"shifted geometric mean, {SHIFT_S:g} s (s)", three_digits),
    "penalised_s": ("PAR2 (s)", three_digits),
    "primal_gap": ("primal gap, mean", percent),
    "primal_gap_worst": ("primal gap, worst", percent),
    "primal_integral": ("primal integral, mean", percent),
    "certified_gap": ("certified gap, mean", percent),
    "certified_gap_worst": ("certified gap, worst", percent),
}


def write_report(
    records: Sequence[SolverRecord], folder: str | Path, *, best_known: str | Path | None = None
) -> Path:
    """Write ``report.html`` and ``records.csv``.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one campaign, every case once.
    folder
        Made if it does not exist.
    best_known
        A file of format ``metronome-best-known/1``; without it, the best values of the records
        are the best known.

    Returns
    -------
    Path
        That of the page.

    Raises
    ------
    InputError
        If there are no records, a case is there twice, the file of best known values is wrong or
        something cannot be written.
    """
    if not records:
        raise InputError("records: there are none, so there is nothing to report")
    known = None if best_known is None else read_best_known(best_known)
    frame = measure(records, known)
    instances = frame.drop_duplicates("instance_sha256")
    proved = (instances["best_value"] == 0) | (instances["best_value"] == instances["best_bound"])
    path = Path(folder) / "report.html"
    write_page(
        path,
        "Benchmark report",
        [
            ReportSection("What ran", tables=[("What ran", facts(what_ran(records)))]),
            *map(_section, sections_of(frame)),
            ReportSection("Checks", list(_checks(frame))),
        ],
        closing="campaign.html",
        floor=FLOOR_S,
        machines=frame["record"].map(lambda record: str(record.machine)).nunique(),
        known=known is not None,
        instances=len(instances),
        unproved=int((~proved).sum()),
    )
    write_text(path.with_name("records.csv"), _to_csv(frame))
    return path


def what_ran(records: Sequence[SolverRecord]) -> list[tuple[str, str]]:
    """Return solvers, instances and circumstances of records, as rows of a table."""
    seeds = (
        f"{solver}: {seed_range(each.seed for each in records if each.solver == solver)}"
        for solver in dict.fromkeys(record.solver for record in records)
    )
    instances = {record.instance_sha256 for record in records}
    return [
        ("objective", "contention"),
        ("cases", f"{count(len(records))} on {count(len(instances))} instances"),
        ("suites", distinct(f"{record.suite} ({record.split})" for record in records)),
        ("generators", distinct(record.generator or "not known" for record in records)),
        ("solvers and seeds", "; ".join(seeds)),
        ("threads", ", ".join(map(str, sorted({record.workers for record in records})))),
        *circumstances(records),
    ]


def _to_csv(frame: pd.DataFrame) -> str:
    """Return the rows of `measure` as text, one line per case; unknown values are empty."""
    known = frame["value"].notna() & frame["lower_bound"].notna()
    frame = frame.assign(certified_gap=frame["certified_gap"].where(known))
    return str(frame.drop(columns=_OBJECTS).to_csv(index=False, lineterminator="\n"))


# ------------------------------------------------------------------ sections


def _section(section: Section) -> ReportSection:
    summary = section.summary
    marked = [each if summary["complete"][each] else f"{each} *" for each in summary.index]
    summary = summary.set_axis(pd.Index(marked, name="solver"))
    tables = [
        ("How the cases ended", formatted(summary, _OUTCOMES)),
        (
            "Time to a proof of optimality, failures included, and gaps",
            formatted(summary, _MEASURES),
        ),
    ]
    if section.setting is not None:
        tables.append(("Best known values and bounds", _instances(section)))
    figures = [("Mean primal gap over time.", plot_gaps(section))]
    if proving_solvers(section):
        figures.append(("Performance profile.", plot_profile(section)))
    return ReportSection(section.title, tables=tables, figures=figures)


def _instances(section: Section) -> pd.DataFrame:
    """Return the best known value of each instance, and the solvers that reach and prove it."""

    def names(runs: pd.DataFrame) -> str:
        there = [name for name in section.solvers if name in set(runs["solver"])]
        return "all" if len(there) == len(section.solvers) > 1 else ", ".join(there) or MISSING

    rows = []
    by_problem: dict[Any, pd.DataFrame] = dict(list(section.frame.groupby("problem")))
    for problem, runs in by_problem.items():
        best, bound = runs["best_value"].iloc[0], runs["best_bound"].iloc[0]
        known = best is not None and (bound is not None or best == 0)
        reached = [best is not None and value == best for value in runs["value"]]
        rows.append(
            {
                "instance": problem.instance,
                "reached by": names(runs[reached]),
                "proved by": names(runs[runs["optimal"]]),
                "jobs": count(runs["jobs"].iloc[0]),
                "value": exact(best),
                "bound": exact(bound),
                "gap": percent(float(certified_gap(best, bound)) if known else None),
            }
        )
    return pd.DataFrame(rows).set_index(["instance", "reached by", "proved by"])


# ------------------------------------------------------------------ checks


def _checks(frame: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """Yield statements on conditions that all cases have to meet, and the cases that do not."""
    conditions: dict[str, Callable[[Any], bool]] = {
        "No statement was refused by verify": lambda case: case.kind == "invalid",
        # The raw fields: refused statements are checked as well.
        "No lower bound is above the best known value": lambda case: _above(
            case.record.lower_bound, case.best_value
        ),
        "No value is below a known lower bound": lambda case: _above(case.known_bound, case.value),
        "Every proof was done within the time limit (later ones do not count as solved)": (
            lambda case: case.optimal and not case.solved
        ),
    }
    cases: list[Any] = list(frame.itertuples())
    for condition, is_violated in conditions.items():
        violations = [_describe(case) for case in cases if is_violated(case)]
        number = count(len(violations)) if violations else "none"
        yield f"{condition}: {number} of {count(len(cases))} cases violated.", violations


def _above(bound: Fraction | None, value: Fraction | None) -> bool:
    return bound is not None and value is not None and bound > value


def _describe(case: Any) -> str:
    """Return a case with its statements."""
    record = case.record
    return (
        f"{record.title}, {record.time_limit_s:g} s: value {exact(record.objective)}, bound "
        f"{exact(record.lower_bound)}, best value {exact(case.best_value)}, "
        f"{three_digits(record.runtime_s)} s {case.faults or ''}".rstrip()
    )
