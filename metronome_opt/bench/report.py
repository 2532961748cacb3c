"""Report of a campaign of solvers: tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    Columns,
    ReportSection,
    circumstances,
    count,
    distinct,
    facts,
    formatted,
    percent,
    seed_range,
    three_digits,
    write_page,
)
from metronome_opt.bench.solver_runs import SolverRecord
from metronome_opt.documents import write_text
from metronome_opt.errors import InputError

_OBJECTS = [
    *("record", "problem", "steps", "ended", "optimal", "proof_s", "states_bound"),
    "best_bound",
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
    figures = [("Mean primal gap over time.", plot_gaps(section))]
    if proving_solvers(section):
        figures.append(("Performance profile.", plot_profile(section)))
    return ReportSection(section.title, tables=tables, figures=figures)
