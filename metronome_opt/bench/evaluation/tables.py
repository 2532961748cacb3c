"""The tables of a report: policies and their measures, groups of jobs, marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from metronome_opt.bench.evaluation.estimates import (
    AGAINST_EXCLUSIVE,
    BASELINE,
    COMPARED,
    EXCLUSIVE,
    FINISHED,
    IDEAL,
    Estimate,
    Estimates,
    groups_of,
)
from metronome_opt.bench.evaluation.marks import SUBJECT, Verdict
from metronome_opt.bench.evaluation.measures import MEASURES, TIMES, TRAFFIC, Measure
from metronome_opt.bench.evaluation.runs import DONE, Part
from metronome_opt.bench.intervals import Interval
from metronome_opt.bench.shown import MISSING, count
from metronome_opt.bench.tables import Table

SOME_SEEDS = "*"
"""Marks a mean that is not over all seeds."""
ONLY_FINISHED = "†"
"""Marks a mean over the jobs that finished in both runs, where others did not."""


def outcomes_table(part: Part) -> Table:
    """Return how the runs of each policy ended and what they got done."""
    kinds = sorted({kind for ended in part.kinds.values() for kind in ended} - {DONE})
    rows = []
    for policy in part.policies:
        done = part.of(policy)
        rows.append(
            (
                policy,
                *(count(part.kinds[policy].get(kind, 0)) for kind in (DONE, *kinds)),
                count(sum(len(run.jobs) for run in done)),
                count(sum(run.unfinished for run in done)),
            )
        )
    return Table(
        f"{part.slug}-outcomes",
        f"{part.title}: how the runs ended",
        ("policy", *(kind.replace("_", " ") for kind in (DONE, *kinds)), "jobs", "not finished"),
        tuple(rows),
    )


def measures_tables(found: Estimates) -> Iterator[Table]:
    """Yield the measures of each policy: times of jobs, then what happens on links."""
    part = found.part
    for name, words, measures in (
        ("times", "times of jobs", TIMES),
        ("traffic", "iterations and links", TRAFFIC),
    ):
        rows = tuple(
            (
                policy,
                *(shown(found.find(policy, measure.name), measure.show) for measure in measures),
            )
            for policy in part.policies
        )
        headings = ("policy", *(measure.heading for measure in measures))
        yield Table(f"{part.slug}-{name}", f"{part.title}: {words}", headings, rows)


def comparison_tables(found: Estimates) -> Iterator[Table]:
    """Yield how each policy changes the measures of the baseline, and of `exclusive`."""
    part = found.part
    compared = [name for name in COMPARED if name != FINISHED or part.unfinished]
    for against, names in ((BASELINE, compared), (EXCLUSIVE, AGAINST_EXCLUSIVE)):
        others = [policy for policy in part.policies if policy != against]
        if against in part.policies and others:
            yield Table(
                f"{part.slug}-against-{against}",
                f"{part.title}: change against {against}, in pairs of runs",
                ("policy", *map(_heading, names)),
                tuple(
                    (policy, *(changed(found.find(policy, name, against)) for name in names))
                    for policy in others
                ),
            )


def group_tables(found: Estimates, kind: str) -> Iterator[Table]:
    """Yield the slowdown of groups of jobs, and their completion over that under `ideal`."""
    part = found.part
    groups = groups_of(part, kind)
    words = {"priority": "priority class", "model": "model"}[kind]
    yield Table(
        f"{part.slug}-{kind}-slowdown",
        f"{part.title}: mean slowdown by {words}",
        (words, *part.policies),
        tuple(
            (
                group.name,
                *(
                    shown(
                        found.find(policy, "slowdown_mean", group=group),
                        MEASURES["slowdown_mean"].show,
                    )
                    for policy in part.policies
                ),
            )
            for group in groups
        ),
    )
    others = [policy for policy in part.policies if policy != IDEAL]
    if IDEAL in part.policies and others:
        mark = f" {ONLY_FINISHED}" if part.unfinished else ""
        yield Table(
            f"{part.slug}-{kind}-completion",
            f"{part.title}: completion of a job against {IDEAL} by {words}{mark}",
            (words, *others),
            tuple(
                (
                    group.name,
                    *(changed(found.find(policy, FINISHED, IDEAL, group)) for policy in others),
                )
                for group in groups
            ),
        )


def marks_table(verdicts: Sequence[Verdict], title: str, slug: str) -> Table:
    """Return which marks are reached, by how much, and what limits those that are not."""
    return Table(
        f"{slug}-marks",
        f"{title}: marks",
        ("mark", "to reach", "verdict", "what limits", SUBJECT, "by (points)", f"{IDEAL} reaches"),
        tuple(map(_mark_row, verdicts)),
        words=4,
    )


# ------------------------------------------------------------------ cells


def shown(estimate: Estimate | None, show: Callable[[float], str]) -> str:
    """Return a mean with its interval: ``12.0 (11.0 to 13.0)``; a dash where it is not known."""
    if estimate is None or estimate.interval is None:
        return MISSING
    star = "" if estimate.complete else f" {SOME_SEEDS}"
    return _with_ends(estimate.interval, show) + star


def changed(estimate: Estimate | None) -> str:
    """Return a ratio as a change: ``-12.0 % (-13.0 to -11.0)``."""
    if estimate is None or estimate.interval is None:
        return MISSING
    star = "" if estimate.complete else f" {SOME_SEEDS}"
    return change(estimate.interval - 1.0) + star


def change(interval: Interval) -> str:
    """Return a relative change in percent."""
    ends = _ends(interval, lambda end: f"{100 * end:+.1f}")
    return f"{100 * interval.mean:+.1f} %{ends}"


def _with_ends(interval: Interval, show: Callable[[float], str]) -> str:
    return show(interval.mean) + _ends(interval, lambda end: show(end).removesuffix(" %"))


def _ends(interval: Interval, show: Callable[[float], str]) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" ({show(interval.low)} to {show(interval.high)})"


def _heading(name: str) -> str:
    if name == FINISHED:
        return f"mean completion of jobs finished in both {ONLY_FINISHED}"
    return _measure(name).heading.removesuffix(" (s)")


def _measure(name: str) -> Measure:
    return MEASURES[name]


def _mark_row(verdict: Verdict) -> tuple[str, ...]:
    mark, got = verdict.mark, verdict.change
    return (
        mark.name,
        mark.aim,
        _word(verdict),
        verdict.limit or MISSING,
        MISSING if got is None else change(got) + ("" if verdict.complete else f" {SOME_SEEDS}"),
        MISSING if got is None else f"{100 * mark.margin(got.mean):+.1f}",
        MISSING if verdict.most is None else change(verdict.most),
    )


def _word(verdict: Verdict) -> str:
    if verdict.reached is None:
        return "not known"
    word = "reached" if verdict.reached else "missed"
    return word if verdict.certain else f"{word}, not for certain"
