"""The report of a study that was simulated: tables, figures, marks, for all of it and each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from metronome_opt.bench.pages import (
    MISSING,
    count,
    facts,
    seed_range,
    software,
    three_digits,
    write_pages,
)
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
from metronome_opt.bench.timeline import LinkPicture
from metronome_opt.documents import parse_yaml
from metronome_opt.errors import counted
from metronome_opt.plot.simulation import (
    plot_completion,
    plot_gain,
    plot_grid,
    plot_prediction,
    plot_utilisation,
)
from metronome_opt.simulate.conditions import Conditions

if TYPE_CHECKING:
    from metronome_opt.plot.picture import Picture

_SOME_SEEDS = "*"
"""Marks a mean that is not over all seeds."""
_ONLY_FINISHED = "†"
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
_HEADINGS = {measure.name: measure.heading for measure in MEASURES.values()} | {
    FINISHED: f"mean completion of jobs finished in both {_ONLY_FINISHED}"
}
_CHANGES = ("shorter for certain", "perhaps no change", "longer for certain", "not known")
_MICROSECOND = 1e-6


def write_simulation_report(
    records: Sequence[SimulationRecord],
    folder: str | Path,
    *,
    link: LinkPicture | None = None,
    one_scenario: bool = False,
) -> Path:
    """Write ``report.md`` and ``.html``, ``estimates.csv``, pictures, of a study ``marks.csv``.

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
    one_scenario
        Whether the records are of a scenario of its own: its report tells of each job, and has no
        marks, which are set for studies.

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
    whole, cells = parts[0], [part.title for part in parts[1:] or parts]
    kinds = {"priority": "priority class", "model": "model"} | (
        {"job": "job"} if one_scenario else {}
    )
    numbers = pd.DataFrame([row for part in parts for row in _estimates(part, list(kinds))])
    of_cells = numbers[numbers["part"].isin(cells) & (numbers["against"] == BASELINE)]
    judged = [] if one_scenario else [part for part in parts if SUBJECT in part.policies]
    marks = [(part, verdicts(part)) for part in judged]
    found = pd.concat([pd.DataFrame(columns=_MARKS_CSV), *(each for _, each in marks)])
    index = ["mark", "to reach", "verdict", "what limits"]
    shown = [SUBJECT, "by (points)", f"{IDEAL} reaches"]
    return write_pages(
        folder,
        "study.md",
        texts={"estimates.csv": _csv(numbers.drop(columns="text"))}
        | ({} if one_scenario else {"marks.csv": _csv(found[_MARKS_CSV])}),
        study=records[0].study,
        what_ran=facts(_what_ran(records, whole, one_scenario=one_scenario)),
        failures=[f"{each.title}: {each.outcome}" for each in records if not each.went_well],
        marks=[(part, each.set_index(index)[shown]) for part, each in marks],
        subject=SUBJECT,
        changes=_where_it_fails(of_cells, cells),
        cells=len(cells),
        grid=list(_grid_figures(of_cells, cells, records[0].study)) if len(cells) > 1 else [],
        link=link,
        parts=[
            _view(part, numbers[numbers["part"] == part.title], kinds)
            | _figures(part, one_cell=part.title in cells, of_jobs=not one_scenario)
            for part in parts
        ],
        policies=whole.policies,
        seeds=len(whole.seeds),
        sources=_sources(whole.jobs["model"]),
        one_scenario=one_scenario,
        names={"baseline": BASELINE, "exclusive": EXCLUSIVE, "rival": RIVAL, "ideal": IDEAL},
        signs={"some_seeds": _SOME_SEEDS, "only_finished": _ONLY_FINISHED},
        confidence=f"{100 * CONFIDENCE:g}",
        resamples=RESAMPLES,
    )


def _sources(models: pd.Series[str]) -> list[str]:
    """Return where the traffic of models comes from, in words."""
    models = models.dropna().astype(str)
    measured = models.str.contains(", measured on ")
    told = {
        "computed from published sizes of models": ~measured & (models != "stated"),
        "made of training steps that were measured on one device each": measured,
    }
    return [words for words, which in told.items() if which.any()]


def _csv(frame: pd.DataFrame) -> str:
    return str(frame.to_csv(index=False, lineterminator="\n"))


# ------------------------------------------------------------------ summary


class _Summary(NamedTuple):
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


def summarise(records: Sequence[SimulationRecord]) -> list[_Summary]:
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
        summaries.append(_Summary(policy, len(runs), int(runs["unfinished"].sum()), means))
    return summaries


# ------------------------------------------------------------------ numbers


def _estimates(part: Part, kinds: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield every number of a part that a report shows, also by kinds of jobs.

    A number with ``against`` is the mean of ratios, one for each pair of runs.
    """
    for policy in part.policies:
        for name in MEASURES:
            yield _estimate(part, policy, name, part.mean(policy, name))
        for against, names in ((BASELINE, COMPARED), (EXCLUSIVE, AGAINST_EXCLUSIVE)):
            if against in part.policies:
                for name in names:
                    ratio = part.paired(policy, against, name)
                    yield _estimate(part, policy, name, ratio, against)
        for group in (group for kind in kinds for group in part.groups(kind)):
            mean = part.mean(policy, "slowdown_mean", group)
            yield _estimate(part, policy, "slowdown_mean", mean, group=group)
            if IDEAL in part.policies:
                ratio = part.paired_jobs(policy, IDEAL, "completion", part.choose(group))
                yield _estimate(part, policy, FINISHED, ratio, IDEAL, group)


def _estimate(
    part: Part,
    policy: str,
    measure: str,
    found: Interval | None,
    against: str = "",
    group: Group | None = None,
) -> dict[str, Any]:
    """Return a number as a row of ``estimates.csv``, and as text; None for what is not known."""
    text = MISSING
    if found is not None:
        text = _percentage(found - 1.0) if against else _with_ends(MEASURES[measure], found)
        text += "" if part.complete(found) else f" {_SOME_SEEDS}"
    return {
        "part": part.title,
        "policy": policy,
        "against": against,
        "grouped_by": "" if group is None else group.kind,
        "group": "" if group is None else str(group),
        "measure": measure,
        **{end: getattr(found, end, None) for end in ("mean", "low", "high")},
        "seeds": 0 if found is None else found.count,
        "text": text,
    }


def _with_ends(measure: Measure, found: Interval) -> str:
    """Return a mean with its interval: ``12.0 (11.0 to 13.0)``."""
    text = measure.formatted(found.mean)
    if found.low is None or found.high is None or found.low == found.high:
        return text
    low, high = (measure.formatted(end).removesuffix(" %") for end in (found.low, found.high))
    return f"{text} ({low} to {high})"


def _percentage(change: Interval) -> str:
    """Return a change with its interval: ``-12.0 % (-13.0 to -11.0)``."""
    text = f"{100 * change.mean:+.1f} %"
    if change.low is None or change.high is None or change.low == change.high:
        return text
    return f"{text} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"


def _what_ran(
    records: Sequence[SimulationRecord], whole: Part, *, one_scenario: bool
) -> list[tuple[str, str]]:
    done = sum(record.went_well for record in records)
    kind = "scenario" if one_scenario else "study"
    return [
        (kind, f"{records[0].study} ({records[0].study_sha256[:12]})"),
        ("runs", f"{count(len(records))}, of which {count(done)} were done"),
        *([] if one_scenario else [("cells", count(len(whole.cells)))]),
        ("seeds", seed_range(whole.seeds)),
        ("policies", ", ".join(whole.policies)),
        ("conditions of all runs", _conditions([record.conditions for record in records])),
        *software(records),
    ]


def _conditions(conditions: Sequence[Conditions]) -> str:
    """Return what all runs have in common and is not as usual."""
    usual = Conditions()
    common = [
        f"{name}={getattr(conditions[0], name)}"
        for name in Conditions.model_fields
        if len({getattr(each, name) for each in conditions}) == 1
        and getattr(conditions[0], name) != getattr(usual, name)
    ]
    varied = len(set(conditions)) > 1
    return ", ".join(common) or "nothing disturbs them" + (" but what cells say" if varied else "")


# ------------------------------------------------------------------ marks


class _Mark(NamedTuple):
    """What is to be reached, set before anything ran; ``marks.yaml`` says what the fields mean."""

    name: str
    aim: str
    against: str
    bar: float
    measure: str
    higher: bool = False
    strict: bool = False
    explained: bool = True
    highest: bool = False

    def margin(self, change: float) -> float:
        """Return by how much a change is better than the bar; negative if it is worse."""
        return change - self.bar if self.higher else self.bar - change

    def reached(self, change: float) -> bool:
        """Return whether a change is enough."""
        margin = self.margin(change)
        return margin > 0 if self.strict else margin >= 0


_STORED = Path(__file__).parent / "templates" / "marks.yaml"
_MARKS = tuple(_Mark(**mark) for mark in parse_yaml(_STORED.read_text(encoding="utf-8")))
_MARKS_CSV = [
    *("part", "mark", "bar", "reached", "certain", "change", "change_low", "change_high"),
    *("ideal", "ideal_low", "ideal_high", "limit"),
]


def verdicts(part: Part) -> pd.DataFrame:
    """Return what came of each mark in a part of a study in which the subject ran.

    The columns are those of ``marks.csv``, where changes are shares and what is not known is None,
    and those of the report, which are text.
    """
    rows = []
    for mark in _MARKS:
        change = _change_of(part, SUBJECT, mark)
        most = None if mark.against == IDEAL else _change_of(part, IDEAL, mark)
        reached = None if change is None else mark.reached(change.mean)
        certain = change is not None and mark.bar not in change
        word = "not known" if reached is None else "reached" if reached else "missed"
        limit = _limit(part, mark, change, most)
        star = "" if change is None or part.complete(change) else f" {_SOME_SEEDS}"
        rows.append(
            {
                "part": part.title,
                "mark": mark.name,
                "bar": mark.bar,
                "reached": reached,
                "certain": certain,
                **{
                    f"{name}{suffix}": getattr(interval, end, None)
                    for name, interval in (("change", change), ("ideal", most))
                    for end, suffix in (("mean", ""), ("low", "_low"), ("high", "_high"))
                },
                "limit": limit,
                "to reach": mark.aim,
                "verdict": word if certain or reached is None else f"{word}, not for certain",
                "what limits": limit or MISSING,
                SUBJECT: MISSING if change is None else _percentage(change) + star,
                "by (points)": MISSING
                if change is None
                else f"{100 * mark.margin(change.mean):+.1f}",
                f"{IDEAL} reaches": MISSING if most is None else _percentage(most),
            }
        )
    return pd.DataFrame(rows).astype({"reached": object})


def _change_of(part: Part, policy: str, mark: _Mark) -> Interval | None:
    if mark.highest:
        found = part.paired_jobs(policy, mark.against, mark.measure, part.choose_highest())
    else:
        found = part.paired(policy, mark.against, mark.measure)
    return None if found is None else found - 1.0


def _limit(part: Part, mark: _Mark, change: Interval | None, most: Interval | None) -> str:
    """Return why a mark is missed or not known, in words."""
    if change is None:
        if mark.against not in part.policies:
            return f"not known: {mark.against} did not run"
        if part.unfinished:
            return f"not known: {counted(part.unfinished, 'job')} did not finish"
        return "not known: no seed was done by both policies in all cells"
    if mark.reached(change.mean):
        return ""
    if mark.explained:
        missing = _missing(part, mark)
    elif most is None:
        missing = f"{IDEAL} did not run"
    else:
        missing = f"{100 * (most.mean - change.mean):.1f} points are left to what {IDEAL} reaches"
    if most is not None and not mark.reached(most.mean):
        return f"{IDEAL} does not reach it either; {missing}"
    return missing


def _missing(part: Part, mark: _Mark) -> str:
    """Say what makes completion longer than under `ideal`, in seconds a job."""
    chosen = part.choose_highest() if mark.highest else None
    longer = part.lengthening(SUBJECT, IDEAL, chosen)
    if longer.empty:
        return f"{IDEAL} did not run"
    total = longer["queueing"] + longer["held"] + longer["iterating"]
    if not math.isfinite(total):
        return "not known: no job finished in both runs"
    told = longer.map(_seconds)
    why = ""
    if math.isfinite(longer["placement"]):
        why = f" (by placement {told['placement']}, by others {told['others']})"
    return (
        f"{_seconds(total)} s a job above {IDEAL}: queueing {told['queueing']}, held back for a "
        f"slot {told['held']}, longer iterations {told['iterating']}{why}"
    )


def _seconds(value: float) -> str:
    if abs(value) < _MICROSECOND:  # what rounding leaves of differences
        return "0"
    return f"{'+' if value > 0 else ''}{three_digits(value)}"


def _where_it_fails(numbers: pd.DataFrame, cells: list[str]) -> dict[str, list[str]]:
    """Return in which cells the subject of the marks gains, brings nothing or loses."""
    chosen = (numbers["policy"] == SUBJECT) & (numbers["measure"] == "completion_mean_s")
    ratios = numbers[chosen].set_index("part").reindex(cells)[["mean", "low", "high"]]
    found: dict[str, list[str]] = {words: [] for words in _CHANGES}
    shorter, no_change, longer, unknown = _CHANGES
    for title, mean, low, high in ratios.astype(float).itertuples():
        certain = shorter if high < 1.0 else longer if low > 1.0 else no_change
        found[unknown if math.isnan(mean) else certain].append(title)
    return found


# ------------------------------------------------------------------ tables


def _view(part: Part, numbers: pd.DataFrame, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return the tables of a part of a study, and what its words need.

    Parameters
    ----------
    kinds
        Of groups of jobs, with the words for them; one without several groups is left out.
    """
    expected = len(part.cells) * len(part.seeds)
    lacking = {policy: expected - len(part.of(policy)) for policy in part.policies}
    of_all = numbers[numbers["grouped_by"] == ""]
    means = of_all[of_all["against"] == ""]
    compared = of_all[of_all["policy"] != of_all["against"]]
    if not part.unfinished:
        compared = compared[compared["measure"] != FINISHED]
    groups = [
        (kind, words, numbers[numbers["grouped_by"] == kind])
        for kind, words in kinds.items()
        if len(part.groups(kind)) > 1
    ]
    return {
        "title": part.title,
        "slug": part.slug,
        "one_seed": len(part.seeds) == 1,
        "missing": [f"{policy} {number}" for policy, number in lacking.items() if number],
        "unfinished": part.unfinished,
        "jobs": len(part.jobs),
        "outcomes": _outcomes(part),
        "times": _pivot(means[means["measure"].isin(list(TIMES))], "policy", "measure"),
        "traffic": _pivot(means[means["measure"].isin(list(TRAFFIC))], "policy", "measure"),
        "comparisons": {
            against: _pivot(found, "policy", "measure").rename(
                columns=lambda heading: heading.removesuffix(" (s)")
            )
            for against, found in compared.groupby("against")
            if against
        },
        "groups": [
            (
                kind,
                words,
                _pivot(found[found["against"] == ""], "group", "policy", words),
                _pivot(
                    found[(found["against"] != "") & (found["policy"] != IDEAL)],
                    *("group", "policy", words),
                ),
            )
            for kind, words, found in groups
            if not found.empty
        ],
    }


def _pivot(
    numbers: pd.DataFrame, rows: str, columns: str, corner: str | None = None
) -> pd.DataFrame:
    """Return the text of numbers as a table; rows and columns as they come first."""
    table = numbers.pivot(index=rows, columns=columns, values="text")
    table = table.reindex(index=numbers[rows].unique(), columns=numbers[columns].unique())
    return table.rename_axis(index=corner or rows).rename(columns=_HEADINGS)


def _outcomes(part: Part) -> pd.DataFrame:
    ended = pd.Series(part.kinds).unstack(fill_value=0)
    kinds = [DONE, *sorted(set(ended.columns) - {DONE})]
    ended = ended.reindex(index=list(part.policies), columns=kinds, fill_value=0)
    jobs = part.runs.groupby(level="policy")[["jobs", "unfinished"]].sum()
    table = ended.join(jobs.rename(columns={"unfinished": "not finished"})).fillna(0).map(count)
    return table.rename(columns=lambda kind: kind.replace("_", " ")).rename_axis(index="policy")


# ------------------------------------------------------------------ figures


def _grid_figures(
    numbers: pd.DataFrame, cells: list[str], study: str
) -> Iterator[tuple[str, str, Picture]]:
    """Yield the whole grid, what each policy changes in each cell: name, words, picture."""
    for measure, words in _GRIDS.items():
        mine = numbers[(numbers["measure"] == measure) & (numbers["policy"] != BASELINE)]
        if mine["mean"].isna().all():
            continue
        policies = list(mine["policy"].unique())
        wide = mine.pivot(index="part", columns="policy").reindex(index=cells)
        mean, low, high = (
            wide[end][policies].to_numpy(dtype=np.float64) for end in ("mean", "low", "high")
        )
        picture = plot_grid(
            mean - 1.0,
            cells=cells,
            policies=policies,
            title=f"{study}: {words}",
            what=f"change of {words} against {BASELINE}, mean over pairs of runs",
            certain=(low > 1.0) | (high < 1.0),
        )
        yield measure.replace("_", "-"), words, picture


def _figures(part: Part, *, one_cell: bool, of_jobs: bool) -> dict[str, Picture | None]:
    """Return the figures of a part, None without data; those of times are of one cell alone.

    Those with a dot for each job are left out where there is a table of jobs.
    """
    completion = utilisation = None
    ran = [policy for policy in part.policies if len(part.of(policy))]
    if one_cell and ran:
        times = {policy: _of(part.jobs, policy)["completion"].to_numpy() for policy in ran}
        completion = plot_completion(times, title=part.title)
        sampled = {
            policy: [
                (run["time_s"], run["utilisation"])
                for _, run in _of(part.samples, policy).groupby(level=["cell", "seed"])
            ]
            for policy in ran
            if not _of(part.samples, policy).empty
        }
        utilisation = plot_utilisation(sampled, title=part.title) if sampled else None
    return {
        "completion": completion,
        "utilisation": utilisation,
        "gain": _gain_figure(part) if of_jobs else None,
        "prediction": _prediction_figure(part) if of_jobs else None,
    }


def _gain_figure(part: Part) -> Picture | None:
    """Return the gain of each job by its score; None if no job has both."""
    mine, base = (
        _of(part.jobs, policy).droplevel("policy").set_index("job", append=True)
        for policy in (SUBJECT, BASELINE)
    )
    gains = 1 - mine["iteration_mean_ms"] / base["iteration_mean_ms"].reindex(mine.index)
    if not (mine["score"].notna() & gains.notna()).any():
        return None
    paired = gains.index.isin(base.index)
    return plot_gain(
        mine["score"][paired].to_numpy(),
        gains[paired].to_numpy(),
        title=part.title,
        policy=SUBJECT,
        against=BASELINE,
    )


def _prediction_figure(part: Part) -> Picture | None:
    """Return predicted against simulated elongation of jobs; None if nothing was predicted."""
    predicting = {}
    for policy in part.policies:
        jobs = _of(part.jobs, policy)
        if (jobs["predicted"].notna() & jobs["slowdown"].notna()).any():
            simulated = jobs["slowdown"].to_numpy() - 1.0
            predicting[policy] = (jobs["predicted"].to_numpy(), simulated)
    return plot_prediction(predicting, title=part.title) if predicting else None


def _of(frame: pd.DataFrame, policy: str) -> pd.DataFrame:
    return frame[frame.index.isin([policy], level="policy")]
