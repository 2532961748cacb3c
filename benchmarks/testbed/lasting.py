"""How long gated jobs stay worse than free ones, on the network and simulated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
import pandas as pd

from benchmarks.testbed.agreement import as_run, times_of
from benchmarks.testbed.cases import Case
from benchmarks.testbed.modes import UNGATED
from benchmarks.testbed.run import BedRun
from benchmarks.testbed.simulated import play_case
from metronome_opt.engine.conditions import Sharing
from metronome_opt.kernels.fluid.world import Floats

WINDOW = 10
"""Iterations of a running mean."""

_ON_TIME = 1.005  # running means of iterations in their slots are within this of the period
_SEEDS = 20

Times = Mapping[str, Floats]
"""Iteration times of each job, in ms."""


def compare_gated(
    cases: Sequence[Case], runs: Iterable[BedRun], sharing: Sharing | None
) -> pd.DataFrame:
    """Return how gated jobs do beside free ones, a row for each case and jitter.

    Means are over jobs, of iteration times over periods; ``last`` is of the last third of a run.
    ``slots`` is the same of gated jobs that keep all their slots. ``stretch`` is the most
    iterations in a row in which the running mean of any job was longer than the mean of free jobs
    like it: of gated jobs, and of the free ones themselves, for which it is chance; ``beyond`` that
    of gated jobs while it was also longer than the period of their slots, by more than beginnings
    vary. First iterations, in which gated jobs wait for their first slot, do not count.

    Parameters
    ----------
    sharing
        How links are shared if the cases are simulated; None for the runs themselves.
    """
    by_name = {case.name: case for case in cases}
    groups: dict[tuple[str, float | None], list[BedRun]] = defaultdict(list)
    for run in runs:
        groups[run.case, run.jitter].append(run)
    rows = []
    for (name, jitter), group in groups.items():
        case = as_run(by_name[name], group[0])
        free: list[Times] = []
        gated: list[Times] = []
        for run in group:
            times = _recorded(run) if sharing is None else _simulated(case, run, sharing)
            (free if run.mode in UNGATED else gated).extend(times)
        slots = next((run.periods for run in group if run.periods), None)
        if not free or not gated or slots is None:
            continue
        stated = dict(zip(case.job_names, case.jobs, strict=True))
        rows.append(
            {
                "case": name,
                "jitter": jitter,
                "free": _mean(case, free),
                "gated": _mean(case, gated),
                "slots": float(np.mean([slots[each] / stated[each].period for each in stated])),
                "free, last": _mean(case, free, 2 / 3),
                "gated, last": _mean(case, gated, 2 / 3),
                "stretch, free": _longest(case, free, free),
                "stretch, gated": _longest(case, gated, free),
                "beyond, gated": _longest(case, gated, free, slots),
            }
        )
    return pd.DataFrame(rows)


def stretch(times: Floats, reference: float) -> int:
    """Return how many running means in a row are longer than something, at most."""
    if len(times) < WINDOW:
        return 0
    longer = np.convolve(times, np.full(WINDOW, 1 / WINDOW), "valid") > reference
    return max(len(list(group)) if above else 0 for above, group in groupby(longer))


def _recorded(run: BedRun) -> list[Times]:
    return [{name: times_of(job)[1:] for name, job in run.jobs.items()}]


def _simulated(case: Case, run: BedRun, sharing: Sharing) -> list[Times]:
    plays = (
        play_case(case, run.mode, run.offsets, sharing, seed, periods=run.periods)
        for seed in range(_SEEDS)
    )
    return [{name: job.times_ms[1:] for name, job in play.items()} for play in plays]


def _mean(case: Case, runs: Sequence[Times], begin: float = 0.0) -> float:
    """Return the mean of iteration times over periods, from a share of each run on."""
    return float(
        np.mean(
            [
                times[name][int(begin * len(times[name])) :].mean() / job.period
                for times in runs
                for name, job in zip(case.job_names, case.jobs, strict=True)
            ]
        )
    )


def _longest(
    case: Case, runs: Sequence[Times], free: Sequence[Times], slots: Mapping[str, int] | None = None
) -> int:
    """Return the longest stretch of any job in any run."""
    stated = dict(zip(case.job_names, case.jobs, strict=True))
    references = {}
    for name, job in stated.items():
        alike = [times[other] for times in free for other in stated if stated[other] == job]
        references[name] = float(np.concatenate(alike).mean())
        if slots is not None:
            references[name] = max(references[name], _ON_TIME * slots[name])
    return max(stretch(times[name], references[name]) for times in runs for name in stated)
