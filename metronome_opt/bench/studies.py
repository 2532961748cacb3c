"""Runs of a simulated study as data frames, their measures, and means over seeds.

All policies run on the same scenario for a cell and a seed, so that they are compared in pairs. A
part of a study is one cell or all of them; a seed then counts with its mean over the cells, since
cells may share their draws, and only seeds are independent of each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import pandas as pd

from metronome_opt.bench.simulations import SimulationRecord, Value, keep_latest
from metronome_opt.errors import InputError, quote
from metronome_opt.files.documents import write_text
from metronome_opt.output.figures.style import sort_policies, three_digits
from metronome_opt.simulation.study import Cell

CONFIDENCE = 0.95
_BASELINES = ("default", "nearest", "exclusive")
ALL_CELLS = "all cells"

_Table = Literal["jobs", "links"]
_FILES: tuple[_Table, ...] = ("jobs", "links")
_RUN = ["cell", "seed", "policy"]
_WORDS = ["job", "model", "finished"]
_JOBS = [
    *("job", "model", "finished", "priority", "start_s", "end_s", "queueing_s", "completion_s"),
    *("iterations", "ideal_ms", "iteration_mean_ms", "iteration_p99_ms", "gpus", "early_gbit"),
]
_LINKS = ["capacity_mbps", "carried_gbit", "used_s"]


# ------------------------------------------------------------------ measures of a run


BUSY_W = 400
"""Watts of a busy GPU: the maximum of an A100 SXM (NVIDIA A100 data sheet)."""
IDLE_W = 60
"""Watts of an idle one, 15 % of that (nemulai.com/blog/gpu-electricity-cost-per-training-run)."""

MEASURES = (
    *("completion_mean_s", "completion_p99_s", "queueing_mean_s", "makespan_s", "iterations"),
    *("slowdown_mean", "slowdown_p99", "utilisation_used", "utilisation"),
    *("early_gbit", "lost_gpu_h", "energy_kwh"),
)
"""Measures of a run by name.

Completion is from arrival to end; ``early_gbit`` as of a `SimulationResult`, whose window is equal
for all policies. Lost are GPU hours of running jobs beyond those of their shortest iterations: GPUs
wait for the network then, and draw `IDLE_W`, `BUSY_W` otherwise.
"""

SUMMARY: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "completion_mean_s": ("mean completion (s)", three_digits),
    "completion_p99_s": ("p99 completion (s)", three_digits),
    "slowdown_mean": ("slowdown, mean over jobs", "{:.3f}".format),
    "utilisation_used": ("utilisation, links in use", "{:.1%}".format),
}
"""Measures of a summary: headings, with the unit, and how values are written."""


# Intervals of few seeds depend on the last digit: means are those of numpy, not of pandas.
def _mean(values: pd.Series[float]) -> float:
    known = values.dropna().to_numpy()
    return float(np.mean(known)) if len(known) else np.nan


def _p99(values: pd.Series[float]) -> float:
    known = values.dropna().to_numpy()
    return float(np.percentile(known, 99)) if len(known) else np.nan


def _sum(values: pd.Series[float]) -> float:
    return float(values.sum(skipna=False))


# ------------------------------------------------------------------ means over seeds


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    Attributes
    ----------
    low, high
        The ends; None if there is only one value.
    count
        Number of values.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    def __sub__(self, value: float) -> Interval:
        """Return the interval moved down."""
        low, high = (None if end is None else end - value for end in (self.low, self.high))
        return Interval(self.mean - value, low, high, self.count)

    def exponential(self) -> Interval:
        """Return the interval of a geometric mean, where this is that of logarithms."""
        low, high = (None if end is None else math.exp(end) for end in (self.low, self.high))
        return Interval(math.exp(self.mean), low, high, self.count)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of independent values and its 95 % confidence interval, by Student's t.

    One value for each seed: jobs of one run share its links and are not independent. A `ValueError`
    if there are no values or one is not finite.
    """
    if not values or not all(map(math.isfinite, values)):
        raise ValueError("an interval needs values, all of them finite")
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, None, None, 1)
    if min(values) == max(values):
        return Interval(values[0], values[0], values[0], count)
    from scipy.special import stdtrit

    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    width = quantile * stdev(values) / math.sqrt(count)
    return Interval(mean, mean - width, mean + width, count)


# ------------------------------------------------------------------ parts


@dataclass(frozen=True, eq=False)
class StudyPart:
    """Runs that are reported together.

    Attributes
    ----------
    title
        The heading.
    cells, seeds, policies
        Those of all records, whether runs were done or not.
    runs
        A row for each run that was done, by cell, seed and policy: the `MEASURES`, ``jobs``,
        ``unfinished``. A number is infinite where it is not known, NaN where it does not apply.
    jobs
        A row for each job of a run.
    """

    title: str
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    policies: tuple[str, ...]
    runs: pd.DataFrame
    jobs: pd.DataFrame

    def select(self, cells: Sequence[str]) -> StudyPart:
        """Return the part of these cells, with the same seeds and policies."""
        runs, jobs = (
            frame[frame.index.isin(cells, level="cell")] for frame in (self.runs, self.jobs)
        )
        return replace(self, title=", ".join(cells), cells=tuple(cells), runs=runs, jobs=jobs)

    def runs_of(self, policy: str) -> pd.DataFrame:
        """Return the runs of a policy that were done."""
        return self.runs[self.runs.index.isin([policy], level="policy")]

    def mean(self, policy: str, measure: str) -> Interval | None:
        """Return the mean of a measure over the seeds at which a policy ran in all cells.

        None where there is no such seed, or the value of a run is not known: the mean of the others
        would be that of easier runs.
        """
        return self._interval(self.runs_of(policy)[measure].droplevel("policy"), policy)

    def mean_ratio(self, policy: str, against: str, measure: str) -> Interval | None:
        """Return the geometric mean of the ratios of a measure in pairs of runs of one scenario.

        Against a third policy it is the product of two, and its interval that of the logarithms
        (Fleming and Wallace, CACM 29, 1986). The ratio of 0 to 0 is 1; None if one is 0 or not
        known.
        """
        if not {policy, against} <= {name for _, _, name in self._done}:
            return None
        pairs = self._by_policy[measure][[policy, against]].dropna()
        top, bottom = pairs[policy], pairs[against]
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(top / bottom).mask(np.isfinite(top) & (top == bottom), 0.0)
        found = self._interval(logarithms.fillna(np.inf), policy, against)
        return None if found is None else found.exponential()

    @cached_property
    def _by_policy(self) -> pd.DataFrame:
        """The runs with a column for each measure and policy."""
        return pd.DataFrame(self.runs.unstack("policy"))

    @cached_property
    def _done(self) -> frozenset[tuple[str, int, str]]:
        """Cell, seed and policy of each run."""
        return frozenset(self.runs.index)

    def _interval(self, values: pd.Series[float], *policies: str) -> Interval | None:
        """Return the mean of values by cell and seed over the seeds at which policies ran."""
        known: dict[int, list[float]] = {}
        values = values.dropna()
        for seed, value in zip(values.index.get_level_values("seed"), values, strict=True):
            known.setdefault(seed, []).append(value)
        wanted = list(product(self.cells, policies))
        by_seed = [
            fmean(known[seed])
            for seed in self.seeds
            if seed in known and all((cell, seed, policy) in self._done for cell, policy in wanted)
        ]
        return mean_interval(by_seed) if by_seed and all(map(math.isfinite, by_seed)) else None


def split_study(records: Sequence[SimulationRecord]) -> tuple[StudyPart, ...]:
    """Return the whole study, if it has several cells, and then every cell.

    Raises
    ------
    InputError
        If there are no records, they are of several studies, or a run is there twice.
    """
    _check(records)
    done = [record for record in records if record.succeeded]
    jobs = _index_tables(done, "jobs", _JOBS).astype({"finished": bool})
    jobs["completion"] = jobs["completion_s"].where(jobs["finished"])
    jobs["slowdown"] = jobs["iteration_mean_ms"] / jobs["ideal_ms"]
    jobs = jobs.replace([np.inf, -np.inf], np.nan).sort_values("job", kind="stable")
    runs = _measure_runs(done, jobs, _index_tables(done, "links", _LINKS))
    cells = tuple(dict.fromkeys(map(cell_label, records)))
    wanted = {ALL_CELLS: cells} if len(cells) > 1 else {}
    wanted |= {cell: (cell,) for cell in cells}
    parts = []
    for title, chosen in wanted.items():
        mine = [record for record in records if cell_label(record) in chosen]
        policies = sort_policies({record.policy for record in mine})
        seeds = tuple(sorted({record.seed for record in mine}))
        part = StudyPart(title, cells, seeds, policies, runs, jobs)
        parts.append(replace(part.select(chosen), title=title))
    return tuple(parts)


# ------------------------------------------------------------------ frames


def cell_label(record: SimulationRecord) -> str:
    """Return the name of the cell of a record."""
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
    keys = Counter((cell_label(record), record.seed, record.policy) for record in records)
    (cell, seed, policy), count = keys.most_common(1)[0]
    if count > 1:
        raise InputError(
            f"records: {policy} with seed {seed} in {quote(cell)} is there {count} times; "
            "report the records of one campaign"
        )


def _index_tables(
    records: Sequence[SimulationRecord], part: _Table, names: Sequence[str]
) -> pd.DataFrame:
    """Return the tables of all runs, by cell, seed and policy, with at least these columns."""
    frame = _combine_tables(records, part).reindex(columns=[*_RUN, *names])
    kinds = {name: np.float64 for name in names if name not in _WORDS}
    return frame.astype(kinds).set_index(_RUN)


def _combine_tables(records: Sequence[SimulationRecord], part: _Table) -> pd.DataFrame:
    """Return a table of all simulations that were done, one row per job, or link, and run.

    First come study, cell, its settings, policy and seed, then the columns of the run. A setting
    that is called like one of these columns gets ``cell_`` before its name.
    """
    frames = []
    for record in records:
        columns: Mapping[str, Sequence[Value]] = getattr(record, part) or {}
        run: dict[str, Value] = {"study": record.study, "cell": cell_label(record)}
        run |= {
            f"cell_{name}" if name in {*columns, "study", "policy", "seed"} else name: value
            for name, value in record.cell.items()
        }
        run |= {"policy": record.policy, "seed": record.seed}
        table = pd.DataFrame({name: list(column) for name, column in columns.items()}, dtype=object)
        frames.append(table.assign(**run)[[*run, *columns]])
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=_RUN)


def _measure_runs(
    records: Sequence[SimulationRecord], jobs: pd.DataFrame, links: pd.DataFrame
) -> pd.DataFrame:
    """Return the measures of all runs; see `StudyPart`."""
    makespans = {
        (cell_label(record), record.seed, record.policy): record.makespan_s for record in records
    }
    index = pd.MultiIndex.from_tuples(list(makespans), names=_RUN)
    simulated = pd.Series(list(makespans.values()), index=index, dtype=np.float64)
    busy_h = jobs["gpus"] * jobs["iterations"] * jobs["ideal_ms"] / 3.6e6
    held_h = jobs["gpus"] * (jobs["completion"] - jobs["queueing_s"]) / 3600
    energy_kwh = (BUSY_W * busy_h + IDLE_W * (held_h - busy_h)) / 1000
    jobs = jobs.assign(lost_gpu_h=held_h - busy_h, energy_kwh=energy_kwh)
    by_run = jobs.groupby(level=_RUN)
    runs = by_run.agg(
        jobs=("job", "size"),
        finished=("finished", "sum"),
        started=("queueing_s", "count"),
        completion_mean_s=("completion", _mean),
        completion_p99_s=("completion", _p99),
        queueing_mean_s=("queueing_s", _mean),
        iterations=("iterations", "sum"),
        slowed=("slowdown", "count"),
        slowdown_mean=("slowdown", _mean),
        slowdown_p99=("slowdown", _p99),
        **{name: (name, _sum) for name in ("early_gbit", "lost_gpu_h", "energy_kwh")},
    ).reindex(index)
    runs["unfinished"] = runs["jobs"] - runs.pop("finished")
    runs["queueing_mean_s"] = runs["queueing_mean_s"].where(runs.pop("started") == runs["jobs"])
    runs["makespan_s"] = simulated
    # A mean over finished jobs, or over started ones, would be shorter for worse policies.
    times = ["completion_mean_s", "completion_p99_s", "makespan_s"]
    runs.loc[runs["unfinished"] > 0, times] = np.nan
    runs.loc[runs.pop("slowed") < runs["jobs"], ["slowdown_mean", "slowdown_p99"]] = np.nan
    runs = runs.fillna(np.inf)

    links = links.assign(could=links["capacity_mbps"] * links["used_s"])
    of_links = links.groupby(level=_RUN)[[*_LINKS, "could"]].sum(min_count=1).reindex(index)
    possible = of_links["capacity_mbps"] * simulated
    for measure, most in (("utilisation_used", of_links["could"]), ("utilisation", possible)):
        runs[measure] = 1000 * of_links["carried_gbit"] / most.where(most != 0)
    return runs


# ------------------------------------------------------------------ results


def write_tables(records: Sequence[SimulationRecord], folder: str | Path) -> list[Path]:
    """Write ``jobs.csv``, ``links.csv`` and ``estimates.csv``; return their paths.

    The first two have the runs that were done. The third has the means of all measures over the
    seeds with 95 % intervals, of the whole study and of every cell; a row with ``against`` is the
    geometric mean of ratios in pairs of runs of one scenario. Unknown values are empty. An
    `InputError` as of `split_study`, or if something cannot be written.
    """
    records = keep_latest(records)
    estimates = [row for part in split_study(records) for row in _estimates(part)]
    done = [record for record in records if record.succeeded]
    tables = {f"{name}.csv": _combine_tables(done, name).drop(columns="cell") for name in _FILES}
    tables["estimates.csv"] = pd.DataFrame(estimates)
    for name, table in tables.items():
        write_text(Path(folder) / name, table.to_csv(index=False, lineterminator="\n"))
    return [Path(folder) / name for name in tables]


def _estimates(part: StudyPart) -> Iterator[dict[str, Any]]:
    baselines = [policy for policy in _BASELINES if policy in part.policies]
    for against, policy, measure in product(["", *baselines], part.policies, MEASURES):
        if policy != against:
            interval = (
                part.mean_ratio(policy, against, measure) if against else part.mean(policy, measure)
            )
            yield {
                "part": part.title,
                "policy": policy,
                "against": against,
                "measure": measure,
                **{end: getattr(interval, end, None) for end in ("mean", "low", "high")},
                "seeds": 0 if interval is None else interval.count,
            }


def summarise(records: Sequence[SimulationRecord]) -> list[dict[str, Any]]:
    """Return a row for each policy: ``policy``, ``runs``, ``unfinished`` jobs and means by name.

    Means are over the seeds, of the measures in `SUMMARY`; None for unknown ones.
    """
    if not records:
        return []
    whole = split_study(records)[0]
    rows = []
    for policy in whole.policies:
        runs = whole.runs_of(policy)
        row = {"policy": policy, "runs": len(runs), "unfinished": int(runs["unfinished"].sum())}
        means = {name: whole.mean(policy, name) for name in SUMMARY}
        rows.append(row | {name: mean and mean.mean for name, mean in means.items()})
    return rows
