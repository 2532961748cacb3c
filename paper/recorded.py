"""Figures that the paper may use: those of the evaluation, of fleets, of jitter and the test bed.

``fleets/jobs=12,apart=0.1,jitter=0.02,sharing=tcp/gain`` is by how many per cent a fleet is faster
in slots than free; ``jitter/0.1/gated`` how many cases of the test bed are gated at a
jitter, and ``jitter/all,times=2.0/harmed`` in how many a job is harmed at twice of it; and
``testbed/three/0.03/free`` the mean iteration over the period of a case on real TCP.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.evaluation.figures import Figure, Figures
from benchmarks.evaluation.plan import HOME as CHECKOUT
from benchmarks.evaluation.recorded import RECORDS
from benchmarks.evaluation.written import FIGURES, read_figures
from benchmarks.testbed.agreement import times_of
from benchmarks.testbed.cases import JITTER, read_cases
from benchmarks.testbed.run import BedRun
from metronome_opt.journal import read_journal

_REPORTED = CHECKOUT / "benchmarks" / "reported"
_TESTBED = JITTER.with_suffix(".jsonl.xz")


def recorded_figures(folder: Path = RECORDS) -> Figures:
    """Return all figures that are recorded; none of an evaluation that was not made."""
    figures = read_figures(folder) if (folder / FIGURES).exists() else {}
    return figures | dict(_reported()) | testbed_figures()


def _reported() -> Iterator[tuple[str, Figure]]:
    for row in _rows("fleets"):
        cell = ",".join(f"{name}={row[name]}" for name in ("jobs", "apart", "jitter", "sharing"))
        numbers = (float(row[name]) for name in ("gain in %", "low", "high"))
        yield f"fleets/{cell}/gain", Figure(*numbers)
    harmed: dict[str, float] = defaultdict(float)
    for row in _rows("jitter"):
        yield f"jitter/{row['jitter']}/gated", Figure(float(row["gated cases"]))
        harmed[f"jitter/all,times={row['times jitter']}/harmed"] += float(row["cases with harm"])
    yield from ((key, Figure(value)) for key, value in harmed.items())


def _rows(name: str) -> Iterator[dict[str, str]]:
    lines = (_REPORTED / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    yield from csv.DictReader(line for line in lines if not line.startswith("#"))


def testbed_figures() -> Figures:
    """Return mean iterations over periods on real TCP, free and in slots, first ones left out."""
    periods = {
        (case.name, name): job.period
        for case in read_cases(JITTER)
        for name, job in zip(case.job_names, case.jobs, strict=True)
    }
    found: dict[str, list[float]] = defaultdict(list)
    for run in read_journal([_TESTBED], BedRun):
        key = f"testbed/{run.case}/{run.jitter}/{'gated' if run.periods else 'free'}"
        for name, job in run.jobs.items() if run.complete else ():
            found[key].append(float(times_of(job)[1:].mean()) / periods[run.case, name])
    return {key: Figure(sum(values) / len(values)) for key, values in found.items()}
