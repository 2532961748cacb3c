"""The report of a study that was simulated: tables, figures, marks, for all of it and each cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from metronome_opt.bench.marks import Verdict, verdicts, verdicts_csv
from metronome_opt.bench.simulations import SimulationRecord, latest
from metronome_opt.bench.statistics import CONFIDENCE, RESAMPLES, Interval
from metronome_opt.bench.studies import (
    AGAINST_EXCLUSIVE,
    BASELINE,
    COMPARED,
    DONE,
    EXCLUSIVE,
    FINISHED,
    IDEAL,
    MEASURES,
    RIVAL,
    SUBJECT,
    TIMES,
    TRAFFIC,
    Group,
    Measure,
    Part,
    parts_of,
)
from metronome_opt.bench.tables import (
    MISSING,
    Drawing,
    Item,
    Table,
    count,
    cross_table,
    distinct,
    markdown_text,
    seed_range,
    versions_of,
    write_pages,
)
from metronome_opt.plot.simulation import (
    plot_completion,
    plot_gain,
    plot_grid,
    plot_prediction,
    plot_utilisation,
)
from metronome_opt.plot.style import counted
from metronome_opt.simulate.conditions import Conditions

SOME_SEEDS = "*"
"""Marks a mean that is not over all seeds."""
ONLY_FINISHED = "†"
"""Marks a mean over the jobs that finished in both runs, where others did not."""

SHOWN: tuple[Measure, ...] = tuple(
    MEASURES[name]
    for name in ("completion_mean_s", "completion_p99_s", "slowdown_mean", "utilisation_used")
)
"""Measures of a summary."""

_GRIDS = {
    "completion_mean_s": "mean completion time",
    "completion_p99_s": "p99 completion time",
    "slowdown_mean": "mean iteration time",
}
_CHANGES = ("shorter for certain", "perhaps no change", "longer for certain", "not known")

Estimates = Mapping[tuple[str, str, str | None, Group | None], Interval | None]
"""The numbers of a part by policy, measure, the policy it is related to, and the jobs meant."""


def write_simulation_report(
    records: Sequence[SimulationRecord],
    folder: str | Path,
    *,
    link: Item | None = None,
) -> Path:
    """Write ``report.md``, ``estimates.csv``, ``marks.csv`` and ``figures/*.svg``.

    The same records make the same files. Other files of the folder stay as they are.

    Parameters
    ----------
    records
        Of one study, under one set of conditions, in the order that the cells are to have. Of a
        run that is there several times, the last counts.
    folder
        Made if it does not exist.
    link
        A link as it happened, or the words that there is none to show.

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
    found = [(part, estimates(part)) for part in parts]
    marks = [list(verdicts(part)) for part in parts]
    whole, cells = parts[0], found[1:] or found
    study = records[0].study
    ran = Table("study", "What ran", ("", ""), list(_what_ran(records, whole)), words=2)
    chapters: dict[str, list[Item]] = {"What ran": [ran, *_failures(records)]}
    if SUBJECT in whole.policies:
        tables = [_marks_table(part, mine) for part, mine in zip(parts, marks, strict=True)]
        chapters["Marks"] = [*tables, _where_it_fails(cells)]
    chapters["The grid"] = list(_grid_drawings(cells, study))
    if link is not None:
        chapters["A link as it happened"] = [link]
    for part, numbers in found:
        one_cell = len(parts) == 1 or part is not whole
        chapters[part.title] = list(_part_items(part, numbers, one_cell=one_cell))
    return write_pages(
        folder,
        "study.md",
        chapters,
        texts={
            "estimates.csv": _estimates_csv(found),
            "marks.csv": verdicts_csv(verdict for each in marks for verdict in each),
        },
        study=study,
        policies=whole.policies,
        seeds=counted(len(whole.seeds), "seed"),
        names={"baseline": BASELINE, "exclusive": EXCLUSIVE, "rival": RIVAL, "ideal": IDEAL},
        signs={"some_seeds": SOME_SEEDS, "only_finished": ONLY_FINISHED},
        confidence=f"{100 * CONFIDENCE:g}",
        resamples=RESAMPLES,
    )


# ------------------------------------------------------------------ summary


@dataclass(frozen=True)
class Summary:
    """What one policy brings.

    Attributes
    ----------
    runs, unfinished
        How many runs were done, and how many jobs did not finish in them.
    means
        Means over the seeds of the measures that are `SHOWN`, by name; None where a mean is not
        known: where jobs did not finish, or no seed ran in all cells.
    """

    policy: str
    runs: int
    unfinished: int
    means: dict[str, float | None]


def summarise(records: Sequence[SimulationRecord]) -> list[Summary]:
    """Return a summary for each policy, in the order of the report.

    Raises
    ------
    InputError
        If the records are not of one study, or a simulation is there twice.
    """
    if not records:
        return []
    whole = parts_of(records)[0]
    summaries = []
    for policy in whole.policies:
        runs = whole.of(policy)
        found = {measure.name: whole.mean(policy, measure.name) for measure in SHOWN}
        means = {name: None if mean is None else mean.mean for name, mean in found.items()}
        summaries.append(Summary(policy, len(runs), int(runs["unfinished"].sum()), means))
    return summaries


# ------------------------------------------------------------------ numbers


def estimates(part: Part) -> Estimates:
    """Return every number of a part that a report shows, None for what is not known."""
    found: dict[tuple[str, str, str | None, Group | None], Interval | None] = {}
    for policy in part.policies:
        for measure in MEASURES:
            found[policy, measure, None, None] = part.mean(policy, measure)
        for against, measures in ((BASELINE, COMPARED), (EXCLUSIVE, AGAINST_EXCLUSIVE)):
            if against in part.policies:
                for measure in measures:
                    ratio = part.paired(policy, against, measure)
                    found[policy, measure, against, None] = ratio
        for group in (*part.groups("priority"), *part.groups("model")):
            slowdown = part.mean(policy, "slowdown_mean", group)
            found[policy, "slowdown_mean", None, group] = slowdown
            if IDEAL in part.policies:
                ratio = part.paired_jobs(policy, IDEAL, "completion", part.choose(group))
                found[policy, FINISHED, IDEAL, group] = ratio
    return found


def _estimates_csv(found: Sequence[tuple[Part, Estimates]]) -> str:
    """Return all numbers as text, a line each; what is not known is empty.

    A number with `against` is the mean of ratios, one for each pair of runs.
    """
    rows = [
        {
            "part": part.title,
            "policy": policy,
            "against": against,
            "grouped_by": getattr(group, "kind", None),
            "group": None if group is None else str(group),
            "measure": measure,
            "mean": getattr(interval, "mean", None),
            "low": getattr(interval, "low", None),
            "high": getattr(interval, "high", None),
            "seeds": getattr(interval, "count", 0),
        }
        for part, numbers in found
        for (policy, measure, against, group), interval in numbers.items()
    ]
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


# ------------------------------------------------------------------ head


def _what_ran(records: Sequence[SimulationRecord], whole: Part) -> Iterator[tuple[str, str]]:
    done = sum(record.went_well for record in records)
    yield "study", f"{records[0].study} ({records[0].study_sha256[:12]})"
    yield "runs", f"{count(len(records))}, of which {count(done)} were done"
    yield "cells", count(len(whole.cells))
    yield "seeds", seed_range(whole.seeds)
    yield "policies", ", ".join(whole.policies)
    yield "conditions of all runs", _conditions([record.conditions for record in records])
    yield "commit", ", ".join(distinct(record.commit or "unknown" for record in records))
    packages = versions_of(records).items()
    yield "versions", ", ".join(f"{name} {' and '.join(each)}" for name, each in packages)


def _conditions(conditions: Sequence[Conditions]) -> str:
    """Return what all runs have in common and is not as usual."""
    usual = Conditions()
    common = [
        f"{name}={getattr(conditions[0], name)}"
        for name in Conditions.model_fields
        if len({getattr(each, name) for each in conditions}) == 1
        and getattr(conditions[0], name) != getattr(usual, name)
    ]
    return ", ".join(common) or "nothing disturbs them but what the cells say"


def _failures(records: Sequence[SimulationRecord]) -> Iterator[str]:
    failed = [record for record in records if not record.went_well]
    if failed:
        lines = (f"- {markdown_text(f'{each.title}: {each.outcome}')}\n" for each in failed)
        yield "Runs that were not done:\n\n" + "".join(lines)


# ------------------------------------------------------------------ marks


def _marks_table(part: Part, found: Sequence[Verdict]) -> Table:
    rows = []
    for each in found:
        mark, got = each.mark, each.change
        word = "not known"
        if each.reached is not None:
            word = "reached" if each.reached else "missed"
            word += "" if each.certain else ", not for certain"
        star = "" if each.complete else f" {SOME_SEEDS}"
        by = MISSING if got is None else f"{100 * mark.margin(got.mean):+.1f}"
        change = MISSING if got is None else _percentage(got) + star
        most = MISSING if each.most is None else _percentage(each.most)
        rows.append((mark.name, mark.aim, word, each.limit or MISSING, change, by, most))
    return Table(
        f"{part.slug}-marks",
        f"{part.title}: marks",
        ("mark", "to reach", "verdict", "what limits", SUBJECT, "by (points)", f"{IDEAL} reaches"),
        rows,
        words=4,
    )


def _where_it_fails(cells: Sequence[tuple[Part, Estimates]]) -> str:
    """Return in how many cells the subject of the marks gains, brings nothing or loses."""
    found: dict[str, list[str]] = {words: [] for words in _CHANGES}
    shorter, no_change, longer, unknown = _CHANGES
    for part, numbers in cells:
        ratio = numbers.get((SUBJECT, "completion_mean_s", BASELINE, None))
        words = unknown
        if ratio is not None:
            words = no_change if 1.0 in ratio else shorter if ratio.mean < 1.0 else longer
        found[words].append(markdown_text(part.title))
    many = f"in {counted(len(cells), 'cell')}"
    return "\n".join(
        [
            f"Mean completion under {SUBJECT} against {BASELINE}, {many}:\n",
            *(
                f"- {words} ({len(titles)}): {'; '.join(titles) or 'none'}"
                for words, titles in found.items()
            ),
            "",
        ]
    )


# ------------------------------------------------------------------ tables


def _part_items(part: Part, numbers: Estimates, *, one_cell: bool) -> Iterator[Item]:
    """Yield what one part of the study shows."""
    yield from _cautions(part)
    yield _outcomes(part)
    for name, words, measures in (
        ("times", "times of jobs", TIMES),
        ("traffic", "iterations and links", TRAFFIC),
    ):
        yield cross_table(
            *(f"{part.slug}-{name}", f"{part.title}: {words}", "policy", part.policies, measures),
            lambda policy, measure: _mean(part, numbers[policy, measure.name, None, None], measure),
        )
    yield from _comparisons(part, numbers)
    yield from _group_tables(part, numbers, "priority", "priority class")
    yield from _group_tables(part, numbers, "model", "model")
    if one_cell:
        yield from _cell_drawings(part)
    yield from _job_drawings(part)


def _cautions(part: Part) -> Iterator[str]:
    """Yield what limits the numbers of a part."""
    if len(part.seeds) == 1:
        yield "There is one seed, so there are no confidence intervals.\n"
    expected = len(part.cells) * len(part.seeds)
    missing = [
        f"{policy} {lacking}"
        for policy in part.policies
        if (lacking := expected - len(part.of(policy)))
    ]
    if missing:
        yield (
            f"Runs that were not done: {', '.join(missing)}. Means are over the seeds that ran in "
            f"all cells, and marked {SOME_SEEDS}.\n"
        )
    if part.unfinished:
        yield (
            f"**{count(part.unfinished)} of {count(len(part.jobs))} jobs did not finish.** "
            "Completion times of their runs are not known; see slowdown, iterations done, and the "
            f"jobs that finished in both runs ({ONLY_FINISHED}), which are the shorter ones.\n"
        )


def _outcomes(part: Part) -> Table:
    kinds = [DONE, *sorted({kind for _, kind in part.kinds} - {DONE})]
    rows = []
    for policy in part.policies:
        jobs = part.of(policy)[["jobs", "unfinished"]].sum()
        ended = (part.kinds.get((policy, kind), 0) for kind in kinds)
        rows.append((policy, *(count(int(number)) for number in (*ended, *jobs))))
    headings = ("policy", *(kind.replace("_", " ") for kind in kinds), "jobs", "not finished")
    return Table(f"{part.slug}-outcomes", f"{part.title}: how the runs ended", headings, rows)


def _comparisons(part: Part, numbers: Estimates) -> Iterator[Table]:
    """Yield how each policy changes the measures of the baseline, and of `exclusive`."""
    compared = [name for name in COMPARED if name != FINISHED or part.unfinished]
    for against, names in ((BASELINE, compared), (EXCLUSIVE, AGAINST_EXCLUSIVE)):
        others = [policy for policy in part.policies if policy != against]
        if against in part.policies and others:
            yield cross_table(
                f"{part.slug}-against-{against}",
                f"{part.title}: change against {against}, in pairs of runs",
                "policy",
                others,
                [Measure(name, _heading(name)) for name in names],
                partial(_related, part, numbers, against),
            )


def _related(part: Part, numbers: Estimates, against: str, policy: str, measure: Measure) -> str:
    return _change(part, numbers[policy, measure.name, against, None])


def _heading(name: str) -> str:
    if name == FINISHED:
        return f"mean completion of jobs finished in both {ONLY_FINISHED}"
    return MEASURES[name].heading.removesuffix(" (s)")


def _group_tables(part: Part, numbers: Estimates, kind: str, words: str) -> Iterator[Table]:
    """Yield the slowdown of groups of jobs, and their completion over that under `ideal`."""
    slowdown, groups = MEASURES["slowdown_mean"], part.groups(kind)
    yield cross_table(
        f"{part.slug}-{kind}-slowdown",
        f"{part.title}: mean slowdown by {words}",
        words,
        groups,
        part.policies,
        lambda group, policy: _mean(part, numbers[policy, slowdown.name, None, group], slowdown),
    )
    others = [policy for policy in part.policies if policy != IDEAL]
    if IDEAL in part.policies and others:
        mark = f" {ONLY_FINISHED}" if part.unfinished else ""
        yield cross_table(
            f"{part.slug}-{kind}-completion",
            f"{part.title}: completion of a job against {IDEAL} by {words}{mark}",
            words,
            groups,
            others,
            lambda group, policy: _change(part, numbers[policy, FINISHED, IDEAL, group]),
        )


def _mean(part: Part, interval: Interval | None, measure: Measure) -> str:
    """Return a mean with its interval: ``12.0 (11.0 to 13.0)``; a dash where it is not known."""
    if interval is None:
        return MISSING
    ends = _ends(interval, lambda end: measure.show(end).removesuffix(" %"))
    return measure.show(interval.mean) + ends + _star(part, interval)


def _change(part: Part, ratio: Interval | None) -> str:
    """Return a ratio as a change: ``-12.0 % (-13.0 to -11.0)``."""
    return MISSING if ratio is None else _percentage(ratio - 1.0) + _star(part, ratio)


def _star(part: Part, interval: Interval) -> str:
    return "" if part.complete(interval) else f" {SOME_SEEDS}"


def _percentage(change: Interval) -> str:
    return f"{100 * change.mean:+.1f} %{_ends(change, lambda end: f'{100 * end:+.1f}')}"


def _ends(interval: Interval, show: Callable[[float], str]) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" ({show(interval.low)} to {show(interval.high)})"


# ------------------------------------------------------------------ figures


def _grid_drawings(cells: Sequence[tuple[Part, Estimates]], study: str) -> Iterator[Drawing]:
    """Yield the whole grid: what each policy changes in each cell."""
    policies = [
        policy
        for policy in distinct(policy for part, _ in cells for policy in part.policies)
        if policy != BASELINE
    ]
    for measure, words in _GRIDS.items():
        found = [
            [numbers.get((policy, measure, BASELINE, None)) for policy in policies]
            for _, numbers in cells
        ]
        changes = np.array([[np.nan if r is None else r.mean - 1.0 for r in row] for row in found])
        if not np.isfinite(changes).any():
            continue
        yield Drawing(
            f"grid-{measure.replace('_', '-')}",
            f"Change of {words} against {BASELINE} in every cell.",
            plot_grid(
                changes,
                cells=[part.title for part, _ in cells],
                policies=policies,
                title=f"{study}: {words}",
                what=f"change of {words} against {BASELINE}, mean over pairs of runs",
                certain=np.array([[r is not None and 1.0 not in r for r in row] for row in found]),
            ),
        )


def _cell_drawings(part: Part) -> Iterator[Drawing]:
    """Yield the figures of times, which only runs of one cell have in common."""
    if part.runs.empty:
        return
    ran = [policy for policy in part.policies if len(part.of(policy))]
    yield Drawing(
        f"{part.slug}-completion",
        f"{part.title}: completion times of all jobs with all seeds.",
        plot_completion(
            {policy: _of(part.jobs, policy)["completion"].to_numpy() for policy in ran},
            title=part.title,
        ),
    )
    samples = {
        policy: [
            (run["time_s"], run["utilisation"])
            for _, run in _of(part.samples, policy).groupby(level=["cell", "seed"])
        ]
        for policy in ran
    }
    sampled = {policy: runs for policy, runs in samples.items() if runs}
    if sampled:
        yield Drawing(
            f"{part.slug}-utilisation",
            f"{part.title}: utilisation of all links over time.",
            plot_utilisation(sampled, title=part.title),
        )


def _job_drawings(part: Part) -> Iterator[Item]:
    """Yield the figures with a point for each job, or why there is none."""
    mine, base = (
        _of(part.jobs, policy).droplevel("policy").set_index("job", append=True)
        for policy in (SUBJECT, BASELINE)
    )
    gains = 1 - mine["iteration_mean_ms"] / base["iteration_mean_ms"].reindex(mine.index)
    if (mine["score"].notna() & gains.notna()).any():
        paired = gains.index.isin(base.index)
        yield Drawing(
            f"{part.slug}-gain",
            f"{part.title}: gain of {SUBJECT} over {BASELINE} by compatibility score.",
            plot_gain(
                mine["score"][paired].to_numpy(),
                gains[paired].to_numpy(),
                title=part.title,
                policy=SUBJECT,
                against=BASELINE,
            ),
        )
    else:
        yield (
            f"Gain by compatibility is not drawn: no job has a score under {SUBJECT} and an "
            f"iteration under {BASELINE} too.\n"
        )
    predicting = {}
    for policy in part.policies:
        jobs = _of(part.jobs, policy)
        if (jobs["predicted"].notna() & jobs["slowdown"].notna()).any():
            simulated = jobs["slowdown"].to_numpy() - 1.0
            predicting[policy] = (jobs["predicted"].to_numpy(), simulated)
    if predicting:
        yield Drawing(
            f"{part.slug}-prediction",
            f"{part.title}: elongation of iterations as predicted and as simulated.",
            plot_prediction(predicting, title=part.title),
        )
    else:
        yield "Predicted elongation is not drawn: nothing was predicted.\n"


def _of(frame: pd.DataFrame, policy: str) -> pd.DataFrame:
    return frame[frame.index.isin([policy], level="policy")]
