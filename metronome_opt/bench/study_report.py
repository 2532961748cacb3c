"""Report of a simulated study: tables and figures for all of it and for each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from metronome_opt.bench.figures import plot_completion
from metronome_opt.bench.pages import (
    MISSING,
    ReportSection,
    circumstances,
    count,
    facts,
    seed_range,
    write_page,
)
from metronome_opt.bench.simulations import SimulationRecord, latest
from metronome_opt.bench.statistics import CONFIDENCE, RESAMPLES, Interval
from metronome_opt.bench.studies import (
    BASELINE,
    EXCLUSIVE,
    MEASURES,
    RunMeasure,
    StudyPart,
    label_of,
    parts_of,
)
from metronome_opt.documents import write_text
from metronome_opt.engine.conditions import Conditions

_SOME_SEEDS = " *"
SUMMARY: tuple[RunMeasure, ...] = tuple(
    MEASURES[name]
    for name in ("completion_mean_s", "completion_p99_s", "slowdown_mean", "utilisation_used")
)
"""Measures of a summary."""

_HEADINGS = {measure.name: measure.heading for measure in MEASURES.values()}


def write_simulation_report(records: Sequence[SimulationRecord], folder: str | Path) -> Path:
    """Write ``report.html`` and ``estimates.csv``.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one study, under one set of conditions, in the order that the cells are to have. Of a
        run that is there several times, the last counts.
    folder
        Made if it does not exist.

    Returns
    -------
    Path
        That of the page.

    Raises
    ------
    InputError
        If there are no records, they are of several studies or conditions, or something cannot be
        written.
    """
    records = latest(records)
    parts = parts_of(records)
    whole = parts[0]
    numbers = pd.DataFrame([row for part in parts for row in _estimates(part)])
    failures = [f"{each.title}: {each.outcome}" for each in records if not each.succeeded]
    models = {str(model) for model in whole.jobs["model"].dropna()}
    measured = {model for model in models if ", measured on " in model}
    sources = {
        "computed from published sizes of models": models - measured - {"stated"},
        "made of training steps that were measured on one device each": measured,
        "stated by the scenario": models & {"stated"},
    }
    path = Path(folder) / "report.html"
    write_page(
        path,
        f"Simulated study: {records[0].study}",
        [
            ReportSection(
                "What ran",
                [("Runs that were not done:", failures)] if failures else [],
                [("What ran", facts(_what_ran(records, whole)))],
            ),
            *(_section(part, numbers[numbers["part"] == part.title], records) for part in parts),
        ],
        closing="study.html",
        sources=" or ".join(words for words, which in sources.items() if which) or "not known",
        seeds=len(whole.seeds),
        confidence=f"{100 * CONFIDENCE:g}",
        resamples=RESAMPLES,
    )
    write_text(path.with_name("estimates.csv"), numbers.drop(columns="text").to_csv(index=False))
    return path


def summarise(records: Sequence[SimulationRecord]) -> list[dict[str, Any]]:
    """Return a row for each policy: ``policy``, ``runs``, ``unfinished`` jobs and means by name.

    Means are over the seeds, of the measures that are `SUMMARY`; None where one is not known.

    Raises
    ------
    InputError
        If the records are not of one study, or a simulation is there twice.
    """
    if not records:
        return []
    whole = parts_of(records)[0]
    rows = []
    for policy in whole.policies:
        runs = whole.of(policy)
        row = {"policy": policy, "runs": len(runs), "unfinished": int(runs["unfinished"].sum())}
        means = {measure.name: whole.mean(policy, measure.name) for measure in SUMMARY}
        rows.append(row | {name: mean and mean.mean for name, mean in means.items()})
    return rows


# ------------------------------------------------------------------ numbers


def _estimates(part: StudyPart) -> Iterator[dict[str, Any]]:
    """Yield every number of a part, as a row of ``estimates.csv`` and as text.

    A number with ``against`` is the mean of ratios, one for each pair of runs; one with ``group``
    is of the jobs of a priority class.
    """
    classes = sorted(set(part.jobs["priority"].dropna()), reverse=True)
    for policy in part.policies:
        for measure in MEASURES.values():
            mean = part.mean(policy, measure.name)
            yield _estimate(part, mean, measure.formatted, policy=policy, measure=measure.name)
        for against in (BASELINE, EXCLUSIVE):
            for measure in MEASURES.values():
                if against in part.policies and against in measure.against:
                    ratio = part.paired(policy, against, measure.name)
                    where = {"policy": policy, "against": against, "measure": measure.name}
                    yield _estimate(part, ratio, _change, **where)
        for each in classes if len(classes) > 1 else ():
            mean, measure = part.mean_slowdown(policy, each), MEASURES["slowdown_mean"]
            where = {"policy": policy, "group": f"{each:g}", "measure": measure.name}
            yield _estimate(part, mean, measure.formatted, **where)


def _estimate(
    part: StudyPart, interval: Interval | None, form: Callable[[float], str], **where: str
) -> dict[str, Any]:
    text = MISSING
    if interval is not None:
        text = _with_ends(interval, form)
        text += _SOME_SEEDS if interval.count < len(part.seeds) else ""
    return {
        "part": part.title,
        "policy": "",
        "against": "",
        "group": "",
        "measure": "",
        **where,
        **{end: getattr(interval, end, None) for end in ("mean", "low", "high")},
        "seeds": 0 if interval is None else interval.count,
        "text": text,
    }


def _with_ends(interval: Interval, form: Callable[[float], str]) -> str:
    """Return a mean with its interval: ``12.0 (11.0 to 13.0)``, ``-12.0 % (-13.0 to -11.0)``."""
    text = form(interval.mean)
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return text
    low, high = (form(end).removesuffix("%").strip() for end in (interval.low, interval.high))
    return f"{text} ({low} to {high})"


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1.0):+.1f} %"


def _what_ran(records: Sequence[SimulationRecord], whole: StudyPart) -> list[tuple[str, str]]:
    conditions, default = [record.conditions for record in records], Conditions()
    common = [
        f"{name}={getattr(conditions[0], name)}"
        for name in Conditions.model_fields
        if len({getattr(each, name) for each in conditions}) == 1
        and getattr(conditions[0], name) != getattr(default, name)
    ]
    done = sum(record.succeeded for record in records)
    return [
        ("study", f"{records[0].study} ({records[0].study_sha256[:12]})"),
        ("runs", f"{count(len(records))}, of which {count(done)} were done"),
        ("cells", count(len(whole.cells))),
        ("seeds", seed_range(whole.seeds)),
        ("policies", ", ".join(whole.policies)),
        ("conditions of all runs", ", ".join(common) or "no disturbances"),
        *circumstances(records),
    ]


# ------------------------------------------------------------------ sections


def _section(
    part: StudyPart, numbers: pd.DataFrame, records: Sequence[SimulationRecord]
) -> ReportSection:
    means = numbers[(numbers["against"] == "") & (numbers["group"] == "")]
    changes = numbers[(numbers["against"] != "") & (numbers["policy"] != numbers["against"])]
    classes = numbers[numbers["group"] != ""]
    unfinished = int(part.runs["unfinished"].sum())
    words: list[tuple[str, Sequence[str]]] = []
    if unfinished:
        text = f"{count(unfinished)} of {count(len(part.jobs))} jobs did not finish"
        words.append((f"{text}; completion times of their runs are not known.", ()))
    tables = [
        ("How the runs ended", _outcomes(part, records)),
        ("Means", _pivot(means)),
        *(
            (f"Change against {against}, in pairs of runs", _pivot(each))
            for against, each in changes.groupby("against")
        ),
    ]
    if not classes.empty:
        tables.append(("Mean slowdown by priority class", _pivot(classes, "group")))
    ran = [policy for policy in part.policies if len(part.of(policy))]
    times = {policy: part.jobs_of(policy)["completion"].tolist() for policy in ran}
    figures = []
    if len(part.cells) == 1 and ran:
        figures = [("Completion times of jobs.", plot_completion(times))]
    return ReportSection(part.title, words, tables, figures)


def _pivot(numbers: pd.DataFrame, columns: str = "measure") -> pd.DataFrame:
    """Return the text of numbers as a table; rows and columns in order of appearance."""
    table = numbers.pivot(index="policy", columns=columns, values="text")
    table = table.reindex(index=numbers["policy"].unique(), columns=numbers[columns].unique())
    return table.rename(columns=_HEADINGS)


def _outcomes(part: StudyPart, records: Sequence[SimulationRecord]) -> pd.DataFrame:
    mine = [record for record in records if label_of(record) in part.cells]
    kinds = [record.kind.replace("_", " ") for record in mine]
    table = pd.crosstab(pd.Series([record.policy for record in mine], name="policy"), kinds)
    jobs = part.runs.groupby(level="policy")[["jobs", "unfinished"]].sum()
    table = table.reindex(list(part.policies)).join(
        jobs.rename(columns={"unfinished": "jobs not finished"})
    )
    return table.fillna(0).map(count)
