"""Iteration times and unserved bandwidth before and after, by job and by priority class.

Iteration times are simulated. Unserved bandwidth before is not always known: jobs that must be
stretched to share a link at all cannot be evaluated as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from metronome_opt.instance import Instance
from metronome_opt.slowdown.times import Times
from metronome_opt.verify import Evaluation

if TYPE_CHECKING:
    import pandas as pd

NOTICEABLE = 0.01  # of an iteration; less is chance


def jobs_frame(
    instance: Instance, times: Times, stretch: Mapping[str, int] | None = None
) -> pd.DataFrame:
    """Return one row per job: its period and its iteration before and after.

    Parameters
    ----------
    instance
        The problem.
    times
        Iteration times before and after.
    stretch
        Idle slots per job name in the schedule after.

    Returns
    -------
    DataFrame
        Indexed by job, in the order of the instance. Columns ``weight``, ``period_ms``,
        ``stretch_ms``, ``before_ms``, ``after_ms``, ``change_ms`` and ``change_percent`` (of the
        iteration before); times in milliseconds, floats to read and plot.
    """
    import pandas as pd

    rows = []
    for job in instance.jobs:
        old, new = times.before[job.name], times.after[job.name]
        rows.append(
            {
                "job": job.name,
                "weight": job.weight,
                "period_ms": job.period * instance.slot_ms,
                "stretch_ms": (stretch or {}).get(job.name, 0) * instance.slot_ms,
                "before_ms": float(old),
                "after_ms": float(new),
                "change_ms": float(new - old),
                "change_percent": 100 * float(new / old - 1),
            }
        )
    return pd.DataFrame(rows).set_index("job")


def classes_frame(
    instance: Instance, before: Evaluation | None, after: Evaluation, times: Times | None = None
) -> pd.DataFrame:
    """Return one row per priority class, the heaviest first, and one called ``all``.

    Parameters
    ----------
    instance
        The problem.
    before, after
        Evaluations of two schedules; None where that is not known.
    times
        Iteration times under the two; None where they were not simulated.

    Returns
    -------
    DataFrame
        Indexed by weight. Columns ``jobs``; ``faster`` and ``slower``, the jobs whose iterations
        changed by more than 1 %; ``iteration_before`` and ``iteration_after``, the mean share of
        the period; ``unserved_before`` and ``unserved_after``, Mbit/s summed over jobs and links.
        Unknown values are missing (``<NA>``).
    """
    import pandas as pd

    names = [job.name for job in instance.jobs]
    jobs = pd.DataFrame({"weight": [job.weight for job in instance.jobs], "jobs": 1}, index=names)
    for side, evaluation in (("before", before), ("after", after)):
        values = {} if evaluation is None else evaluation.unserved
        jobs[f"unserved_{side}"] = [float(values[name]) if values else pd.NA for name in names]
    for column in ("faster", "slower", "iteration_before", "iteration_after"):
        jobs[column] = pd.NA
    if times is not None:
        each = jobs_frame(instance, times)
        jobs["faster"] = each["after_ms"] * (1 + NOTICEABLE) < each["before_ms"]
        jobs["slower"] = each["before_ms"] * (1 + NOTICEABLE) < each["after_ms"]
        for side in ("before", "after"):
            jobs[f"iteration_{side}"] = each[f"{side}_ms"] / each["period_ms"]
    numbers = jobs.drop(columns="weight").astype("Float64")
    classes = {
        weight: numbers[jobs["weight"] == weight]
        for weight in sorted(set(jobs["weight"]), reverse=True)
    }
    rows = {
        weight: {
            name: members[name].mean(skipna=False)
            if name.startswith("iteration")
            else members[name].sum(skipna=False)
            for name in (
                *("jobs", "faster", "slower"),
                *("iteration_before", "iteration_after", "unserved_before", "unserved_after"),
            )
        }
        for weight, members in {**classes, "all": numbers}.items()
    }
    frame = pd.DataFrame.from_dict(rows, orient="index").astype("Float64")
    frame.index = pd.Index(list(rows), dtype=object, name="weight")
    return frame.astype(dict.fromkeys(("jobs", "faster", "slower"), "Int64"))
