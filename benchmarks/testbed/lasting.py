"""Free jobs beside gated ones in the course of a run, on the network and simulated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.testbed.agreement import SEEDS, as_run, times_of
from benchmarks.testbed.cases import Case, Congestion
from benchmarks.testbed.run import BedRun
from benchmarks.testbed.simulated import play_case
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Sharing
from metronome_opt.verify import evaluate

WINDOW = 20
"""Iterations in a row in which jobs that have come apart are all near their periods."""

_NEAR = 1.03

Times = Mapping[str, Floats]
"""Iteration times of each job, in ms."""


class Cell(NamedTuple):
    """Jobs on a network, of any repeat and mode."""

    case: str
    jitter: float | None
    uplink_mbps: int
    queue_ms: int
    congestion: Congestion


def cell_of(case: Case) -> Cell:
    """Return the cell of a case."""
    return Cell(case.name, case.jitter, case.uplink_mbps, case.queue_ms, case.congestion)


def cells(cases: Sequence[Case], runs: Iterable[BedRun]) -> dict[Cell, list[BedRun]]:
    """Return the runs of each cell of some cases."""
    by_name = {case.name: case for case in cases}
    found: dict[Cell, list[BedRun]] = defaultdict(list)
    for run in runs:
        if run.case in by_name:
            found[cell_of(as_run(by_name[run.case], run))].append(run)
    return found


def compare_gated(
    cases: Sequence[Case], runs: Iterable[BedRun], sharing: Sharing | None
) -> pd.DataFrame:
    """Return how free and gated jobs do, a row for each cell.

    Means are over jobs, of iteration times over periods: of whole runs, and of their first and last
    thirds. ``slots`` is the same of gated jobs that keep all their windows. ``apart`` is the median
    of `comes_apart` over free runs, NaN where half of them or more did not. ``fits`` is True where
    bursts at the offsets of gated jobs never meet at their own periods; None for one job, and where
    no run is gated. First iterations, in which gated jobs wait for their window, do not count.

    Parameters
    ----------
    sharing
        How links are shared if the cases are simulated; None for the runs themselves.
    """
    by_name = {case.name: case for case in cases}
    rows = []
    for cell, group in cells(cases, runs).items():
        case = as_run(by_name[cell.case], group[0])
        free: list[Times] = []
        gated: list[Times] = []
        for run in group:
            times = _recorded(run) if sharing is None else _simulated(case, run, sharing)
            (free if run.mode == "free" else gated).extend(times)
        slots = next((run.periods for run in group if run.periods), None)
        stated = dict(zip(case.job_names, case.jobs, strict=True))
        rows.append(
            {
                **cell._asdict(),
                "fits": _fits(case, group),
                "runs": sum(run.mode == "free" for run in group),
                "free": mean_iteration(case, free),
                "gated": mean_iteration(case, gated),
                "slots": np.mean([slots[each] / stated[each].period for each in stated])
                if slots
                else np.nan,
                "free, first": mean_iteration(case, free, end=1 / 3),
                "free, last": mean_iteration(case, free, begin=2 / 3),
                "gated, first": mean_iteration(case, gated, end=1 / 3),
                "gated, last": mean_iteration(case, gated, begin=2 / 3),
                "apart": _middle([comes_apart(case, times) for times in free]),
            }
        )
    return pd.DataFrame(rows)


def _fits(case: Case, runs: Iterable[BedRun]) -> bool | None:
    offsets = next((run.offsets for run in runs if run.offsets is not None), None)
    if offsets is None or len(case.jobs) < 2:
        return None
    return evaluate(case.instance(), offsets).contention == 0


def comes_apart(case: Case, times: Times) -> int | None:
    """Return the iteration with which jobs have come apart, 1 for the first one; None if never.

    It is the first from which on the mean of 20 in a row is within 3 % of the period for every job:
    2 %, and 1 % for computing times that vary.
    """
    near = []
    for name, job in zip(case.job_names, case.jobs, strict=True):
        if len(times[name]) < WINDOW:
            return None
        means = np.convolve(times[name], np.full(WINDOW, 1 / WINDOW), "valid")
        near.append(means <= _NEAR * job.period)
    length = min(map(len, near))
    found = np.flatnonzero(np.all([each[:length] for each in near], axis=0))
    return int(found[0]) + 1 if found.size else None


def _middle(counts: Sequence[int | None]) -> float:
    """Return the median where None is more than any number."""
    if not counts:
        return np.nan
    middle = median_low([np.inf if count is None else count for count in counts])
    return middle if np.isfinite(middle) else np.nan


def _recorded(run: BedRun) -> list[Times]:
    return [{name: times_of(job)[1:] for name, job in run.jobs.items()}]


def _simulated(case: Case, run: BedRun, sharing: Sharing) -> list[Times]:
    plays = (
        play_case(case, run.mode, run.offsets, sharing, seed, periods=run.periods)
        for seed in range(SEEDS)
    )
    return [{name: job.times_ms[1:] for name, job in play.items()} for play in plays]


def mean_iteration(
    case: Case, runs: Sequence[Times], begin: float = 0.0, end: float = 1.0
) -> float:
    """Return the mean of iteration times over periods in a part of each run; NaN without runs."""
    means = [
        times[name][int(begin * len(times[name])) : int(end * len(times[name]))].mean() / job.period
        for times in runs
        for name, job in zip(case.job_names, case.jobs, strict=True)
    ]
    return float(np.mean(means)) if means else np.nan
