"""The figures of the evaluation: a number with its interval by name.

``corners/sharing=tcp/metronome/completion`` is by how many per cent mean completion under
`metronome` differs from that on the nearest nodes, in pairs of runs of one scenario: the geometric
mean over seeds and the cells with ``sharing=tcp``, or ``all``; ``metronome/over-default/`` is
against `default`. A policy saturates a cell if mean completion exceeds `SATURATION` times that
without contention; the queue is taken to grow for as long as jobs come, and changes with it. So
changes against a policy are over the ``stable`` cells, and over the others in ``saturated/``;
single cells have theirs in any case. Intervals are those of Student's t, 95 %, over seeds; with one
seed there is no figure. With many cells some differ by chance: ``.../p`` of a cell is the level at
which it differs by Holm's procedure over all cells of a part that can be tested, and
``.../shorter``, ``.../longer`` and ``.../tested`` count cells that do at 5 %, and those that can be
tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

from benchmarks.evaluation.plan import Part
from metronome_opt.bench.simulations import SimulationRecord
from metronome_opt.bench.studies import (
    Interval,
    StudyPart,
    cell_label,
    mean_interval,
    split_study,
)

ALL = "all"
SUBJECT = "metronome"
PLACES = "metronome:slots=no"
SLOTS = "metronome:places=no:waits=no"
NODES = "metronome:waits=no:slots=no"
BASELINES = {"nearest": "", "default": "over-default/"}
"""What others are compared with, by what stands before measures. The first that is there has no
name."""
_LAST = {"slots": PLACES, "places": SLOTS}  # decisions that are added last, by what is without
_COMPLETION = "completion_mean_s"
MEASURES: Mapping[str, str] = {
    "completion": _COMPLETION,
    "tail": "completion_p99_s",
    "traffic": "early_gbit",
    "energy": "energy_kwh",
}
"""Measures of a run by their names in figures, as changes in per cent."""
LEVELS = ("running", "lost", "met", "fitting", "gated")
"""Measures as they are. Lost are per cent of the GPU hours of running jobs."""

SATURATION = 2.0
ALONE = "ideal"
_LEVEL = 0.05
_HARM = 0.01
_EXACT = 1e-9  # deviations of less are rounding, and cannot be tested
_NAMED = re.compile(r"(?P<gpus>\d+)x\d+-(?P<uplinks>\w+)-(?P<spines>\d+)")  # of clusters


class Figure(NamedTuple):
    """A number with the ends of its interval, None where one value alone cannot tell."""

    mean: float
    low: float | None = None
    high: float | None = None


Figures = dict[str, Figure]


def part_figures(name: str, part: Part, records: Sequence[SimulationRecord]) -> Figures:
    """Return the figures of a part."""
    together, *cells = split_study(records)
    _add_measures(together, records)
    settings = _settings(records)
    bases = [each for each in BASELINES if each in part.policies]
    found: Figures = {
        f"{name}/seeds": Figure(len(together.seeds)),
        f"{name}/cells": Figure(len(settings)),
        f"{name}/runs": Figure(len(records)),
        f"{name}/failed": Figure(sum(not record.succeeded for record in records)),
    }
    saturated = {
        each: set() if part.is_by_placement else _saturated(together, each)
        for each in {*bases, *together.policies}
    }
    for label, chosen in _slices(settings):
        key, piece = f"{name}/{label}", together.select(chosen)
        found |= _slice_figures(key, piece, bases, saturated, is_cell=label.count(",") > 1)
        if part.estimate:
            for policy in together.policies:
                least = _estimate(records, chosen, policy)
                found |= _figure(f"{name}/{label}/{policy}/estimate", least, 1.0)
    for base in bases:
        piece = together.select(sorted(saturated[base]))
        found |= _changes(f"{name}/saturated", piece, base, bases)
    by_label = {settings_label(settings[each.cells[0]]): each for each in cells}
    for policy in together.policies:
        for base in bases:
            key = f"{name}/{{}}/{policy}/{_over(base, bases)}"
            found |= _tests(key, by_label, policy, base)
        if policy != bases[0]:
            stable = [cell for cell in together.cells if cell not in saturated[bases[0]]]
            later = _later(together.select(stable), policy, bases[0])
            found |= _figure(f"{name}/all/{policy}/later", later, 100.0)
    return found


def _saturated(part: StudyPart, policy: str) -> set[str]:
    """Return the cells that a policy saturates; none if nothing says so."""
    if policy == ALONE or ALONE not in part.policies:
        return set()
    found = set()
    for cell in part.cells:
        alone = part.select([cell])
        ratio = alone.mean_ratio(policy, ALONE, _COMPLETION)
        unfinished = alone.runs_of(policy)["unfinished"].any()
        if unfinished or (ratio is not None and ratio.mean > SATURATION):
            found.add(cell)
    return found


def _slice_figures(
    key: str,
    part: StudyPart,
    bases: Sequence[str],
    saturated: Mapping[str, set[str]],
    *,
    is_cell: bool,
) -> Figures:
    """Return the figures of a slice; of a cell of many factors, what tables show."""
    found = {f"{key}/seeds": Figure(_whole_seeds(part))} | _levels(key, part, is_cell=is_cell)
    if not is_cell:
        for policy in part.policies:
            count = len(saturated[policy].intersection(part.cells))
            found[f"{key}/{policy}/saturated"] = Figure(count)
    for base in bases:
        stable = [cell for cell in part.cells if cell not in saturated[base]]
        chosen = part if len(part.cells) == 1 else part.select(stable)
        found |= _changes(key, chosen, base, bases, is_cell=is_cell)
    return found


def _levels(key: str, part: StudyPart, *, is_cell: bool) -> Figures:
    """Return measures of all policies as they are; of a cell of many factors, what tables show."""
    classes = (column for column in part.runs.columns if "@" in column)
    levels = [*([] if is_cell else LEVELS), *classes]
    return {
        name: figure
        for policy, level in product(part.policies, levels)
        for name, figure in _figure(f"{key}/{policy}/{level}", part.mean(policy, level), 1).items()
    }


def _changes(
    key: str, part: StudyPart, base: str, bases: Sequence[str], *, is_cell: bool = False
) -> Figures:
    """Return changes against a policy; of a cell of many factors, what tables show."""
    over = _over(base, bases)
    found = {} if is_cell else {f"{key}/{over}stable": Figure(len(part.cells))}
    for policy, measure in product(part.policies, ["completion"] if is_cell else MEASURES):
        found |= _change(f"{key}/{policy}/{over}{measure}", part, policy, base)
    for decision, without in _LAST.items() if not over else ():
        found |= _change(f"{key}/{decision}/last/completion", part, SUBJECT, without)
    return found


def _over(base: str, bases: Sequence[str]) -> str:
    """Return what stands before measures that are compared with a baseline."""
    return "" if base == bases[0] else BASELINES[base]


def _change(key: str, part: StudyPart, policy: str, base: str) -> Figures:
    """Return by how many per cent the measure that ends the key differs."""
    if policy == base or not {policy, base} <= set(part.policies):
        return {}
    ratio = part.mean_ratio(policy, base, MEASURES[key.rpartition("/")[2]])
    return _figure(key, ratio and ratio - 1.0, 100.0)


def _whole_seeds(part: StudyPart) -> int:
    """Return the number of seeds with a run of each policy in each cell."""
    done = part.runs.index.to_frame(index=False)
    runs = len(part.cells) * done["policy"].nunique()
    return int((done.groupby("seed").size() == runs).sum())


def _add_measures(part: StudyPart, records: Sequence[SimulationRecord]) -> None:
    """Add measures of runs: means of all jobs together, by priority, and groups.

    Slowdown and lateness, completion over the duration of the job in an empty cluster, are also
    given for each priority if there are several: ``lateness@4``.
    """
    jobs, runs = part.jobs, part.runs
    names = ["cell", "seed", "policy"]
    alone_s = jobs["iterations"] * jobs["ideal_ms"] / 1000
    held_s = jobs["completion_s"] - jobs["queueing_s"]
    terms = jobs.assign(
        alone_s=alone_s,
        held_s=held_s,
        gpu_h=jobs["gpus"] * held_s / 3600,
        lateness=jobs["completion_s"] / alone_s,
    )
    sums = (
        terms.groupby(level=names)[["held_s", "alone_s", "gpu_h"]]
        .sum(min_count=1)
        .reindex(runs.index)
    )
    unknown = runs["unfinished"] > 0
    runs["running"] = (sums["held_s"] / sums["alone_s"]).mask(unknown, np.inf)
    runs["lost"] = (100 * runs["lost_gpu_h"] / sums["gpu_h"]).mask(unknown, np.inf)
    if jobs["priority"].nunique() > 1 and records[0].study == "priority":
        means = terms.groupby([*names, "priority"])[["slowdown", "lateness"]].mean()
        for measure, values in means.items():
            for priority, mean in values.unstack("priority").items():
                runs[f"{measure}@{float(str(priority)):g}"] = mean.reindex(runs.index).mask(
                    unknown, np.inf
                )
    for number in ("met", "fitting", "gated"):
        counts = {
            (cell_label(record), record.seed, record.policy): record.groups[number]
            for record in records
            if record.groups is not None
        }
        runs[number] = pd.Series(counts, dtype=float).reindex(runs.index)


def _later(part: StudyPart, policy: str, base: str) -> Interval | None:
    """Return the share of jobs that end more than 1 % of their time later than under another."""
    times = part.jobs.set_index("job", append=True)["completion"].unstack("policy")
    if not {policy, base} <= set(times.columns):
        return None
    pairs = times[[policy, base]].dropna()
    later = (pairs[policy] > (1 + _HARM) * pairs[base]).groupby(level="seed").mean()
    return mean_interval(later.tolist()) if len(later) else None


def _estimate(
    records: Sequence[SimulationRecord], cells: Sequence[str], policy: str
) -> Interval | None:
    """Return the mean estimate of the least ``running`` at the placements that a policy chose."""
    by_seed: dict[int, list[float]] = {}
    for record in records:
        if record.policy == policy and record.estimate is not None and cell_label(record) in cells:
            by_seed.setdefault(record.seed, []).append(record.estimate)
    means = [fmean(each) for each in by_seed.values() if len(each) == len(cells)]
    return mean_interval(means) if means else None


def _figure(key: str, interval: Interval | None, factor: float) -> Figures:
    if interval is None or interval.low is None:
        return {}
    ends = (None if end is None else factor * end for end in (interval.low, interval.high))
    return {key: Figure(factor * interval.mean, *ends)}


def _settings(records: Sequence[SimulationRecord]) -> dict[str, Mapping[str, str]]:
    """Return the settings of each cell."""
    found: dict[str, Mapping[str, str]] = {}
    for record in records:
        values = {name: str(value) for name, value in record.cell.items()}
        found[cell_label(record)] = named_settings(values)
    return found


def named_settings(values: Mapping[str, str]) -> Mapping[str, str]:
    """Return settings of a cell; of a cluster called ``4x16-2to1-4`` what its name says."""
    if named := _NAMED.fullmatch(values.get("cluster", "")):
        others = {name: value for name, value in values.items() if name != "cluster"}
        return {**named.groupdict(), **others}
    return values


def _slices(settings: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield all cells, then those with a value of each parameter, then every cell."""
    yield ALL, list(settings)
    labels: dict[str, list[str]] = {}
    for cell, values in settings.items():
        own = [f"{name}={value}" for name, value in values.items()]
        for label in dict.fromkeys([*own, settings_label(values)]):
            if label != ALL:
                labels.setdefault(label, []).append(cell)
    yield from labels.items()


def settings_label(values: Mapping[str, str]) -> str:
    """Return the settings of a cell as they are in the names of figures."""
    return ",".join(f"{name}={value}" for name, value in values.items()) or ALL


# ------------------------------------------------------------------ many cells


def differs(figures: Figures, key: str) -> bool:
    """Return whether a cell differs by Holm's procedure over all cells of its part."""
    level = figures.get(f"{key}p")
    return level is not None and level.mean <= _LEVEL


def _tests(key: str, cells: Mapping[str, StudyPart], policy: str, base: str) -> Figures:
    """Return the tests of mean completion in cells, by Holm's procedure."""
    tests = []
    for label, cell in cells.items():
        ratios = (_logarithms(cell, policy) - _logarithms(cell, base)).dropna()
        if len(ratios) > 1 and ratios.std() > _EXACT:
            tests.append((float(ttest_1samp(ratios, 0.0).pvalue), float(ratios.mean()), label))
    if policy == base or not tests:
        return {}
    found: Figures = {}
    level = 0.0
    counts = {"shorter": 0, "longer": 0, "tested": len(tests)}
    for rank, (p, mean, label) in enumerate(sorted(tests)):
        level = max(level, min(1.0, p * (len(tests) - rank)))
        found[f"{key.format(label)}p"] = Figure(level)
        if level <= _LEVEL:
            counts["shorter" if mean < 0 else "longer"] += 1
    return found | {f"{key.format(ALL)}{name}": Figure(n) for name, n in counts.items()}


def _logarithms(part: StudyPart, policy: str) -> pd.Series[float]:
    """Return the logarithm of mean completion of a cell by seed; unfinished runs are dropped."""
    runs = part.runs_of(policy)[_COMPLETION].droplevel(["cell", "policy"])
    values: pd.Series[float] = np.log(runs[np.isfinite(runs)])
    return values
