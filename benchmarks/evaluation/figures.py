"""The figures of the evaluation: a number with its interval by name.

``topologies/sharing=tcp/metronome/completion`` is by how many per cent mean completion under
`metronome` differs from that on the nearest nodes, in pairs of runs of one scenario, as a mean over
seeds; of the cells with ``sharing=tcp``, or of ``all``. Intervals are those of Student's t, 95 %,
over seeds. With many cells some differ by chance: ``.../shorter`` and ``.../longer`` count those
that do by Holm's procedure, at 5 % for all cells of a part together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
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
BASELINES = ("nearest", "default")  # the first of them that is there
MEASURES: Mapping[str, str] = {
    "completion": "completion_mean_s",
    "weighted": "completion_weighted_s",
}
"""Measures of a run by their names in figures."""

DECISIONS = ("places", "waits", "slots")
"""Options of `metronome` that are left out one by one."""

PERIODS = "metronome:periods=no"
_LEVEL = 0.05
_HARM = 0.01
_NAMED = re.compile(r"(?P<gpus>\d+)x\d+-(?P<uplinks>\w+)")  # of clusters


class Figure(NamedTuple):
    """A number with the ends of its interval, None where one value alone cannot tell."""

    mean: float
    low: float | None = None
    high: float | None = None


Figures = dict[str, Figure]


def part_figures(name: str, part: Part, records: Sequence[SimulationRecord]) -> Figures:
    """Return the figures of a part."""
    together, *cells = split_study(records)
    _add_measures(together)
    base = next(each for each in BASELINES if each in part.policies)
    settings = _settings(records)
    found: Figures = {
        f"{name}/seeds": Figure(len(together.seeds)),
        f"{name}/cells": Figure(len(settings)),
        f"{name}/runs": Figure(len(records)),
        f"{name}/failed": Figure(sum(not record.succeeded for record in records)),
    }
    for label, chosen in _slices(settings):
        piece = together.select(chosen)
        is_short = label.count(",") <= 1
        found[f"{name}/{label}/seeds"] = Figure(_whole_seeds(piece))
        for policy in together.policies:
            key = f"{name}/{label}/{policy}"
            for measure, column in MEASURES.items():
                if policy != base and (is_short or measure == "completion"):
                    change = piece.mean_ratio(policy, base, column)
                    found |= _figure(f"{key}/{measure}", change and change - 1.0, 100.0)
            if is_short:
                found |= _figure(f"{key}/running", piece.mean(policy, "running"), 1.0)
                found |= _figure(f"{key}/estimate", _estimate(records, chosen, policy), 1.0)
        packing = piece.mean_ratio("nearest", "default", MEASURES["completion"])
        found |= _figure(f"{name}/{label}/packing", packing and packing - 1.0, 100.0)
        found |= _attribution(f"{name}/{label}", piece)
    for policy in together.policies:
        if policy != base:
            found |= _figure(f"{name}/all/{policy}/later", _later(together, policy, base), 100.0)
            shorter, longer = _certain(cells or [together], policy, base)
            found[f"{name}/{policy}/shorter"] = Figure(shorter)
            found[f"{name}/{policy}/longer"] = Figure(longer)
    return found


def _whole_seeds(part: StudyPart) -> int:
    """Return the number of seeds with a run of each policy in each cell."""
    done = part.runs.index.to_frame(index=False)
    runs = len(part.cells) * done["policy"].nunique()
    return int((done.groupby("seed").size() == runs).sum())


def _add_measures(part: StudyPart) -> None:
    """Add mean completion by priority, and the time of all jobs over that of iterations alone."""
    jobs = part.jobs
    weighted = jobs["priority"] * jobs["completion_s"]
    running = 1000 * (jobs["completion_s"] - jobs["queueing_s"])
    alone = jobs["iterations"] * jobs["ideal_ms"]
    sums = pd.DataFrame(
        {"priority": jobs["priority"], "weighted": weighted, "running": running, "alone": alone}
    ).groupby(level=["cell", "seed", "policy"])
    totals = sums.sum(min_count=1).reindex(part.runs.index)
    unfinished = part.runs["unfinished"] > 0
    for measure, top, bottom in (
        ("completion_weighted_s", "weighted", "priority"),
        ("running", "running", "alone"),
    ):
        part.runs[measure] = (totals[top] / totals[bottom]).mask(unfinished, np.inf)


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
    """Return the mean estimate of the least ``running`` at the places that a policy chose."""
    by_seed: dict[int, list[float]] = {}
    for record in records:
        if record.policy == policy and record.estimate is not None and cell_label(record) in cells:
            by_seed.setdefault(record.seed, []).append(record.estimate)
    means = [fmean(each) for each in by_seed.values() if len(each) == len(cells)]
    return mean_interval(means) if means else None


def _figure(key: str, interval: Interval | None, factor: float) -> Figures:
    if interval is None:
        return {}
    ends = (None if end is None else factor * end for end in (interval.low, interval.high))
    return {key: Figure(factor * interval.mean, *ends)}


def _settings(records: Sequence[SimulationRecord]) -> dict[str, Mapping[str, str]]:
    """Return the settings of each cell; of a cluster called ``4x16-2to1`` what its name says."""
    found: dict[str, Mapping[str, str]] = {}
    for record in records:
        settings = {name: str(value) for name, value in record.cell.items()}
        if named := _NAMED.fullmatch(settings.get("cluster", "")):
            del settings["cluster"]
            settings = {**named.groupdict(), **settings}
        found[cell_label(record)] = settings
    return found


def _slices(settings: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield all cells, then those with a value of each parameter, of each two, and so on."""
    yield ALL, list(settings)
    labels: dict[str, list[str]] = {}
    for cell, values in settings.items():
        for count in range(1, len(values) + 1):
            for names in combinations(values, count):
                label = ",".join(f"{name}={values[name]}" for name in names)
                labels.setdefault(label, []).append(cell)
    yield from labels.items()


# ------------------------------------------------------------------ many cells


def _certain(cells: Sequence[StudyPart], policy: str, base: str) -> tuple[int, int]:
    """Return in how many cells mean completion is shorter, and longer, by Holm's procedure."""
    tests = []
    for cell in cells:
        ratios = _logarithms(cell, policy) - _logarithms(cell, base)
        if len(ratios) > 1 and ratios.std() > 0:
            tests.append((float(ttest_1samp(ratios, 0.0).pvalue), float(ratios.mean())))
    shorter = longer = 0
    for rank, (p, mean) in enumerate(sorted(tests)):
        if p > _LEVEL / (len(tests) - rank):
            break
        shorter, longer = shorter + (mean < 0), longer + (mean > 0)
    return shorter, longer


def _logarithms(part: StudyPart, policy: str) -> pd.Series[float]:
    """Return the mean logarithm of mean completion over the cells, by seed; unfinished left out."""
    runs = part.runs_of(policy)[MEASURES["completion"]]
    values: pd.DataFrame = np.log(runs[np.isfinite(runs)]).unstack("seed")
    means: pd.Series[float] = values.mean(axis=0, skipna=False).dropna()
    return means


# ------------------------------------------------------------------ attribution


def _attribution(key: str, part: StudyPart) -> Figures:
    """Return what each decision brings if it is added first, last, and as a mean over all orders.

    The latter is its Shapley value; those of all decisions add up to what they bring ``together``.
    A hundred times differences of logarithms of mean completion.
    """
    variants = {frozenset(chosen): variant(chosen) for chosen in _subsets(DECISIONS) if chosen}
    if not {*variants.values(), "nearest"} <= set(part.policies):
        return {}
    values = {chosen: _logarithms(part, policy) for chosen, policy in variants.items()}
    values[frozenset()] = _logarithms(part, "nearest")
    found: Figures = {}
    for decision in DECISIONS:
        others = [each for each in DECISIONS if each != decision]
        gains = {
            "first": _added(values, frozenset(), decision),
            "last": _added(values, frozenset(others), decision),
            "shapley": sum(
                (
                    _added(values, frozenset(order[: order.index(decision)]), decision)
                    for order in permutations(DECISIONS)
                ),
                start=pd.Series(0.0, index=values[frozenset()].index),
            )
            / math.factorial(len(DECISIONS)),
        }
        for name, gain in gains.items():
            known = gain.dropna().tolist()
            if known:
                found |= _figure(f"{key}/{decision}/{name}", mean_interval(known), 100.0)
    everything = (values[frozenset(DECISIONS)] - values[frozenset()]).dropna().tolist()
    if everything:
        found |= _figure(f"{key}/together", mean_interval(everything), 100.0)
    if PERIODS in part.policies:
        known = (_logarithms(part, SUBJECT) - _logarithms(part, PERIODS)).dropna().tolist()
        found |= _figure(f"{key}/periods/last", mean_interval(known), 100.0) if known else {}
    return found


def variant(decisions: Sequence[str]) -> str:
    """Return the policy that takes these decisions alone."""
    left_out = (each for each in DECISIONS if each not in decisions)
    return ":".join([SUBJECT, *(f"{each}=no" for each in left_out)])


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for number in range(2 ** len(names)):
        yield tuple(name for at, name in enumerate(names) if number >> at & 1)


def _added(
    values: Mapping[frozenset[str], pd.Series[float]], before: frozenset[str], decision: str
) -> pd.Series[float]:
    return values[before | {decision}] - values[before]
