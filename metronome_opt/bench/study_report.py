"""Report of a simulated study: tables and figures for all of it and for each cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from metronome_opt.bench.figures import plot_changes, plot_completion
from metronome_opt.bench.pages import (
    MISSING,
    ReportSection,
    bullets,
    circumstances,
    count,
    facts,
    seed_range,
    write_pages,
)
from metronome_opt.bench.simulations import SimulationRecord, latest
from metronome_opt.bench.statistics import CONFIDENCE, RESAMPLES, Interval
from metronome_opt.bench.studies import (
    AGAINST_EXCLUSIVE,
    BASELINE,
    COMPARED,
    EXCLUSIVE,
    FINISHED,
    MEASURES,
    TIMES,
    TRAFFIC,
    RunMeasure,
    StudyPart,
    parts_of,
)
from metronome_opt.simulate.conditions import Conditions

_SOME_SEEDS = " *"
SHOWN: tuple[RunMeasure, ...] = tuple(
    MEASURES[name]
    for name in ("completion_mean_s", "completion_p99_s", "slowdown_mean", "utilisation_used")
)
"""Measures of a summary."""

_GRIDS = {
    "completion_mean_s": "mean completion time",
    "completion_p99_s": "p99 completion time",
    "slowdown_mean": "mean iteration time",
}
_HEADINGS = {measure.name: measure.heading for measure in MEASURES.values()} | {
    FINISHED: "mean completion of jobs finished in both †"
}


def write_simulation_report(records: Sequence[SimulationRecord], folder: str | Path) -> Path:
    """Write ``report.md`` and ``.html``, ``estimates.csv`` and figures.

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
        That of ``report.md``, which is written last.

    Raises
    ------
    InputError
        If there are no records, they are of several studies or conditions, or something cannot be
        written.
    """
    records = latest(records)
    parts = parts_of(records)
    whole, cells = parts[0], parts[1:] or parts
    numbers = pd.DataFrame([row for part in parts for row in _estimates(part)])
    failures = [f"{each.title}: {each.outcome}" for each in records if not each.succeeded]
    models = {str(model) for model in whole.jobs["model"].dropna()}
    measured = {model for model in models if ", measured on " in model}
    sources = {
        "computed from published sizes of models": models - measured - {"stated"},
        "made of training steps that were measured on one device each": measured,
        "stated by the scenario": models & {"stated"},
    }
    return write_pages(
        folder,
        f"Simulated study: {records[0].study}",
        [
            ReportSection(
                "What ran",
                [bullets("Runs that were not done:", failures)] if failures else [],
                [("What ran", facts(_what_ran(records, whole)))],
                list(_grids(numbers, [part.title for part in cells])) if len(cells) > 1 else [],
            ),
            *(_section(part, numbers[numbers["part"] == part.title]) for part in parts),
        ],
        closing="study.md",
        texts={"estimates.csv": numbers.drop(columns="text").to_csv(index=False)},
        sources=" or ".join(words for words, which in sources.items() if which) or "not known",
        seeds=len(whole.seeds),
        confidence=f"{100 * CONFIDENCE:g}",
        resamples=RESAMPLES,
    )


def summarise(records: Sequence[SimulationRecord]) -> list[dict[str, Any]]:
    """Return a row for each policy: ``policy``, ``runs``, ``unfinished`` jobs and means by name.

    Means are over the seeds, of the measures that are `SHOWN`; None where one is not known.

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
        means = {measure.name: whole.mean(policy, measure.name) for measure in SHOWN}
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
        for name in MEASURES:
            yield _estimate(part, policy, name, part.mean(policy, name))
        for against, names in ((BASELINE, COMPARED), (EXCLUSIVE, AGAINST_EXCLUSIVE)):
            if against in part.policies:
                for name in names:
                    yield _estimate(
                        part, policy, name, part.paired(policy, against, name), against=against
                    )
        for each in classes if len(classes) > 1 else ():
            mean = part.mean_slowdown(policy, "priority", each)
            yield _estimate(part, policy, "slowdown_mean", mean, group=f"{each:g}")


def _estimate(
    part: StudyPart,
    policy: str,
    measure: str,
    interval: Interval | None,
    *,
    against: str = "",
    group: str = "",
) -> dict[str, Any]:
    text = MISSING
    if interval is not None:
        text = _change(interval - 1.0) if against else _mean(MEASURES[measure], interval)
        text += "" if part.complete(interval) else _SOME_SEEDS
    return {
        "part": part.title,
        "policy": policy,
        "against": against,
        "group": group,
        "measure": measure,
        **{end: getattr(interval, end, None) for end in ("mean", "low", "high")},
        "seeds": 0 if interval is None else interval.count,
        "text": text,
    }


def _mean(measure: RunMeasure, interval: Interval) -> str:
    """Return a mean with its interval: ``12.0 (11.0 to 13.0)``."""
    text = measure.formatted(interval.mean)
    if interval.low is None or interval.high is None or interval.low == interval.high:
        return text
    low, high = (
        measure.formatted(end).removesuffix("%").strip() for end in (interval.low, interval.high)
    )
    return f"{text} ({low} to {high})"


def _change(change: Interval) -> str:
    """Return a change with its interval: ``-12.0 % (-13.0 to -11.0)``."""
    text = f"{100 * change.mean:+.1f} %"
    if change.low is None or change.high is None or change.low == change.high:
        return text
    return f"{text} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"


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


def _section(part: StudyPart, numbers: pd.DataFrame) -> ReportSection:
    means = numbers[(numbers["against"] == "") & (numbers["group"] == "")]
    changes = numbers[(numbers["against"] != "") & (numbers["policy"] != numbers["against"])]
    classes = numbers[numbers["group"] != ""]
    words = []
    if part.unfinished:
        words.append(
            f"**{count(part.unfinished)} of {count(len(part.jobs))} jobs did not finish.** "
            "Completion times of their runs are not known."
        )
    else:
        changes = changes[changes["measure"] != FINISHED]
    tables = [
        ("How the runs ended", _outcomes(part)),
        ("Times of jobs", _pivot(means[means["measure"].isin(list(TIMES))])),
        ("Iterations and links", _pivot(means[means["measure"].isin(list(TRAFFIC))])),
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
        figures = [(f"{part.slug}-completion", "Completion times of jobs.", plot_completion(times))]
    return ReportSection(part.title, words, tables, figures)


def _pivot(numbers: pd.DataFrame, columns: str = "measure") -> pd.DataFrame:
    """Return the text of numbers as a table; rows and columns in order of appearance."""
    table = numbers.pivot(index="policy", columns=columns, values="text")
    table = table.reindex(index=numbers["policy"].unique(), columns=numbers[columns].unique())
    return table.rename(columns=_HEADINGS)


def _outcomes(part: StudyPart) -> pd.DataFrame:
    ended = pd.Series(part.kinds).unstack(fill_value=0)
    jobs = part.runs.groupby(level="policy")[["jobs", "unfinished"]].sum()
    table = ended.reindex(list(part.policies)).join(
        jobs.rename(columns={"unfinished": "jobs not finished"})
    )
    table = table.fillna(0).map(count).rename_axis(index="policy")
    return table.rename(columns=lambda kind: str(kind).replace("_", " "))


def _grids(numbers: pd.DataFrame, cells: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Yield figures of the changes of each policy in each cell."""
    against = numbers[(numbers["against"] == BASELINE) & (numbers["policy"] != BASELINE)]
    for measure, words in _GRIDS.items():
        mine = against[(against["measure"] == measure) & against["part"].isin(cells)]
        if mine["mean"].isna().all():
            continue
        mine = mine.astype({"mean": float, "low": float, "high": float})
        mine = mine.assign(certain=(mine["low"] > 1) | (mine["high"] < 1))
        mean, certain = (
            mine.pivot(index="part", columns="policy", values=name).reindex(
                index=cells, columns=mine["policy"].unique()
            )
            for name in ("mean", "certain")
        )
        caption = f"Change of {words} against {BASELINE} in every cell."
        yield f"grid-{measure.replace('_', '-')}", caption, plot_changes(mean - 1.0, certain)
