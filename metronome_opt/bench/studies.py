"""The runs of a simulated study as data frames, their measures, and means over seeds.

All policies meet the same scenario in a cell with a seed, which is what makes them comparable in
pairs. A part of a study is one cell or all of them; a seed is then worth its mean over the cells,
since cells may share their draws, and only seeds are independent of each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from metronome_opt.bench.pages import distinct_slugs, three_digits
from metronome_opt.bench.simulations import SimulationRecord, Value
from metronome_opt.bench.statistics import Interval, mean_interval
from metronome_opt.documents import write_text
from metronome_opt.errors import InputError, quote
from metronome_opt.plot.style import in_order
from metronome_opt.simulate.study import Cell

BASELINE, EXCLUSIVE, RIVAL, SUBJECT, IDEAL = (
    *("default", "exclusive", "cassini", "metronome", "ideal"),
)
DONE = "done"
ALL_CELLS = "all cells"
FINISHED = "completion_finished"
"""Completion over that of another run, of the jobs that finished in both."""

_Tables = Literal["jobs", "links", "samples"]
_FILES: tuple[_Tables, ...] = ("jobs", "links")
_LONGEST_SLUG = 80
_RUN = ["cell", "seed", "policy"]
_SCENARIO = ["cell", "seed"]
_COMPLETIONS = ["completion_mean_s", "completion_median_s", "completion_p99_s"]
_WORDS = ["cell", "seed", "policy", "job", "model", "link"]
_JOBS = [
    *("priority", "start_s", "end_s", "queueing_s", "completion_s", "iterations", "ideal_ms"),
    *("alone_ms", "iteration_mean_ms", "iteration_p99_ms", "waited_s", "rephasings", "score"),
    *("predicted_ms", "finished"),
]
_LINKS = ["capacity_mbps", "carried_gbit", "used_s", "contended_s"]


# ------------------------------------------------------------------ measures of a run


class Measure(NamedTuple):
    """A number of a run: its name, its heading with the unit, and how it is written."""

    name: str
    heading: str
    formatted: Callable[[float], str] = three_digits


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _factor(value: float) -> str:
    return f"{value:.3f}"


_MEASURES = (
    Measure("completion_mean_s", "mean completion (s)"),
    Measure("completion_median_s", "median completion (s)"),
    Measure("completion_p99_s", "p99 completion (s)"),
    Measure("queueing_mean_s", "mean queueing (s)"),
    Measure("makespan_s", "makespan (s)"),
    Measure("iterations", "iterations done"),
    Measure("slowdown_mean", "slowdown, mean over jobs", _factor),
    Measure("slowdown_placement", "of it by placement", _factor),
    Measure("slowdown_sharing", "of it by others", _factor),
    Measure("slowdown_p99", "slowdown, p99 over jobs", _factor),
    Measure("slowdown_late", "slowdown of the p99 iteration, mean", _factor),
    Measure("utilisation_used", "utilisation, links in use", _percent),
    Measure("utilisation", "utilisation, all links", _percent),
    Measure("contended", "used time in contention", _percent),
    Measure("rephasings_per_job_h", "re-phasings per job-hour"),
    Measure("rephasings_highest_per_job_h", "re-phasings per job-hour, highest class"),
)
MEASURES: Mapping[str, Measure] = {measure.name: measure for measure in _MEASURES}
TIMES, TRAFFIC = tuple(MEASURES)[:6], tuple(MEASURES)[6:]
"""Measures of the times of jobs, and of iterations and links."""

COMPARED = (
    *("completion_mean_s", "completion_median_s", "completion_p99_s", FINISHED),
    *("slowdown_mean", "slowdown_p99", "makespan_s", "iterations"),
    *("utilisation_used", "utilisation"),
)
AGAINST_EXCLUSIVE = ("utilisation_used", "utilisation")

_OVER_BOTH = {
    FINISHED: ("completion", "mean"),
    "slowdown_mean": ("slowdown", "mean"),
    "slowdown_p99": ("slowdown", "p99"),
}
"""Measures that are related over the jobs known in both runs: what of a job, and what of these."""


# ------------------------------------------------------------------ parts


class Group(NamedTuple):
    """Jobs looked at by themselves: those of a ``priority`` class or ``model``, or one ``job``."""

    kind: str
    value: object

    def __str__(self) -> str:
        return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)


@dataclass(frozen=True, eq=False)
class Part:
    """Runs that are reported together.

    Attributes
    ----------
    title, slug
        For people, for the names of files.
    cells, seeds, policies
        All that were asked for, whether each run was done or not.
    runs
        A row for each run that was done, by cell, seed and policy: the `MEASURES`, ``jobs``,
        ``unfinished``. A number is infinite where it is not known, NaN where it does not apply.
    jobs, samples
        A row for each job of each run; for each moment at which a sample was taken.
    kinds
        How many runs ended how, by policy and kind.
    """

    title: str
    slug: str
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    policies: tuple[str, ...]
    runs: pd.DataFrame
    jobs: pd.DataFrame
    samples: pd.DataFrame
    kinds: Mapping[tuple[str, str], int]

    def only(self, cells: Sequence[str]) -> Part:
        """Return the part of these cells, with the same seeds and policies."""
        runs, jobs, samples = (
            frame[frame.index.isin(cells, level="cell")]
            for frame in (self.runs, self.jobs, self.samples)
        )
        return replace(
            self,
            title=", ".join(cells),
            cells=tuple(cells),
            runs=runs,
            jobs=jobs,
            samples=samples,
        )

    @property
    def unfinished(self) -> int:
        """How many jobs did not finish, in all runs together."""
        return int(self.runs["unfinished"].sum())

    def of(self, policy: str) -> pd.DataFrame:
        """Return the runs of a policy that were done."""
        return self.runs[self.runs.index.isin([policy], level="policy")]

    def groups(self, kind: str) -> tuple[Group, ...]:
        """Return the groups of a kind, see `Group`; the highest priority first."""
        values = sorted(set(self.jobs[kind].dropna()), reverse=kind == "priority")
        return tuple(Group(kind, value) for value in values)

    def complete(self, interval: Interval) -> bool:
        """Return whether a mean is one over all seeds."""
        return interval.count == len(self.seeds)

    def mean(self, policy: str, measure: str, group: Group | None = None) -> Interval | None:
        """Return the mean of a measure over the seeds at which a policy ran in all cells.

        None where there is no such seed, or the value of a run is not known: the mean of the others
        would be one of the easier runs.

        Parameters
        ----------
        group
            The jobs that are meant; only ``slowdown_mean`` is known of some of them.
        """
        if group is None:
            values = self.of(policy)[measure].droplevel("policy")
        else:
            jobs = self.jobs[self.jobs[group.kind] == group.value]
            mine = jobs[jobs.index.isin([policy], level="policy")]
            values = mine.groupby(level=_SCENARIO)["slowdown"].agg(_mean).fillna(np.inf)
        return self._interval(values, policy)

    def paired(self, policy: str, against: str, measure: str) -> Interval | None:
        """Return the mean of the ratios of a measure in pairs of runs of one scenario."""
        if not self._both_ran(policy, against):
            return None
        if measure in _OVER_BOTH:
            column, summary = _OVER_BOTH[measure]
            table: pd.DataFrame = self._by_policy[column]  # type: ignore[assignment]
            jobs = _pair(table, policy, against).groupby(level=_SCENARIO)
            found = jobs.agg(_mean if summary == "mean" else _p99)
            pairs = found.reindex(self._pairs(policy, against), fill_value=np.inf)
        else:
            pairs = _pair(self.runs[measure].unstack("policy"), policy, against)
        return self._interval(_ratio(pairs["one"], pairs["other"]), policy, against)

    def paired_jobs(
        self, policy: str, against: str, column: str, chosen: pd.Series[bool]
    ) -> Interval | None:
        """Return the mean, over some jobs of pairs of runs, of the ratio of their numbers.

        Parameters
        ----------
        column
            What of each job: ``completion``, ``iteration_mean_ms``.
        chosen
            Which jobs, by cell, seed and job.
        """
        if not self._both_ran(policy, against):
            return None
        table = self._by_policy[column]
        ratios = (table[policy] / table[against])[chosen].replace(np.inf, np.nan)
        means = ratios.groupby(level=_SCENARIO).agg(_mean).fillna(np.inf)
        return self._interval(means, policy, against)

    def choose(self, group: Group) -> pd.Series[bool]:
        """Return which jobs are of a group, by cell, seed and job."""
        return self._of_scenarios[group.kind] == group.value

    def choose_highest(self) -> pd.Series[bool]:
        """Return which jobs are of the highest class that their scenario has."""
        priority = self._of_scenarios["priority"]
        return priority == priority.groupby(level=_SCENARIO).transform("max")

    def lengthening(
        self, policy: str, against: str, chosen: pd.Series[bool] | None = None
    ) -> pd.Series[float]:
        """Return by how many seconds completion is longer under a policy, and why.

        Means over those of the chosen jobs, or all, that finished in both: ``queueing`` for GPUs,
        being ``held`` back for a slot, and what is left, ``iterating`` longer. Iterations are
        longer because of the ``placement``, even if nobody else were there, and because of
        ``others``. NaN where something is not known; empty where no pair of runs was done.
        """
        if not self._both_ran(policy, against) or self._pairs(policy, against).empty:
            return pd.Series(dtype=np.float64)
        names = ["completion", "queueing_s", "waited_s", "alone_s"]
        more = pd.DataFrame(
            {name: self._by_policy[name][policy] - self._by_policy[name][against] for name in names}
        )
        more = more[more["completion"].notna() & (True if chosen is None else chosen)]
        by_pair = more.groupby(level=_SCENARIO).agg(_mean_of_all)
        by_pair = by_pair.reindex(self._pairs(policy, against))
        total, queueing, held, placement = by_pair.mean(skipna=False)[names]
        iterating = total - queueing - held
        return pd.Series(
            {
                "queueing": queueing,
                "held": held,
                "iterating": iterating,
                "placement": placement,
                "others": iterating - placement,
            }
        )

    @cached_property
    def _by_policy(self) -> pd.DataFrame:
        """The numbers of each job (row) by column and policy, NaN for what is not known."""
        numbers = self.jobs.set_index("job", append=True).select_dtypes("number")
        return pd.DataFrame(numbers.unstack("policy"))

    @cached_property
    def _of_scenarios(self) -> pd.DataFrame:
        jobs = self.jobs.droplevel("policy").set_index("job", append=True, drop=False)
        return jobs[~jobs.index.duplicated()].sort_index()

    def _both_ran(self, policy: str, against: str) -> bool:
        return {policy, against} <= set(self.runs.index.get_level_values("policy"))

    def _pairs(self, policy: str, against: str) -> pd.Index:
        """Return cell and seed of the pairs of runs that were done."""
        return _pair(self.runs["jobs"].unstack("policy"), policy, against).index

    def _interval(self, values: pd.Series[float], *policies: str) -> Interval | None:
        """Return the mean of values by cell and seed over the seeds at which policies ran."""
        done = set(self.runs.index)
        seeds = [
            seed
            for seed in self.seeds
            if all((cell, seed, each) in done for cell in self.cells for each in policies)
        ]
        by_seed = values.dropna().groupby(level="seed").agg(fmean).reindex(seeds).dropna()
        if by_seed.empty or not np.isfinite(by_seed).all():
            return None
        return mean_interval(by_seed.tolist())


def parts_of(records: Sequence[SimulationRecord]) -> tuple[Part, ...]:
    """Return the whole study, if it has several cells, and then each cell.

    Raises
    ------
    InputError
        If there are no records, they are of several studies, or a run is there twice.
    """
    _check(records)
    done = [record for record in records if record.went_well]
    jobs = _jobs_of(done)
    runs = _runs_of(done, jobs, _stacked(done, "links", _LINKS))
    samples = _stacked(done, "samples", ["time_s", "utilisation"])
    cells = tuple(dict.fromkeys(map(_label, records)))
    wanted: list[tuple[str, tuple[str, ...]]] = [(cell, (cell,)) for cell in cells]
    if len(cells) > 1:
        wanted.insert(0, (ALL_CELLS, cells))
    words = ("-".join(re.findall(r"[a-z0-9.]+", title.lower())) for title, _ in wanted)
    slugs = distinct_slugs(each[:_LONGEST_SLUG] or "cell" for each in words)
    parts = []
    for (title, chosen), slug in zip(wanted, slugs, strict=True):
        mine = [record for record in records if _label(record) in chosen]
        policies = in_order({record.policy for record in mine})
        kinds = Counter((record.policy, str(record.kind)) for record in mine)
        seeds = tuple(sorted({record.seed for record in mine}))
        part = Part(title, slug, cells, seeds, policies, runs, jobs, samples, kinds)
        parts.append(replace(part.only(chosen), title=title))
    return tuple(parts)


def _pair(table: pd.DataFrame, policy: str, against: str) -> pd.DataFrame:
    """Return two columns of a table where both are known."""
    return pd.DataFrame({"one": table[policy], "other": table[against]}).dropna()


def _ratio(one: pd.Series[float], other: pd.Series[float]) -> pd.Series[float]:
    """Return ratios of known numbers, 1 of 0 to 0; infinite where one is not known."""
    known = np.isfinite(one) & np.isfinite(other)
    ratios = (one / other.where(other != 0)).fillna(np.inf).where(known, np.inf)
    return ratios.where(~known | (one != other), 1.0)


# ------------------------------------------------------------------ frames


def _label(record: SimulationRecord) -> str:
    return Cell(record.cell).label if record.cell else record.study


def _check(records: Sequence[SimulationRecord]) -> None:
    """Refuse records that cannot be reported together."""
    if not records:
        raise InputError("records: there are none, so there is nothing to report")
    studies = list(dict.fromkeys(record.study for record in records))
    if len(studies) > 1:
        raise InputError(
            f"records: are of the studies {', '.join(map(quote, studies))}; report one at a time"
        )
    keys = Counter((_label(record), record.seed, record.policy) for record in records)
    (cell, seed, policy), count = keys.most_common(1)[0]
    if count > 1:
        raise InputError(
            f"records: {policy} with seed {seed} in {quote(cell)} is there {count} times; "
            "report the records of one campaign"
        )
    scenarios: dict[tuple[str, int], tuple[str, frozenset[Value]]] = {}
    for record in filter(lambda record: record.went_well, records):
        where = f"{quote(_label(record))} with seed {record.seed}"
        if record.jobs is None or record.links is None or record.makespan_s is None:
            raise InputError(
                f"records: {record.policy} in {where} is done and has no results; simulate it again"
            )
        jobs = frozenset(record.jobs["job"])
        first, expected = scenarios.setdefault((_label(record), record.seed), (record.policy, jobs))
        if expected != jobs:
            raise InputError(
                f"records: {record.policy} and {first} did not simulate the same jobs in {where}; "
                "simulate them again"
            )


def _rows(record: SimulationRecord, part: _Tables) -> list[dict[str, Value]]:
    columns: Mapping[str, Sequence[Value]] = getattr(record, part) or {}
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _stacked(
    records: Sequence[SimulationRecord], part: _Tables, numbers: Sequence[str]
) -> pd.DataFrame:
    """Return the tables of all runs, by cell, seed and policy, with at least these columns."""
    frame = pd.DataFrame(
        [
            dict(zip(_RUN, (_label(record), record.seed, record.policy), strict=True)) | row
            for record in records
            for row in _rows(record, part)
        ]
    )
    frame = frame.reindex(columns=list(dict.fromkeys([*_RUN, *numbers, *frame])))
    kinds = {name: np.float64 for name in frame if name not in (*_WORDS, "finished")}
    return frame.astype(kinds).set_index(_RUN)


def _jobs_of(records: Sequence[SimulationRecord]) -> pd.DataFrame:
    """Return the jobs of all runs with what follows of their numbers, NaN for what is not known."""
    jobs = _stacked(records, "jobs", ["job", "model", *_JOBS]).astype({"finished": bool})
    ideal, mean, alone = jobs["ideal_ms"], jobs["iteration_mean_ms"], jobs["alone_ms"]
    jobs["completion"] = jobs["completion_s"].where(jobs["finished"])
    jobs["slowdown"] = mean / ideal
    jobs["placement"] = (alone / ideal).where(mean.notna())
    jobs["sharing"] = mean / alone
    jobs["late"] = jobs["iteration_p99_ms"] / ideal
    jobs["alone_s"] = jobs["iterations"] * alone / 1000
    jobs["predicted"] = jobs["predicted_ms"] / ideal
    return jobs.replace([np.inf, -np.inf], np.nan).sort_values("job", kind="stable")


def _runs_of(
    records: Sequence[SimulationRecord], jobs: pd.DataFrame, links: pd.DataFrame
) -> pd.DataFrame:
    """Return the measures of all runs; see `Part`."""
    makespans = {(_label(each), each.seed, each.policy): each.makespan_s for each in records}
    index = pd.MultiIndex.from_tuples(list(makespans), names=_RUN)
    runs = pd.DataFrame(index=index)
    simulated = pd.Series(list(makespans.values()), index=index, dtype=np.float64)
    by_run = jobs.groupby(level=_RUN)
    runs["jobs"] = by_run.size()
    runs["unfinished"] = runs["jobs"] - by_run["finished"].sum()
    runs["completion_mean_s"] = by_run["completion"].agg(_mean)
    runs["completion_median_s"] = by_run["completion"].median()
    runs["completion_p99_s"] = by_run["completion"].agg(_p99)
    all_started = by_run["queueing_s"].count() == by_run.size()
    runs["queueing_mean_s"] = by_run["queueing_s"].agg(_mean).where(all_started)
    runs["makespan_s"] = simulated
    # A mean over the jobs that finished would be shorter the worse a policy is.
    runs.loc[runs["unfinished"] > 0, [*_COMPLETIONS, "makespan_s"]] = np.nan
    runs["iterations"] = by_run["iterations"].sum()
    for measure, column in (
        ("slowdown_mean", "slowdown"),
        ("slowdown_placement", "placement"),
        ("slowdown_sharing", "sharing"),
        ("slowdown_late", "late"),
    ):
        runs[measure] = by_run[column].agg(_mean)
    runs["slowdown_p99"] = by_run["slowdown"].agg(_p99)
    runs = runs.fillna(np.inf)

    links = links.assign(could=links["capacity_mbps"] * links["used_s"])
    of_links = links.groupby(level=_RUN)[[*_LINKS, "could"]].sum(min_count=1).reindex(index)
    carried = 1000 * of_links["carried_gbit"]
    runs["utilisation_used"] = _share(carried, of_links["could"])
    runs["utilisation"] = _share(carried, of_links["capacity_mbps"] * simulated)
    runs["contended"] = _share(of_links["contended_s"], of_links["used_s"])

    last = pd.Series(simulated.reindex(jobs.index).to_numpy(), index=jobs.index)
    jobs = jobs.assign(ran_s=jobs["end_s"].where(jobs["finished"], last) - jobs["start_s"])
    highest = jobs[jobs["priority"] == jobs.groupby(level=_RUN)["priority"].transform("max")]
    for measure, some in (
        ("rephasings_per_job_h", jobs),
        ("rephasings_highest_per_job_h", highest),
    ):
        sums = some.groupby(level=_RUN)[["rephasings", "ran_s"]].sum(min_count=1).reindex(index)
        runs[measure] = _share(3600 * sums["rephasings"], sums["ran_s"])
    return runs


# Intervals of few seeds hang on the last digit: means are those of numpy, whatever pandas does.
def _mean(values: pd.Series[float]) -> float:
    known = values.dropna().to_numpy()
    return float(np.mean(known)) if len(known) else np.nan


def _mean_of_all(values: pd.Series[float]) -> float:
    return float(np.mean(values.to_numpy()))


def _p99(values: pd.Series[float]) -> float:
    known = values.dropna().to_numpy()
    return float(np.percentile(known, 99)) if len(known) else np.nan


def _share(part: pd.Series[float], whole: pd.Series[float]) -> pd.Series[float]:
    return part / whole.where(whole != 0)


# ------------------------------------------------------------------ files


def _tidy(records: Sequence[SimulationRecord], part: _Tables) -> pd.DataFrame:
    """Return a table of all simulations that were done, one row per job, or link, and run.

    First come the study, the cell's settings, the policy and the seed, then the columns of the run.
    A setting that is called like one of these columns gets ``cell_`` before its name.
    """
    return pd.DataFrame(
        [
            _run_of(record, part) | row
            for record in records
            if record.went_well
            for row in _rows(record, part)
        ]
    )


def _run_of(record: SimulationRecord, part: _Tables) -> dict[str, Value]:
    taken = {"study", "policy", "seed", *(getattr(record, part) or {})}
    settings = {
        f"cell_{name}" if name in taken else name: value for name, value in record.cell.items()
    }
    return {"study": record.study, **settings, "policy": record.policy, "seed": record.seed}


def write_tables(records: Sequence[SimulationRecord], folder: str | Path) -> list[Path]:
    """Write ``jobs.csv`` and ``links.csv``, what is not known empty; return where."""
    paths = {part: Path(folder) / f"{part}.csv" for part in _FILES}
    for part, path in paths.items():
        write_text(path, _tidy(records, part).to_csv(index=False, lineterminator="\n"))
    return list(paths.values())
