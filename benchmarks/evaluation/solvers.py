"""Figures of solvers on stored suites."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.best_known import HOME
from benchmarks.evaluation.figures import Figure, Figures
from metronome_opt.bench.cases import make_section, measure, read_best_known
from metronome_opt.bench.solver_runs import SolverRecord


def race_figures(name: str, records: Sequence[SolverRecord]) -> Figures:
    """Return numbers of instances and of proofs, and gaps in per cent, by suite and solver."""
    section = make_section(measure(records, read_best_known(HOME / "best_known.json")))
    found: Figures = {}
    for suite in dict.fromkeys(record.suite for record in records):
        part = section.select(suite, section.frame["suite"] == suite)
        for solver, row in part.summary.dropna(subset="instances").iterrows():
            key = f"{name}/{suite}/{str(solver).rpartition('/')[2]}"
            found[f"{key}/instances"] = Figure(row["instances"])
            found[f"{key}/solved"] = Figure(round(row["instances"] * row["solved"]))
            if not math.isnan(row["certified_gap"]):
                found[f"{key}/gap"] = Figure(100 * row["certified_gap"])
    return found
