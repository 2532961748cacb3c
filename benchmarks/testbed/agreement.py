"""Simulated against real: how far mean iteration times are off, and when jobs come apart."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np
import pandas as pd

from benchmarks.testbed.cases import Case
from benchmarks.testbed.run import BedRun, JobRun
from benchmarks.testbed.simulated import play_case
from metronome_opt.engine.conditions import TCP, TcpShares
from metronome_opt.engine.fluid.state import Floats
from metronome_opt.problem.instance import Sharing
from metronome_opt.verify import evaluate

SEEDS = 20
_STEADY_P95_MS, _STEADY_STOPPED = 2.0, 0.03
_LATE = 1.05  # iterations that are longer than this many periods were disturbed


def times_of(run: JobRun) -> Floats:
    """Return the iteration times of a job on the network, in ms."""
    return np.diff(run.begins_ms)


def usable(runs: Iterable[BedRun]) -> list[BedRun]:
    """Return the runs that nothing disturbed and in which every job ran to its end."""
    return [run for run in runs if run.complete and not run.busy]


def steady(runs: Iterable[BedRun]) -> list[BedRun]:
    """Return the complete runs that are good for means, though the machine was busy.

    Of twenty sleeps nineteen were at most 2 ms late, and processors stood still for at most 3 % of
    the time. Computing times that vary by 2 % do so by 4 ms.
    """
    return [
        run
        for run in runs
        if run.complete
        and run.late_p95_ms <= _STEADY_P95_MS
        and (run.stopped_ms or 0.0) <= _STEADY_STOPPED * 1000 * (run.seconds or math.inf)
    ]


def as_run(case: Case, run: BedRun) -> Case:
    """Return a case as it was in a run."""
    changes = {
        "jitter": run.jitter,
        "seconds": run.seconds or case.seconds,
        "uplink_mbps": run.uplink_mbps or case.uplink_mbps,
        "queue_ms": run.queue_ms or case.queue_ms,
        "congestion": run.congestion,
    }
    return case.model_copy(update=changes)


def compare(
    cases: Sequence[Case],
    runs: Sequence[BedRun],
    sharing: Sharing = "tcp",
    *,
    tcp: TcpShares = TCP,
    seeds: int = SEEDS,
    skip: int = 0,
) -> pd.DataFrame:
    """Return mean iteration times of each job, real and simulated, a row for each job and mode.

    Parameters
    ----------
    runs
        Those of `usable`; means are over their repeats.
    seeds
        Simulations of each case whose means are averaged; 1 where nothing is random.
    skip
        How many iterations of each job to leave out at the beginning.
    """
    by_name = {case.name: case for case in cases}
    groups: dict[tuple[str, str, float | None], list[BedRun]] = defaultdict(list)
    for run in runs:
        if run.case in by_name:
            groups[run.case, run.mode, run.jitter].append(run)
    rows = []
    for (name, mode, _), group in groups.items():
        first = group[0]
        case = as_run(by_name[name], first)
        played = [
            play_case(
                case, first.mode, first.offsets, sharing, seed, tcp=tcp, periods=first.periods
            )
            for seed in range(seeds if _is_random(case, sharing) else 1)
        ]
        for job, stated in zip(case.job_names, case.jobs, strict=True):
            means = [float(times_of(run.jobs[job])[skip:].mean()) for run in group]
            real = float(np.mean(means))
            simulated = float(np.mean([each[job].times_ms[skip:].mean() for each in played]))
            rows.append(
                {
                    "case": name,
                    "split": case.split,
                    "congestion": case.congestion,
                    "mode": mode,
                    "job": job,
                    "period_ms": stated.period,
                    "repeats": len(group),
                    "real_ms": real,
                    "spread_ms": max(means) - min(means),
                    "simulated_ms": simulated,
                    "error": simulated / real - 1,
                }
            )
    return pd.DataFrame(rows)


def _is_random(case: Case, sharing: Sharing) -> bool:
    return bool(case.jitter) or case.random_begins or sharing == "tcp"


def figures(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return how far simulations are off, by some columns of a table of `compare`."""
    absolute = table.assign(off=table["error"].abs()).groupby(list(by))["off"]
    return pd.DataFrame(
        {
            "jobs": absolute.size(),
            "median": absolute.median(),
            "nine of ten": absolute.quantile(0.9),
            "largest": absolute.max(),
        }
    )


def slowdowns(cases: Sequence[Case], runs: Sequence[BedRun]) -> pd.DataFrame:
    """Return how much longer iterations are than periods, a row for each case and mode.

    Means over jobs and repeats, without the first iteration, in which gated jobs wait for their
    first window.
    """
    columns = {}
    for sharing in ("fair", "tcp"):
        table = compare(cases, runs, sharing, skip=1)
        grouped = table.assign(
            real=table["real_ms"] / table["period_ms"] - 1,
            simulated=table["simulated_ms"] / table["period_ms"] - 1,
        ).groupby(["case", "mode"], sort=False)
        columns[f"simulated, {sharing}"] = grouped["simulated"].mean()
        columns["on the network"] = grouped["real"].mean()
    order = ["simulated, fair", "simulated, tcp", "on the network"]
    return pd.DataFrame(columns)[order]


def come_apart(
    cases: Sequence[Case], runs: Sequence[BedRun], *, tcp: TcpShares = TCP, seeds: int = SEEDS
) -> pd.DataFrame:
    """Return after how many iterations free jobs that fit are apart, real and simulated.

    Only cases count in which all jobs are there all the time and offsets exist at which none
    disturbs another. NaN is for jobs that were not apart at the end, in half of the runs or more.
    """
    rows = []
    for case in cases:
        free = [run for run in runs if run.case == case.name and run.mode == "free"]
        gated = [run for run in runs if run.case == case.name and run.mode == "gated"]
        if len(case.jobs) < 2 or not free or not gated or not _fits(case, gated[0].offsets):
            continue
        real = [
            _disturbed(case, {job: times_of(run.jobs[job]) for job in run.jobs}) for run in free
        ]
        simulated = [
            _disturbed(
                case,
                {
                    job: played.times_ms
                    for job, played in play_case(case, "free", None, "tcp", seed, tcp=tcp).items()
                },
            )
            for seed in range(seeds)
        ]
        rows.append(
            {
                "case": case.name,
                "split": case.split,
                "congestion": case.congestion,
                "real": _middle(real),
                "simulated": _middle(simulated),
            }
        )
    table = pd.DataFrame(rows, columns=["case", "split", "congestion", "real", "simulated"])
    return table.assign(factor=table["simulated"] / table["real"])


def quality(cases: Sequence[Case], runs: Sequence[BedRun], tcp: TcpShares) -> dict[str, float]:
    """Return how near two numbers come: errors of mean iteration times, and when jobs come apart.

    Shares of cases within a factor of two are of those that come apart on the network.
    """
    errors = compare(cases, runs, "tcp", tcp=tcp)
    off, free = errors["error"].abs(), errors["mode"] == "free"
    apart = come_apart(cases, runs, tcp=tcp)
    return {
        **tcp._asdict(),
        "mean error": float(off.mean()),
        "nine of ten": float(off.quantile(0.9)),
        "free: median": float(off[free].median()),
        "free: nine of ten": float(off[free].quantile(0.9)),
        "apart, within two": float(apart["factor"].between(0.5, 2.0).sum()),
        "of": float(apart["real"].notna().sum()),
    }


def _fits(case: Case, offsets: Mapping[str, int] | None) -> bool:
    """Return whether a schedule of all jobs, if none comes or goes, has no contention."""
    always = all(job.begin < job.period and job.end is None for job in case.jobs)
    return always and offsets is not None and evaluate(case.instance(), offsets).contention == 0


def _disturbed(case: Case, times: Mapping[str, Floats]) -> float:
    """Return how many iterations pass until none is disturbed any more; infinite for never."""
    last = 1
    for name, job in zip(case.job_names, case.jobs, strict=True):
        late = np.flatnonzero(times[name] > _LATE * job.period)
        if late.size and late[-1] >= len(times[name]) - 3:
            return math.inf
        last = max(last, int(late[-1]) + 1 if late.size else 1)
    return last


def _middle(counts: Sequence[float]) -> float:
    middle = median(counts)
    return middle if math.isfinite(middle) else math.nan
